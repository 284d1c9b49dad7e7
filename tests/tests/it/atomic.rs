//! Atomic batches on real servers: partitions moved or replaced, and a process that is killed between two of them.

use std::{path::Path, time::Duration};

use connector_tests::{
    process::Program,
    proxy::{Flow, Proxy, Rules},
    services::{self, Clickhouse},
};
use tokio::process::Command;

const ROWS: u64 = 6000;
const PARTITIONS: u64 = 30;

struct Job<'a> {
    server: &'a Clickhouse,
    database: String,
    replace: bool,
    folder: tempfile::TempDir,
}

impl<'a> Job<'a> {
    /// A table that has one row in the batch's partition 0 and one in a partition of its own.
    async fn new(server: &'a Clickhouse, replace: bool) -> Self {
        let database = server.create_database().await;
        server
            .execute(&format!(
                "CREATE TABLE {database}.t (id UInt64, p UInt64) ENGINE = MergeTree PARTITION BY p ORDER BY id"
            ))
            .await;
        server.execute(&format!("INSERT INTO {database}.t VALUES (1000000, 0), (1000001, 999)")).await;
        Self { server, database, replace, folder: tempfile::tempdir().unwrap() }
    }

    fn command(&self, address: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_atomic_batch"));
        command.args([
            format!("clickhouse={address}"),
            format!("database={}", self.database),
            "table=t".to_owned(),
            format!("state={}", self.folder.path().join("state").display()),
            format!("rows={ROWS}"),
            format!("partitions={PARTITIONS}"),
            format!("replace={}", self.replace),
        ]);
        command
    }

    fn log(&self) -> &Path {
        self.folder.path()
    }

    async fn rows_of_the_batch(&self) -> u64 {
        self.server.value(&format!("SELECT count() FROM {}.t WHERE id < 1000000", self.database)).await
    }

    /// Everything once: sum and count tell lost rows and doubled ones.
    async fn expect_whole(&self) {
        let old = if self.replace { 1 } else { 2 };
        let sql = format!("SELECT count(), uniqExact(id), sum(id) FROM {}.t", self.database);
        let rows = self.server.query(&sql).await.unwrap();
        let ids: u64 = (0..ROWS).sum::<u64>() + if self.replace { 1_000_001 } else { 2_000_001 };
        let wanted = [ROWS + old, ROWS + old, ids].map(|number| number.to_string());
        assert_eq!(rows, [wanted]);
        let tables = self.server.query(&format!("SHOW TABLES FROM {}", self.database)).await.unwrap();
        assert_eq!(tables, [["t"]], "no temporary table is left");
    }

    async fn run_to_the_end(&self) {
        let mut program =
            Program::start(&mut self.command(&self.server.tcp), &self.log().join("last")).unwrap();
        let status = program.wait(Duration::from_secs(120)).await;
        assert!(status.success(), "{}", program.output());
    }
}

async fn all_or_nothing(server: &Clickhouse, replace: bool) {
    let job = Job::new(server, replace).await;
    job.run_to_the_end().await;
    job.expect_whole().await;
    // The checkpoint says that the batch is done.
    job.run_to_the_end().await;
    job.expect_whole().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_moved_and_replaced() {
    if let Some(server) = services::clickhouse_current() {
        all_or_nothing(&server, false).await;
        all_or_nothing(&server, true).await;
    }
    if let Some(server) = services::clickhouse_18() {
        all_or_nothing(&server, true).await;
        // It can only copy: a commit that broke off could not tell what it has done.
        let job = Job::new(&server, false).await;
        let mut program = Program::start(&mut job.command(&server.tcp), &job.log().join("log")).unwrap();
        assert!(!program.wait(Duration::from_secs(60)).await.success());
        assert!(program.output().contains("atomic_write_replace_partitions"), "{}", program.output());
        assert_eq!(job.rows_of_the_batch().await, 0);
    }
}

/// Every answer takes a while, so that the commit of thirty partitions is long; the process is killed as soon as
/// the first one is to be seen in the target.
async fn killed_between_two_partitions(server: &Clickhouse, replace: bool) {
    let job = Job::new(server, replace).await;
    let proxy = Proxy::start(&server.tcp).await;
    let mut writing =
        Program::start(&mut job.command(&proxy.address().to_string()), &job.log().join("first")).unwrap();
    let mut seen = 0;
    while seen == 0 && writing.is_running() {
        // Once it commits, slowly.
        if writing.output().contains("moved a partition") {
            proxy.set_rules(Rules::pass().to_client(Flow::pass().delay(Duration::from_millis(200))));
        }
        seen = job.rows_of_the_batch().await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    writing.kill_after(Duration::ZERO).await;
    proxy.close_all();
    let partly = job.rows_of_the_batch().await;
    eprintln!("killed with {partly} of {ROWS} rows in the target");
    job.run_to_the_end().await;
    job.expect_whole().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_killed_between_two_partitions_goes_on() {
    if let Some(server) = services::clickhouse_18() {
        killed_between_two_partitions(&server, true).await;
    }
    if let Some(server) = services::clickhouse_current() {
        killed_between_two_partitions(&server, false).await;
        killed_between_two_partitions(&server, true).await;
    }
}
