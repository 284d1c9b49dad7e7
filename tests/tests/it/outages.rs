//! Servers go away for twenty seconds and come back: the pipeline goes on by itself, and loses nothing.

use std::time::Duration;

use connector_bytehouse_cdw::SinkModeName;
use connector_core::{CancellationToken, FileCheckpointStore, Pipeline};
use connector_kafka::{KafkaSource, StartupMode, format::Json};
use connector_tests::{
    OwnedService, Service,
    orders::{self, Aggregates},
    unique_name,
};
use tokio::time::sleep;

use crate::kafka_to_clickhouse::{orders_table, sink};

const AWAY: Duration = Duration::from_secs(20);
const ROWS: u64 = 300_000;

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
    let source = KafkaSource::builder()
        .bootstrap_servers(kafka.bootstrap.as_str())
        .topics([topic.as_str()])
        .startup_mode(StartupMode::Earliest)
        .format(Json::with_schema(orders::schema()))
        .build()
        .unwrap();
    let stop = CancellationToken::new();
    let pipeline = Pipeline::new(source, sink(&clickhouse, &table, SinkModeName::Insert, 20_000))
        .checkpoints(FileCheckpointStore::open(folder.path()).unwrap(), Duration::from_secs(1))
        .run(stop.clone());
    let run = tokio::task::spawn(pipeline);

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
    assert!(!run.is_finished(), "the pipeline waits: {:?}", run.await);
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
    stop.cancel();
    let report = run.await.unwrap().expect("the pipeline ends cleanly");
    assert!(report.rows_read >= ROWS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_comes_back_after_twenty_seconds() {
    survive(true, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_back_after_twenty_seconds() {
    survive(false, true).await;
}
