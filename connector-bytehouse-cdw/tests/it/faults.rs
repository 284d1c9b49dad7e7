//! Scripted faults: what is retried, what is not, and that nothing is lost or doubled beyond what is promised.

use std::{sync::Arc, time::Duration};

use bytehouse_testkit::{BytehouseDouble, DoubleOptions, Fault, Outcome, Point};
use connector_bytehouse_cdw::SinkModeName;
use connector_bytehouse_common::error::{Retry, code_rules};
use connector_core::{
    ChangeBatch, DeliveryGuarantee, Error, ErrorKind, RetryState, Secret, Sink, SinkWriter, TableId,
    testkit::orders,
};

use crate::support::{builder, create, double, ids, upsert, writer};

const AT_LEAST_ONCE: DeliveryGuarantee = DeliveryGuarantee::AtLeastOnce;

/// Writes a hundred rows into a unique table under a fault.
async fn write_under(double: &BytehouseDouble, table: &TableId, fault: Fault) -> Result<u64, Error> {
    double.inject(fault);
    let mut writer = writer(&upsert(double), AT_LEAST_ONCE).await;
    writer.write(table, ChangeBatch::append(orders(0..100))).await?;
    let flushed = writer.flush(None).await?;
    writer.close().await?;
    Ok(flushed.rows)
}

#[tokio::test]
async fn what_may_pass_is_tried_again_until_the_rows_are_there() {
    let double = double().await;
    let table = create(&double, "t", "ENGINE = CnchMergeTree ORDER BY id UNIQUE KEY id");
    for fault in [
        Fault::too_many_parts(1),
        Fault::fail_insert(202, "Too many simultaneous queries"),
        Fault::fail_after_blocks(1, 210, "network error"),
        Fault::fail_after_store(159, "timeout after the rows were stored"),
        Fault::cut(Point::Accept),
        Fault::cut(Point::AfterHello),
        Fault::cut(Point::Insert),
        Fault::cut(Point::Block(1)),
        Fault::cut(Point::BeforeStore),
        Fault::cut(Point::AfterStore),
    ] {
        double.execute("TRUNCATE TABLE app.t").unwrap();
        let rows =
            write_under(&double, &table, fault.clone()).await.unwrap_or_else(|e| panic!("{fault:?}: {e}"));
        assert_eq!(rows, 100, "{fault:?}");
        assert_eq!(ids(&double.table("app.t").unwrap()), (0..100).collect::<Vec<u64>>(), "{fault:?}");
        assert_eq!(double.faults_waiting(), 0, "{fault:?} took effect");
    }
}

#[tokio::test]
async fn what_cannot_pass_fails_at_once_with_its_code() {
    let double = double().await;
    let table = create(&double, "t", "ENGINE = CnchMergeTree ORDER BY id UNIQUE KEY id");
    for (code, text, kind) in [
        (497, "not enough privileges", ErrorKind::PermissionDenied),
        (115, "Unknown setting", ErrorKind::OptionInvalid),
    ] {
        let before = double.connections();
        let error = write_under(&double, &table, Fault::fail_insert(code, text)).await.unwrap_err();
        assert_eq!(error.retry_state(), RetryState::Permanent, "{error}");
        assert_eq!(error.context_value("code"), Some(code.to_string().as_str()), "{error}");
        assert_eq!(error.context_value("table"), Some("app.t"), "{error}");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(double.connections() - before <= 2, "no retry loop on a hopeless error");
    }
    assert_eq!(double.table("app.t").unwrap().num_rows(), 0);
}

#[tokio::test]
async fn retries_end_and_say_how_often() {
    let double = double().await;
    let table = create(&double, "t", "ENGINE = CnchMergeTree ORDER BY id UNIQUE KEY id");
    double.inject(Fault::too_many_parts(10));
    let sink = builder(&double).mode(SinkModeName::Upsert).max_retries(1).build().unwrap();
    let mut writer = writer(&sink, AT_LEAST_ONCE).await;
    writer.write(&table, ChangeBatch::append(orders(0..10))).await.unwrap();
    let error = writer.flush(None).await.unwrap_err();
    assert_eq!(error.retry_state(), RetryState::Exhausted, "{error}");
    assert_eq!(error.context_value("rows"), Some("10"), "{error}");
    assert_eq!(double.faults_waiting(), 1);
}

#[tokio::test]
async fn a_stalled_insert_ends_with_the_query_timeout() {
    let double = double().await;
    let table = create(&double, "t", "ENGINE = CnchMergeTree ORDER BY id UNIQUE KEY id");
    double.inject(Fault::stall(Point::BeforeStore, Duration::from_secs(60)));
    let sink = builder(&double)
        .mode(SinkModeName::Upsert)
        .max_retries(1)
        .query_timeout(Duration::from_millis(300))
        .build()
        .unwrap();
    let mut writer = writer(&sink, AT_LEAST_ONCE).await;
    writer.write(&table, ChangeBatch::append(orders(0..10))).await.unwrap();
    writer.flush(None).await.unwrap();
    assert_eq!(double.table("app.t").unwrap().num_rows(), 10);
}

