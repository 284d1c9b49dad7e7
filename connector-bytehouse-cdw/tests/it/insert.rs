//! Mode insert: streaming, several tables, bad rows, tokens.

use bytehouse_testkit::Fault;
use connector_bytehouse_cdw::SinkModeName;
use connector_core::{
    BadRecordPolicy, ChangeBatch, DeliveryGuarantee, ErrorKind, FlushToken, RowKind, RowKinds, SinkWriter,
    TableId, testkit::orders,
};

use crate::support::{builder, create, double, ids, insert, writer};

const AT_LEAST_ONCE: DeliveryGuarantee = DeliveryGuarantee::AtLeastOnce;

#[tokio::test]
async fn rows_of_many_batches_and_tables_arrive() {
    let double = double().await;
    let tables = [
        create(&double, "a", "ENGINE = CnchMergeTree ORDER BY id"),
        create(&double, "b", "ENGINE = CnchMergeTree ORDER BY id"),
    ];
    let mut writer = writer(&insert(&double), AT_LEAST_ONCE).await;
    for round in 0..40u64 {
        for table in &tables {
            writer.write(table, ChangeBatch::append(orders(round * 3000..(round + 1) * 3000))).await.unwrap();
        }
    }
    let flushed = writer.flush(None).await.unwrap();
    assert!(flushed.rows <= 240_000);
    writer.close().await.unwrap();
    for table in &tables {
        assert_eq!(ids(&double.table(&table.to_string()).unwrap()), (0..120_000).collect::<Vec<u64>>());
    }
}

#[tokio::test]
async fn the_warehouse_and_the_settings_go_with_every_insert() {
    let double = double().await;
    let table = create(&double, "t", "ENGINE = CnchMergeTree ORDER BY id");
    let mut writer = writer(&insert(&double), AT_LEAST_ONCE).await;
    writer.write(&table, ChangeBatch::append(orders(0..10))).await.unwrap();
    writer.flush(None).await.unwrap();
    let log = double.log();
    let sent = log.iter().rfind(|entry| entry.sql.starts_with("INSERT")).unwrap();
    let setting =
        |name: &str| sent.settings.iter().find(|(n, _)| n.as_str() == name).map(|(_, v)| v.to_string());
    assert_eq!(setting("virtual_warehouse").as_deref(), Some("vw_load"));
    assert_eq!(setting("max_partitions_per_insert_block").as_deref(), Some("10000"));
    assert!(sent.sql.contains("`id`") && sent.sql.contains("`discount`"), "columns are named: {}", sent.sql);
}

#[tokio::test]
async fn other_kinds_than_inserts_are_left_out() {
    let double = double().await;
    let table = create(&double, "t", "ENGINE = CnchMergeTree ORDER BY id");
    let mut writer = writer(&insert(&double), AT_LEAST_ONCE).await;
    let kinds = RowKinds::from_kinds(&[
        RowKind::Insert,
        RowKind::UpdateBefore,
        RowKind::UpdateAfter,
        RowKind::Delete,
    ]);
    writer.write(&table, ChangeBatch::try_new(orders(0..4), kinds).unwrap()).await.unwrap();
    assert_eq!(writer.flush(None).await.unwrap().rows, 1);
    assert_eq!(ids(&double.table("app.t").unwrap()), [0]);
}

#[tokio::test]
async fn a_flush_under_a_token_is_one_block_and_counts_once() {
    let double = double().await;
    let engine = "ENGINE = MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 100";
    let table = create(&double, "t", engine);
    let token = FlushToken::new("range-1").unwrap();
    for _ in 0..2 {
        let mut writer = writer(&insert(&double), DeliveryGuarantee::ExactlyOnce).await;
        for start in [0, 500] {
            writer.write(&table, ChangeBatch::append(orders(start..start + 500))).await.unwrap();
        }
        writer.flush(Some(&token)).await.unwrap();
    }
    assert_eq!(ids(&double.table("app.t").unwrap()), (0..1000).collect::<Vec<u64>>());
}

