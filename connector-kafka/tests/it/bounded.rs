//! Reads that end.

use std::time::Duration;

use connector_core::{Boundedness, Source, SourceReader, Split};
use connector_kafka::{KafkaOffset, KafkaSplit, StartupMode};

use crate::common::{Cluster, PATIENCE, Seen, drain, id, next, open_all, pull_until};

#[tokio::test]
async fn a_bounded_read_ends_where_the_log_ended_when_it_began() {
    let cluster = Cluster::with_topic("orders", 3);
    cluster.write_rows("orders", 0, 0..1000);
    cluster.write_rows("orders", 1, 1000..1100);
    let source = cluster.source(&["orders"]).bounded().build().unwrap();
    assert_eq!(source.boundedness(), Boundedness::Bounded);
    let splits = source.discover(&[]).await.unwrap();
    // Too late to be read.
    cluster.write_rows("orders", 1, 1100..1200);
    let mut reader = source.open(splits).await.unwrap();
    let mut seen = drain(&mut reader).await;
    assert_eq!(seen.all(), (0..1100).collect::<Vec<_>>());
    seen.finished.sort();
    assert_eq!(seen.finished, [id("orders", 0), id("orders", 1), id("orders", 2)]);
    assert!(reader.splits().iter().all(KafkaSplit::is_finished), "{:?}", reader.splits());
    // It stays at its end.
    assert!(next(&mut reader).await.unwrap().is_none());
    reader.close().await.unwrap();
}

#[tokio::test]
async fn an_end_offset_is_read_itself_and_is_moved_into_the_log() {
    let cluster = Cluster::with_topic("orders", 2);
    cluster.write_rows("orders", 0, 0..50);
    cluster.write_rows("orders", 1, 50..55);
    let source = cluster
        .source(&["orders"])
        .startup_mode(StartupMode::Offset(3))
        .bounded()
        .end_offset(9)
        .build()
        .unwrap();
    let seen = drain(&mut open_all(&source).await).await;
    assert_eq!(seen.ids[&id("orders", 0)], (3..10).collect::<Vec<_>>());
    assert_eq!(seen.ids[&id("orders", 1)], (53..55).collect::<Vec<_>>());
    assert_eq!(seen.next[&id("orders", 0)], KafkaOffset(10));
}

#[tokio::test]
async fn a_split_that_begins_at_its_end_finishes_without_a_word() {
    let cluster = Cluster::with_topic("orders", 1);
    cluster.write_rows("orders", 0, 0..5);
    let source = cluster.source(&["orders"]).startup_mode(StartupMode::Latest).bounded().build().unwrap();
    let seen = drain(&mut open_all(&source).await).await;
    assert_eq!(seen.finished, [id("orders", 0)]);
    assert_eq!((seen.rows(), seen.announced.len(), seen.next.len()), (0, 0, 0));
}

#[tokio::test]
async fn a_bounded_reader_without_splits_is_at_its_end() {
    let cluster = Cluster::with_topic("orders", 1);
    let source = cluster.source(&["orders"]).bounded().build().unwrap();
    let mut reader = source.open(Vec::new()).await.unwrap();
    assert!(next(&mut reader).await.unwrap().is_none());
}

#[tokio::test]
async fn a_split_with_an_end_of_its_own_finishes_in_an_unbounded_source() {
    let cluster = Cluster::with_topic("orders", 1);
    cluster.write_rows("orders", 0, 0..50);
    let source = cluster.source(&["orders"]).build().unwrap();
    let mut split = KafkaSplit::new("orders", 0).starting_at(10);
    split.end_before(&KafkaOffset(20));
    let mut reader = source.open(vec![split]).await.unwrap();
    let seen = drain(&mut reader).await;
    assert_eq!(seen.all(), (10..20).collect::<Vec<_>>());
    assert_eq!(seen.finished, [id("orders", 0)]);
    assert_eq!(reader.splits()[0].offset(), Some(&KafkaOffset(20)));
}

#[tokio::test]
async fn an_unbounded_reader_without_splits_waits_for_some() {
    let cluster = Cluster::with_topic("orders", 2);
    cluster.write_rows("orders", 1, 0..10);
    let source = cluster.source(&["orders"]).build().unwrap();
    let mut reader = source.open(Vec::new()).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(200), reader.next()).await.is_err());
    reader.add_splits(vec![KafkaSplit::new("orders", 1).starting_at(0)]).await.unwrap();
    let mut seen = Seen::default();
    pull_until(&mut reader, &mut seen, |seen| seen.rows() == 10).await;
}

#[tokio::test]
async fn a_read_repeated_from_any_offset_gives_the_same_rows() {
    let cluster = Cluster::with_topic("orders", 1);
    cluster.write_rows("orders", 0, 0..300);
    let source = cluster.source(&["orders"]).max_batch_rows(64).bounded().build().unwrap();
    let mut splits = source.discover(&[]).await.unwrap();
    let mut ids = Vec::new();
    // Each round reads one batch, gives up, and begins anew from what it has seen.
    loop {
        let mut reader = source.open(splits).await.unwrap();
        let mut seen = Seen::default();
        while seen.batches == 0 {
            match tokio::time::timeout(PATIENCE, reader.next()).await.unwrap().unwrap() {
                Some(event) => seen.note(event),
                None => break,
            }
        }
        splits = reader.splits();
        if seen.batches == 0 {
            break;
        }
        ids.extend(seen.all());
    }
    assert_eq!(ids, (0..300).collect::<Vec<_>>());
}
