//! Atomic batches: all rows at the end or none, a commit that breaks off goes on, leftovers go.

use std::{sync::Arc, time::Duration};

use bytehouse_testkit::{BytehouseDouble, DoubleOptions, Fault, Point};
use connector_bytehouse_cdw::{BytehouseCdwSink, BytehouseCdwWriter};
use connector_core::{
    CancellationToken, ChangeBatch, CheckpointStore, DeliveryGuarantee, Error, ErrorKind,
    MemoryCheckpointStore, Pipeline, RowKind, RowKinds, Sink, SinkWriter, TableId, WriterContext,
    arrow::{
        array::{ArrayRef, AsArray, RecordBatch, UInt64Array},
        datatypes::{DataType, Field, Schema},
    },
    memory::MemorySource,
    pipeline::Report,
};

use crate::support::double;

const PLAIN: &str = "ENGINE = CnchMergeTree PARTITION BY p ORDER BY id";
const UNIQUE: &str = "ENGINE = CnchMergeTree PARTITION BY p ORDER BY id UNIQUE KEY id";
const OPEN: &str = "ENGINE = MergeTree PARTITION BY p ORDER BY id";

fn table() -> TableId {
    TableId::new("app", "t")
}

fn create(double: &BytehouseDouble, engine: &str) {
    double.execute(&format!("CREATE TABLE app.t (id UInt64, p UInt64) {engine}")).unwrap();
    double.execute("INSERT INTO app.t (id, p) VALUES (1000, 0), (1001, 1), (1002, 9)").unwrap();
}

fn sink(double: &BytehouseDouble, more: &[(&str, &str)]) -> BytehouseCdwSink {
    let port = double.addr().port().to_string();
    let base = [
        ("job.common.job_type", "BATCH"),
        ("job.writer.host", "127.0.0.1"),
        ("job.writer.port", &port),
        ("job.writer.secure", "false"),
        ("job.writer.token", DoubleOptions::TOKEN),
        ("job.writer.virtual_warehouse", "vw_load"),
        ("job.writer.db_name", "app"),
        ("job.writer.table_name", "t"),
        ("job.writer.atomic_write", "true"),
        ("job.writer.atomic_write_retry_wait_millis", "1"),
        ("job.writer.bh_connection_properties", r#"{"user": "bytehouse"}"#),
    ];
    let options = base.iter().filter(|(key, _)| !more.iter().any(|(other, _)| key == other)).chain(more);
    BytehouseCdwSink::from_options(options.map(|(k, v)| (*k, *v))).unwrap()
}

fn rows(ids: std::ops::Range<u64>) -> RecordBatch {
    let fields = vec![Field::new("id", DataType::UInt64, false), Field::new("p", DataType::UInt64, false)];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt64Array::from_iter_values(ids.clone())),
        Arc::new(UInt64Array::from_iter_values(ids.map(|id| id % 4))),
    ];
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// 40 rows in four partitions and two splits.
fn source() -> MemorySource {
    let source = MemorySource::bounded();
    for (split, start) in [("a", 0), ("b", 20)] {
        for start in [start, start + 10] {
            source.push(split, table(), ChangeBatch::append(rows(start..start + 10)));
        }
    }
    source
}

async fn run(
    sink: BytehouseCdwSink,
    source: MemorySource,
    store: &Arc<MemoryCheckpointStore>,
) -> Result<Report, Error> {
    Pipeline::new(source, sink)
        .name("nightly load")
        .parallelism(2)
        .delivery(DeliveryGuarantee::ExactlyOnce)
        .checkpoints(Arc::clone(store), Duration::from_millis(1))
        .run(CancellationToken::new())
        .await
}

fn ids(double: &BytehouseDouble) -> Vec<u64> {
    crate::support::ids(&double.table("app.t").unwrap())
}

/// The rows that the tests begin with, and those of the batch.
fn all() -> Vec<u64> {
    (0..40).chain(1000..1003).collect()
}

fn tables(double: &BytehouseDouble) -> Vec<String> {
    let names = double.execute("SHOW TABLES FROM app").unwrap();
    names.column(0).as_string::<i32>().iter().flatten().map(str::to_owned).collect()
}

fn store() -> Arc<MemoryCheckpointStore> {
    Arc::new(MemoryCheckpointStore::new())
}