#[tokio::test]
async fn a_wrong_token_an_unknown_warehouse_and_a_read_only_user_are_told_apart() {
    let options = DoubleOptions {
        warehouses: vec!["vw_load".into()],
        require_warehouse: true,
        ..DoubleOptions::default()
    };
    let double = BytehouseDouble::start(options.with_reader("100::reader", "secret")).await.unwrap();
    double.execute("CREATE DATABASE app").unwrap();
    create(&double, "t", "ENGINE = CnchMergeTree ORDER BY id UNIQUE KEY id");
    let wrong = builder(&double).api_token(Secret::new("not-the-token")).build().unwrap();
    let error = wrong.check(AT_LEAST_ONCE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{error}");
    assert!(!format!("{error:?} {wrong:?}").contains("not-the-token"));
    let warehouse = builder(&double).virtual_warehouse("nowhere").table("app.t").build().unwrap();
    let mut denied = writer(&warehouse, AT_LEAST_ONCE).await;
    let table = TableId::new("app", "t");
    let outcome = match denied.write(&table, ChangeBatch::append(orders(0..10))).await {
        Ok(()) => denied.flush(None).await.map(|_| ()),
        Err(error) => Err(error),
    };
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::NotFound);
}

/// After these the table is looked at again; here it is as it was, so that the rows are sent once more.
const ABOUT_THE_TABLE: [i32; 8] = [8, 10, 16, 20, 47, 53, 60, 122];

/// The table of codes, row by row: an INSERT that is refused with it once is sent again, or not.
#[tokio::test]
async fn every_code_of_the_table_is_tried_again_or_not_as_it_says() {
    let double = Arc::new(double().await);
    let mut cases = tokio::task::JoinSet::new();
    for rule in code_rules() {
        let name = format!("code_{}_", rule.code);
        let table = create(&double, &name, "ENGINE = CnchMergeTree ORDER BY id UNIQUE KEY id");
        double.inject(Fault::fail_insert(rule.code, "as the test says").matching(&name));
        let (double, sink) = (Arc::clone(&double), upsert(&double));
        cases.spawn(async move {
            let mut writer = writer(&sink, AT_LEAST_ONCE).await;
            writer.write(&table, ChangeBatch::append(orders(0..10))).await.unwrap();
            let outcome = writer.flush(None).await;
            let tries: Vec<Outcome> = double
                .log()
                .iter()
                .filter(|entry| entry.is_insert() && entry.sql.contains(&name))
                .map(|entry| entry.outcome)
                .collect();
            let (failed, done) = (Outcome::Failed(rule.code), Outcome::Done);
            let rows = double.table(&table.to_string()).unwrap().num_rows();
            if rule.success_on_insert && rule.code != 5035 {
                assert_eq!((outcome.unwrap().rows, tries, rows), (10, vec![failed], 0), "{rule:?}");
            } else if rule.retry == Retry::Final && !ABOUT_THE_TABLE.contains(&rule.code) {
                let error = outcome.unwrap_err();
                assert_eq!(error.retry_state(), RetryState::Permanent, "{rule:?}");
                assert_eq!(error.kind(), rule.kind, "{rule:?}");
                assert_eq!(error.context_value("code"), Some(rule.code.to_string().as_str()));
                assert_eq!((tries, rows), (vec![failed], 0), "{rule:?}");
            } else {
                let again = if rule.retry == Retry::HalveBatch {
                    vec![failed, done, done]
                } else {
                    vec![failed, done]
                };
                assert_eq!((outcome.unwrap().rows, tries, rows), (10, again, 10), "{rule:?}");
            }
        });
    }
    while let Some(case) = cases.join_next().await {
        case.unwrap();
    }
}

#[tokio::test]
async fn a_label_makes_a_repeated_insert_count_once_and_only_ours_does() {
    let double = double().await;
    let table = create(&double, "t", "ENGINE = CnchMergeTree ORDER BY id");
    double.inject(Fault::fail_after_store(159, "timeout after the rows were stored"));
    let sink = builder(&double)
        .mode(SinkModeName::Insert)
        .options(|options| options.insertion_label(true))
        .build()
        .unwrap();
    let mut writer = writer(&sink, AT_LEAST_ONCE).await;
    for start in [0, 100] {
        writer.write(&table, ChangeBatch::append(orders(start..start + 100))).await.unwrap();
        assert_eq!(writer.flush(None).await.unwrap().rows, 100);
    }
    assert_eq!(ids(&double.table("app.t").unwrap()), (0..200).collect::<Vec<u64>>());
    let labels: Vec<String> = double
        .log()
        .iter()
        .filter(|entry| entry.is_insert())
        .map(|entry| entry.insert_label().unwrap().to_owned())
        .collect();
    assert!(labels.len() == 3 && labels[0] == labels[1] && labels[1] != labels[2], "{labels:?}");
}
