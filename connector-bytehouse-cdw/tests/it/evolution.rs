//! Schema changes through a pipeline into the double, under every policy, and again after a crash.

use std::{sync::Arc, time::Duration};

use bytehouse_testkit::{BytehouseDouble, Fault};
use connector_core::{
    CancellationToken, ChangeBatch, Error, MemoryCheckpointStore, Pipeline, SchemaChange, TableId,
    arrow::{
        array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray},
        datatypes::{DataType, Field, Schema},
    },
    memory::MemorySource,
    pipeline::{Report, SchemaChangeBehavior},
    schema::{ColumnPosition, TableSchema, metadata},
};

use crate::support::{double, upsert};

const INT: DataType = DataType::Int64;

fn table() -> TableId {
    TableId::new("app", "t")
}

fn schema(columns: &[(&str, DataType)]) -> Arc<Schema> {
    let field = |(name, ty): &(&str, DataType)| Field::new(*name, ty.clone(), *name != "id");
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// Rows `ids` whose other columns hold the id as well.
fn rows(columns: &[(&str, DataType)], ids: std::ops::Range<i64>) -> ChangeBatch {
    let arrays = columns.iter().map(|(_, ty)| -> ArrayRef {
        match ty {
            DataType::Utf8 => Arc::new(ids.clone().map(|id| Some(id.to_string())).collect::<StringArray>()),
            _ => Arc::new(Int64Array::from_iter_values(ids.clone())),
        }
    });
    ChangeBatch::append(RecordBatch::try_new(schema(columns), arrays.collect()).unwrap())
}

fn add(name: &str, data_type: DataType) -> SchemaChange {
    let column = Arc::new(Field::new(name, data_type, true));
    SchemaChange::AddColumn { table: table(), column, position: ColumnPosition::Last }
}

fn drop(name: &str) -> SchemaChange {
    SchemaChange::DropColumn { table: table(), column: name.to_owned() }
}

fn rename(from: &str, to: &str) -> SchemaChange {
    SchemaChange::RenameColumn { table: table(), from: from.to_owned(), to: to.to_owned() }
}

fn source(columns: &[(&str, DataType)]) -> MemorySource {
    let schema = TableSchema::new(schema(columns)).with_primary_key(["id"]).unwrap();
    MemorySource::bounded().with_table(table(), schema)
}

async fn run(
    double: &BytehouseDouble,
    source: &MemorySource,
    behavior: SchemaChangeBehavior,
) -> Result<Report, Error> {
    let sink = upsert(double);
    Pipeline::new(source.clone(), sink)
        .parallelism(2)
        .schema_changes(behavior)
        .run(CancellationToken::new())
        .await
}

/// Names and types of the table's columns.
fn columns(double: &BytehouseDouble) -> Vec<(String, String)> {
    let described = double.execute("DESCRIBE TABLE app.t").unwrap();
    let text = |column: usize, row| described.column(column).as_string::<i32>().value(row).to_owned();
    (0..described.num_rows()).map(|row| (text(0, row), text(1, row))).collect()
}

fn names(double: &BytehouseDouble) -> Vec<String> {
    columns(double).into_iter().map(|(name, _)| name).collect()
}

/// A column of the rows in the order of their ids; nulls and absent columns as `-`.
fn values(double: &BytehouseDouble, column: &str) -> Vec<String> {
    let rows = double.execute(&format!("SELECT toString({column}) FROM app.t ORDER BY id")).unwrap();
    let column = rows.column(0).as_string::<i32>();
    column.iter().map(|value| value.unwrap_or("-").to_owned()).collect()
}

/// Four shapes one after the other: a column is added, another widened, renamed, and dropped.
fn story() -> MemorySource {
    let source = source(&[("id", INT), ("a", DataType::Int32), ("b", DataType::Utf8)]);
    let old = [("id", INT), ("a", INT), ("b", DataType::Utf8)];
    let added = [("id", INT), ("a", INT), ("b", DataType::Utf8), ("c", INT)];
    let renamed = [("id", INT), ("a2", INT), ("b", DataType::Utf8), ("c", INT)];
    let dropped = [("id", INT), ("a2", INT), ("c", INT)];
    source.push("s", table(), rows(&old, 0..3));
    source.push_schema("s", add("c", INT));
    source.push("s", table(), rows(&added, 3..6));
    source.push_schema(
        "s",
        SchemaChange::AlterColumnType { table: table(), column: "a".into(), data_type: INT, nullable: true },
    );
    source.push("s", table(), rows(&added, 6..9));
    source.push_schema("s", rename("a", "a2"));
    source.push("s", table(), rows(&renamed, 9..12));
    source.push_schema("s", drop("b"));
    source.push("s", table(), rows(&dropped, 12..15));
    source
}

#[tokio::test]
async fn evolve_changes_the_table_and_keeps_every_row() {
    let double = double().await;
    run(&double, &story(), SchemaChangeBehavior::Evolve).await.unwrap();
    let wanted = [("id", "Int64"), ("a2", "Nullable(Int64)"), ("c", "Nullable(Int64)")];
    assert_eq!(columns(&double), wanted.map(|(n, t)| (n.to_owned(), t.to_owned())));
    assert_eq!(values(&double, "a2"), (0..15).map(|i| i.to_string()).collect::<Vec<_>>());
    assert_eq!(values(&double, "c")[..4], ["-", "-", "-", "3"]);
}

#[tokio::test]
async fn the_other_policies() {
    // Nothing changes; what the table has no column for is left out.
    let quiet = double().await;
    run(&quiet, &story(), SchemaChangeBehavior::Ignore).await.unwrap();
    assert_eq!(names(&quiet), ["id", "a", "b"]);
    assert_eq!(values(&quiet, "a").len(), 15);
    assert_eq!(values(&quiet, "a")[8..10], ["8", "-"], "the renamed column has no other home");
    // Also after a restart, when the source announces what it has by now.
    let restarted = source(&[("id", INT), ("a2", INT), ("c", INT)]);
    restarted.push("s", table(), rows(&[("id", INT), ("a2", INT), ("c", INT)], 15..16));
    run(&quiet, &restarted, SchemaChangeBehavior::Ignore).await.unwrap();
    assert_eq!(values(&quiet, "id").len(), 16);

    // No value is lost: old columns stay, new ones come beside them.
    let kept = double().await;
    run(&kept, &story(), SchemaChangeBehavior::Lenient).await.unwrap();
    assert_eq!(names(&kept), ["id", "a", "b", "c", "a2"]);
    assert_eq!(values(&kept, "a")[7..10], ["7", "8", "-"]);
    assert_eq!(values(&kept, "a2")[7..10], ["-", "-", "9"]);
    assert_eq!(values(&kept, "b")[11..13], ["11", "-"]);

    // What cannot be done is left out with a warning.
    let tried = double().await;
    tried.inject(Fault::fail_statement(48, "not supported").times(2).matching("ADD COLUMN"));
    run(&tried, &story(), SchemaChangeBehavior::TryEvolve).await.unwrap();
    assert_eq!(names(&tried), ["id", "a2"]);
    assert_eq!(values(&tried, "a2").len(), 15);

    let failed = double().await;
    failed.inject(Fault::fail_statement(48, "not supported").matching("ADD COLUMN"));
    let error = run(&failed, &story(), SchemaChangeBehavior::Evolve).await.unwrap_err();
    assert!(error.to_string().contains("app.t") && error.to_string().contains("not supported"), "{error}");
    let refused = double().await;
    let error = run(&refused, &story(), SchemaChangeBehavior::Exception).await.unwrap_err();
    assert!(error.to_string().contains("add.column"), "{error}");
}

#[tokio::test]
async fn the_same_change_again_does_nothing_and_another_one_follows_the_policy() {
    let double = double().await;
    let base = [("id", INT), ("a", INT)];
    let twice = source(&base);
    twice.push("s", table(), rows(&base, 0..1));
    for change in [
        add("c", DataType::Int32),
        add("c", DataType::Int32),
        drop("gone"),
        rename("a", "b"),
        rename("a", "b"),
    ] {
        twice.push_schema("s", change);
    }
    run(&double, &twice, SchemaChangeBehavior::Evolve).await.unwrap();
    assert_eq!(names(&double), ["id", "b", "c"]);

    let conflicting = source(&[("id", INT), ("b", INT), ("c", DataType::Int32)]);
    conflicting.push("s", table(), rows(&[("id", INT), ("b", INT), ("c", INT)], 0..1));
    conflicting.push_schema("s", add("c", DataType::Utf8));
    conflicting.push("s", table(), rows(&[("id", INT), ("b", INT), ("c", DataType::Utf8)], 1..3));
    let error = run(&double, &conflicting, SchemaChangeBehavior::Evolve).await.unwrap_err();
    assert!(error.to_string().contains("`c`") && error.to_string().contains("Int32"), "{error}");
    run(&double, &conflicting, SchemaChangeBehavior::Lenient).await.unwrap();
    assert_eq!(columns(&double)[2].1, "Nullable(String)", "the column takes the values of both types");
    assert_eq!(values(&double, "c"), ["0", "1", "2"]);
}

#[tokio::test]
async fn a_crash_between_the_change_and_its_checkpoint_converges() {
    let double = double().await;
    let store = Arc::new(MemoryCheckpointStore::new());
    let source = story();
    // Every ALTER is done, and its answer lost, once; the run fails, and the next begins at the last checkpoint.
    for action in ["ADD COLUMN", "MODIFY COLUMN", "RENAME COLUMN", "DROP COLUMN"] {
        double.inject(Fault::cut(bytehouse_testkit::Point::Done).matching(action));
    }
    let mut failures = 0;
    for _ in 0..10 {
        let sink = crate::support::builder(&double).max_retries(0).build().unwrap();
        let run = Pipeline::new(source.clone(), sink)
            .checkpoints(Arc::clone(&store), Duration::from_millis(1))
            .run(CancellationToken::new())
            .await;
        match run {
            Ok(_) => break,
            Err(_) => failures += 1,
        }
    }
    assert_eq!((failures, double.faults_waiting()), (4, 0));
    assert_eq!(names(&double), ["id", "a2", "c"]);
    assert_eq!(values(&double, "a2"), (0..15).map(|i| i.to_string()).collect::<Vec<_>>());
}

/// One chain truncates; the other has written since. Hearing of it later must not truncate again.
#[tokio::test]
async fn other_chains_hear_of_a_change_and_do_not_repeat_it() {
    let double = double().await;
    let base = [("id", INT), ("a", INT)];
    let source = source(&base);
    source.push("one", table(), rows(&base, 0..5));
    source.push_schema("one", SchemaChange::TruncateTable { table: table() });
    source.push_schema("one", add("c", INT));
    let wide = [("id", INT), ("a", INT), ("c", INT)];
    source.push("one", table(), rows(&wide, 5..10));
    run(&double, &source, SchemaChangeBehavior::Evolve).await.unwrap();
    assert_eq!(values(&double, "id"), ["5", "6", "7", "8", "9"]);
    let sent = double.log();
    let count = |word: &str| sent.iter().filter(|entry| entry.sql.contains(word)).count();
    assert_eq!((count("TRUNCATE"), count("ADD COLUMN")), (1, 1));
}

#[tokio::test]
async fn defaults_survive_a_wider_type_and_show_in_old_rows() {
    let double = double().await;
    let source = source(&[("id", INT)]);
    source.push("s", table(), rows(&[("id", INT)], 0..2));
    for (name, ty, default) in [
        ("c", DataType::Utf8, "'yiii'"),
        ("e", DataType::Utf8, "''"),
        ("q", DataType::Utf8, "'it''s'"),
        ("n", DataType::Int32, "5"),
        (
            "z",
            DataType::Timestamp(connector_core::arrow::datatypes::TimeUnit::Second, None),
            "'0000-00-00 00:00:00'",
        ),
    ] {
        let column = Field::new(name, ty, false)
            .with_metadata([(metadata::DEFAULT.to_owned(), default.to_owned())].into());
        let position = ColumnPosition::Last;
        source
            .push_schema("s", SchemaChange::AddColumn { table: table(), column: Arc::new(column), position });
    }
    source.push_schema(
        "s",
        SchemaChange::AlterColumnType { table: table(), column: "n".into(), data_type: INT, nullable: false },
    );
    run(&double, &source, SchemaChangeBehavior::Evolve).await.unwrap();
    for (column, value) in [("c", "yiii"), ("e", ""), ("q", "it's"), ("n", "5")] {
        assert_eq!(values(&double, column), [value, value], "{column}");
    }
    assert_eq!(columns(&double)[4], ("n".to_owned(), "Int64".to_owned()));
    double.execute("INSERT INTO app.t (id) VALUES (9)").unwrap();
    assert_eq!(values(&double, "n"), ["5", "5", "5"], "the default is still there");
}

#[tokio::test]
async fn a_change_to_a_table_that_nobody_announced_names_it() {
    let double = double().await;
    let sink = upsert(&double);
    let mut writer = crate::support::writer(&sink, connector_core::DeliveryGuarantee::AtLeastOnce).await;
    let error = connector_core::SinkWriter::apply(&mut writer, &add("c", INT)).await.unwrap_err();
    assert_eq!(error.kind(), connector_core::ErrorKind::NotFound);
    assert!(error.to_string().contains("app.t") && error.message().contains("not announced"), "{error}");
}
