use std::{sync::Arc, time::Duration};

use bytehouse_testkit::{BytehouseDouble, Fault, Outcome, Point};
use connector_bytehouse_common::{
    error::outcome_unknown,
    wire::{Client, Settings},
};
use connector_core::{
    Error, ErrorKind,
    arrow::array::{RecordBatch, StringArray, UInt64Array},
};

use crate::support::{batch, client, code, fetch, insert, line, options, start_with};

async fn double() -> BytehouseDouble {
    start_with(&["CREATE TABLE t (id UInt64, s String) ENGINE = CnchMergeTree ORDER BY id"]).await
}

fn rows(count: u64) -> RecordBatch {
    batch(vec![
        ("id", Arc::new(UInt64Array::from_iter_values(0..count))),
        ("s", Arc::new(StringArray::from_iter_values((0..count).map(|i| format!("row {i}"))))),
    ])
}

/// Three blocks in one insert over a connection of its own.
async fn attempt(double: &BytehouseDouble) -> Result<(), Error> {
    let mut client = Client::connect(options(double)).await?;
    insert(&mut client, "INSERT INTO t (id, s) VALUES", &[rows(10), rows(10), rows(10)], &Settings::new())
        .await
        .map(|_| ())
}

fn stored(double: &BytehouseDouble) -> String {
    line(double, "SELECT count() FROM t")
}

#[tokio::test]
async fn exceptions_where_they_are_scripted() {
    let double = double().await;
    double.inject(Fault::too_many_parts(2));
    for _ in 0..2 {
        assert_eq!(code(&attempt(&double).await.unwrap_err()), Some(252));
    }
    attempt(&double).await.unwrap();
    assert_eq!(stored(&double), "30");
    double.inject(Fault::read_only());
    assert_eq!(code(&attempt(&double).await.unwrap_err()), Some(164));
    double.inject(Fault::fail_after_blocks(2, 241, "Memory limit exceeded"));
    assert_eq!(code(&attempt(&double).await.unwrap_err()), Some(241));
    assert_eq!(double.log().last().unwrap().blocks, 2);
    double.inject(Fault::fail_statement(202, "Too many simultaneous queries").matching("FROM t"));
    let mut client = client(&double).await;
    assert_eq!(fetch(&mut client, "SELECT 1").await.unwrap(), [["1"]]);
    assert_eq!(code(&fetch(&mut client, "SELECT id FROM t").await.unwrap_err()), Some(202));
    double.inject(Fault::fail_after_store(159, "Timeout exceeded"));
    assert_eq!(code(&attempt(&double).await.unwrap_err()), Some(159));
    assert_eq!(stored(&double), "60", "the rows are stored although the client was told otherwise");
    assert_eq!(double.faults_waiting(), 0);
}

#[tokio::test]
async fn cuts_on_the_way_in() {
    let double = double().await;
    for fault in [Fault::cut(Point::Accept), Fault::cut(Point::Login)] {
        double.inject(fault);
        let error = Client::connect(options(&double)).await.unwrap_err();
        assert!(error.is_transient(), "{error}");
    }
    double.inject(Fault::refuse_login(516));
    assert_eq!(Client::connect(options(&double)).await.unwrap_err().kind(), ErrorKind::Unauthenticated);
    for fault in [Fault::cut(Point::AfterHello), Fault::cut(Point::Statement), Fault::cut(Point::Insert)] {
        double.inject(fault);
        let error = attempt(&double).await.unwrap_err();
        assert!(error.is_transient(), "{error}");
    }
    assert_eq!(stored(&double), "0");
    attempt(&double).await.unwrap();
    assert_eq!(stored(&double), "30");
}

#[tokio::test]
async fn cuts_during_an_insert() {
    let double = double().await;
    for (fault, rows, outcome) in [
        (Fault::cut_in_block(0), "0", Outcome::Broken),
        (Fault::cut_in_block(2), "0", Outcome::Broken),
        (Fault::cut_before_end(false), "0", Outcome::Broken),
        (Fault::cut_before_end(true), "30", Outcome::BrokenButStored),
    ] {
        double.inject(fault);
        let error = attempt(&double).await.unwrap_err();
        assert!(outcome_unknown(&error), "{error}");
        assert_eq!(stored(&double), rows);
        assert_eq!(double.log().last().unwrap().outcome, outcome);
    }
}

#[tokio::test]
async fn a_cut_in_a_result() {
    let double = double().await;
    attempt(&double).await.unwrap();
    double.inject(Fault::cut_in_result().matching("SELECT id"));
    let mut client = client(&double).await;
    assert!(fetch(&mut client, "SELECT id, s FROM t").await.unwrap_err().is_transient());
    let mut client = crate::support::client(&double).await;
    assert_eq!(fetch(&mut client, "SELECT id, s FROM t").await.unwrap().len(), 30);
}

#[tokio::test]
async fn a_query_that_is_told_to_end_ends_and_stores_nothing() {
    let double = double().await;
    double.inject(Fault::stall(Point::BeforeStore, Duration::from_secs(300)));
    let kill = async {
        let mut client = client(&double).await;
        while double.faults_waiting() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let id = double.log().iter().rfind(|entry| entry.is_insert()).unwrap().query_id.clone();
        fetch(&mut client, &format!("KILL QUERY WHERE query_id = '{id}' ASYNC")).await.unwrap();
        fetch(&mut client, "KILL QUERY WHERE query_id = 'no such query'").await.unwrap();
    };
    let (ended, ()) = tokio::join!(attempt(&double), kill);
    assert_eq!(code(&ended.unwrap_err()), Some(394));
    assert_eq!(stored(&double), "0");
}

/// Time stands still but for what the double and the client wait for.
#[tokio::test(start_paused = true)]
async fn a_stall_outlasts_the_clients_patience() {
    let double = double().await;
    for point in [Point::Accept, Point::AfterHello, Point::Insert, Point::BeforeStore] {
        double.inject(Fault::stall(point, Duration::from_secs(3600)));
        let error = attempt(&double).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{point:?}: {error}");
    }
    double.inject(Fault::stall(Point::AfterStore, Duration::from_secs(1)));
    attempt(&double).await.unwrap();
}

#[tokio::test]
async fn slow_reads_are_slow_and_complete() {
    let double = double().await;
    double.inject(Fault::slow_reads(20_000));
    let start = std::time::Instant::now();
    attempt(&double).await.unwrap();
    assert_eq!(stored(&double), "30");
    // About 700 bytes go over the wire; the pace is a pause before each read, so there is one at least.
    assert!(start.elapsed() >= Duration::from_millis(50), "{:?}", start.elapsed());
}

#[tokio::test]
async fn faults_can_be_taken_back() {
    let double = double().await;
    double.inject(Fault::too_many_parts(5));
    double.clear_faults();
    attempt(&double).await.unwrap();
}
