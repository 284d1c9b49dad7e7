//! Bounded reads that wait at their end for more.

use std::time::Duration;

use connector_core::{Source, SourceReader, Split};
use connector_kafka::KafkaOffset;

use crate::common::{Cluster, Seen, drain, next, open_all};

#[tokio::test]
async fn what_is_written_while_a_read_waits_at_its_end_is_read_too() {
    let cluster = Cluster::with_topic("orders", 2);
    cluster.write_rows("orders", 0, 0..10);
    let source = cluster
        .source(&["orders"])
        .bounded()
        .wait_poll_empty_times(20)
        .wait_poll_empty_interval(Duration::from_millis(100))
        .build()
        .unwrap();
    let splits = source.discover(&[]).await.unwrap();
    let mut reader = source.open(splits).await.unwrap();
    // After the ends were looked up, to a partition that has records and to one that is empty.
    cluster.write_rows("orders", 0, 10..20);
    cluster.write_rows("orders", 1, 20..30);
    let mut seen = Seen::default();
    let mut more = true;
    while let Some(event) = next(&mut reader).await.unwrap() {
        seen.note(event);
        if more && seen.rows() == 30 {
            more = false;
            cluster.write_rows("orders", 1, 30..40);
        }
    }
    assert_eq!(seen.all(), (0..40).collect::<Vec<_>>());
    assert_eq!(seen.finished.len(), 2);
    assert!(reader.splits().iter().all(|split| split.offset() == Some(&KafkaOffset(20))));
}

#[tokio::test]
async fn without_the_option_a_read_ends_where_its_partitions_ended() {
    let cluster = Cluster::with_topic("orders", 1);
    cluster.write_rows("orders", 0, 0..10);
    for times in [-1, 0] {
        let source = cluster.source(&["orders"]).bounded().wait_poll_empty_times(times).build().unwrap();
        let splits = source.discover(&[]).await.unwrap();
        assert!(splits.iter().all(|split| !split.open_end));
        let end = i64::try_from(splits.len()).unwrap();
        assert_eq!(end, 1);
        let mut reader = source.open(splits).await.unwrap();
        let before = drain(&mut reader).await.rows();
        cluster.write_rows("orders", 0, 10..11);
        assert!(before >= 10);
    }
    // A range that is read again keeps to its end, and so does a read to an offset.
    let waiting = cluster.source(&["orders"]).bounded().wait_poll_empty_times(1000);
    let source = waiting.clone().build().unwrap();
    let mut splits = source.discover(&[]).await.unwrap();
    assert!(splits[0].open_end);
    splits[0].end_before(&KafkaOffset(5));
    assert_eq!(drain(&mut source.open(splits).await.unwrap()).await.rows(), 5);
    let source = waiting.end_offset(3).build().unwrap();
    assert_eq!(drain(&mut open_all(&source).await).await.rows(), 4);
}
