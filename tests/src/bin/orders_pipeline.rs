//! Kafka to ClickHouse as a program of its own, for tests that kill it: `orders_pipeline KEY=VALUE…`.
//!
//! Keys: `bootstrap`, `topic`, `clickhouse` (host:port), `table`, `state` (folder), `mode` (insert, upsert,
//! exactly-once), `flush_rows`, `batch_rows`, `checkpoint_ms`, `chains`, `unbounded` (true: until SIGTERM), `group` (to
//! share the topic with others of that name, until SIGTERM).
//! Reads to the end of the topic as it is at the first start; then prints `done` and a line of figures.
//! Every INSERT that the server has stored and every stored checkpoint is a line on standard error.

use std::{collections::BTreeMap, error::Error, time::Duration};

use connector_bytehouse_cdw::{BytehouseCdwSink, SinkModeName};
use connector_core::{CancellationToken, DeliveryGuarantee, FileCheckpointStore, Pipeline};
use connector_kafka::{Assignment, KafkaSource, StartupMode, format::Json};
use connector_tests::orders;
use tokio::signal::unix::{SignalKind, signal};

fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_env_filter(
            "info,rdkafka=warn,connector_core::pipeline=debug,connector_bytehouse_cdw::sink=debug",
        )
        .init();
    let options: BTreeMap<String, String> = std::env::args()
        .skip(1)
        .filter_map(|a| a.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned())))
        .collect();
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?
        .block_on(run(&options))
}

async fn run(options: &BTreeMap<String, String>) -> Result<(), Box<dyn Error>> {
    let get = |key: &str| options.get(key).map(String::as_str).ok_or_else(|| format!("`{key}` is missing"));
    let number = |key: &str, default: u64| options.get(key).map_or(Ok(default), |text| text.parse());
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
        .max_batch_rows(u32::try_from(number("batch_rows", 65_536)?)?)
        .format(Json::with_schema(orders::schema()));
    let unbounded = options.get("unbounded").is_some_and(|text| text == "true");
    if let Some(group) = options.get("group") {
        source = source.assignment(Assignment::Group).group_id(group.as_str());
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
        .flush_max_rows(usize::try_from(number("flush_rows", 50_000)?)?)
        .build()?;
    let store = FileCheckpointStore::open(get("state")?)?;
    let pipeline = Pipeline::new(source, sink)
        .name("orders")
        .parallelism(usize::try_from(number("chains", 1)?)?)
        .delivery(delivery)
        .checkpoints(store, Duration::from_millis(number("checkpoint_ms", 1000)?));
    // A server that starts again right now is no reason to give up.
    while let Err(error) = pipeline.check().await {
        if !error.is_transient() {
            return Err(error.into());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let stop = CancellationToken::new();
    let mut asked = signal(SignalKind::terminate())?;
    let mut run = std::pin::pin!(pipeline.run(stop.clone()));
    let report = tokio::select! {
        report = &mut run => report?,
        _ = asked.recv() => {
            stop.cancel();
            run.await?
        }
    };
    println!(
        "done read={} written={} checkpoints={} resumed={}",
        report.rows_read, report.rows_written, report.checkpoints, report.resumed
    );
    Ok(())
}
