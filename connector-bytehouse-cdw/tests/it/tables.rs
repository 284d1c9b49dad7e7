//! Tables that are announced: created when they are not there, checked when they are.

use std::sync::Arc;

use bytehouse_testkit::{BytehouseDouble, Fault};
use connector_bytehouse_cdw::{BytehouseCdwSink, SinkModeName, options::KeylessStrategy};
use connector_core::{
    ChangeBatch, DeliveryGuarantee, Error, ErrorKind, RowKind, RowKinds, SchemaChange, Sink, SinkWriter,
    TableId,
    arrow::{
        array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray},
        datatypes::{DataType, Field, Schema, SchemaRef},
    },
    schema::{TableSchema, metadata},
    testkit::{orders, orders_schema},
};

use crate::support::{builder, create, double, ids, insert, upsert, writer};

const AT_LEAST_ONCE: DeliveryGuarantee = DeliveryGuarantee::AtLeastOnce;

fn announce(table: &TableId, columns: SchemaRef, key: &[&str]) -> SchemaChange {
    let schema = TableSchema::new(columns).with_primary_key(key.iter().copied()).unwrap();
    SchemaChange::CreateTable { table: table.clone(), schema }
}

fn orders_of(table: &TableId) -> SchemaChange {
    announce(table, orders_schema(), &["id"])
}

fn show(double: &BytehouseDouble, table: &str) -> String {
    let rows = double.execute(&format!("SHOW CREATE TABLE {table}")).unwrap();
    rows.column(0).as_string::<i32>().value(0).to_owned()
}

/// The statements that clients sent, inserts and looks at settings left out.
fn ddl(double: &BytehouseDouble) -> Vec<String> {
    let log = double.log();
    let sql = log.iter().map(|entry| entry.sql.clone());
    sql.filter(|sql| !sql.starts_with("INSERT") && !sql.contains("system.settings")).collect()
}

async fn apply(sink: &BytehouseCdwSink, change: &SchemaChange) -> Result<(), Error> {
    writer(sink, AT_LEAST_ONCE).await.apply(change).await
}

#[tokio::test]
async fn a_keyed_table_and_its_database_are_created_and_written_to() {
    let double = double().await;
    let sink = upsert(&double);
    let table = TableId::new("new base", "orders");
    let mut writer = writer(&sink, AT_LEAST_ONCE).await;
    writer.apply(&orders_of(&table)).await.unwrap();
    writer.write(&table, ChangeBatch::append(orders(0..5))).await.unwrap();
    writer
        .write(&table, ChangeBatch::try_new(orders([2]), RowKinds::Uniform(RowKind::Delete)).unwrap())
        .await
        .unwrap();
    writer.flush(None).await.unwrap();
    assert_eq!(ids(&double.table("`new base`.orders").unwrap()), [0, 1, 3, 4]);
    let create = show(&double, "`new base`.orders");
    for part in ["ENGINE = CnchMergeTree", "ORDER BY id", "UNIQUE KEY id", "`discount` Nullable(Int32)"] {
        assert!(create.contains(part), "{part} is missing: {create}");
    }
    // Announcing it again, as after a restart, changes nothing.
    writer.apply(&orders_of(&table)).await.unwrap();
    apply(&sink, &orders_of(&table)).await.unwrap();
    assert_eq!(show(&double, "`new base`.orders"), create);
}

#[tokio::test]
async fn one_round_trip_a_table() {
    let double = double().await;
    for i in 0..20 {
        create(&double, &format!("old{i}"), "ENGINE = CnchMergeTree ORDER BY id UNIQUE KEY id");
    }
    let mut writer = writer(&upsert(&double), AT_LEAST_ONCE).await;
    for i in 0..20 {
        writer.apply(&orders_of(&TableId::new("app", format!("old{i}")))).await.unwrap();
        writer.apply(&orders_of(&TableId::new("app", format!("new{i}")))).await.unwrap();
    }
    let sent = ddl(&double);
    assert_eq!(sent.iter().filter(|sql| sql.starts_with("SHOW TABLES")).count(), 1, "{sent:#?}");
    assert_eq!(sent.len(), 1 + 40, "{sent:#?}");
}

