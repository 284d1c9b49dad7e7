//! Schema changes through a pipeline: order, policies, and all chains drained.

use std::{sync::Arc, time::Duration};

use arrow::datatypes::{DataType, Field};
use connector_core::{
    CancellationToken, ChangeBatch, ErrorKind, MemoryCheckpointStore, Pipeline, SchemaChange,
    SchemaChangeKind, Split, TableId, arrow,
    batch::BatchPolicy,
    memory::{MemoryOffset, MemorySink, MemorySource, MemorySplit},
    pipeline::{SchemaChangeBehavior, SchemaChangePolicy},
    schema::ColumnPosition,
    testkit::orders,
};

fn table() -> TableId {
    TableId::new("app", "orders")
}

fn add_column() -> SchemaChange {
    let column = Arc::new(Field::new("note", DataType::Utf8, false));
    SchemaChange::AddColumn { table: table(), column, position: ColumnPosition::First }
}

fn drop_column() -> SchemaChange {
    SchemaChange::DropColumn { table: table(), column: "customer".into() }
}

async fn run(
    policy: impl Into<SchemaChangePolicy>,
    changes: &[SchemaChange],
) -> (MemorySink, connector_core::Result<u64>) {
    let (source, sink) = (MemorySource::bounded(), MemorySink::new());
    source.push("s", table(), ChangeBatch::append(orders(0..10)));
    for (i, change) in changes.iter().enumerate() {
        source.push_schema("s", change.clone());
        let start = 10 * (i as u64 + 1);
        source.push("s", table(), ChangeBatch::append(orders(start..start + 10)));
    }
    let report =
        Pipeline::new(source, sink.clone()).schema_changes(policy).run(CancellationToken::new()).await;
    (sink, report.map(|report| report.rows_written))
}

fn kinds(sink: &MemorySink) -> Vec<SchemaChangeKind> {
    sink.changes().iter().map(SchemaChange::kind).collect()
}

#[tokio::test]
async fn each_policy_does_what_its_name_says() {
    use SchemaChangeKind::{AddColumn, AlterColumnType, CreateTable, DropColumn};
    let changes = [add_column(), drop_column(), SchemaChange::TruncateTable { table: table() }];

    let (sink, rows) = run(SchemaChangeBehavior::Evolve, &changes).await;
    assert_eq!(
        (kinds(&sink), rows.unwrap()),
        (vec![CreateTable, AddColumn, DropColumn, SchemaChangeKind::TruncateTable], 40)
    );

    let (sink, rows) = run(SchemaChangeBehavior::Ignore, &changes).await;
    assert_eq!((kinds(&sink), rows.unwrap()), (vec![CreateTable], 40));

    let (sink, rows) = run(SchemaChangeBehavior::Lenient, &changes).await;
    assert_eq!((kinds(&sink), rows.unwrap()), (vec![CreateTable, AddColumn, AlterColumnType], 40));
    let SchemaChange::AddColumn { column, position, .. } = &sink.changes()[1] else {
        panic!("an added column")
    };
    assert!(column.is_nullable() && *position == ColumnPosition::Last);

    let (sink, error) = run(SchemaChangeBehavior::Exception, &changes).await;
    assert_eq!((kinds(&sink), error.unwrap_err().kind()), (vec![CreateTable], ErrorKind::Unsupported));

    let policy = SchemaChangePolicy { exclude: [DropColumn].into(), ..SchemaChangePolicy::default() };
    let (sink, _) = run(policy, &changes).await;
    assert_eq!(kinds(&sink), [CreateTable, AddColumn, SchemaChangeKind::TruncateTable]);

    let policy = SchemaChangePolicy { include: [DropColumn].into(), ..SchemaChangePolicy::default() };
    let (sink, _) = run(policy, &changes).await;
    assert_eq!(kinds(&sink), [CreateTable, DropColumn]);
}