fn open_source() -> Vec<(&'static str, &'static str)> {
    vec![("job.writer.cnch_engine", "false")]
}

#[tokio::test]
async fn every_kind_of_table_gets_all_rows_at_the_end() {
    for (engine, more) in [
        (PLAIN, vec![]),
        (UNIQUE, vec![("job.writer.write_mode", "UPSERT")]),
        (UNIQUE, vec![]),
        (OPEN, open_source()),
        ("ENGINE = CnchMergeTree ORDER BY id", vec![]),
        ("ENGINE = CnchMergeTree PARTITION BY (p, toString(id % 2)) ORDER BY id", vec![]),
    ] {
        let double = double().await;
        create(&double, engine);
        // Nothing is to be seen while the first partition moves.
        let store = store();
        let report = run(sink(&double, &more), source(), &store).await.unwrap();
        assert_eq!((report.rows_read, report.rows_written), (40, 40));
        assert_eq!(ids(&double), all(), "{engine}");
        assert_eq!(tables(&double), ["t"], "no temporary table is left: {engine}");
        let log = double.log();
        let inserts: Vec<_> = log.iter().filter(|entry| entry.sql.starts_with("INSERT")).collect();
        assert!(!inserts.is_empty());
        for entry in inserts {
            assert!(entry.sql.contains("`__t_temporary_for_nightly-load"), "{}", entry.sql);
        }
        // The end is in the checkpoint: the job run again reads nothing and changes nothing.
        run(sink(&double, &more), source(), &store).await.unwrap();
        assert_eq!(ids(&double), all(), "{engine}");
    }
}

#[tokio::test]
async fn partitions_are_replaced_by_option() {
    for (engine, mut more) in [(PLAIN, vec![]), (OPEN, open_source())] {
        let double = double().await;
        create(&double, engine);
        more.push(("job.writer.atomic_write_replace_partitions", "true"));
        run(sink(&double, &more), source(), &store()).await.unwrap();
        // Partitions 0 to 3 are the batch's; 9 is none of its.
        assert_eq!(ids(&double), (0..40).chain([1002]).collect::<Vec<_>>(), "{engine}");
        assert_eq!(tables(&double), ["t"]);
    }
    let double = double().await;
    create(&double, UNIQUE);
    let error = sink(&double, &[("job.writer.atomic_write_replace_partitions", "true")])
        .check(DeliveryGuarantee::AtLeastOnce)
        .await
        .unwrap_err();
    assert!(error.message().contains("UNIQUE KEY"), "{error}");
}

#[tokio::test]
async fn a_failed_job_leaves_the_target_as_it_was() {
    let double = double().await;
    create(&double, PLAIN);
    let store = store();
    double.inject(Fault::fail_insert(27, "cannot parse").nth(2));
    let error = run(sink(&double, &[]), source(), &store).await.unwrap_err();
    assert!(error.to_string().contains("cannot parse"), "{error}");
    assert_eq!((ids(&double), tables(&double)), (vec![1000, 1001, 1002], vec!["t".to_owned()]));
    assert!(store.latest().unwrap().pending().is_empty());
    // Stopped in the middle: the same.
    let stop = CancellationToken::new();
    stop.cancel();
    let stopped = Pipeline::new(source(), sink(&double, &[]))
        .name("nightly load")
        .checkpoints(Arc::clone(&store), Duration::from_millis(1))
        .run(stop)
        .await
        .unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::Closed);
    assert_eq!(ids(&double).len(), 3);
    // The next run writes all of it.
    run(sink(&double, &[]), source(), &store).await.unwrap();
    assert_eq!(ids(&double), all());
}