#[tokio::test]
async fn tables_without_a_key() {
    let double = double().await;
    let table = TableId::new("app", "keyless");
    let rows = || {
        let kinds = [RowKind::Insert, RowKind::Insert, RowKind::Delete];
        ChangeBatch::try_new(orders([1, 1, 1]), RowKinds::from_kinds(&kinds)).unwrap()
    };
    // The names of DataSail: SKIP drops the rows.
    let skip = builder(&double).keyless(KeylessStrategy::Skip).build().unwrap();
    let mut skipping = writer(&skip, AT_LEAST_ONCE).await;
    skipping.apply(&announce(&table, orders_schema(), &[])).await.unwrap();
    skipping.write(&table, rows()).await.unwrap();
    assert_eq!(skipping.flush(None).await.unwrap().rows, 0);
    assert_eq!(double.table("app.keyless").unwrap_err().code(), 60, "not created");
    // CREATE_AS_APPEND, the rule of Flink CDC's pipeline, appends inserts and drops the rest; also after a restart.
    let append = upsert(&double);
    for round in 1..=2 {
        append.check(AT_LEAST_ONCE).await.unwrap();
        let mut appending = writer(&append, AT_LEAST_ONCE).await;
        appending.apply(&announce(&table, orders_schema(), &[])).await.unwrap();
        appending.write(&table, rows()).await.unwrap();
        appending.flush(None).await.unwrap();
        assert_eq!(ids(&double.table("app.keyless").unwrap()).len(), round * 2);
    }
    assert!(!show(&double, "app.keyless").contains("UNIQUE"));
    // A source with a key meets a table without: refused, and so are rows that nobody announced.
    let error = apply(&append, &orders_of(&table)).await.unwrap_err();
    assert!(error.message().contains("UNIQUE KEY"), "{error}");
    let error = writer(&append, AT_LEAST_ONCE).await.write(&table, rows()).await.unwrap_err();
    assert!(error.message().contains("UNIQUE KEY"), "{error}");
    // In mode insert a key is no matter.
    apply(&insert(&double), &announce(&table, orders_schema(), &[])).await.unwrap();
}

