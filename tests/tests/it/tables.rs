//! Tables made and changed by the sink, on real servers: what it says is SQL that they understand.

use std::sync::Arc;

use connector_bytehouse_cdw::{BytehouseCdwSink, SinkModeName};
use connector_core::{
    CancellationToken, ChangeBatch, Error, Pipeline, RowKind, RowKinds, SchemaChange, TableId,
    arrow::{
        array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray},
        datatypes::{DataType, Field, Schema},
    },
    memory::MemorySource,
    pipeline::SchemaChangeBehavior,
    schema::{ColumnPosition, TableSchema, metadata},
};
use connector_tests::{
    services::{self, Clickhouse, Version},
    unique_name,
};

fn sink(server: &Clickhouse, mode: SinkModeName, settings: &str) -> BytehouseCdwSink {
    let (host, port) = server.tcp.rsplit_once(':').unwrap();
    BytehouseCdwSink::builder()
        .clickhouse(host, port.parse().unwrap())
        .mode(mode)
        .create_settings(settings)
        .build()
        .unwrap()
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`"))
}

fn described(field: Field, default: &str, comment: &str) -> Field {
    field.with_metadata(
        [
            (metadata::DEFAULT.to_owned(), default.to_owned()),
            (metadata::COMMENT.to_owned(), comment.to_owned()),
        ]
        .into(),
    )
}

fn servers() -> Vec<Clickhouse> {
    [services::clickhouse_18(), services::clickhouse_current()].into_iter().flatten().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_any_name_are_created_and_written_to() {
    for server in servers() {
        for name in ["order", "my-key", "a.b", "订单", "tick`", "quo'te", "back\\slash", "😀", "x; DROP"]
        {
            let database = format!("{} {name}", unique_name("new"));
            let table = TableId::new(database.clone(), name);
            let comment = format!("{name} it's \\ `all`; -- ");
            let text = described(
                Field::new(format!("{name}2"), DataType::Utf8, false),
                &format!("'{}'", comment.replace('\\', "\\\\").replace('\'', "''")),
                &comment,
            );
            let columns = Arc::new(Schema::new(vec![
                Field::new(name, DataType::Int64, true),
                text,
                Field::new("yes", DataType::Boolean, true),
            ]));
            let mut schema = TableSchema::new(Arc::clone(&columns)).with_primary_key([name]).unwrap();
            schema.comment = Some(comment.clone());
            let values: Vec<ArrayRef> = vec![
                Arc::new(Int64Array::from(vec![7])),
                Arc::new(StringArray::from(vec![comment.as_str()])),
                Arc::new(BooleanArray::from(vec![true])),
            ];
            let source = MemorySource::bounded().with_table(table.clone(), schema);
            source.push("s", table, ChangeBatch::append(RecordBatch::try_new(columns, values).unwrap()));
            let sink = sink(&server, SinkModeName::Insert, "index_granularity=1024");
            Pipeline::new(source, sink).run(CancellationToken::new()).await.unwrap();

            let place = format!("{}.{}", quoted(&database), quoted(name));
            let key = quoted(name);
            server.execute(&format!("INSERT INTO {place} ({key}) VALUES (8)")).await;
            let second = quoted(&format!("{name}2"));
            let rows = server
                .query(&format!("SELECT {key}, {second}, yes FROM {place} ORDER BY {key}"))
                .await
                .unwrap();
            assert_eq!(rows[0][1], comment, "{:?}", server.version);
            assert_eq!(rows[1][1], comment, "the default of the column, {:?}", server.version);
            let create: String = server.value(&format!("SHOW CREATE TABLE {place}")).await;
            assert!(create.contains("index_granularity = 1024"), "{create}");
            server.execute(&format!("DROP DATABASE {}", quoted(&database))).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_created_table_takes_upserts_and_deletes() {
    for server in servers() {
        let table = TableId::new(unique_name("new"), "keyed");
        let columns = Arc::new(Schema::new(vec![
            Field::new("id", DataType::Int64, true),
            Field::new("v", DataType::Utf8, true),
        ]));
        let batch = |ids: Vec<i64>, text: &str, kind: RowKind| {
            let texts = vec![text; ids.len()];
            let values: Vec<ArrayRef> =
                vec![Arc::new(Int64Array::from(ids)), Arc::new(StringArray::from(texts))];
            let rows = RecordBatch::try_new(Arc::clone(&columns), values).unwrap();
            ChangeBatch::try_new(rows, RowKinds::Uniform(kind)).unwrap()
        };
        let schema = TableSchema::new(Arc::clone(&columns)).with_primary_key(["id"]).unwrap();
        let source = MemorySource::bounded().with_table(table.clone(), schema);
        source.push("s", table.clone(), batch((0..100).collect(), "old", RowKind::Insert));
        source.push("s", table.clone(), batch((50..150).collect(), "new", RowKind::UpdateAfter));
        let current = server.version == Version::Current;
        if current {
            source.push("s", table.clone(), batch((0..10).collect(), "", RowKind::Delete));
        }
        let mode = if current { SinkModeName::Upsert } else { SinkModeName::UpsertNoDelete };
        let pipeline = Pipeline::new(source, sink(&server, mode, ""));
        pipeline.run(CancellationToken::new()).await.unwrap();
        let sql = format!("SELECT count(), sum(id), countIf(v = 'new') FROM {}.keyed FINAL", table.database);
        let first = if current { 10 } else { 0 };
        let wanted = [150 - first, (first..150).sum::<i64>(), 100].map(|number| number.to_string());
        assert_eq!(server.query(&sql).await.unwrap(), [wanted], "{:?}", server.version);
        server.execute(&format!("DROP DATABASE {}", table.database)).await;
    }
}

/// Rows with an id, and other columns that hold it as well.
fn rows(columns: &[(&str, DataType)], ids: std::ops::Range<i64>) -> ChangeBatch {
    let fields: Vec<Field> =
        columns.iter().map(|(name, ty)| Field::new(*name, ty.clone(), *name != "id")).collect();
    let arrays = columns.iter().map(|(_, ty)| -> ArrayRef {
        match ty {
            DataType::Utf8 => Arc::new(ids.clone().map(|id| Some(id.to_string())).collect::<StringArray>()),
            _ => Arc::new(Int64Array::from_iter_values(ids.clone())),
        }
    });
    let schema = Arc::new(Schema::new(fields));
    ChangeBatch::append(RecordBatch::try_new(schema, arrays.collect()).unwrap())
}

/// Adds, widens, renames where the server can, and drops; each of them twice.
fn story(table: &TableId, renames: bool) -> MemorySource {
    const INT: DataType = DataType::Int64;
    let base = Arc::new(Schema::new(vec![
        Field::new("id", INT, false),
        described(Field::new("a", DataType::Int32, true), "5", "of a"),
        Field::new("b", DataType::Utf8, true),
    ]));
    let schema = TableSchema::new(base).with_primary_key(["id"]).unwrap();
    let source = MemorySource::bounded().with_table(table.clone(), schema);
    let twice = |change: SchemaChange| {
        source.push_schema("s", change.clone());
        source.push_schema("s", change);
    };
    source.push("s", table.clone(), rows(&[("id", INT), ("a", INT), ("b", DataType::Utf8)], 0..10));
    let added = described(Field::new("c", DataType::Utf8, false), "'yi''ii'", "of c");
    let position = ColumnPosition::After("id".to_owned());
    twice(SchemaChange::AddColumn { table: table.clone(), column: Arc::new(added), position });
    twice(SchemaChange::AlterColumnType {
        table: table.clone(),
        column: "a".to_owned(),
        data_type: INT,
        nullable: true,
    });
    twice(SchemaChange::DropColumn { table: table.clone(), column: "b".to_owned() });
    source.push("s", table.clone(), rows(&[("id", INT), ("a", INT), ("c", DataType::Utf8)], 10..20));
    if renames {
        twice(SchemaChange::RenameColumn { table: table.clone(), from: "a".to_owned(), to: "a2".to_owned() });
        source.push("s", table.clone(), rows(&[("id", INT), ("a2", INT), ("c", DataType::Utf8)], 20..30));
    }
    source
}

async fn evolve(server: &Clickhouse, source: MemorySource) -> Result<(), Error> {
    Pipeline::new(source, sink(server, SinkModeName::Insert, ""))
        .parallelism(2)
        .schema_changes(SchemaChangeBehavior::Evolve)
        .run(CancellationToken::new())
        .await
        .map(|_| ())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_evolves_and_keeps_its_rows() {
    for server in servers() {
        let current = server.version == Version::Current;
        let table = TableId::new(unique_name("new"), "t");
        evolve(&server, story(&table, current)).await.unwrap();
        let place = format!("{}.t", table.database);
        let a = if current { "a2" } else { "a" };
        let described = server.query(&format!("DESCRIBE TABLE {place}")).await.unwrap();
        let columns: Vec<_> = described.into_iter().map(|row| (row[0].clone(), row[1].clone())).collect();
        let wanted = [("id", "Int64"), ("c", "String"), (a, "Nullable(Int64)")];
        assert_eq!(columns, wanted.map(|(n, t)| (n.to_owned(), t.to_owned())), "{:?}", server.version);
        let count: i64 = if current { 30 } else { 20 };
        let sql =
            format!("SELECT count(), sum({a}), countIf(c = 'yi\\'ii'), sum(toInt64OrZero(c)) FROM {place}");
        let wanted = [count, (0..count).sum(), 10, (10..count).sum()].map(|number| number.to_string());
        assert_eq!(server.query(&sql).await.unwrap(), [wanted], "{:?}", server.version);
        // The default outlives the wider type.
        server.execute(&format!("INSERT INTO {place} (id) VALUES (1000)")).await;
        let default: String = server.value(&format!("SELECT {a} FROM {place} WHERE id = 1000")).await;
        assert_eq!(default, "5", "{:?}", server.version);
        if !current {
            let error = evolve(&server, story(&table, true)).await.unwrap_err();
            assert!(error.to_string().contains("`b`") || error.to_string().contains("20.4"), "{error}");
        }
        server.execute(&format!("DROP DATABASE {}", table.database)).await;
    }
}

/// Columns come and go behind the sink's back, between two batches.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_someone_else_altered_is_looked_at_again() {
    for server in servers() {
        let table = TableId::new(server.create_database().await, "t");
        let place = format!("{}.t", table.database);
        server
            .execute(&format!("CREATE TABLE {place} (id Int64, a Int64) ENGINE = MergeTree ORDER BY id"))
            .await;
        let sink = sink(&server, SinkModeName::Insert, "");
        let mut writer =
            connector_core::Sink::open(&sink, connector_core::WriterContext::default()).await.unwrap();
        let columns = [("id", DataType::Int64), ("a", DataType::Int64)];
        for (round, alter) in
            ["ADD COLUMN z String AFTER id", "MODIFY COLUMN a Int32", "DROP COLUMN z"].into_iter().enumerate()
        {
            let first = i64::try_from(round).unwrap() * 10;
            connector_core::SinkWriter::write(&mut writer, &table, rows(&columns, first..first + 10))
                .await
                .unwrap();
            connector_core::SinkWriter::flush(&mut writer, None).await.unwrap();
            server.execute(&format!("ALTER TABLE {place} {alter}")).await;
        }
        connector_core::SinkWriter::write(&mut writer, &table, rows(&columns, 30..40)).await.unwrap();
        connector_core::SinkWriter::flush(&mut writer, None).await.unwrap();
        let sums = server.query(&format!("SELECT count(), sum(id), sum(a) FROM {place}")).await.unwrap();
        assert_eq!(sums, [["40", "780", "780"]], "{:?}", server.version);
        server.execute(&format!("DROP DATABASE {}", table.database)).await;
    }
}