/// The connection is cut at every step of the commit, before the step is done and after it; the process ends
/// there, and the next one goes on.
#[tokio::test]
async fn a_commit_goes_on_wherever_it_broke_off() {
    let replace = ("job.writer.atomic_write_replace_partitions", "true");
    for (engine, more, steps) in [
        (PLAIN, vec![], vec!["RENAME TABLE", "ATTACH PARTITION"]),
        (UNIQUE, vec![], vec!["RENAME TABLE", "DETACH PARTITION", "ATTACH DETACHED"]),
        (OPEN, open_source(), vec!["RENAME TABLE", "MOVE PARTITION"]),
        (OPEN, [open_source(), vec![replace]].concat(), vec!["REPLACE PARTITION", "DROP PARTITION"]),
    ] {
        for step in steps {
            for point in [Point::Statement, Point::Done] {
                for nth in [1, 3] {
                    let double = double().await;
                    create(&double, engine);
                    let store = store();
                    double.inject(Fault::cut(point).nth(nth).matching(step));
                    let once = [&more[..], &[("job.writer.atomic_write_retry_limits", "0")]].concat();
                    let first = run(sink(&double, &once), source(), &store).await;
                    let named = format!("{engine}, {step} {nth}, {point:?}");
                    if step == "RENAME TABLE" && nth == 3 {
                        first.unwrap();
                        continue;
                    }
                    let error = first.unwrap_err();
                    assert!(error.to_string().contains("retries exhausted"), "{named}: {error}");
                    assert_eq!(store.load().await.unwrap().unwrap().pending().len(), 1, "{named}");
                    let report = run(sink(&double, &more), source(), &store).await.unwrap();
                    assert_eq!(report.rows_read, 0, "{named}: the rows are written already");
                    let wanted =
                        if more.contains(&replace) { (0..40).chain([1002]).collect() } else { all() };
                    assert_eq!(ids(&double), wanted, "{named}");
                    assert_eq!(tables(&double), ["t"], "{named}");
                }
            }
        }
    }
}

#[tokio::test]
async fn passing_errors_of_the_commit_are_retried_and_others_are_not() {
    let double = double().await;
    create(&double, PLAIN);
    double.inject(Fault::fail_statement(8070, "cannot get table lock").times(5).matching("ATTACH PARTITION"));
    double.inject(Fault::cut(Point::Done).times(2).matching("ATTACH PARTITION"));
    run(sink(&double, &[]), source(), &store()).await.unwrap();
    assert_eq!((ids(&double), double.faults_waiting()), (all(), 0));

    let store = store();
    double.inject(Fault::fail_statement(497, "not enough privileges").matching("ATTACH PARTITION"));
    let error = run(sink(&double, &[]), source(), &store).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert_eq!(double.faults_waiting(), 0, "one try only");
    assert_eq!(ids(&double), all());
}

#[tokio::test]
async fn leftovers_of_dead_jobs_are_dropped_and_others_stay() {
    let double = double().await;
    create(&double, PLAIN);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let job = "nightly-load-";
    let own = tables_of_a_broken_run(&double).await;
    assert!(own.starts_with("__t_temporary_for_nightly-load-"), "{own} {job}");
    for name in [
        "__t_temporary_for_other-1000-a__".to_owned(),
        format!("__t_temporary_for_running-{now}-a__"),
        "__t_committing_for_other-1000-a__".to_owned(),
        "__t2_temporary_for_nightly-1000-a__".to_owned(),
        "__t_temporary_for_me__".to_owned(),
    ] {
        double.execute(&format!("CREATE TABLE app.`{name}` AS app.t")).unwrap();
    }
    run(sink(&double, &[]), source(), &store()).await.unwrap();
    assert_eq!(ids(&double), all());
    let left = tables(&double);
    assert_eq!(
        left,
        [
            "__t2_temporary_for_nightly-1000-a__",
            "__t_committing_for_other-1000-a__",
            "__t_temporary_for_me__",
            &format!("__t_temporary_for_running-{now}-a__"),
            "t",
        ]
    );
}

/// Ends a run before it can take its temporary table away, as a kill does; returns the table's name.
async fn tables_of_a_broken_run(double: &BytehouseDouble) -> String {
    double.inject(Fault::fail_insert(27, "cannot parse").nth(2));
    double.inject(Fault::fail_statement(497, "may not drop").matching("DROP TABLE"));
    run(sink(double, &[]), source(), &store()).await.unwrap_err();
    assert_eq!(double.faults_waiting(), 0);
    tables(double).into_iter().find(|name| name.starts_with("__t_temporary")).unwrap()
}

/// A writer of a run that its test drives itself, with some rows flushed.
async fn begun(sink: &BytehouseCdwSink, ids: std::ops::Range<u64>) -> BytehouseCdwWriter {
    sink.atomic_batch().unwrap().begin("nightly load").await.unwrap();
    let mut writer = sink.open(WriterContext::default()).await.unwrap();
    writer.write(&table(), ChangeBatch::append(rows(ids))).await.unwrap();
    writer.flush(None).await.unwrap();
    writer
}

