//! Orders from a Kafka topic into a Fluss table, and from there into a ByteHouse table, as one program with two pipelines.
//! Fluss keeps the rows by their key, so that others can look them up or read what changes, and ByteHouse gets each change.
//!
//! ```text
//! KAFKA_BOOTSTRAP=localhost:9092 KAFKA_TOPIC=orders FLUSS_BOOTSTRAP=localhost:9123 FLUSS_TABLE=shop.orders \
//! CLICKHOUSE=localhost:9000 BH_TABLE=app.orders \
//!   cargo run --release -p connector-examples --example kafka_to_fluss_to_bytehouse
//! ```
//!
//! `kafka_to_bytehouse` shows how to reach a ByteHouse instead of an open-source ClickHouse. It ends on Ctrl-C, with
//! everything flushed; started again both pipelines go on where they stopped.

use std::{env, time::Duration};

use connector_bytehouse_cdw::{BytehouseCdwSink, SinkModeName};
use connector_core::{
    CancellationToken, Error, ErrorKind, FileCheckpointStore, Pipeline, Result, Sink, Source, TableSchema,
};
use connector_examples::orders_schema;
use connector_fluss::{FlussSink, FlussSource};
use connector_kafka::{KafkaSource, format::Json};

#[tokio::main]
async fn main() -> Result<()> {
    tracing_subscriber::fmt()
        .with_env_filter(env::var("RUST_LOG").unwrap_or_else(|_| "info".to_owned()))
        .init();
    let fluss = [("bootstrap.servers", variable("FLUSS_BOOTSTRAP")?), ("table", variable("FLUSS_TABLE")?)];
    let orders = TableSchema::new(orders_schema()).with_primary_key(["id"])?;
    let topic = KafkaSource::builder()
        .bootstrap_servers(variable("KAFKA_BOOTSTRAP")?)
        .topics([variable("KAFKA_TOPIC")?])
        .format(Json::with_table_schema(orders))
        .build()?;
    // The table is created with the key when it is not there.
    let into_fluss = FlussSink::from_options(fluss.clone())?;
    // The rows as they are, and then what changes.
    let out_of_fluss = FlussSource::from_options(fluss)?;
    let address = variable("CLICKHOUSE")?;
    let (host, port) = address.rsplit_once(':').ok_or_else(|| wrong("CLICKHOUSE must be host:port"))?;
    let port: u16 = port.parse().map_err(|_| wrong("CLICKHOUSE must be host:port"))?;
    let warehouse = BytehouseCdwSink::builder()
        .clickhouse(host, port)
        .table(variable("BH_TABLE")?)
        .mode(SinkModeName::Upsert)
        .build()?;

    let stop = CancellationToken::new();
    let asked = stop.clone();
    let mut listener = tokio::task::JoinSet::new();
    listener.spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            asked.cancel();
        }
    });
    // The table has to be there before it is read: the second pipeline tries until it is.
    tokio::try_join!(run("into-fluss", topic, into_fluss, stop.clone()), async {
        while let Err(error) = out_of_fluss.check().await {
            if error.kind() != ErrorKind::NotFound || stop.is_cancelled() {
                return Err(error);
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        run("out-of-fluss", out_of_fluss, warehouse, stop.clone()).await
    },)?;
    Ok(())
}

async fn run<S: Source, K: Sink>(name: &str, source: S, sink: K, stop: CancellationToken) -> Result<()> {
    let report = Pipeline::new(source, sink)
        .name(name)
        .checkpoints(FileCheckpointStore::open(format!("./state/{name}"))?, Duration::from_secs(10))
        .run(stop)
        .await?;
    println!("{name}: {} rows read, {} rows written", report.rows_read, report.rows_written);
    Ok(())
}

fn variable(name: &str) -> Result<String> {
    env::var(name).map_err(|_| wrong(&format!("set {name}; the head of this example shows all of them")))
}

fn wrong(text: &str) -> Error {
    Error::new(ErrorKind::OptionInvalid, text.to_owned())
}
