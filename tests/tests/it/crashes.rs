//! The pipeline's process is killed at random moments and started again from its file checkpoint.

use std::time::Duration;

use connector_tests::{
    OwnedService, Service,
    orders::Aggregates,
    process::{Moments, run_with_crashes},
    services::{self, Clickhouse, Kafka},
    unique_name,
};

use tokio::process::Command;

use crate::kafka_to_clickhouse::orders_table;

const ROWS: u64 = 400_000;
const KILLS: u32 = 5;

struct Job {
    kafka: Kafka,
    owned: OwnedService,
    server: Clickhouse,
    topic: String,
    table: String,
}

impl Job {
    async fn new(engine: &str) -> Option<Self> {
        let (kafka, owned) = (services::kafka()?, OwnedService::start(Service::ClickhouseCurrent).await?);
        let server = owned.clickhouse();
        let topic = unique_name("crash");
        kafka.create_topic(&topic, 4, &[]).await;
        kafka.produce_orders(&topic, 0..ROWS, 4).await;
        let table = orders_table(&server, engine).await;
        Some(Self { kafka, owned, server, topic, table })
    }

    /// Runs to the end with five kills on the way; every moment is later in its run than a start takes.
    async fn run(&self, mode: &str, seed: u64) -> u32 {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let command = || {
            let mut command = Command::new(env!("CARGO_BIN_EXE_orders_pipeline"));
            command.args([
                format!("bootstrap={}", self.kafka.bootstrap),
                format!("topic={}", self.topic),
                format!("clickhouse={}", self.server.tcp),
                format!("table={}", self.table),
                format!("state={}", state.display()),
                format!("mode={mode}"),
                "flush_rows=20000".to_owned(),
                "checkpoint_ms=200".to_owned(),
                "chains=2".to_owned(),
            ]);
            command
        };
        let moments = Moments::new(seed, Duration::from_millis(150)..Duration::from_millis(700));
        let log = folder.path().join("log");
        tokio::select! {
            killed = run_with_crashes(command, &log, KILLS, moments, Duration::from_secs(180)) => killed,
            never = self.keep_the_server_running() => match never {},
        }
    }

    /// This build of the server ends itself when a client is killed in the middle of its login: one more crash
    /// that the pipeline has to survive.
    async fn keep_the_server_running(&self) -> std::convert::Infallible {
        loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            if self.server.query("SELECT 1").await.is_err() {
                self.owned.kill().await;
                self.owned.start_again().await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn insert_mode_loses_nothing_when_it_is_killed() {
    let Some(job) = Job::new("MergeTree ORDER BY id").await else { return };
    let killed = job.run("insert", 1).await;
    let distinct = job.server.order_aggregates(&format!("(SELECT DISTINCT * FROM {})", job.table)).await;
    assert_eq!(distinct, Aggregates::of(0..ROWS), "every row is there");
    let rows = job.server.count(&job.table).await;
    let repeated = rows - ROWS;
    println!("insert mode: {killed} kills, {repeated} rows repeated of {ROWS}");
    // A kill repeats at most what was read since the last checkpoint: here less than a flush and a queue a chain.
    assert!(repeated <= u64::from(killed) * 200_000, "{repeated} rows repeated after {killed} kills");
}

#[tokio::test(flavor = "multi_thread")]
async fn upsert_mode_ends_in_the_exact_state_when_it_is_killed() {
    let Some(job) = Job::new("MergeTree ORDER BY id").await else { return };
    let table = format!("{}_latest", job.table);
    job.server
        .execute(&format!(
            "CREATE TABLE {table} ({}, version UInt64, is_deleted UInt8) ENGINE = ReplacingMergeTree(version, is_deleted) ORDER BY id",
            connector_tests::orders::columns(job.server.version)
        ))
        .await;
    let job = Job { table, ..job };
    job.run("upsert", 2).await;
    assert_eq!(job.server.order_aggregates(&format!("{} FINAL", job.table)).await, Aggregates::of(0..ROWS));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deduplication_window_makes_inserts_exactly_once_when_it_is_killed() {
    let engine = "MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 1000";
    let Some(job) = Job::new(engine).await else { return };
    job.run("exactly-once", 3).await;
    assert_eq!(
        job.server.order_aggregates(&job.table).await,
        Aggregates::of(0..ROWS),
        "no row lost, none doubled"
    );
}
