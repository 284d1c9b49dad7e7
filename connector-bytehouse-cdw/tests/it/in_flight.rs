//! Several INSERTs at a time in mode insert, one after the other in modes with keys; what is given up is ended.

use std::{sync::Arc, time::Duration};

use bytehouse_testkit::{BytehouseDouble, Fault, LogEntry, Outcome, Point};
use connector_bytehouse_cdw::{BytehouseCdwSinkBuilder, SinkModeName};
use connector_core::{
    ChangeBatch, DeliveryGuarantee, SinkWriter, TableId,
    arrow::{
        array::{RecordBatch, UInt64Array},
        datatypes::{DataType, Field, Schema},
    },
    testkit::orders,
};

use crate::support::{COLUMNS, builder, create, double, ids, writer};

const AT_LEAST_ONCE: DeliveryGuarantee = DeliveryGuarantee::AtLeastOnce;
const LONG: Duration = Duration::from_secs(300);
const UNIQUE: &str = "ENGINE = CnchMergeTree ORDER BY id UNIQUE KEY id";

fn small(double: &BytehouseDouble, mode: SinkModeName) -> BytehouseCdwSinkBuilder {
    builder(double).mode(mode).flush_max_rows(100usize).query_timeout(LONG)
}

fn inserts(double: &BytehouseDouble) -> Vec<LogEntry> {
    double.log().into_iter().filter(LogEntry::is_insert).collect()
}

