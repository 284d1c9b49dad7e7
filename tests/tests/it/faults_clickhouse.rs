//! Connections to real servers break in every place that matters; whatever happens, the rows are right.
//!
//! The sink's flushes go through the proxy. A run without faults is measured first: how many bytes the writer's
//! connection takes. Later runs of the same rows are then broken at exact bytes of it: in the middle of a block, on
//! the boundary behind one, before, in and behind the empty block that ends the INSERT.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use connector_bytehouse_cdw::{BytehouseCdwSink, SinkModeName};
use connector_core::{
    CancellationToken, ChangeBatch, DeliveryGuarantee, Error, ErrorKind, Pipeline, Report, RowKind, Sink,
    SinkWriter, TableId, WriterContext,
    arrow::{
        array::{AsArray, RecordBatch},
        datatypes::{Decimal128Type, Int32Type, UInt64Type},
    },
    memory::MemorySource,
    testkit::{change_sequence, orders},
};
use connector_kafka::{KafkaSource, format::Json};
use connector_tests::{
    clickhouse::NULL,
    kafka::Record,
    proxy::{Cut, Flow, Proxy, Rules},
    services::{self, Clickhouse, Version},
    unique_name,
};
use tokio::{sync::Semaphore, task::JoinSet, time::sleep};

use crate::{
    bounded::{id_schema, row},
    kafka_to_clickhouse::sink_at,
};

/// The client's patience with a server that says nothing.
const READ_TIMEOUT: &str = "1000";
const LIMIT: Duration = Duration::from_secs(60);
/// Bytes of the empty block that ends an INSERT: packet, name, block info, no columns, no rows.
const END: u64 = 12;
/// Which connection of a run carries the INSERTs.
const WRITES: usize = 2;

/// What is written, and what the table must hold afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    /// Inserts into a plain table: nothing is lost, what was under way may come twice.
    AtLeastOnce,
    /// Inserts into a table with a window, under the pipeline's tokens: each row once.
    ExactlyOnce,
    /// Changes by key: the state of a plain model.
    Upsert,
}

impl Job {
    fn delivery(self) -> DeliveryGuarantee {
        match self {
            Self::ExactlyOnce => DeliveryGuarantee::ExactlyOnce,
            Self::AtLeastOnce | Self::Upsert => DeliveryGuarantee::AtLeastOnce,
        }
    }

    fn mode(self, version: Version) -> SinkModeName {
        match (self, version) {
            // 18.16 knows no deletes.
            (Self::Upsert, Version::V18) => SinkModeName::UpsertNoDelete,
            (Self::Upsert, Version::Current) => SinkModeName::Upsert,
            _ => SinkModeName::Insert,
        }
    }

    fn engine(self, version: Version) -> &'static str {
        match (self, version) {
            (Self::AtLeastOnce, _) => "MergeTree ORDER BY id",
            (Self::ExactlyOnce, _) => {
                "MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 100"
            }
            (Self::Upsert, Version::V18) => "ReplacingMergeTree(version) ORDER BY id",
            (Self::Upsert, Version::Current) => "ReplacingMergeTree(version, is_deleted) ORDER BY id",
        }
    }

    fn columns(self, version: Version) -> &'static str {
        match (self, version) {
            (Self::Upsert, Version::V18) => ", version UInt64",
            (Self::Upsert, Version::Current) => ", version UInt64, is_deleted UInt8",
            _ => "",
        }
    }

    /// Several batches, which are blocks in mode insert, and several flushes of them.
    fn batches(self, version: Version) -> Vec<ChangeBatch> {
        match self {
            Self::AtLeastOnce | Self::ExactlyOnce => {
                (0..8).map(|batch| ChangeBatch::append(orders(batch * 250..(batch + 1) * 250))).collect()
            }
            Self::Upsert => {
                let (batches, _) = change_sequence(7, 400, 3000, 250);
                // Without an is_deleted column nothing can be deleted.
                let keep = |kind| version == Version::Current || kind != RowKind::Delete;
                batches.iter().map(|batch| batch.clone().filter_kinds(keep).unwrap()).collect()
            }
        }
    }
}