#[tokio::test]
async fn a_lenient_rename_adds_the_new_column_and_keeps_the_old_one() {
    let rename = SchemaChange::RenameColumn { table: table(), from: "customer".into(), to: "buyer".into() };
    let (sink, _) = run(SchemaChangeBehavior::Lenient, &[rename]).await;
    let changes = sink.changes();
    let SchemaChange::AddColumn { column, .. } = &changes[1] else { panic!("an added column") };
    assert_eq!((column.name().as_str(), column.data_type()), ("buyer", &DataType::Utf8));
    let SchemaChange::AlterColumnType { column, nullable, .. } = &changes[2] else {
        panic!("an altered column")
    };
    assert_eq!((column.as_str(), *nullable), ("customer", true));
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_all_chains_are_flushed_before_a_change_runs() {
    // The second chain holds rows that nothing but the drain would flush within the hour.
    let hour = Duration::from_secs(3600);
    let sink =
        MemorySink::with_policy(BatchPolicy { max_rows: 1 << 30, max_bytes: usize::MAX, max_interval: hour });
    let source = MemorySource::unbounded();
    source.push("b", table(), ChangeBatch::append(orders(100..150)));
    source.push("a", table(), ChangeBatch::append(orders(0..10)));
    let stop = CancellationToken::new();
    let run =
        tokio::task::spawn(Pipeline::new(source.clone(), sink.clone()).parallelism(2).run(stop.clone()));
    // Time for both chains to write what is there; nothing tells from outside that they have.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(sink.rows(&table()).len(), 0);
    source.push_schema("a", add_column());
    while !kinds(&sink).contains(&SchemaChangeKind::AddColumn) {
        assert!(!run.is_finished());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let rows: usize = sink.rows(&table()).iter().map(ChangeBatch::num_rows).sum();
    assert_eq!(rows, 60, "every row read before the change is durable when it is applied");
    stop.cancel();
    run.await.unwrap().unwrap();
}

/// The second chain writes after the change, then another change drains it: what it heard of is not done twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_another_chain_made_is_not_made_again() {
    let (source, sink) = (MemorySource::unbounded(), MemorySink::new());
    source.push("a", table(), ChangeBatch::append(orders(0..10)));
    source.push("b", table(), ChangeBatch::append(orders(100..110)));
    let store = Arc::new(MemoryCheckpointStore::new());
    let stop = CancellationToken::new();
    let pipeline = Pipeline::new(source.clone(), sink.clone())
        .parallelism(2)
        .checkpoints(Arc::clone(&store), Duration::from_secs(3600));
    let run = tokio::task::spawn(pipeline.run(stop.clone()));
    let wait_for = async |what: &dyn Fn() -> bool| {
        while !what() {
            assert!(!run.is_finished());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let rows = || sink.rows(&table()).iter().map(ChangeBatch::num_rows).sum::<usize>();
    wait_for(&|| rows() == 20).await;
    source.push_schema("a", SchemaChange::TruncateTable { table: table() });
    wait_for(&|| kinds(&sink).contains(&SchemaChangeKind::TruncateTable)).await;
    // Offsets of both chains were stored before the table changed: nothing of before comes again.
    let stored = store.latest().unwrap();
    let splits = stored.splits::<MemorySplit>("memory").unwrap();
    assert!(splits.iter().all(|split| split.offset() == Some(&MemoryOffset(1))), "{splits:?}");
    source.push("b", table(), ChangeBatch::append(orders(110..120)));
    wait_for(&|| rows() == 30).await;
    source.push_schema("b", add_column());
    wait_for(&|| kinds(&sink).contains(&SchemaChangeKind::AddColumn)).await;
    stop.cancel();
    run.await.unwrap().unwrap();
    let truncations =
        kinds(&sink).into_iter().filter(|kind| *kind == SchemaChangeKind::TruncateTable).count();
    assert_eq!(truncations, 1);
}
