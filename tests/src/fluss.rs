//! What tests do with a Fluss cluster beside the code under test: databases, and rows as other clients read them.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use connector_core::arrow::array::RecordBatch;
use fluss::client::{EARLIEST_OFFSET, FlussConnection, RecordBatchLogReader};
use fluss::config::Config;
use fluss::metadata::{TableBucket, TablePath};
use fluss::record::ScanBatch;
use fluss::rpc::message::OffsetSpec;
use tokio::process::Command;

use crate::services::Fluss;
use crate::unique_name;

/// What the Java client reads of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The log from its beginning, the change type in front of each row.
    Log,
    /// The rows of a primary-key table.
    Keys,
}

impl Fluss {
    /// A connection of the bare client.
    ///
    /// # Panics
    /// When the cluster does not answer.
    pub async fn connect(&self) -> FlussConnection {
        let config = Config { bootstrap_servers: self.bootstrap.clone(), ..Config::default() };
        FlussConnection::new(config).await.expect("a connection to Fluss")
    }

    /// Makes a database of a new name.
    ///
    /// # Panics
    /// When the cluster refuses.
    pub async fn create_database(&self) -> String {
        let name = unique_name("db");
        let admin = self.connect().await.get_admin().expect("an admin client");
        admin.create_database(&name, None, false).await.expect("a new database");
        name
    }

    /// The sum of the next offsets of a table's buckets, or of one of its partitions'. Waits until all have a leader.
    ///
    /// # Panics
    /// When they have none after a minute.
    pub async fn end(&self, database: &str, table: &str, partition: Option<&str>) -> i64 {
        let connection = self.connect().await;
        let admin = connection.get_admin().expect("an admin client");
        let path = TablePath::new(database, table);
        let buckets: Vec<i32> =
            (0..admin.get_table_info(&path).await.expect("the table").get_num_buckets()).collect();
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let offsets = match partition {
                Some(name) => admin.list_partition_offsets(&path, name, &buckets, OffsetSpec::Latest).await,
                None => admin.list_offsets(&path, &buckets, OffsetSpec::Latest).await,
            };
            match offsets {
                Ok(offsets) => return offsets.values().sum(),
                Err(error) => assert!(Instant::now() < deadline, "no offsets of {path}: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The rows of a table without partitions as the bare Rust client reads them: of a primary-key table as they are,
    /// else all of its log.
    ///
    /// # Panics
    /// When the cluster refuses.
    pub async fn rows(&self, database: &str, table: &str) -> Vec<RecordBatch> {
        let connection = self.connect().await;
        let admin = connection.get_admin().expect("an admin client");
        self.end(database, table, None).await;
        let table = connection.get_table(&TablePath::new(database, table)).await.expect("the table");
        let info = table.get_table_info();
        let mut found = Vec::new();
        for bucket in 0..info.get_num_buckets() {
            if info.has_primary_key() {
                let scan = table.new_scan().limit(i32::MAX).expect("a limit");
                let bucket = TableBucket::new(info.get_table_id(), bucket);
                let mut scanner = scan.create_bucket_batch_scanner(bucket).expect("a scanner");
                let batches = scanner.collect_all_batches().await.expect("the rows");
                found.extend(batches.into_iter().map(ScanBatch::into_batch));
            } else {
                let scanner = table.new_scan().create_record_batch_log_scanner().expect("a scanner");
                scanner.subscribe(bucket, EARLIEST_OFFSET).await.expect("a subscription");
                let mut reader =
                    RecordBatchLogReader::new_until_latest(scanner, &admin).await.expect("a reader");
                let batches = reader.collect_all_batches().await.expect("the log");
                found.extend(batches.into_iter().map(ScanBatch::into_batch));
            }
        }
        found
    }

    /// The rows of a table as the Java client reads them, sorted; `Rows.java` says how each looks.
    ///
    /// # Panics
    /// When the program fails.
    pub async fn java_rows(&self, database: &str, table: &str, part: Part) -> Vec<String> {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("services/fluss/Rows.java");
        let jars = self.jars.join("*");
        let output = Command::new("java")
            .args([
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "--add-opens=java.base/java.nio=ALL-UNNAMED",
            ])
            .args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp"])
            .arg(jars)
            .arg(program)
            .args([self.bootstrap.as_str(), database, table, if part == Part::Log { "log" } else { "keys" }])
            .stdin(Stdio::null())
            .output()
            .await
            .expect("java");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "Rows.java failed: {errors}");
        let mut rows: Vec<String> =
            String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
        rows.sort_unstable();
        rows
    }
}