/// The rows that a reader must see, as text, sorted.
fn expected(batches: &[ChangeBatch]) -> Vec<String> {
    let mut rows = BTreeMap::new();
    for batch in batches {
        for (row, text) in texts(batch.rows()).into_iter().enumerate() {
            let id = batch.rows().column(0).as_primitive::<UInt64Type>().value(row);
            match batch.kinds().get(row) {
                RowKind::Insert | RowKind::UpdateAfter => rows.insert(id, text),
                RowKind::Delete => rows.remove(&id),
                RowKind::UpdateBefore => None,
            };
        }
    }
    let mut rows: Vec<String> = rows.into_values().collect();
    rows.sort_unstable();
    rows
}

fn texts(rows: &RecordBatch) -> Vec<String> {
    let customers = rows.column(1).as_string::<i32>();
    let amounts = rows.column(2).as_primitive::<Decimal128Type>();
    let discounts = rows.column(3).as_primitive::<Int32Type>();
    let ids = rows.column(0).as_primitive::<UInt64Type>();
    (0..rows.num_rows())
        .map(|row| {
            let discount = discounts.iter().nth(row).flatten().map_or(NULL.to_owned(), |d| d.to_string());
            format!("{}|{}|{}|{discount}", ids.value(row), customers.value(row), amounts.value(row))
        })
        .collect()
}

/// One table on one server, and the proxy before it.
struct Run {
    server: Clickhouse,
    job: Job,
    table: String,
    proxy: Proxy,
    batches: Arc<Vec<ChangeBatch>>,
}

impl Run {
    async fn new(server: &Clickhouse, database: &str, job: Job, batches: Arc<Vec<ChangeBatch>>) -> Self {
        Self::with_engine(server, database, job, batches, job.engine(server.version)).await
    }

    async fn with_engine(
        server: &Clickhouse,
        database: &str,
        job: Job,
        batches: Arc<Vec<ChangeBatch>>,
        engine: &str,
    ) -> Self {
        let table = format!("{database}.{}", unique_name("t"));
        server
            .execute(&format!(
                "CREATE TABLE {table} (id UInt64, customer String, amount Decimal(18, 4), \
                 discount Nullable(Int32){}) ENGINE = {engine}",
                job.columns(server.version),
            ))
            .await;
        Self { server: server.clone(), job, table, proxy: Proxy::start(&server.tcp).await, batches }
    }

    fn sink(&self) -> BytehouseCdwSink {
        sink_at(&self.proxy.address().to_string())
            .mode(self.job.mode(self.server.version))
            .table(self.table.as_str())
            .flush_max_rows(1000)
            // One connection for all INSERTs, so that a byte of it is the same byte in every run.
            .options(|options| options.max_in_flight(1))
            .max_retry_backoff(Duration::from_secs(1))
            .connection_properties([("socket_timeout", READ_TIMEOUT)])
            .build()
            .unwrap()
    }

    async fn pipeline(&self) -> Result<Report, Error> {
        let source = MemorySource::bounded();
        for batch in self.batches.iter() {
            source.push("s", TableId::new("", "orders"), batch.clone());
        }
        Pipeline::new(source, self.sink())
            .name("faults")
            .delivery(self.job.delivery())
            .run(CancellationToken::new())
            .await
    }

    /// Rows as text, sorted, without those that came twice where that is allowed.
    async fn rows(&self) -> Vec<String> {
        let (distinct, last) = match self.job {
            Job::AtLeastOnce => ("DISTINCT", ""),
            Job::ExactlyOnce => ("", ""),
            Job::Upsert => ("", "FINAL"),
        };
        let sql = format!(
            "SELECT {distinct} id, customer, toInt64(amount * 10000), discount FROM {} {last}",
            self.table
        );
        let mut rows: Vec<String> =
            self.server.query(&sql).await.unwrap().iter().map(|row| row.join("|")).collect();
        rows.sort_unstable();
        rows
    }
}

/// Runs without faults, and says how many bytes the INSERTs took: they have a connection of their own, the third one.
async fn measure(run: &Run) -> u64 {
    run.pipeline().await.unwrap();
    let sent = run.proxy.bytes_to_server_of_each();
    assert_eq!(sent.len(), 3, "a check, a look at the table, and the INSERTs: {sent:?}");
    sent[WRITES]
}

/// A reset that the server survives.
fn reset(version: Version) -> Cut {
    if version == Version::Current { Cut::ResetClient } else { Cut::Reset }
}

