//! Processes that share a topic as one group, while one of them is killed and another one joins.

use std::time::Duration;

use connector_tests::{
    orders::Aggregates,
    process::Program,
    proxy::Proxy,
    services::{self, Clickhouse, Kafka},
    unique_name,
};
use tempfile::TempDir;
use tokio::process::Command;

use crate::kafka_to_clickhouse::orders_table;

const FLUSH_ROWS: u64 = 20_000;
const BATCH_ROWS: u64 = 5_000;
/// The most that one flush holds.
const ONE_FLUSH: u64 = FLUSH_ROWS - 1 + BATCH_ROWS;
/// INSERTs that the log of a killed process need not tell of: two that wait for their answer, and an open one.
const UNTOLD: u64 = 3;
const PATIENCE: Duration = Duration::from_secs(180);

struct Group {
    kafka: Kafka,
    /// A member that is killed must not take the shared server with it.
    proxy: Proxy,
    topic: String,
    table: String,
    mode: &'static str,
    folder: TempDir,
}

impl Group {
    async fn new(kafka: Kafka, server: &Clickhouse, table: String, mode: &'static str) -> Self {
        let topic = unique_name("group");
        kafka.create_topic(&topic, 6, &[]).await;
        let proxy = Proxy::start(&server.tcp).await;
        Self { kafka, proxy, topic, table, mode, folder: tempfile::tempdir().unwrap() }
    }

    fn member(&self, name: &str) -> Program {
        let mut command = Command::new(env!("CARGO_BIN_EXE_orders_pipeline"));
        command.args([
            format!("bootstrap={}", self.kafka.bootstrap),
            format!("topic={}", self.topic),
            format!("group={}", self.topic),
            format!("clickhouse={}", self.proxy.address()),
            format!("table={}", self.table),
            format!("state={}", self.folder.path().join(name).display()),
            format!("mode={}", self.mode),
            format!("flush_rows={FLUSH_ROWS}"),
            format!("batch_rows={BATCH_ROWS}"),
            "checkpoint_ms=300".to_owned(),
        ]);
        Program::start(&mut command, &self.folder.path().join(format!("{name}.log"))).unwrap()
    }

    /// Three members; one is killed and one joins while rows come in. Returns the log of the killed one.
    async fn run(&self, server: &Clickhouse, rows: u64) -> String {
        let mut members = vec![self.member("first"), self.member("second")];
        let mut victim = self.member("victim");
        let distinct = format!("(SELECT DISTINCT id FROM {})", self.table);
        for tenth in 0..10 {
            let ids = rows / 10 * tenth..rows / 10 * (tenth + 1);
            self.kafka.produce_orders(&self.topic, ids, 6).await;
            match tenth {
                2 => {
                    // It has rows of its own by then.
                    victim.wait_for_line(": stored ", PATIENCE).await;
                    victim.kill_after(Duration::ZERO).await;
                }
                4 => members.push(self.member("joined")),
                _ => {}
            }
        }
        server.wait_until_rows(&distinct, rows, PATIENCE).await;
        for member in &mut members {
            assert!(member.terminate(PATIENCE).await.success(), "{}", member.output());
        }
        members[2].wait_for_line("done read=", PATIENCE).await;
        victim.output()
    }
}

/// What the killed process had stored and its group need not know of: all since the last checkpoint that the group has
/// taken the offsets of, and what was under way. Offsets wait for those that are on their way already, so the last two times
/// that the group took some do not count.
fn may_be_repeated(log: &str) -> u64 {
    let rows = |line: &str| -> u64 {
        line.split_whitespace().rev().find_map(|word| word.strip_prefix("rows=")).unwrap().parse().unwrap()
    };
    let (mut since_checkpoint, mut unknown, mut taken) = (0, Vec::new(), 0);
    for line in log.lines() {
        if line.contains(": stored ") {
            since_checkpoint += rows(line);
        } else if line.contains(": checkpoint stored ") {
            unknown.push((taken, std::mem::take(&mut since_checkpoint)));
        } else if line.contains(": the group has taken offsets") {
            taken += 1;
        }
    }
    let untold = unknown.iter().filter(|(before, _)| before + 2 >= taken).map(|(_, rows)| rows).sum::<u64>();
    untold + since_checkpoint + UNTOLD * ONE_FLUSH
}

#[tokio::test(flavor = "multi_thread")]
async fn a_million_rows_survive_a_member_that_is_killed_and_one_that_joins() {
    const ROWS: u64 = 1_000_000;
    let (Some(kafka), Some(server)) = (services::kafka(), services::clickhouse_current()) else { return };
    let table = orders_table(&server, "MergeTree ORDER BY id").await;
    let group = Group::new(kafka, &server, table.clone(), "insert").await;
    let log = group.run(&server, ROWS).await;
    let distinct = server.order_aggregates(&format!("(SELECT DISTINCT * FROM {table})")).await;
    assert_eq!(distinct, Aggregates::of(0..ROWS), "every row is there");
    let (repeated, bound) = (server.count(&table).await - ROWS, may_be_repeated(&log));
    println!("{repeated} rows repeated of {ROWS}, at most {bound} may be");
    assert!(repeated <= bound, "{repeated} rows repeated, {bound} allowed:\n{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upserted_state_is_exact_whoever_read_what() {
    const ROWS: u64 = 100_000;
    let (Some(kafka), Some(server)) = (services::kafka(), services::clickhouse_current()) else { return };
    let plain = orders_table(&server, "MergeTree ORDER BY id").await;
    let table = format!("{plain}_latest");
    server
        .execute(&format!(
            "CREATE TABLE {table} ({}, version UInt64, is_deleted UInt8) ENGINE = ReplacingMergeTree(version, is_deleted) \
             ORDER BY id",
            connector_tests::orders::columns(server.version)
        ))
        .await;
    let group = Group::new(kafka, &server, table.clone(), "upsert").await;
    group.run(&server, ROWS).await;
    assert_eq!(server.order_aggregates(&format!("{table} FINAL")).await, Aggregates::of(0..ROWS));
}
