//! Where reading begins.

use connector_core::{Boundedness, ChangelogMode, ErrorKind, Source, SourceReader, Split};
use connector_kafka::{AutoOffsetReset, KafkaOffset, KafkaSplit, StartupMode};

use crate::common::{Cluster, Seen, drain, id, open_all, pull_until};

#[tokio::test]
async fn earliest_reads_everything_and_goes_on() {
    let cluster = Cluster::with_topic("orders", 2);
    cluster.write_rows("orders", 0, 0..50);
    cluster.write_rows("orders", 1, 50..80);
    let source = cluster.source(&["orders"]).startup_mode(StartupMode::Earliest).build().unwrap();
    assert_eq!(source.boundedness(), Boundedness::Unbounded);
    assert_eq!(source.changelog_mode(), ChangelogMode::Append);
    let mut reader = open_all(&source).await;
    let mut seen = Seen::default();
    pull_until(&mut reader, &mut seen, |seen| seen.rows() == 80).await;
    cluster.write_rows("orders", 1, 80..90);
    pull_until(&mut reader, &mut seen, |seen| seen.rows() == 90).await;
    assert_eq!(seen.ids[&id("orders", 0)], (0..50).collect::<Vec<_>>());
    assert_eq!(seen.ids[&id("orders", 1)], (50..90).collect::<Vec<_>>());
    assert_eq!(seen.next[&id("orders", 1)], KafkaOffset(40));
    assert_eq!(seen.announced.len(), 2);
    reader.close().await.unwrap();
}

#[tokio::test]
async fn latest_begins_behind_what_is_there_when_the_splits_are_found() {
    let cluster = Cluster::with_topic("orders", 1);
    cluster.write_rows("orders", 0, 0..50);
    // Nothing says otherwise, so an unbounded source starts at the end.
    let source = cluster.source(&["orders"]).build().unwrap();
    let splits = source.discover(&[]).await.unwrap();
    assert_eq!(splits, [KafkaSplit::new("orders", 0).starting_at(50)]);
    // Written between discovery and opening: not lost.
    cluster.write_rows("orders", 0, 50..60);
    let mut reader = source.open(splits).await.unwrap();
    let mut seen = Seen::default();
    pull_until(&mut reader, &mut seen, |seen| seen.rows() == 10).await;
    assert_eq!(seen.all(), (50..60).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_offset_begins_there_in_every_partition_moved_into_its_log() {
    let cluster = Cluster::with_topic("orders", 3);
    cluster.write_rows("orders", 0, 0..50);
    cluster.write_rows("orders", 1, 100..110);
    let source = cluster.source(&["orders"]).startup_mode(StartupMode::Offset(20)).bounded().build().unwrap();
    let splits = source.discover(&[]).await.unwrap();
    let starts: Vec<_> = splits.iter().map(|split| split.offset.unwrap().0).collect();
    assert_eq!(starts, [20, 10, 0]);
    let mut reader = source.open(splits).await.unwrap();
    let seen = drain(&mut reader).await;
    assert_eq!(seen.all(), (20..50).collect::<Vec<_>>());
    assert_eq!(seen.finished.len(), 3);
}

#[tokio::test]
async fn a_saved_offset_wins_over_the_startup_mode() {
    let cluster = Cluster::with_topic("orders", 1);
    cluster.write_rows("orders", 0, 0..50);
    let source = cluster.source(&["orders"]).startup_mode(StartupMode::Latest).build().unwrap();
    let mut reader = source.open(vec![KafkaSplit::new("orders", 0).starting_at(7)]).await.unwrap();
    let mut seen = Seen::default();
    pull_until(&mut reader, &mut seen, |seen| seen.rows() == 43).await;
    assert_eq!(seen.all(), (7..50).collect::<Vec<_>>());
    assert_eq!(reader.splits()[0].offset(), Some(&KafkaOffset(50)));
}

#[tokio::test]
async fn a_split_without_an_offset_is_looked_up_when_it_is_opened() {
    let cluster = Cluster::with_topic("orders", 1);
    cluster.write_rows("orders", 0, 0..50);
    let source = cluster.source(&["orders"]).startup_mode(StartupMode::Offset(45)).bounded().build().unwrap();
    let mut reader = source.open(vec![KafkaSplit::new("orders", 0)]).await.unwrap();
    assert_eq!(
        reader.splits(),
        [KafkaSplit { stop: Some(KafkaOffset(50)), ..KafkaSplit::new("orders", 0).starting_at(45) }]
    );
    assert_eq!(drain(&mut reader).await.all(), (45..50).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_offset_that_the_log_does_not_have_is_refused_by_name() {
    let cluster = Cluster::with_topic("orders", 1);
    cluster.write_rows("orders", 0, 0..50);
    let source = cluster.source(&["orders"]).build().unwrap();
    let error = source.open(vec![KafkaSplit::new("orders", 0).starting_at(51)]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CheckpointInvalid, "{error}");
    assert_eq!(error.operation(), "kafka.open");
    for (key, value) in [("topic", "orders"), ("partition", "0"), ("offset", "51"), ("available", "0..50")] {
        assert_eq!(error.context_value(key), Some(value), "{error}");
    }
    // At the very end is a place to be.
    source.open(vec![KafkaSplit::new("orders", 0).starting_at(50)]).await.unwrap();
}

#[tokio::test]
async fn an_end_that_the_log_does_not_have_is_refused_too() {
    let cluster = Cluster::with_topic("orders", 1);
    cluster.write_rows("orders", 0, 0..50);
    let split = KafkaSplit { stop: Some(KafkaOffset(60)), ..KafkaSplit::new("orders", 0).starting_at(40) };
    let source = cluster.source(&["orders"]).build().unwrap();
    let error = source.open(vec![split.clone()]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CheckpointInvalid, "{error}");
    assert_eq!(error.context_value("offset"), Some("60"));
    let source = cluster.source(&["orders"]).auto_offset_reset(AutoOffsetReset::Earliest).build().unwrap();
    let mut reader = source.open(vec![split]).await.unwrap();
    assert_eq!(drain(&mut reader).await.all(), (40..50).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_reset_policy_that_the_user_set_goes_on_elsewhere() {
    let cluster = Cluster::with_topic("orders", 1);
    cluster.write_rows("orders", 0, 0..50);
    for (policy, expected) in [(AutoOffsetReset::Earliest, 0), (AutoOffsetReset::Latest, 50)] {
        let source = cluster.source(&["orders"]).auto_offset_reset(policy).build().unwrap();
        let reader = source.open(vec![KafkaSplit::new("orders", 0).starting_at(99)]).await.unwrap();
        assert_eq!(reader.splits()[0].offset(), Some(&KafkaOffset(expected)));
    }
}
