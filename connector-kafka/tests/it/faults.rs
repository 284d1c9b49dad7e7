//! Brokers that are not there, refuse, go away and come back.

use std::{
    net::TcpListener,
    time::{Duration, Instant},
};

use connector_core::{ErrorKind, Source, SourceReader};
use connector_kafka::{Json, KafkaSource, KafkaSplit, StartupMode};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr as Err};

use crate::common::{Cluster, PATIENCE, Seen, open_all, pull_until, schema};

/// An address where nobody listens.
fn nobody() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

fn source_at(address: &str) -> KafkaSource {
    KafkaSource::builder()
        .bootstrap_servers(address)
        .topics(["orders"])
        .request_timeout(Duration::from_millis(1500))
        .format(Json::with_schema(schema()))
        .build()
        .unwrap()
}

#[tokio::test]
async fn a_wrong_address_is_told_within_the_time_out() {
    let source = source_at(&nobody());
    let split = KafkaSplit::new("orders", 0).starting_at(0);
    let begin = Instant::now();
    let errors =
        [source.check().await.err(), source.discover(&[]).await.err(), source.open(vec![split]).await.err()];
    for error in errors {
        let error = error.unwrap();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.is_transient(), "{error}");
        assert!(
            error.message().contains("bootstrap_servers") && error.message().contains("refused"),
            "{error}"
        );
        assert_eq!(error.context_value("timeout"), Some("1.5s"));
    }
    // Three calls of 1.5 s each, and far less than the client's own time-outs.
    assert!(begin.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn a_server_that_never_answers_is_told_within_the_time_out() {
    // Connections are taken by the system and never read from.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let source = source_at(&listener.local_addr().unwrap().to_string());
    let error = tokio::time::timeout(PATIENCE, source.check()).await.unwrap().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout), "{error}");
    assert!(error.is_transient(), "{error}");
}

#[tokio::test]
async fn a_server_that_ends_the_connection_is_told_from_one_that_is_not_there() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let source = source_at(&listener.local_addr().unwrap().to_string());
    // Takes a connection, reads a little, and leaves; as a broker does that expects TLS.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _cut = std::io::Read::read(&mut stream.unwrap(), &mut [0; 4]);
        }
    });
    let error = source.check().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.message().contains("security.protocol"), "{error}");
}

#[tokio::test]
async fn a_topic_that_may_not_be_read_is_a_matter_of_permission() {
    let cluster = Cluster::with_topic("orders", 1);
    cluster.mock.topic_error("orders", Err::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED).unwrap();
    let error = cluster.source(&["orders"]).build().unwrap().check().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert_eq!(error.context_value("topic"), Some("orders"));
}

#[tokio::test]
async fn questions_are_asked_again_while_the_cluster_is_busy() {
    let cluster = Cluster::with_topic("orders", 2);
    cluster.write_rows("orders", 0, 0..5);
    let busy = [
        Err::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        Err::RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE,
        Err::RD_KAFKA_RESP_ERR_OFFSET_NOT_AVAILABLE,
    ];
    cluster.mock.request_errors(RDKafkaApiKey::ListOffsets, &busy);
    let source = cluster.source(&["orders"]).startup_mode(StartupMode::Earliest).build().unwrap();
    assert_eq!(source.discover(&[]).await.unwrap().len(), 2);
}

#[tokio::test]
async fn an_outage_is_waited_out_and_nothing_is_lost() {
    let cluster = Cluster::with_topic("orders", 1);
    cluster.write_rows("orders", 0, 0..10);
    let source = cluster.source(&["orders"]).startup_mode(StartupMode::Earliest).build().unwrap();
    let mut reader = open_all(&source).await;
    let mut seen = Seen::default();
    pull_until(&mut reader, &mut seen, |seen| seen.rows() == 10).await;
    cluster.mock.broker_down(-1).unwrap();
    // No error, however often it tries meanwhile.
    assert!(tokio::time::timeout(Duration::from_secs(3), reader.next()).await.is_err());
    cluster.mock.broker_up(-1).unwrap();
    cluster.write_rows("orders", 0, 10..20);
    pull_until(&mut reader, &mut seen, |seen| seen.rows() == 20).await;
    assert_eq!(seen.all(), (0..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn errors_of_a_fetch_that_pass_lose_and_repeat_nothing() {
    let cluster = Cluster::with_topic("orders", 1);
    let source = cluster.source(&["orders"]).startup_mode(StartupMode::Earliest).build().unwrap();
    let mut reader = open_all(&source).await;
    let mut seen = Seen::default();
    let passing = [
        Err::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        Err::RD_KAFKA_RESP_ERR__TRANSPORT,
        Err::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
        Err::RD_KAFKA_RESP_ERR_BROKER_NOT_AVAILABLE,
        Err::RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR,
    ];
    for (round, error) in (0_i64..).zip(passing) {
        cluster.mock.request_errors(RDKafkaApiKey::Fetch, &[error]);
        cluster.write_rows("orders", 0, round * 10..round * 10 + 10);
        let rows = usize::try_from(round * 10 + 10).unwrap();
        pull_until(&mut reader, &mut seen, |seen| seen.rows() >= rows).await;
    }
    assert_eq!(seen.all(), (0..50).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_fetch_that_is_forbidden_ends_the_read_and_names_the_partition() {
    let cluster = Cluster::with_topic("orders", 1);
    let source = cluster.source(&["orders"]).startup_mode(StartupMode::Earliest).build().unwrap();
    let mut reader = open_all(&source).await;
    cluster
        .mock
        .request_errors(RDKafkaApiKey::Fetch, &[Err::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED; 3]);
    let error = tokio::time::timeout(PATIENCE, reader.next()).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert_eq!(error.operation(), "kafka.fetch");
    assert_eq!(error.context_value("topic"), Some("orders"));
    assert_eq!(error.context_value("partition"), Some("0"));
}

#[tokio::test]
async fn an_offset_that_is_lost_while_reading_is_an_error_unless_the_user_said_where_to_go_on() {
    let cluster = Cluster::with_topic("orders", 1);
    cluster.write_rows("orders", 0, 0..10);
    for reset in [None, Some(connector_kafka::AutoOffsetReset::Earliest)] {
        let mut builder = cluster.source(&["orders"]).startup_mode(StartupMode::Offset(5));
        if let Some(reset) = reset {
            builder = builder.auto_offset_reset(reset);
        }
        let mut reader = open_all(&builder.build().unwrap()).await;
        let mut seen = Seen::default();
        pull_until(&mut reader, &mut seen, |seen| seen.rows() == 5).await;
        cluster.mock.request_errors(RDKafkaApiKey::Fetch, &[Err::RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE]);
        if reset.is_none() {
            let error = tokio::time::timeout(PATIENCE, reader.next()).await.unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CheckpointInvalid, "{error}");
            for (key, value) in
                [("topic", "orders"), ("partition", "0"), ("offset", "10"), ("available", "0..10")]
            {
                assert_eq!(error.context_value(key), Some(value), "{error}");
            }
        } else {
            // The records come again, from the first one on.
            let mut again = Seen::default();
            again.announced.clone_from(&seen.announced);
            pull_until(&mut reader, &mut again, |seen| seen.rows() == 10).await;
            assert_eq!(again.all(), (0..10).collect::<Vec<_>>());
        }
    }
}