/// They begin in the same second, and neither may take the other's rows for its own.
#[tokio::test]
async fn of_two_runs_of_one_job_the_later_one_wins() {
    for (engine, more) in [(PLAIN, vec![]), (UNIQUE, vec![]), (OPEN, open_source())] {
        let double = double().await;
        create(&double, engine);
        let (first, second) = (sink(&double, &more), sink(&double, &more));
        let mut early = begun(&first, 0..20).await;
        let mut late = begun(&second, 0..20).await;

        early.write(&table(), ChangeBatch::append(rows(20..40))).await.unwrap();
        let error = early.flush(None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert!(error.to_string().contains("a later run of the same job"), "{error}");
        // A chain that comes late does not make a new table, which would lack what was flushed before.
        let mut other = first.open(WriterContext::default()).await.unwrap();
        other.write(&table(), ChangeBatch::append(rows(30..40))).await.unwrap();
        let error = other.flush(None).await.unwrap_err();
        assert!(error.to_string().contains("a later run of the same job"), "{error}");
        let batch = first.atomic_batch().unwrap();
        let name = batch.prepare().await.unwrap().unwrap();
        assert_eq!(batch.commit(&name).await.unwrap_err().kind(), ErrorKind::Conflict);
        batch.abort().await.unwrap();
        assert_eq!(ids(&double), [1000, 1001, 1002], "{engine}");

        late.write(&table(), ChangeBatch::append(rows(20..40))).await.unwrap();
        late.flush(None).await.unwrap();
        let batch = second.atomic_batch().unwrap();
        let name = batch.prepare().await.unwrap().unwrap();
        batch.commit(&name).await.unwrap();
        batch.finish(&name).await.unwrap();
        assert_eq!(ids(&double), all(), "{engine}");
        assert_eq!(tables(&double), ["t"], "{engine}");
    }
}

#[tokio::test]
async fn a_commit_without_its_checkpoint_or_its_table_is_a_conflict() {
    let double = double().await;
    create(&double, PLAIN);
    let broken = store();
    double.inject(Fault::cut(Point::Statement).nth(3).matching("ATTACH PARTITION"));
    let once = [("job.writer.atomic_write_retry_limits", "0")];
    run(sink(&double, &once), source(), &broken).await.unwrap_err();
    // The checkpoint is gone: nobody knows whether the batch is to be ended.
    let error = run(sink(&double, &[]), source(), &store()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.message().contains("__t_committing_for_nightly-load"), "{error}");
    // The table is gone.
    let name = tables(&double).into_iter().find(|name| name.starts_with("__t_committing")).unwrap();
    double.execute(&format!("DROP TABLE app.`{name}`")).unwrap();
    let error = run(sink(&double, &[]), source(), &broken).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.message().contains("rows of the batch may be missing"), "{error}");
}

#[tokio::test]
async fn what_cannot_be_atomic_is_refused() {
    let double = double().await;
    create(&double, UNIQUE);
    // Deletes would meet the temporary table only.
    let source = source();
    let kinds = RowKinds::Uniform(RowKind::Delete);
    source.push("a", table(), ChangeBatch::try_new(rows(0..1), kinds).unwrap());
    let error =
        run(sink(&double, &[("job.writer.write_mode", "UPSERT")]), source, &store()).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unsupported && error.message().contains("delete"), "{error}");
    // A source without an end, and a pipeline that forgets.
    let endless = Pipeline::new(MemorySource::unbounded(), sink(&double, &[]))
        .checkpoints(store(), Duration::from_secs(1))
        .check()
        .await
        .unwrap_err();
    assert!(endless.message().contains("source that ends"), "{endless}");
    let forgetful = Pipeline::new(MemorySource::bounded(), sink(&double, &[])).check().await.unwrap_err();
    assert!(forgetful.message().contains("checkpoint store"), "{forgetful}");
    // In streaming the option has no effect.
    let streaming = sink(&double, &[("job.common.job_type", "STREAMING")]);
    Pipeline::new(MemorySource::unbounded(), streaming).check().await.unwrap();

    double.execute("DROP TABLE app.t").unwrap();
    double.execute("CREATE TABLE app.t (id UInt64, p UInt64) ENGINE = Memory").unwrap();
    let error = sink(&double, &open_source()).check(DeliveryGuarantee::AtLeastOnce).await.unwrap_err();
    assert!(error.message().contains("Memory"), "{error}");
}
