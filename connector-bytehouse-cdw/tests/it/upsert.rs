//! Mode upsert: unique tables and ReplacingMergeTree end in the state of a plain model.

use bytehouse_testkit::{BytehouseDouble, DoubleOptions};
use connector_bytehouse_cdw::{BytehouseCdwSink, SinkModeName};
use connector_core::{
    ChangeBatch, DeliveryGuarantee, ErrorKind, RowKind, RowKinds, SchemaChange, Sink, SinkWriter, TableId,
    arrow::{
        array::{Array, ArrayRef, RecordBatch, StringArray, UInt64Array},
        datatypes::{DataType, Field, Schema},
    },
    schema::TableSchema,
    testkit::{change_sequence, orders, orders_schema},
};

use crate::support::{builder, create, double, ids, upsert, writer};

const AT_LEAST_ONCE: DeliveryGuarantee = DeliveryGuarantee::AtLeastOnce;

/// A sink for an open-source ClickHouse.
fn open_source(double: &BytehouseDouble, mode: SinkModeName) -> BytehouseCdwSink {
    builder(double)
        .mode(mode)
        .table("app.r")
        .cnch_engine(false)
        .connection_properties([("user", "bytehouse")])
        .build()
        .unwrap()
}

/// Whoever finds out with the first delete finds out after days.
#[tokio::test]
async fn modes_that_delete_want_a_table_that_can_before_the_first_row() {
    let double = double().await;
    create(&double, "r", "ENGINE = MergeTree ORDER BY id");
    for (mode, refused) in [
        (SinkModeName::Upsert, true),
        (SinkModeName::UpsertAll, true),
        (SinkModeName::UpsertAllNoDelete, true),
        (SinkModeName::DeleteOnly, true),
        (SinkModeName::UpsertNoDelete, false),
        (SinkModeName::UpsertWithDeleteToNull, false),
        (SinkModeName::Insert, false),
    ] {
        double.execute("DROP TABLE app.r").unwrap();
        double
            .execute("CREATE TABLE app.r (id UInt64, v UInt64) ENGINE = ReplacingMergeTree(v) ORDER BY id")
            .unwrap();
        let outcome = open_source(&double, mode).check(AT_LEAST_ONCE).await;
        if !refused {
            outcome.unwrap();
            continue;
        }
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
        assert!(error.message().contains("ReplacingMergeTree(version, is_deleted)"), "{error}");
        assert_eq!(error.message().contains("upsert-no-delete"), mode != SinkModeName::DeleteOnly, "{error}");
    }
}

/// A server before 23.2 knows no is_deleted: a table that the mode cannot be used with is not even made.
#[tokio::test]
async fn no_table_is_created_that_cannot_delete_where_the_mode_does() {
    let options =
        DoubleOptions { databases: vec!["app".into()], version: [18, 16, 1, 0], ..DoubleOptions::default() };
    let double = BytehouseDouble::start(options).await.unwrap();
    let table = TableId::new("app", "r");
    let schema = TableSchema::new(orders_schema()).with_primary_key(["id"]).unwrap();
    let change = SchemaChange::CreateTable { table: table.clone(), schema };
    let mut deletes = writer(&open_source(&double, SinkModeName::Upsert), AT_LEAST_ONCE).await;
    let error = deletes.apply(&change).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error}");
    assert!(double.table("app.r").is_err());
    let mut keeps = writer(&open_source(&double, SinkModeName::UpsertNoDelete), AT_LEAST_ONCE).await;
    keeps.apply(&change).await.unwrap();
    assert_eq!(double.table("app.r").unwrap().num_rows(), 0);
}

