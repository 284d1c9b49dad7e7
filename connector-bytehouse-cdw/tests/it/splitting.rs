//! Batches that the server cannot take at once: too many partitions, too little memory.

use std::sync::Arc;

use bytehouse_testkit::{BytehouseDouble, Fault, Outcome as LogOutcome};
use connector_bytehouse_cdw::SinkModeName;
use connector_core::{
    ChangeBatch, DeliveryGuarantee, ErrorKind, FlushToken, RetryState, RowKind, RowKinds, SinkWriter,
    TableId,
    arrow::{
        array::{ArrayRef, AsArray, Date32Array, RecordBatch, UInt64Array},
        compute::cast,
        datatypes::{DataType, Date32Type, Field, Schema},
    },
    options::SettingsList,
    testkit::orders,
};

use crate::support::{builder, create, double, ids, upsert, writer};

const AT_LEAST_ONCE: DeliveryGuarantee = DeliveryGuarantee::AtLeastOnce;
const DAYS: u64 = 400;

fn day(id: u64) -> Option<i32> {
    Some(19_000 + i32::try_from(id * 7919 % DAYS).unwrap())
}

/// Rows whose days are not in order, two for each day.
fn days() -> RecordBatch {
    let fields = vec![Field::new("id", DataType::UInt64, false), Field::new("day", DataType::Date32, false)];
    let ids: Vec<u64> = (0..2 * DAYS).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt64Array::from(ids.clone())),
        Arc::new(ids.iter().copied().map(day).collect::<Date32Array>()),
    ];
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// The server's limit, which is lower than the option's.
fn limited(partitions: &str) -> SettingsList {
    SettingsList::new().with("max_partitions_per_insert_block", partitions)
}

fn outcomes(double: &BytehouseDouble) -> Vec<LogOutcome> {
    double.log().iter().filter(|entry| entry.is_insert()).map(|entry| entry.outcome).collect()
}

/// Writes the days into a table and gives the outcomes of its INSERTs.
async fn write_days(engine: &str, mode: SinkModeName, limit: Option<&str>) -> Vec<LogOutcome> {
    let double = double().await;
    double.execute(&format!("CREATE TABLE app.days (id UInt64, day Date) ENGINE = {engine}")).unwrap();
    let sink = builder(&double).mode(mode);
    let sink = match limit {
        Some(limit) => sink.query_settings(limited(limit)),
        None => sink,
    };
    let sink = sink.build().unwrap();
    let mut writer = writer(&sink, AT_LEAST_ONCE).await;
    writer.write(&TableId::new("app", "days"), ChangeBatch::append(days())).await.unwrap();
    assert_eq!(writer.flush(None).await.unwrap().rows, 2 * DAYS, "{engine}");
    let rows = double.execute("SELECT id, day FROM app.days ORDER BY id").unwrap();
    assert_eq!(ids(&rows), (0..2 * DAYS).collect::<Vec<_>>());
    let found = cast(rows.column(1), &DataType::Date32).unwrap();
    let wanted: Date32Array = (0..2 * DAYS).map(day).collect();
    assert_eq!(found.as_primitive::<Date32Type>().values(), wanted.values(), "no row changed");
    outcomes(&double)
}

#[tokio::test]
async fn the_default_limit_lets_a_year_of_days_through() {
    let engine = "CnchMergeTree PARTITION BY day ORDER BY id UNIQUE KEY id";
    assert_eq!(write_days(engine, SinkModeName::Upsert, None).await, [LogOutcome::Done]);
}

#[tokio::test]
async fn too_many_partitions_are_split_by_partition_and_not_tried_again_in_vain() {
    for (engine, mode) in [
        ("CnchMergeTree PARTITION BY day ORDER BY id UNIQUE KEY id", SinkModeName::Upsert),
        ("CnchMergeTree PARTITION BY (day) ORDER BY id", SinkModeName::Insert),
    ] {
        let outcomes = write_days(engine, mode, Some("100")).await;
        // Refused once, then in four parts.
        let wanted = [&[LogOutcome::Failed(252)][..], &[LogOutcome::Done; 4]].concat();
        assert_eq!(outcomes, wanted, "{engine}");
    }
}