/// Every fault, by name. The places are bytes of the writer's connection.
fn faults(write: u64, version: Version) -> Vec<(String, Rules)> {
    let places = [
        ("mid block", write * 2 / 3),
        ("mid block, last flush", write - END - 1000),
        ("behind the last block", write - END),
        ("within the end of the INSERT", write - END / 2),
        ("behind everything", write),
    ];
    let mut faults = Vec::new();
    for (place, bytes) in places {
        for cut in [reset(version), Cut::Close, Cut::HalfClose, Cut::Stall] {
            let rules = Rules::pass().to_server(Flow::pass().cut_after(bytes, cut));
            faults.push((format!("{cut:?} {place}"), rules));
        }
    }
    let small = Duration::ZERO;
    for (name, rules) in [
        ("answers byte by byte", Rules::pass().to_client(Flow::pass().drip(1, small))),
        ("packets in pieces", Rules::pass().to_server(Flow::pass().drip(997, small))),
        (
            "both late",
            Rules::pass()
                .to_server(Flow::pass().delay(Duration::from_millis(3)))
                .to_client(Flow::pass().delay(Duration::from_millis(3))),
        ),
    ] {
        faults.push((name.to_owned(), rules));
    }
    faults
}

/// Runs a job under each fault, several at a time.
async fn survive(server: &Clickhouse, job: Job) {
    let database = server.create_database().await;
    let batches = Arc::new(job.batches(server.version));
    let expected = Arc::new(expected(&batches));
    let calm = Run::new(server, &database, job, Arc::clone(&batches)).await;
    let write = measure(&calm).await;
    // The measuring run wrote the same rows once.
    assert_eq!(calm.rows().await, *expected, "{job:?} without faults");

    let at_once = Arc::new(Semaphore::new(24));
    let mut runs = JoinSet::new();
    for (name, rules) in faults(write, server.version) {
        let run = Run::new(server, &database, job, Arc::clone(&batches)).await;
        let (expected, at_once) = (Arc::clone(&expected), Arc::clone(&at_once));
        runs.spawn(async move {
            let _turn = at_once.acquire_owned().await.unwrap();
            run.proxy.set_next_rules(Rules::pass());
            run.proxy.set_next_rules(Rules::pass());
            run.proxy.set_next_rules(rules);
            let name = format!("{job:?} at {:?}: {name}", run.server.version);
            match run.pipeline().await {
                Ok(report) => assert!(report.rows_written > 0, "{name}"),
                Err(error) => panic!("{name}: {error}"),
            }
            let rows = run.rows().await;
            assert!(
                rows == *expected,
                "{name}: {} rows of {}, {} of them different",
                rows.len(),
                expected.len(),
                rows.iter().collect::<std::collections::BTreeSet<_>>().len()
            );
        });
    }
    while let Some(ended) = runs.join_next().await {
        ended.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_in_mode_insert_wherever_a_connection_breaks() {
    for server in [services::clickhouse_18(), services::clickhouse_current()].into_iter().flatten() {
        survive(&server, Job::AtLeastOnce).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_is_exact_in_mode_upsert_wherever_a_connection_breaks() {
    for server in [services::clickhouse_18(), services::clickhouse_current()].into_iter().flatten() {
        survive(&server, Job::Upsert).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_makes_inserts_exactly_once_wherever_a_connection_breaks() {
    let Some(server) = services::clickhouse_current() else { return };
    survive(&server, Job::ExactlyOnce).await;
}

/// The server stores the rows and its answer never comes: the sink cannot know, and sends them again.
async fn lose_the_answer(server: &Clickhouse, job: Job, engine: &str) -> (Run, u64) {
    let database = server.create_database().await;
    let batches = Arc::new(job.batches(server.version).into_iter().take(2).collect::<Vec<_>>());
    let calm = Run::with_engine(server, &database, job, Arc::clone(&batches), engine).await;
    let write = measure(&calm).await;
    let sent = server.count(&calm.table).await;
    let run = Run::with_engine(server, &database, job, batches, engine).await;

    // Everything but the end of the INSERT passes; then the end passes and nothing comes back.
    run.proxy.set_next_rules(Rules::pass());
    run.proxy.set_next_rules(Rules::pass());
    run.proxy.set_rules(Rules::pass().to_server(Flow::pass().cut_after(write - END, Cut::Stall)));
    let (outcome, ()) = tokio::join!(run.pipeline(), async {
        let deadline = tokio::time::Instant::now() + LIMIT;
        while run.proxy.bytes_to_server_of_each().get(WRITES) != Some(&(write - END)) {
            assert!(tokio::time::Instant::now() < deadline, "the INSERT did not come");
            sleep(Duration::from_millis(2)).await;
        }
        run.proxy.set_rules(Rules::pass().to_client(Flow::pass().stall()));
        server.wait_until_rows(&run.table, sent, LIMIT).await;
        run.proxy.cut_all(reset(server.version));
        // Only when the writer is back, so that the answer cannot slip through.
        while run.proxy.accepted() < 4 {
            assert!(tokio::time::Instant::now() < deadline, "the writer gave up");
            sleep(Duration::from_millis(2)).await;
        }
        run.proxy.set_rules(Rules::pass());
    });
    outcome.unwrap();
    assert_eq!(run.rows().await, expected(&run.batches), "{job:?} at {:?}", server.version);
    (run, sent)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_repeats_rows_in_a_plain_table() {
    for server in [services::clickhouse_18(), services::clickhouse_current()].into_iter().flatten() {
        let (run, sent) =
            lose_the_answer(&server, Job::AtLeastOnce, Job::AtLeastOnce.engine(server.version)).await;
        // The proof that the answer was lost: without a window the server takes the second try as well.
        assert_eq!(server.count(&run.table).await, 2 * sent, "{:?}", server.version);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_does_not_change_an_upserted_state() {
    for server in [services::clickhouse_18(), services::clickhouse_current()].into_iter().flatten() {
        lose_the_answer(&server, Job::Upsert, Job::Upsert.engine(server.version)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_counts_once_with_a_window() {
    let Some(server) = services::clickhouse_current() else { return };
    let engine = Job::ExactlyOnce.engine(server.version);
    lose_the_answer(&server, Job::ExactlyOnce, engine).await;
    // The window serves at-least-once too: each try of one INSERT has the same token.
    let (run, sent) = lose_the_answer(&server, Job::AtLeastOnce, engine).await;
    assert_eq!(server.count(&run.table).await, sent);
}

/// Two stretches of a topic with the same bytes at different offsets: both are meant.
#[tokio::test(flavor = "multi_thread")]
async fn identical_batches_at_different_positions_are_both_kept() {
    let (Some(kafka), Some(server)) = (services::kafka(), services::clickhouse_current()) else { return };
    let topic = unique_name("twins");
    kafka.create_topic(&topic, 1, &[]).await;
    let stretch = || (0..100).map(|id| Record::new(0, row(id)));
    kafka.produce(&topic, stretch().chain(stretch()).collect()).await;
    let database = server.create_database().await;
    for delivery in [DeliveryGuarantee::AtLeastOnce, DeliveryGuarantee::ExactlyOnce] {
        let table = format!("{database}.{}", unique_name("t"));
        let window = "MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 100";
        server.execute(&format!("CREATE TABLE {table} (id Int64, note String) ENGINE = {window}")).await;
        // Batches and flushes of a hundred rows: each flush has the same bytes as the other one.
        let source = KafkaSource::builder()
            .bootstrap_servers(kafka.bootstrap.as_str())
            .topics([topic.as_str()])
            .bounded()
            .max_batch_rows(100)
            .format(Json::with_schema(id_schema()))
            .build()
            .unwrap();
        let sink = sink_at(&server.tcp)
            .mode(SinkModeName::Insert)
            .table(table.as_str())
            .flush_max_rows(100)
            .build()
            .unwrap();
        let report =
            Pipeline::new(source, sink).delivery(delivery).run(CancellationToken::new()).await.unwrap();
        assert_eq!(report.rows_written, 200, "{delivery:?}: {report:?}");
        if delivery == DeliveryGuarantee::ExactlyOnce {
            assert!(report.flushes >= 2, "a flush of its own for each: {report:?}");
        }
        let per_id = "SELECT count(), uniqExact(id), min(c), max(c) FROM";
        let rows = server
            .query(&format!("{per_id} (SELECT id, count() AS c FROM {table} GROUP BY id)"))
            .await
            .unwrap();
        assert_eq!(rows, [["100", "100", "2", "2"]], "{delivery:?}");
    }
}

/// More bytes than sockets hold: the client is stopped in the middle of a block and has to notice.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_no_more_bytes_is_left_in_time() {
    for server in [services::clickhouse_18(), services::clickhouse_current()].into_iter().flatten() {
        let database = server.create_database().await;
        let large: Vec<ChangeBatch> =
            (0..10).map(|batch| ChangeBatch::append(orders(batch * 50_000..(batch + 1) * 50_000))).collect();
        let run = Run::new(&server, &database, Job::AtLeastOnce, Arc::new(large)).await;
        run.proxy.set_next_rules(Rules::pass());
        run.proxy.set_next_rules(Rules::pass());
        run.proxy.set_next_rules(Rules::pass().to_server(Flow::pass().cut_after(1_000_000, Cut::Stall)));
        run.pipeline().await.unwrap();
        let found = server
            .query(&format!("SELECT uniqExact(id), min(id), max(id) FROM {}", run.table))
            .await
            .unwrap();
        assert_eq!(found, [["500000", "0", "499999"]], "{:?}", server.version);
        assert!(run.proxy.accepted() >= 4);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_answers_ends_the_run_with_a_clear_error() {
    let Some(server) = services::clickhouse_18() else { return };
    let database = server.create_database().await;
    let batches = Arc::new(Job::AtLeastOnce.batches(server.version));
    let run = Run::new(&server, &database, Job::AtLeastOnce, batches).await;
    let sink = sink_at(&run.proxy.address().to_string())
        .mode(SinkModeName::Insert)
        .table(run.table.as_str())
        .max_retries(1)
        .max_retry_backoff(Duration::from_secs(1))
        .connection_properties([("socket_timeout", "500"), ("connect_timeout", "500")])
        .build()
        .unwrap();
    let mut writer = sink.open(WriterContext::default()).await.unwrap();
    let table = TableId::new("", "orders");
    writer.write(&table, ChangeBatch::append(orders(0..100))).await.unwrap();
    writer.flush(None).await.unwrap();
    run.proxy.set_rules(Rules::pass().to_client(Flow::pass().stall()));
    writer.write(&table, ChangeBatch::append(orders(100..200))).await.unwrap();
    let error = tokio::time::timeout(LIMIT, writer.flush(None)).await.expect("an end").expect_err("an error");
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(!error.is_transient(), "the tries are used up: {error}");
    assert!(error.to_string().contains(&run.table), "{error}");
    let closed = writer.flush(None).await.expect_err("the writer is poisoned");
    assert_eq!(closed.kind(), ErrorKind::Closed, "{closed}");
}

/// The server refuses in the middle of an INSERT, after it has taken blocks.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_after_some_blocks_carries_the_servers_words_and_is_not_repeated() {
    let Some(server) = services::clickhouse_current() else { return };
    let database = server.create_database().await;
    let table = format!("{database}.checked");
    server
        .execute(&format!(
            "CREATE TABLE {table} (id UInt64, customer String, amount Decimal(18, 4), discount Nullable(Int32), \
             CONSTRAINT small_ids CHECK id < 1500) ENGINE = MergeTree ORDER BY id"
        ))
        .await;
    let mut run =
        Run::new(&server, &database, Job::AtLeastOnce, Arc::new(Job::AtLeastOnce.batches(server.version)))
            .await;
    run.table = table;
    let error = run.pipeline().await.expect_err("a refusal");
    assert_eq!(error.kind(), ErrorKind::DataInvalid, "{error}");
    assert_eq!(error.context_value("code"), Some("469"), "{error}");
    assert!(error.to_string().contains("small_ids"), "{error}");
    assert_eq!(run.proxy.accepted(), 3, "a check, a look, and no second try");
}

/// A client that is cut off while it logs in; on the old server only, as the other one ends itself over it.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_breaks_at_login_is_tried_again() {
    let Some(server) = services::clickhouse_18() else { return };
    let database = server.create_database().await;
    let batches = Arc::new(Job::AtLeastOnce.batches(server.version));
    for bytes in [0, 1, 20] {
        for cut in [Cut::Reset, Cut::Close] {
            let run = Run::new(&server, &database, Job::AtLeastOnce, Arc::clone(&batches)).await;
            run.proxy.set_next_rules(Rules::pass());
            run.proxy.set_next_rules(Rules::pass().to_client(Flow::pass().cut_after(bytes, cut)));
            run.pipeline().await.unwrap_or_else(|error| panic!("{cut:?} after {bytes} bytes: {error}"));
            assert_eq!(run.rows().await, expected(&batches));
        }
    }
}
