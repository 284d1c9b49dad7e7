//! The main job without a server: orders from an in-process Kafka broker into an in-process ByteHouse double, the
//! process "restarted" in the middle. `./dev demo` runs it.

use std::time::{Duration, Instant};

use bytehouse_testkit::{BytehouseDouble, DoubleOptions, Tls};
use connector_bytehouse_cdw::{BytehouseCdwSink, SinkModeName};
use connector_core::{
    CancellationToken, Error, ErrorKind, FileCheckpointStore, Pipeline, Report, Result, Secret,
    arrow::{
        array::RecordBatch,
        util::display::{ArrayFormatter, FormatOptions},
    },
};
use connector_examples::{order_json, orders_schema};
use connector_kafka::{KafkaSource, StartupMode, format::Json};
use rdkafka::{
    ClientConfig,
    mocking::MockCluster,
    producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer},
};

/// The in-process broker keeps the last five megabytes of a partition: more than these records take.
const FIRST: u64 = 80_000;
const SECOND: u64 = 20_000;

#[tokio::main]
async fn main() -> Result<()> {
    let broker = MockCluster::new(1).map_err(|e| kafka("start the broker", e))?;
    broker.create_topic("orders", 4, 1).map_err(|e| kafka("create the topic", e))?;
    let bytehouse =
        BytehouseDouble::start(DoubleOptions { tls: Tls::SelfSigned, ..DoubleOptions::default() }).await?;
    setup(&bytehouse, "CREATE DATABASE app")?;
    setup(
        &bytehouse,
        "CREATE TABLE app.orders (id UInt64, customer String, amount Decimal(18, 4), status String, note String, \
         created_at DateTime64(3, 'UTC'), discount Nullable(Int32), tags Array(String)) \
         ENGINE = CnchMergeTree ORDER BY id UNIQUE KEY id",
    )?;
    let state =
        tempfile::tempdir().map_err(|e| Error::new(ErrorKind::Unavailable, format!("no folder: {e}")))?;

    produce(&broker.bootstrap_servers(), 0..FIRST)?;
    println!("{FIRST} orders are in the topic; the pipeline runs for the first time");
    show(&run(&broker, &bytehouse, state.path(), FIRST).await?);

    produce(&broker.bootstrap_servers(), FIRST..FIRST + SECOND)?;
    println!("\n{SECOND} more; the pipeline starts again and goes on at its checkpoint");
    show(&run(&broker, &bytehouse, state.path(), FIRST + SECOND).await?);

    println!("\nwhat arrived in app.orders:");
    for sql in [
        "SELECT count() AS rows, sum(amount) AS amount, toString(min(created_at)) AS first, toString(max(created_at)) AS last FROM app.orders",
        "SELECT id, customer, amount, status, note, discount FROM app.orders ORDER BY id LIMIT 5",
    ] {
        let rows = bytehouse.execute(sql).map_err(|e| double(sql, &e))?;
        print_rows(&rows)?;
    }
    Ok(())
}

/// What a service would do: about twenty lines.
async fn run(
    broker: &MockCluster<'_, DefaultProducerContext>,
    bytehouse: &BytehouseDouble,
    state: &std::path::Path,
    until: u64,
) -> Result<Report> {
    let source = KafkaSource::builder()
        .bootstrap_servers(broker.bootstrap_servers())
        .topics(["orders"])
        .startup_mode(StartupMode::Earliest)
        .format(Json::with_schema(orders_schema()))
        .build()?;
    let sink = BytehouseCdwSink::builder()
        .host("localhost")
        .port(bytehouse.addr().port())
        .api_token(Secret::new(DoubleOptions::TOKEN))
        .virtual_warehouse("vw_load")
        .connection_properties([("sslrootcert", bytehouse.ca_pem().unwrap_or_default())])
        .table("app.orders")
        .mode(SinkModeName::Upsert)
        .flush_interval(Duration::from_millis(200))
        .build()?;
    let stop = CancellationToken::new();
    let pipeline = Pipeline::new(source, sink)
        .name("orders")
        .parallelism(2)
        .checkpoints(FileCheckpointStore::open(state)?, Duration::from_secs(10))
        .run(stop.clone());
    tokio::pin!(pipeline);
    let all_there = async {
        while rows_in(bytehouse) < until {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        report = &mut pipeline => report,
        () = all_there => {
            stop.cancel();
            pipeline.await
        }
    }
}

fn rows_in(bytehouse: &BytehouseDouble) -> u64 {
    bytehouse.table("app.orders").map_or(u64::MAX, |rows| rows.num_rows() as u64)
}

fn show(report: &Report) {
    let seconds = report.elapsed.as_secs_f64();
    println!(
        "  {} rows read, {} written in {seconds:.2} s, {:.0} rows/s, {} checkpoints, resumed: {}",
        report.rows_read,
        report.rows_written,
        f64::from(u32::try_from(report.rows_written).unwrap_or(u32::MAX)) / seconds,
        report.checkpoints,
        report.resumed
    );
    for split in &report.splits {
        println!(
            "  {}: offset {} to {}",
            split.split,
            split.from.as_deref().unwrap_or("-"),
            split.to.as_deref().unwrap_or("-")
        );
    }
}

fn print_rows(rows: &RecordBatch) -> Result<()> {
    let cannot = |e| Error::new(ErrorKind::Unexpected, "cannot show rows").with_source(e);
    let options = FormatOptions::default().with_null("NULL");
    let columns = rows.columns().iter().map(|column| ArrayFormatter::try_new(column, &options));
    let columns = columns.collect::<Result<Vec<_>, _>>().map_err(cannot)?;
    let schema = rows.schema();
    for row in 0..rows.num_rows() {
        let cells = columns
            .iter()
            .zip(schema.fields())
            .map(|(column, field)| Ok(format!("{}={}", field.name(), column.value(row).try_to_string()?)));
        let cells =
            cells.collect::<Result<Vec<_>, connector_core::arrow::error::ArrowError>>().map_err(cannot)?;
        println!("  {}", cells.join("  "));
    }
    Ok(())
}

fn produce(bootstrap: &str, ids: std::ops::Range<u64>) -> Result<()> {
    let producer: ThreadedProducer<DefaultProducerContext> = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .create()
        .map_err(|e| kafka("make a producer", e))?;
    for id in ids {
        let json = order_json(id);
        let partition = i32::try_from(id % 4).unwrap_or(0);
        let mut record = BaseRecord::<(), String>::to("orders").partition(partition).payload(&json);
        let started = Instant::now();
        // A full queue empties itself: the producer has a thread of its own.
        while let Err((error, back)) = producer.send(record) {
            if started.elapsed() > Duration::from_secs(10) {
                return Err(kafka("write", error));
            }
            record = back;
        }
    }
    producer.flush(Duration::from_secs(10)).map_err(|e| kafka("flush", e))
}

fn setup(bytehouse: &BytehouseDouble, sql: &str) -> Result<()> {
    bytehouse.execute(sql).map(|_| ()).map_err(|e| double(sql, &e))
}

fn kafka(what: &str, error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Unexpected, format!("cannot {what}: {error}"))
}

fn double(sql: &str, error: &bytehouse_testkit::Exception) -> Error {
    Error::new(ErrorKind::Unexpected, format!("{sql}: {}", error.message()))
}
