//! Topics and partitions: named, matched, missing, and found later.

use std::time::Duration;

use connector_core::{ErrorKind, Source, Split};
use connector_kafka::{KafkaSplit, StartupMode};

use crate::common::{Cluster, Seen, id, open_all, pull_until};

#[tokio::test]
async fn splits_are_the_partitions_of_the_named_topics() {
    let cluster = Cluster::with_topic("orders", 3);
    cluster.mock.create_topic("payments", 1, 1).unwrap();
    cluster.mock.create_topic("orders-old", 1, 1).unwrap();
    let source = cluster.source(&["payments", "orders"]).build().unwrap();
    source.check().await.unwrap();
    let ids: Vec<_> = source.discover(&[]).await.unwrap().iter().map(Split::id).collect();
    assert_eq!(ids, [id("orders", 0), id("orders", 1), id("orders", 2), id("payments", 0)]);
    // Again the same, and only what is not known.
    let again: Vec<_> = source.discover(&ids[..3]).await.unwrap().iter().map(Split::id).collect();
    assert_eq!(again, ids[3..]);
    assert_eq!(source.discover(&ids).await.unwrap(), []);
}

#[tokio::test]
async fn an_expression_matches_whole_names() {
    let cluster = Cluster::with_topic("orders_1", 1);
    for topic in ["orders_22", "orders_333", "my_orders_1", "__orders_1"] {
        cluster.mock.create_topic(topic, 1, 1).unwrap();
    }
    let source = cluster.source(&[r"orders_\d{1,2}", "my_orders_1"]).build().unwrap();
    let ids: Vec<_> = source.discover(&[]).await.unwrap().iter().map(Split::id).collect();
    assert_eq!(ids, [id("my_orders_1", 0), id("orders_1", 0), id("orders_22", 0)]);
}

#[tokio::test]
async fn a_topic_that_does_not_exist_is_told_with_names_like_it() {
    let cluster = Cluster::with_topic("orders", 1);
    // The mock makes topics up when it is asked for one; an error of the broker's is what a real one gives.
    let missing = rdkafka::types::RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    cluster.mock.create_topic("order", 1, 1).unwrap();
    cluster.mock.topic_error("order", missing).unwrap();
    let source = cluster.source(&["order"]).build().unwrap();
    for error in [source.check().await.unwrap_err(), source.discover(&[]).await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert!(error.message().contains("`order` (did you mean `orders`?)"), "{error}");
        assert_eq!(error.context_value("topic"), Some("order"));
    }
}

#[tokio::test]
async fn an_expression_without_a_topic_fails_unless_topics_may_follow() {
    let cluster = Cluster::with_topic("orders", 1);
    let source = cluster.source(&["pay.*"]).build().unwrap();
    let error = source.discover(&[]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.message().contains("`pay.*`"), "{error}");

    let source = cluster.source(&["pay.*"]).discovery_interval_seconds(5).build().unwrap();
    assert_eq!(source.discovery_interval(), Some(Duration::from_secs(5)));
    assert_eq!(source.discover(&[]).await.unwrap(), []);
    // Written before anybody knew of the topic, and yet not lost, though the source starts at the end.
    cluster.mock.create_topic("payments", 1, 1).unwrap();
    cluster.write_rows("payments", 0, 0..10);
    assert_eq!(source.discover(&[]).await.unwrap(), [KafkaSplit::new("payments", 0).starting_at(0)]);
}

#[tokio::test]
async fn what_is_found_later_begins_at_its_first_record_and_joins_the_reader() {
    let cluster = Cluster::with_topic("orders_1", 1);
    cluster.write_rows("orders_1", 0, 0..10);
    let source = cluster
        .source(&["orders_.*"])
        .startup_mode(StartupMode::Latest)
        .discovery_interval_seconds(1)
        .build()
        .unwrap();
    let mut reader = open_all(&source).await;
    cluster.mock.create_topic("orders_2", 2, 1).unwrap();
    cluster.write_rows("orders_2", 1, 100..120);
    let found = source.discover(&[id("orders_1", 0)]).await.unwrap();
    assert_eq!(
        found,
        [KafkaSplit::new("orders_2", 0).starting_at(0), KafkaSplit::new("orders_2", 1).starting_at(0)]
    );
    connector_core::SourceReader::add_splits(&mut reader, found).await.unwrap();
    let mut seen = Seen::default();
    pull_until(&mut reader, &mut seen, |seen| seen.rows() == 20).await;
    cluster.write_rows("orders_1", 0, 10..15);
    pull_until(&mut reader, &mut seen, |seen| seen.rows() == 25).await;
    let expected: Vec<i64> = (10..15).chain(100..120).collect();
    assert_eq!(seen.all(), expected);
}