async fn until(what: impl Fn() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(60), async {
        while !what() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    waited.await.expect("it does not happen");
}

#[tokio::test]
async fn an_insert_does_not_wait_for_the_one_before() {
    let double = double().await;
    let table = create(&double, "t", "ENGINE = CnchMergeTree ORDER BY id");
    double.inject(Fault::stall(Point::BeforeStore, LONG));
    let mut writer = writer(&small(&double, SinkModeName::Insert).build().unwrap(), AT_LEAST_ONCE).await;
    for start in [0, 100, 200] {
        writer.write(&table, ChangeBatch::append(orders(start..start + 100))).await.unwrap();
        until(|| double.faults_waiting() == 0).await;
    }
    until(|| double.table("app.t").unwrap().num_rows() == 200).await;
    assert_eq!(ids(&double.table("app.t").unwrap()), (100..300).collect::<Vec<_>>());
    assert_eq!(inserts(&double)[0].outcome, Outcome::Running);
    writer.close().await.unwrap();
}

#[tokio::test]
async fn no_more_inserts_than_the_option_says_are_under_way() {
    let double = double().await;
    let table = create(&double, "t", "ENGINE = CnchMergeTree ORDER BY id");
    double.inject(Fault::stall(Point::BeforeStore, LONG).times(10));
    let sink = small(&double, SinkModeName::Insert).max_in_flight(2usize).build().unwrap();
    let mut writer = writer(&sink, AT_LEAST_ONCE).await;
    let writes = async {
        for start in 0..10 {
            writer.write(&table, ChangeBatch::append(orders(start * 100..start * 100 + 100))).await.unwrap();
        }
    };
    // The third one has nowhere to go: writing waits.
    tokio::time::timeout(Duration::from_millis(500), writes).await.unwrap_err();
    assert!(inserts(&double).len() <= 2);
}

#[tokio::test]
async fn inserts_into_one_table_keep_their_order_in_modes_with_keys() {
    let double = double().await;
    let tables = [create(&double, "a", UNIQUE), create(&double, "b", UNIQUE)];
    double.inject(Fault::stall(Point::BeforeStore, LONG).matching("`a`"));
    let mut writer = writer(&small(&double, SinkModeName::Upsert).build().unwrap(), AT_LEAST_ONCE).await;
    writer.write(&tables[0], ChangeBatch::append(orders(0..100))).await.unwrap();
    // Another table does not wait for the first.
    writer.write(&tables[1], ChangeBatch::append(orders(0..100))).await.unwrap();
    until(|| double.table("app.b").unwrap().num_rows() == 100).await;
    let second = writer.write(&tables[0], ChangeBatch::append(orders(0..100)));
    tokio::time::timeout(Duration::from_millis(500), second).await.unwrap_err();
    assert_eq!(inserts(&double).iter().filter(|entry| entry.sql.contains("`a`")).count(), 1);
}

/// The rows with a version of their own.
fn with_version(rows: &RecordBatch) -> RecordBatch {
    let mut fields = rows.schema().fields().to_vec();
    fields.push(Arc::new(Field::new("v", DataType::UInt64, false)));
    let mut columns = rows.columns().to_vec();
    columns.push(Arc::new(UInt64Array::from(vec![7; rows.num_rows()])));
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

#[tokio::test]
async fn order_does_not_matter_where_the_sink_says_which_version_wins() {
    for (settings, brought, overlap) in [
        ("", false, true),
        (" SETTINGS clean_deleted_rows = 'Never'", false, true),
        // A merge may have forgotten a delete before the older row comes.
        (" SETTINGS clean_deleted_rows = 'Always'", false, false),
        // Two rows may bring the same version: the one that comes last wins.
        ("", true, false),
    ] {
        let double = double().await;
        let engine = format!("ENGINE = ReplacingMergeTree(v, gone) ORDER BY id{settings}");
        double.execute(&format!("CREATE TABLE app.t ({COLUMNS}, v UInt64, gone UInt8) {engine}")).unwrap();
        double.inject(Fault::stall(Point::BeforeStore, LONG));
        let sink = small(&double, SinkModeName::Upsert)
            .cnch_engine(false)
            .connection_properties([("user", "bytehouse")])
            .build()
            .unwrap();
        let mut writer = writer(&sink, AT_LEAST_ONCE).await;
        let table = TableId::new("app", "t");
        let rows =
            || ChangeBatch::append(if brought { with_version(&orders(0..100)) } else { orders(0..100) });
        writer.write(&table, rows()).await.unwrap();
        until(|| double.faults_waiting() == 0).await;
        // The same keys again, while the first INSERT hangs.
        let second = tokio::time::timeout(Duration::from_millis(500), writer.write(&table, rows())).await;
        match overlap {
            true => {
                second.unwrap().unwrap();
                until(|| double.table("app.t").unwrap().num_rows() == 100).await;
            }
            false => assert!(second.is_err(), "{settings:?}, version brought: {brought}"),
        }
        writer.close().await.unwrap();
    }
}

#[tokio::test]
async fn an_insert_that_takes_too_long_is_ended_at_the_server_and_sent_again() {
    let double = double().await;
    let table = create(&double, "t", "ENGINE = CnchMergeTree ORDER BY id");
    double.inject(Fault::stall(Point::BeforeStore, LONG));
    let sink =
        builder(&double).mode(SinkModeName::Insert).query_timeout(Duration::from_secs(2)).build().unwrap();
    let mut writer = writer(&sink, AT_LEAST_ONCE).await;
    writer.write(&table, ChangeBatch::append(orders(0..10))).await.unwrap();
    // A slow machine may be too slow for the time-out more than once; then the rows are only sent once more.
    writer.flush(None).await.unwrap();
    let log = double.log();
    let first = log.iter().find(|entry| entry.is_insert()).unwrap();
    let kill = log.iter().find(|entry| entry.sql.starts_with("KILL QUERY")).unwrap();
    assert!(kill.sql.contains(&first.query_id), "{}", kill.sql);
    until(|| inserts(&double)[0].outcome == Outcome::Failed(394)).await;
    assert_eq!(ids(&double.table("app.t").unwrap()), (0..10).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_connection_that_does_not_answer_is_replaced_before_it_is_used() {
    let double = double().await;
    let table = create(&double, "t", UNIQUE);
    let sink = builder(&double)
        .mode(SinkModeName::Upsert)
        .options(|options| options.connection_validity_timeout(Duration::from_secs(1)))
        .build()
        .unwrap();
    let mut writer = writer(&sink, AT_LEAST_ONCE).await;
    writer.write(&table, ChangeBatch::append(orders(0..10))).await.unwrap();
    writer.flush(None).await.unwrap();
    let before = double.connections();
    double.inject(Fault::stall(Point::Ping, LONG));
    writer.write(&table, ChangeBatch::append(orders(10..20))).await.unwrap();
    writer.flush(None).await.unwrap();
    assert_eq!((double.connections() - before, double.faults_waiting()), (1, 0));
    assert_eq!(ids(&double.table("app.t").unwrap()), (0..20).collect::<Vec<_>>());
    assert!(!double.log().iter().any(|entry| entry.outcome == Outcome::Running));
}

#[tokio::test]
async fn rows_and_bytes_make_a_flush_without_being_asked() {
    let double = double().await;
    let table = create(&double, "t", UNIQUE);
    let by_rows = small(&double, SinkModeName::Upsert).build().unwrap();
    let by_bytes = builder(&double)
        .mode(SinkModeName::Upsert)
        .options(|options| options.flush_max_bytes(1024u64))
        .build()
        .unwrap();
    for (sink, start, rows) in [(by_rows, 0, 100), (by_bytes, 1000, 50)] {
        let mut writer = writer(&sink, AT_LEAST_ONCE).await;
        writer.write(&table, ChangeBatch::append(orders(start..start + rows))).await.unwrap();
        let wanted: Vec<u64> = (start..start + rows).collect();
        until(|| ids(&double.table("app.t").unwrap()).ends_with(&wanted)).await;
        assert!(writer.flush_due().is_none(), "nothing waits");
        writer.close().await.unwrap();
    }
}