#[tokio::test]
async fn seeded_changes_end_in_the_state_of_a_plain_model() {
    let double = double().await;
    for (name, engine, select, cnch) in [
        (
            "u",
            "ENGINE = CnchMergeTree ORDER BY id UNIQUE KEY id",
            "SELECT id, customer, amount, discount FROM app.u ORDER BY id",
            true,
        ),
        ("r", "", "SELECT id, customer, amount, discount FROM app.r FINAL ORDER BY id", false),
    ] {
        if cnch {
            create(&double, name, engine);
        } else {
            double
                .execute(&format!(
                    "CREATE TABLE app.r ({}, v UInt64, gone UInt8) ENGINE = ReplacingMergeTree(v, gone) ORDER BY id",
                    crate::support::COLUMNS
                ))
                .unwrap();
        }
        let sink = if cnch { upsert(&double) } else { open_source(&double, SinkModeName::Upsert) };
        let table = connector_core::TableId::new("app", name);
        for seed in 0..20 {
            double.execute(&format!("TRUNCATE TABLE app.{name}")).unwrap();
            let (batches, wanted) = change_sequence(seed, 25, 200, 13);
            let mut writer = writer(&sink, AT_LEAST_ONCE).await;
            for (i, batch) in batches.into_iter().enumerate() {
                writer.write(&table, batch).await.unwrap();
                if i % 3 == usize::try_from(seed % 3).unwrap() {
                    writer.flush(None).await.unwrap();
                }
            }
            writer.flush(None).await.unwrap();
            writer.close().await.unwrap();
            let state = double.execute(select).unwrap();
            assert_eq!(state.num_rows(), wanted.num_rows(), "{name}, seed {seed}");
            for (column, expected) in state.columns().iter().zip(wanted.columns()) {
                let column = connector_core::arrow::compute::cast(column, expected.data_type()).unwrap();
                assert_eq!(&column, expected, "{name}, seed {seed}");
            }
        }
    }
}

#[tokio::test]
async fn a_delete_needs_its_key_only() {
    let double = double().await;
    let table = create(&double, "t", "ENGINE = CnchMergeTree ORDER BY id UNIQUE KEY id");
    let mut writer = writer(&upsert(&double), AT_LEAST_ONCE).await;
    writer.write(&table, ChangeBatch::append(orders(0..3))).await.unwrap();
    writer.flush(None).await.unwrap();
    // What a change log without before images gives: the key, and nulls where columns are not nullable.
    let fields =
        vec![Field::new("id", DataType::UInt64, false), Field::new("customer", DataType::Utf8, true)];
    let columns: Vec<ArrayRef> =
        vec![std::sync::Arc::new(UInt64Array::from(vec![1])), std::sync::Arc::new(StringArray::new_null(1))];
    let rows = RecordBatch::try_new(std::sync::Arc::new(Schema::new(fields)), columns).unwrap();
    writer
        .write(&table, ChangeBatch::try_new(rows, RowKinds::Uniform(RowKind::Delete)).unwrap())
        .await
        .unwrap();
    writer.flush(None).await.unwrap();
    assert_eq!(ids(&double.table("app.t").unwrap()), [0, 2]);
}

#[tokio::test]
async fn tables_that_cannot_upsert_are_refused_at_the_start() {
    let double = double().await;
    create(&double, "keyless", "ENGINE = CnchMergeTree ORDER BY id");
    let sink = builder(&double)
        .mode(SinkModeName::Upsert)
        .keyless(connector_bytehouse_cdw::options::KeylessStrategy::Skip)
        .table("app.keyless")
        .build()
        .unwrap();
    let error = sink.check(AT_LEAST_ONCE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
    assert!(error.message().contains("UNIQUE KEY"), "{error}");

    create(&double, "keyed", "ENGINE = CnchMergeTree ORDER BY id UNIQUE KEY id");
    let sink = builder(&double)
        .mode(SinkModeName::Upsert)
        .table("app.keyed")
        .unique_keys(["nothing"])
        .build()
        .unwrap();
    let error = sink.check(AT_LEAST_ONCE).await.unwrap_err();
    assert!(error.message().contains("`nothing`"), "{error}");
    let sink =
        builder(&double).mode(SinkModeName::Upsert).table("app.keyed").unique_keys(["id"]).build().unwrap();
    sink.check(DeliveryGuarantee::ExactlyOnce).await.unwrap();
}