#[tokio::test]
async fn rows_that_the_table_cannot_hold_follow_the_policy() {
    let double = double().await;
    let narrow = "CREATE TABLE app.narrow (id UInt8, customer String, amount Decimal(18, 4), discount Nullable(Int32)) ENGINE = CnchMergeTree ORDER BY id";
    double.execute(narrow).unwrap();
    let table = TableId::new("app", "narrow");
    for (policy, dead_letter) in
        [(BadRecordPolicy::Fail, false), (BadRecordPolicy::Skip, false), (BadRecordPolicy::DeadLetter, true)]
    {
        double.execute("TRUNCATE TABLE app.narrow").unwrap();
        let sink = builder(&double).mode(SinkModeName::Insert).bad_record_policy(policy).build().unwrap();
        let mut writer = writer(&sink, AT_LEAST_ONCE).await;
        writer.write(&table, ChangeBatch::append(orders(250..260))).await.unwrap();
        let flushed = writer.flush(None).await;
        if policy == BadRecordPolicy::Fail {
            let error = flushed.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DataInvalid);
            assert!(error.message().contains("`id`") && error.message().contains("256"), "{error}");
            assert_eq!(double.table("app.narrow").unwrap().num_rows(), 0);
            assert_eq!(
                writer.flush(None).await.unwrap_err().kind(),
                ErrorKind::Closed,
                "a failed flush poisons"
            );
            continue;
        }
        let flushed = flushed.unwrap();
        assert_eq!(flushed.rows, 6);
        assert_eq!(double.table("app.narrow").unwrap().num_rows(), 6);
        let rejected = &flushed.rejected[0];
        assert_eq!(
            (rejected.rows.num_rows(), rejected.reasons.len(), rejected.dead_letter),
            (4, 4, dead_letter)
        );
        let records = rejected.to_bad_records().unwrap();
        assert!(records[0].reason.contains("256"), "{records:?}");
        assert!(String::from_utf8(records[0].value.clone().unwrap()).unwrap().contains("客户"));
    }
}

#[tokio::test]
async fn columns_are_matched_by_name_and_computed_ones_left_to_the_server() {
    let double = double().await;
    double
        .execute(
            "CREATE TABLE app.t (note String DEFAULT 'none', AMOUNT Decimal(18, 4), twice UInt64 MATERIALIZED id * 2, \
             id UInt64, `customer` String, discount Nullable(Int32)) ENGINE = CnchMergeTree ORDER BY id",
        )
        .unwrap();
    let mut writer = writer(&insert(&double), AT_LEAST_ONCE).await;
    writer.write(&TableId::new("app", "t"), ChangeBatch::append(orders(0..3))).await.unwrap();
    writer.flush(None).await.unwrap();
    let rows = double.execute("SELECT id, note FROM app.t ORDER BY id").unwrap();
    assert_eq!(ids(&rows), [0, 1, 2]);
}

#[tokio::test]
async fn a_retried_insert_sends_the_same_blocks_and_a_window_keeps_one() {
    let double = double().await;
    let engine = "ENGINE = MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 100";
    let table = create(&double, "t", engine);
    double.inject(Fault::fail_after_store(159, "timeout after the rows were stored"));
    let mut writer = writer(&insert(&double), AT_LEAST_ONCE).await;
    writer.write(&table, ChangeBatch::append(orders(0..100))).await.unwrap();
    writer.flush(None).await.unwrap();
    assert_eq!(ids(&double.table("app.t").unwrap()), (0..100).collect::<Vec<u64>>());
    // The same rows written again on purpose are another INSERT: both are kept.
    writer.write(&table, ChangeBatch::append(orders(0..100))).await.unwrap();
    writer.flush(None).await.unwrap();
    assert_eq!(double.table("app.t").unwrap().num_rows(), 200);
}