#[tokio::test]
async fn an_existing_table_is_checked_before_the_first_row() {
    let double = double().await;
    let unique = |rest: &str| format!("ENGINE = CnchMergeTree ORDER BY id UNIQUE KEY {rest}");
    create(&double, "other_key", &unique("(id, customer)"));
    double.execute("CREATE TABLE app.narrow (id UInt64, customer String) ENGINE = CnchMergeTree ORDER BY id UNIQUE KEY id").unwrap();
    double.execute("CREATE TABLE app.types (id UInt64, customer Array(String), amount Decimal(18, 4), discount Nullable(Int32)) ENGINE = CnchMergeTree ORDER BY id UNIQUE KEY id").unwrap();
    create(&double, "null", "ENGINE = Null");
    let sink = upsert(&double);
    for (name, text) in [("other_key", "(id, customer)"), ("types", "`customer`"), ("null", "UNIQUE KEY")] {
        let error = apply(&sink, &orders_of(&TableId::new("app", name))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{name}: {error}");
        assert!(error.to_string().contains(text) && error.to_string().contains(name), "{error}");
    }
    // A column that is missing may be one that a change behind the announcement takes away: its rows are refused.
    let narrow = TableId::new("app", "narrow");
    let mut writer = writer(&sink, AT_LEAST_ONCE).await;
    writer.apply(&orders_of(&narrow)).await.unwrap();
    let error = writer.write(&narrow, ChangeBatch::append(orders([1]))).await.unwrap_err();
    assert!(error.kind() == ErrorKind::SchemaMismatch && error.message().contains("`amount`"), "{error}");
    // Compacting by another key than the table's would lose rows.
    let named = builder(&double).unique_keys(["id"]).build().unwrap();
    let error = apply(&named, &orders_of(&TableId::new("app", "other_key"))).await.unwrap_err();
    assert!(error.message().contains("`unique_keys`"), "{error}");
    let named = builder(&double).unique_keys(["customer", "id"]).build().unwrap();
    apply(&named, &orders_of(&TableId::new("app", "other_key"))).await.unwrap();
}

#[tokio::test]
async fn creating_can_be_switched_off() {
    let double = double().await;
    let sink = builder(&double).create_tables(false).table("app.orders").build().unwrap();
    let table = TableId::new("app", "orders");
    let error = apply(&sink, &orders_of(&table)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("table.create.enabled"), "{error}");
    assert_eq!(sink.check(AT_LEAST_ONCE).await.unwrap_err().kind(), ErrorKind::NotFound);
    // With it on, a table that is to come is no problem at the start, but rows without an announcement are.
    let sink = builder(&double).table("app.orders").build().unwrap();
    sink.check(AT_LEAST_ONCE).await.unwrap();
    let rows = ChangeBatch::append(orders([1]));
    let error = writer(&sink, AT_LEAST_ONCE).await.write(&table, rows).await.unwrap_err();
    assert!(error.kind() == ErrorKind::NotFound && error.message().contains("announcement"), "{error}");
}

#[tokio::test]
async fn another_writer_may_be_faster_and_servers_may_refuse_comments() {
    let double = double().await;
    let mut writer = writer(&upsert(&double), AT_LEAST_ONCE).await;
    writer.apply(&orders_of(&TableId::new("app", "first"))).await.unwrap();
    create(&double, "raced", "ENGINE = CnchMergeTree ORDER BY id UNIQUE KEY id");
    writer.apply(&orders_of(&TableId::new("app", "raced"))).await.unwrap();
    create(&double, "lost", "ENGINE = CnchMergeTree ORDER BY id UNIQUE KEY customer");
    let error = writer.apply(&orders_of(&TableId::new("app", "lost"))).await.unwrap_err();
    assert!(error.message().contains("customer"), "the winner's table is checked as well: {error}");

    double
        .inject(Fault::fail_statement(62, "Syntax error: failed at COMMENT").matching("COMMENT 'of orders'"));
    double.inject(Fault::fail_statement(5023, "another DDL runs").matching("CREATE TABLE"));
    let sink = upsert(&double);
    let mut schema = TableSchema::new(orders_schema()).with_primary_key(["id"]).unwrap();
    schema.comment = Some("of orders".to_owned());
    apply(&sink, &SchemaChange::CreateTable { table: TableId::new("app", "plain"), schema }).await.unwrap();
    assert_eq!(double.faults_waiting(), 0);
    assert!(show(&double, "app.plain").contains("UNIQUE KEY id"));
}

/// Table names, columns, comments and defaults with every character that breaks SQL elsewhere.
#[tokio::test]
async fn names_comments_and_defaults_of_any_kind() {
    let double = double().await;
    let names = [
        "my-key",
        "from",
        "a.b",
        "订单",
        "back`tick",
        "quo'te",
        "back\\slash",
        "😀",
        "sel\"ect",
        "test id",
        "x; DROP",
    ];
    for name in names {
        let comment = format!("{name} it's \\ `all`; DROP TABLE x -- ");
        let described = |field: Field| {
            field.with_metadata(
                [
                    (metadata::COMMENT.to_owned(), comment.clone()),
                    (
                        metadata::DEFAULT.to_owned(),
                        format!("'{}'", comment.replace('\\', "\\\\").replace('\'', "''")),
                    ),
                ]
                .into(),
            )
        };
        let columns = Arc::new(Schema::new(vec![
            Field::new(name, DataType::Int64, true),
            described(Field::new(format!("{name}2"), DataType::Utf8, true)),
        ]));
        let mut schema = TableSchema::new(Arc::clone(&columns)).with_primary_key([name]).unwrap();
        schema.comment = Some(comment.clone());
        let table = TableId::new(format!("order {name}"), name);
        let settings = format!("storage_policy='{}'", name.replace('\\', "\\\\").replace('\'', "''"));
        let sink =
            builder(&double).mode(SinkModeName::Upsert).create_settings(settings.as_str()).build().unwrap();
        let mut writer = writer(&sink, AT_LEAST_ONCE).await;
        writer.apply(&SchemaChange::CreateTable { table: table.clone(), schema }).await.unwrap();
        let values: Vec<ArrayRef> =
            vec![Arc::new(Int64Array::from(vec![7])), Arc::new(StringArray::from(vec![comment.as_str()]))];
        let rows = RecordBatch::try_new(columns, values).unwrap();
        writer.write(&table, ChangeBatch::append(rows)).await.unwrap();
        writer.flush(None).await.unwrap();
        writer.close().await.unwrap();
        let log = double.log();
        let read = double
            .execute(&format!(
                "SELECT default_expression, comment FROM system.columns WHERE position = 2 AND database = {}",
                connector_bytehouse_common::sql::quote_literal(&table.database)
            ))
            .unwrap();
        assert_eq!(read.column(1).as_string::<i32>().value(0), comment);
        let stored = double.table(&connector_bytehouse_common::sql::quote_table(&table)).unwrap();
        assert_eq!(stored.column(1).as_string::<i32>().value(0), comment, "{:?}", log.last());
        // The default is the same text: a row that leaves the column out shows it.
        let quoted = connector_bytehouse_common::sql::quote_table(&table);
        let key = connector_bytehouse_common::sql::quote_ident(name);
        double.execute(&format!("INSERT INTO {quoted} ({key}) VALUES (8)")).unwrap();
        let stored = double.table(&quoted).unwrap();
        assert_eq!(stored.column(1).as_string::<i32>().value(1), comment);
    }
}

#[tokio::test]
async fn settings_of_the_sink_and_of_the_table() {
    let double = double().await;
    let settings = "max_staged_part_rows_per_task=150000000000,storage_policy='cnch_default_hdfs',index_granularity=1024,enable_bucket_level_unique_keys=true";
    let sink = builder(&double).create_settings(settings).build().unwrap();
    let mut schema = TableSchema::new(orders_schema()).with_primary_key(["id"]).unwrap();
    schema.options.insert("index_granularity".to_owned(), "4096".to_owned());
    apply(&sink, &SchemaChange::CreateTable { table: TableId::new("app", "t"), schema }).await.unwrap();
    let create = show(&double, "app.t");
    for part in [
        "max_staged_part_rows_per_task = 150000000000",
        "storage_policy = 'cnch_default_hdfs'",
        "index_granularity = 4096",
        "enable_bucket_level_unique_keys = 1",
    ] {
        assert!(create.contains(part), "{part} is missing: {create}");
    }
    let error = builder(&double).create_settings("a-b=1").build().unwrap_err();
    assert!(error.to_string().contains("table.create.settings"), "{error}");
}

#[tokio::test]
async fn the_table_is_looked_at_again_when_the_server_says_that_it_changed() {
    let double = double().await;
    let table = create(&double, "t", "ENGINE = CnchMergeTree ORDER BY id UNIQUE KEY id");
    let mut writer = writer(&upsert(&double), AT_LEAST_ONCE).await;
    let looks = |double: &BytehouseDouble| {
        double.log().iter().filter(|entry| entry.sql.starts_with("SHOW CREATE")).count()
    };
    for (round, (code, alter)) in [
        (122, "ALTER TABLE app.t ADD COLUMN z String FIRST"),
        (16, "ALTER TABLE app.t DROP COLUMN z"),
        (53, "ALTER TABLE app.t MODIFY COLUMN discount Nullable(Int64)"),
    ]
    .into_iter()
    .enumerate()
    {
        let first = round as u64 * 10;
        writer.write(&table, ChangeBatch::append(orders(first..first + 10))).await.unwrap();
        double.execute(alter).unwrap();
        double.inject(Fault::fail_after_blocks(1, code, "the table was altered"));
        let before = looks(&double);
        writer.flush(None).await.unwrap();
        assert_eq!(looks(&double), before + 1, "{code}");
    }
    assert_eq!(ids(&double.table("app.t").unwrap()), (0..30).collect::<Vec<u64>>());
    // Once only, and never into another column.
    writer.write(&table, ChangeBatch::append(orders(30..31))).await.unwrap();
    double.execute("ALTER TABLE app.t DROP COLUMN customer").unwrap();
    let error = writer.flush(None).await.unwrap_err();
    assert!(error.message().contains("`customer`"), "{error}");
    assert_eq!(double.table("app.t").unwrap().num_rows(), 30);
}