#[tokio::test]
async fn a_partition_by_an_expression_is_split_until_it_passes() {
    for (engine, mode) in [
        ("CnchMergeTree PARTITION BY toYYYYMMDD(day) ORDER BY id UNIQUE KEY id", SinkModeName::Upsert),
        ("CnchMergeTree PARTITION BY toYYYYMMDD(day) ORDER BY id", SinkModeName::Insert),
    ] {
        let outcomes = write_days(engine, mode, Some("100")).await;
        assert!(outcomes.iter().filter(|outcome| **outcome == LogOutcome::Done).count() >= 4);
        assert!(outcomes.len() < 40, "{outcomes:?}");
    }
}

#[tokio::test]
async fn deletes_are_split_with_the_rest() {
    let double = double().await;
    let engine = "CnchMergeTree PARTITION BY day ORDER BY id UNIQUE KEY id";
    double.execute(&format!("CREATE TABLE app.days (id UInt64, day Date) ENGINE = {engine}")).unwrap();
    let table = TableId::new("app", "days");
    let fill = upsert(&double);
    let mut filling = writer(&fill, AT_LEAST_ONCE).await;
    filling.write(&table, ChangeBatch::append(days())).await.unwrap();
    filling.flush(None).await.unwrap();
    let sink = builder(&double).mode(SinkModeName::Upsert).query_settings(limited("30")).build().unwrap();
    let mut writer = writer(&sink, AT_LEAST_ONCE).await;
    let kinds: Vec<RowKind> =
        (0..2 * DAYS).map(|id| if id % 2 == 0 { RowKind::Delete } else { RowKind::UpdateAfter }).collect();
    writer.write(&table, ChangeBatch::try_new(days(), RowKinds::from_kinds(&kinds)).unwrap()).await.unwrap();
    writer.flush(None).await.unwrap();
    let wanted: Vec<u64> = (0..2 * DAYS).filter(|id| id % 2 == 1).collect();
    assert_eq!(ids(&double.table("app.days").unwrap()), wanted);
}

#[tokio::test]
async fn under_a_lasting_token_a_flush_is_not_split_but_fails_at_once() {
    let double = double().await;
    double
        .execute(
            "CREATE TABLE app.days (id UInt64, day Date) ENGINE = MergeTree PARTITION BY day ORDER BY id \
             SETTINGS non_replicated_deduplication_window = 100",
        )
        .unwrap();
    let sink = builder(&double)
        .mode(SinkModeName::Insert)
        .table("app.days")
        .query_settings(limited("100"))
        .build()
        .unwrap();
    let mut writer = writer(&sink, DeliveryGuarantee::ExactlyOnce).await;
    writer.write(&TableId::new("app", "days"), ChangeBatch::append(days())).await.unwrap();
    let error = writer.flush(Some(&FlushToken::new("range-1").unwrap())).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.retry_state()),
        (ErrorKind::DataInvalid, RetryState::Permanent),
        "{error}"
    );
    assert!(error.message().contains("max_partitions_per_insert_block"), "{error}");
    assert_eq!(outcomes(&double), [LogOutcome::Failed(252)]);
    assert_eq!(double.table("app.days").unwrap().num_rows(), 0);
}

#[tokio::test]
async fn memory_errors_halve_the_batch_until_it_passes() {
    let double = double().await;
    let table = create(&double, "t", "ENGINE = CnchMergeTree ORDER BY id UNIQUE KEY id");
    double.inject(Fault::fail_insert(241, "Memory limit (total) exceeded").times(2));
    let mut writer = writer(&upsert(&double), AT_LEAST_ONCE).await;
    writer.write(&table, ChangeBatch::append(orders(0..1000))).await.unwrap();
    assert_eq!(writer.flush(None).await.unwrap().rows, 1000);
    assert_eq!(ids(&double.table("app.t").unwrap()), (0..1000).collect::<Vec<_>>());
    let failed = LogOutcome::Failed(241);
    let done = LogOutcome::Done;
    assert_eq!(outcomes(&double), [failed, failed, done, done, done]);
    let rows: Vec<usize> = double
        .log()
        .iter()
        .filter(|entry| entry.is_insert() && entry.outcome == done)
        .map(|e| e.rows)
        .collect();
    assert_eq!(rows, [250, 250, 500]);
    // The next flushes are smaller from the start: 250 rows fill a buffer.
    for start in [2000, 3000, 4000] {
        writer.write(&table, ChangeBatch::append(orders(start..start + 125))).await.unwrap();
    }
    assert!(writer.flush_due().is_some());
    writer.flush(None).await.unwrap();
    assert_eq!(double.table("app.t").unwrap().num_rows(), 1375);
}
