//! Orders from a Kafka topic into a ByteHouse table: `kafka_to_bytehouse` with the addresses in the environment.
//!
//! ```text
//! KAFKA_BOOTSTRAP=localhost:9092 KAFKA_TOPIC=orders \
//! BH_HOST=tenant-1.bytehouse.example BH_TOKEN=… BH_WAREHOUSE=vw_load BH_TABLE=app.orders \
//!   cargo run --release -p connector-examples --example kafka_to_bytehouse
//! ```
//!
//! With `CLICKHOUSE=localhost:9000` in place of `BH_HOST`, `BH_TOKEN` and `BH_WAREHOUSE` it writes to an open-source
//! ClickHouse. It ends on Ctrl-C, with everything flushed; started again it goes on where it stopped.

use std::{env, time::Duration};

use connector_bytehouse_cdw::{BytehouseCdwSink, SinkModeName};
use connector_core::{CancellationToken, Error, ErrorKind, FileCheckpointStore, Pipeline, Result, Secret};
use connector_examples::orders_schema;
use connector_kafka::{KafkaSource, format::Json};

#[tokio::main]
async fn main() -> Result<()> {
    tracing_subscriber::fmt()
        .with_env_filter(env::var("RUST_LOG").unwrap_or_else(|_| "info".to_owned()))
        .init();
    let source = KafkaSource::builder()
        .bootstrap_servers(variable("KAFKA_BOOTSTRAP")?)
        .topics([variable("KAFKA_TOPIC")?])
        .format(Json::with_schema(orders_schema()))
        .build()?;
    let sink = BytehouseCdwSink::builder().table(variable("BH_TABLE")?).mode(SinkModeName::Insert);
    let sink = match env::var("CLICKHOUSE") {
        Ok(address) => {
            let (host, port) = address.rsplit_once(':').unwrap_or((&address, "9000"));
            sink.clickhouse(host, port.parse().map_err(|_| wrong("CLICKHOUSE must be host:port"))?).build()?
        }
        Err(_) => sink
            .host(variable("BH_HOST")?)
            .api_token(Secret::from_env("BH_TOKEN")?)
            .virtual_warehouse(variable("BH_WAREHOUSE")?)
            .build()?,
    };
    let stop = CancellationToken::new();
    let pipeline = Pipeline::new(source, sink)
        .name("orders")
        .parallelism(2)
        .checkpoints(FileCheckpointStore::open("./state")?, Duration::from_secs(10))
        .run(stop.clone());
    tokio::pin!(pipeline);
    let report = tokio::select! {
        report = &mut pipeline => report?,
        _ = tokio::signal::ctrl_c() => {
            stop.cancel();
            pipeline.await?
        }
    };
    println!(
        "{} rows read, {} rows written, {} checkpoints",
        report.rows_read, report.rows_written, report.checkpoints
    );
    for split in report.splits {
        println!("  {}: from {:?} to {:?}", split.split, split.from, split.to);
    }
    Ok(())
}

fn variable(name: &str) -> Result<String> {
    env::var(name).map_err(|_| wrong(&format!("set {name}; the head of this example shows all of them")))
}

fn wrong(text: &str) -> Error {
    Error::new(ErrorKind::OptionInvalid, text.to_owned())
}
