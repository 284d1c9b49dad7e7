//! The pipeline's process is killed at random moments and started again from its file checkpoint.

use std::{collections::BTreeMap, time::Duration};

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
const CHAINS: u64 = 2;
const FLUSH_ROWS: u64 = 20_000;
const BATCH_ROWS: u64 = 5_000;
/// The sink flushes with the batch that reaches its bound, so this is the most that one flush holds.
const ONE_FLUSH: u64 = FLUSH_ROWS - 1 + BATCH_ROWS;
/// INSERTs of a chain whose fate the log need not tell: `sink.max-in-flight` that wait for their answer, and an open one.
const UNTOLD: u64 = 3;

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

    /// Runs to the end with five kills on the way; every moment is later in its run than a start takes. Returns how
    /// many kills there were, and what all runs logged.
    async fn run(&self, mode: &str, seed: u64) -> (u32, String) {
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
                format!("flush_rows={FLUSH_ROWS}"),
                format!("batch_rows={BATCH_ROWS}"),
                "checkpoint_ms=200".to_owned(),
                format!("chains={CHAINS}"),
            ]);
            command
        };
        let moments = Moments::new(seed, Duration::from_millis(150)..Duration::from_millis(700));
        let log = folder.path().join("log");
        let killed = tokio::select! {
            killed = run_with_crashes(command, &log, KILLS, moments, Duration::from_secs(180)) => killed,
            never = self.keep_the_server_running() => match never {},
        };
        (killed, std::fs::read_to_string(&log).unwrap())
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

/// The most rows that may be in the table twice, by what the design promises and the log tells.
///
/// A chain stores its offsets at a checkpoint, and the sink flushes more often than that: a restart begins at the last
/// stored offsets. So a kill repeats what the chain's sink stored since then (the log names each INSERT and each
/// checkpoint), and what was under way: INSERTs that the server took and the log did not come to tell of, and one that
/// was open, of which the server may keep blocks. What lay in the queue or in the reader was not written and does
/// not count. Within a run, an INSERT whose answer was lost is sent again: one flush for each try that the log warns of.
fn may_be_repeated(log: &str) -> u64 {
    let number = |line: &str, key: &str| -> u64 {
        // Behind what the spans say.
        let value = line.split_whitespace().rev().find_map(|word| word.strip_prefix(key)).expect(key);
        value.parse().unwrap()
    };
    let mut stored = BTreeMap::new();
    let (mut starts, mut bound) = (0, 0);
    for line in log.lines() {
        if line.contains(": pipeline starts ") {
            if starts > 0 {
                bound += stored.values().sum::<u64>() + CHAINS * UNTOLD * ONE_FLUSH;
            }
            starts += 1;
            stored.clear();
        } else if line.contains(": stored ") {
            *stored.entry(number(line, "chain=")).or_insert(0) += number(line, "rows=");
        } else if line.contains(": checkpoint stored ") {
            stored.remove(&number(line, "chain="));
        } else if line.contains(": the server did not take the rows") {
            bound += ONE_FLUSH;
        }
    }
    for line in ["pipeline starts", "stored", "checkpoint stored"] {
        assert!(log.contains(&format!(": {line} ")), "the log tells of `{line}`:\n{log}");
    }
    bound
}

#[tokio::test(flavor = "multi_thread")]
async fn insert_mode_loses_nothing_when_it_is_killed() {
    let Some(job) = Job::new("MergeTree ORDER BY id").await else { return };
    let (killed, log) = job.run("insert", 1).await;
    let distinct = job.server.order_aggregates(&format!("(SELECT DISTINCT * FROM {})", job.table)).await;
    assert_eq!(distinct, Aggregates::of(0..ROWS), "every row is there");
    let rows = job.server.count(&job.table).await;
    let (repeated, bound) = (rows - ROWS, may_be_repeated(&log));
    println!("insert mode: {killed} kills, {repeated} rows repeated of {ROWS}, at most {bound} may be");
    assert!(repeated <= bound, "{repeated} rows repeated after {killed} kills, {bound} allowed:\n{log}");
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
