//! Kafka to ClickHouse as a program of its own, for tests that kill it: `orders_pipeline KEY=VALUE…`.
//!
//! Keys: `bootstrap`, `topic`, `clickhouse` (host:port), `table`, `state` (folder), `mode` (insert, upsert,
//! exactly-once), `flush_rows`, `batch_rows`, `checkpoint_ms`, `chains`, `unbounded` (true: until SIGTERM), `group` (to
//! share the topic with others of that name, until SIGTERM).
//! Reads to the end of the topic as it is at the first start; then prints `done` and a line of figures.
//! Every INSERT that the server has stored and every stored checkpoint is a line on standard error.

use connector_bytehouse_cdw::{BytehouseCdwSink, SinkModeName};
use connector_core::{DeliveryGuarantee, FileCheckpointStore, Pipeline};
use connector_kafka::{Assignment, KafkaSource, StartupMode, format::Json};
use connector_tests::{
    orders,
    program::{self, Options, Outcome},
};

fn main() -> Outcome {
    program::run(
        "info,rdkafka=warn,connector_core::pipeline=debug,connector_bytehouse_cdw::sink=debug,connector_kafka::source::worker=debug",
        copy,
    )
}

async fn copy(options: Options) -> Outcome {
    let get = |key: &str| options.get(key);
    let (host, port) = get("clickhouse")?.rsplit_once(':').ok_or("`clickhouse` is host:port")?;
    let (mode, delivery) = match get("mode")? {
        "insert" => (SinkModeName::Insert, DeliveryGuarantee::AtLeastOnce),
        "upsert" => (SinkModeName::Upsert, DeliveryGuarantee::AtLeastOnce),
        "exactly-once" => (SinkModeName::Insert, DeliveryGuarantee::ExactlyOnce),
        other => return Err(format!("unknown mode {other}").into()),
    };
    let mut source = KafkaSource::builder()
        .bootstrap_servers(get("bootstrap")?)
        .topics([get("topic")?])
        .startup_mode(StartupMode::Earliest)
        .max_batch_rows(options.or("batch_rows", 65_536_u32)?)
        .format(Json::with_schema(orders::schema()));
    let unbounded: bool = options.or("unbounded", false)?;
    if let Ok(group) = options.get("group") {
        source = source.assignment(Assignment::Group).group_id(group);
        // The shortest that brokers take: so long nobody reads the partitions of a member that was killed.
        source = source.property("session.timeout.ms", "6000").property("heartbeat.interval.ms", "500");
    } else if !unbounded {
        source = source.bounded();
    }
    let source = source.build()?;
    let sink = BytehouseCdwSink::builder()
        .clickhouse(host, port.parse()?)
        .table(get("table")?)
        .mode(mode)
        .flush_max_rows(options.or("flush_rows", 50_000_usize)?)
        .build()?;
    let store = FileCheckpointStore::open(get("state")?)?;
    let pipeline = Pipeline::new(source, sink)
        .name("orders")
        .parallelism(options.or("chains", 1)?)
        .delivery(delivery)
        .checkpoints(store, options.millis("checkpoint_ms", 1000)?);
    let report = program::until_asked(pipeline).await?;
    program::print_done(&report);
    Ok(())
}
