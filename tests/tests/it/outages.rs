//! Servers go away for twenty seconds and come back: the pipeline goes on by itself, loses nothing, and needs no
//! more memory than its bounds.

use std::time::Duration;

use connector_tests::{
    OwnedService, Service,
    orders::Aggregates,
    process::Program,
    services::{Clickhouse, Kafka},
    unique_name,
};
use tokio::{process::Command, time::sleep};

use crate::kafka_to_clickhouse::orders_table;

const AWAY: Duration = Duration::from_secs(20);
const ROWS: u64 = 300_000;
/// The byte bounds of a chain, and 64 MiB for the rest.
const MEMORY: u64 = 200 << 20;

fn pipeline(kafka: &Kafka, topic: &str, clickhouse: &Clickhouse, table: &str, state: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orders_pipeline"));
    command.args([
        format!("bootstrap={}", kafka.bootstrap),
        format!("topic={topic}"),
        format!("clickhouse={}", clickhouse.tcp),
        format!("table={table}"),
        format!("state={state}"),
        "mode=insert".to_owned(),
        "flush_rows=20000".to_owned(),
        "unbounded=true".to_owned(),
    ]);
    command
}

/// Runs an unbounded pipeline while servers go and come, with rows written before, during (where the broker is
/// there) and after; returns when all have arrived.
async fn survive(stop_broker: bool, stop_server: bool) {
    let (Some(broker), Some(server)) =
        (OwnedService::start(Service::Kafka).await, OwnedService::start(Service::ClickhouseCurrent).await)
    else {
        return;
    };
    let (kafka, clickhouse) = (broker.kafka(), server.clickhouse());
    let topic = unique_name("outage");
    kafka.create_topic(&topic, 4, &[]).await;
    let table = orders_table(&clickhouse, "ReplacingMergeTree ORDER BY id").await;
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let mut command = pipeline(&kafka, &topic, &clickhouse, &table, state.to_str().unwrap());
    let mut program = Program::start(&mut command, &folder.path().join("log")).unwrap();

    kafka.produce_orders(&topic, 0..ROWS / 3, 4).await;
    clickhouse.wait_until_rows(&table, 10_000, Duration::from_secs(60)).await;
    if stop_server {
        server.kill().await;
    }
    if stop_broker {
        broker.stop().await;
    } else {
        kafka.produce_orders(&topic, ROWS / 3..ROWS * 2 / 3, 4).await;
    }
    sleep(AWAY).await;
    assert!(program.is_running(), "the pipeline gave up:\n{}", program.output());
    if stop_server {
        server.start_again().await;
    }
    if stop_broker {
        broker.start_again().await;
        kafka.produce_orders(&topic, ROWS / 3..ROWS * 2 / 3, 4).await;
    }
    kafka.produce_orders(&topic, ROWS * 2 / 3..ROWS, 4).await;
    // Retried inserts may repeat rows; distinct ones must all be there.
    let distinct = format!("(SELECT DISTINCT * FROM {table})");
    clickhouse.wait_until_rows(&distinct, ROWS, Duration::from_secs(120)).await;
    assert_eq!(clickhouse.order_aggregates(&distinct).await, Aggregates::of(0..ROWS));
    let peak = program.peak_memory().expect("it runs until it is told to stop");
    println!("peak memory {} MiB", peak >> 20);
    assert!(peak <= MEMORY, "{peak} bytes of memory");
    let status = program.terminate(Duration::from_secs(60)).await;
    assert!(status.success(), "the pipeline ends cleanly:\n{}", program.output());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_comes_back_after_twenty_seconds() {
    survive(true, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_back_after_twenty_seconds() {
    survive(false, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn both_that_come_back_after_twenty_seconds() {
    survive(true, true).await;
}
