//! Records that cannot be read, and records that are no rows.

use connector_core::{BadRecordPolicy, ErrorKind, SourceEvent, SourceReader};
use connector_kafka::{KafkaOffset, StartupMode};

use crate::common::{Cluster, Seen, drain, id, next, open_all, pull_until, row};

/// A cluster whose partition 0 holds, one each: a row, then what is no row in all its ways, then a row.
fn with_bad_records() -> (Cluster, Vec<&'static [u8]>) {
    let cluster = Cluster::with_topic("orders", 1);
    let bad: Vec<&[u8]> = vec![
        b"",
        b"not json",
        br#"{"id":"#,
        br#"{"id":"seven"}"#,
        br#"{"id":9223372036854775808}"#,
        br#"{"note":"no id"}"#,
        br#"{"id":null}"#,
        br#"{"id":1} {"id":2}"#,
        b"\xff\xfe",
    ];
    cluster.write("orders", 0, "k", Some(row(0).as_bytes()));
    for value in &bad {
        cluster.write("orders", 0, "bad", Some(value));
    }
    cluster.write("orders", 0, "k", None);
    cluster.write("orders", 0, "k", Some(br#"{"id":1,"unknown":true}"#));
    (cluster, bad)
}

#[tokio::test]
async fn by_default_the_read_fails_and_names_the_record() {
    let (cluster, _) = with_bad_records();
    let source = cluster.source(&["orders"]).bounded().build().unwrap();
    let mut reader = open_all(&source).await;
    let mut seen = Seen::default();
    let error = loop {
        match next(&mut reader).await {
            Ok(event) => seen.note(event.unwrap()),
            Err(e) => break e,
        }
    };
    // What came before it is handed out, and the split is there: the bad record comes again.
    assert_eq!(seen.all(), [0]);
    assert_eq!(reader.splits()[0].offset, Some(KafkaOffset(1)));
    assert_eq!(error.kind(), ErrorKind::DataInvalid, "{error}");
    for (key, value) in [("topic", "orders"), ("partition", "0"), ("offset", "1")] {
        assert_eq!(error.context_value(key), Some(value), "{error}");
    }
    assert!(error.context_value("timestamp").is_some(), "{error}");
    assert_eq!(next(&mut reader).await.unwrap_err().kind(), ErrorKind::Closed);
    reader.close().await.unwrap();
}

#[tokio::test]
async fn the_error_names_field_and_value() {
    let cluster = Cluster::with_topic("orders", 1);
    cluster.write("orders", 0, "k", Some(br#"{"id":"seven","note":"x"}"#));
    let source = cluster.source(&["orders"]).bounded().build().unwrap();
    let error = next(&mut open_all(&source).await).await.unwrap_err();
    assert_eq!(error.context_value("field"), Some("id"), "{error}");
    assert_eq!(error.context_value("value"), Some(r#""seven""#), "{error}");
    assert!(error.to_string().contains("seven"), "{error}");
}

#[tokio::test]
async fn skipping_leaves_the_rows_and_moves_the_offset() {
    let (cluster, bad) = with_bad_records();
    let source =
        cluster.source(&["orders"]).bad_record_policy(BadRecordPolicy::Skip).bounded().build().unwrap();
    let mut reader = open_all(&source).await;
    let seen = drain(&mut reader).await;
    assert_eq!(seen.all(), [0, 1]);
    let end = i64::try_from(bad.len() + 3).unwrap();
    assert_eq!(seen.next[&id("orders", 0)], KafkaOffset(end));
    assert!(seen.dead.is_empty());
}

#[tokio::test]
async fn dead_letters_carry_the_record_and_come_before_the_offset_moves_past_them() {
    let (cluster, bad) = with_bad_records();
    let policy = BadRecordPolicy::DeadLetter;
    let source = cluster.source(&["orders"]).bad_record_policy(policy).bounded().build().unwrap();
    let mut reader = open_all(&source).await;
    let mut seen = Seen::default();
    while let Some(event) = next(&mut reader).await.unwrap() {
        if let SourceEvent::DeadLetters { next, .. } = &event {
            // Rows of the same read are still to come, so a restart here must begin before both.
            assert_eq!(*next, KafkaOffset(0));
            assert_eq!(seen.rows(), 0);
        }
        seen.note(event);
    }
    assert_eq!(seen.all(), [0, 1]);
    let values: Vec<&[u8]> = seen.dead.iter().map(|dead| dead.value.as_deref().unwrap()).collect();
    assert_eq!(values, bad);
    for (dead, offset) in seen.dead.iter().zip(1..) {
        assert_eq!((dead.origin.as_str(), dead.split.as_str()), ("orders", "0"));
        assert_eq!(dead.offset, i32::to_string(&offset));
        assert_eq!(dead.key.as_deref(), Some(&b"bad"[..]));
        assert!(dead.timestamp.is_some() && !dead.reason.is_empty());
    }
    // Rows in = rows out + counted: 2 rows, the bad ones, 1 tombstone.
    let records = seen.next[&id("orders", 0)].0;
    assert_eq!(usize::try_from(records).unwrap(), seen.rows() + seen.dead.len() + 1);
}

#[tokio::test]
async fn bad_records_alone_move_the_offset_with_them() {
    let cluster = Cluster::with_topic("orders", 1);
    for _ in 0..5 {
        cluster.write("orders", 0, "k", Some(b"bad"));
    }
    let source = cluster
        .source(&["orders"])
        .bad_record_policy(BadRecordPolicy::DeadLetter)
        .startup_mode(StartupMode::Earliest)
        .build()
        .unwrap();
    let mut reader = open_all(&source).await;
    let mut seen = Seen::default();
    pull_until(&mut reader, &mut seen, |seen| seen.dead.len() == 5).await;
    assert_eq!(seen.next[&id("orders", 0)], KafkaOffset(5));
    assert!(seen.announced.is_empty(), "a table without rows needs no announcement");
}

#[tokio::test]
async fn tombstones_are_no_rows_but_move_the_offset() {
    let cluster = Cluster::with_topic("orders", 1);
    for _ in 0..7 {
        cluster.write("orders", 0, "k", None);
    }
    let source = cluster.source(&["orders"]).startup_mode(StartupMode::Earliest).build().unwrap();
    let mut reader = open_all(&source).await;
    let mut seen = Seen::default();
    pull_until(&mut reader, &mut seen, |seen| seen.next.values().any(|next| next.0 == 7)).await;
    assert_eq!(seen.rows(), 0);
    assert_eq!(reader.splits()[0].offset, Some(KafkaOffset(7)));
}
