//! Mode upsert: unique tables and ReplacingMergeTree end in the state of a plain model.

use connector_bytehouse_cdw::SinkModeName;
use connector_core::{
    ChangeBatch, DeliveryGuarantee, ErrorKind, RowKind, RowKinds, Sink, SinkWriter,
    arrow::{
        array::{Array, ArrayRef, RecordBatch, StringArray, UInt64Array},
        datatypes::{DataType, Field, Schema},
    },
    testkit::{change_sequence, orders},
};

use crate::support::{builder, create, double, ids, upsert, writer};

const AT_LEAST_ONCE: DeliveryGuarantee = DeliveryGuarantee::AtLeastOnce;

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
        let sink = if cnch {
            upsert(&double)
        } else {
            builder(&double)
                .mode(SinkModeName::Upsert)
                .cnch_engine(false)
                .connection_properties([("user", "bytehouse")])
                .build()
                .unwrap()
        };
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
