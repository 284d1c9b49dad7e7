//! Committing, closing, dropping: what is left when a reader goes.

use std::{
    fs,
    time::{Duration, Instant},
};

use connector_core::{ErrorKind, Source, SourceReader};
use connector_kafka::{KafkaReader, KafkaSource, StartupMode};
use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    types::{RDKafkaApiKey, RDKafkaRespErr as Err},
};

use crate::common::{Cluster, PATIENCE, Seen, open_all, pull_until, source};

/// What a reader may take to go, in all.
const DEADLINE: Duration = Duration::from_secs(5);

/// The offset that the group has for partition 0.
pub(crate) fn committed(cluster: &Cluster, group: &str) -> Offset {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", cluster.address())
        .set("group.id", group)
        .create()
        .unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition("orders", 0);
    let committed = consumer.committed_offsets(list, PATIENCE).unwrap();
    committed.elements()[0].offset()
}

async fn reading(source: &KafkaSource, rows: usize) -> KafkaReader {
    let mut reader = open_all(source).await;
    let mut seen = Seen::default();
    pull_until(&mut reader, &mut seen, |seen| seen.rows() == rows).await;
    reader
}

#[tokio::test]
async fn only_what_was_acknowledged_is_committed() {
    let cluster = Cluster::with_topic("orders", 1);
    cluster.write_rows("orders", 0, 0..10);
    let source =
        cluster.source(&["orders"]).group_id("g").startup_mode(StartupMode::Earliest).build().unwrap();
    let mut reader = reading(&source, 10).await;
    let splits = reader.splits();
    reader.close().await.unwrap();
    assert_eq!(committed(&cluster, "g"), Offset::Invalid, "closing commits nothing by itself");

    // Read and dropped: nothing either.
    drop(reading(&source, 10).await);
    assert_eq!(committed(&cluster, "g"), Offset::Invalid);

    // Less than what was read, as a checkpoint has it; the next offset, so that the lag of a group that is done is 0.
    let mut reader = reading(&source, 10).await;
    let mut behind = splits.clone();
    behind[0].offset = Some(connector_kafka::KafkaOffset(7));
    reader.acknowledge(&behind).await.unwrap();
    reader.close().await.unwrap();
    assert_eq!(committed(&cluster, "g"), Offset::Offset(7));

    // While reading goes on.
    let mut reader = source.open(splits.clone()).await.unwrap();
    reader.acknowledge(&splits).await.unwrap();
    let until = Instant::now() + PATIENCE;
    while committed(&cluster, "g") != Offset::Offset(10) {
        assert!(Instant::now() < until, "{:?}", committed(&cluster, "g"));
    }
    reader.close().await.unwrap();
}

#[tokio::test]
async fn a_commit_that_fails_hurts_nobody() {
    let cluster = Cluster::with_topic("orders", 1);
    cluster.write_rows("orders", 0, 0..10);
    let source = cluster.source(&["orders"]).startup_mode(StartupMode::Earliest).build().unwrap();
    let mut reader = reading(&source, 10).await;
    let errors =
        [Err::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED, Err::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID];
    cluster.mock.request_errors(RDKafkaApiKey::OffsetCommit, &errors);
    for _ in errors {
        reader.acknowledge(&reader.splits()).await.unwrap();
        cluster.write_rows("orders", 0, 10..11);
        let mut seen = Seen::default();
        seen.announced.push(crate::common::id("orders", 0));
        pull_until(&mut reader, &mut seen, |seen| seen.rows() == 1).await;
    }
    reader.close().await.unwrap();
}

#[tokio::test]
async fn a_closed_reader_does_nothing_more() {
    let cluster = Cluster::with_topic("orders", 1);
    let source = cluster.source(&["orders"]).build().unwrap();
    let mut reader = open_all(&source).await;
    reader.close().await.unwrap();
    reader.close().await.unwrap();
    assert_eq!(reader.next().await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(reader.add_splits(Vec::new()).await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(reader.acknowledge(&[]).await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(reader.splits().len(), 1);
}

#[tokio::test]
async fn closing_keeps_its_deadline_while_no_broker_answers() {
    let cluster = Cluster::with_topic("orders", 1);
    cluster.write_rows("orders", 0, 0..10);
    let source = cluster.source(&["orders"]).startup_mode(StartupMode::Earliest).build().unwrap();
    let mut reader = reading(&source, 10).await;
    cluster.mock.broker_down(-1).unwrap();
    // A commit that can never arrive must not hold it up either.
    reader.acknowledge(&reader.splits()).await.unwrap();
    let begin = Instant::now();
    reader.close().await.unwrap();
    assert!(begin.elapsed() < DEADLINE + Duration::from_secs(1), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn closing_keeps_its_deadline_while_a_broker_hangs() {
    let cluster = Cluster::with_topic("orders", 1);
    cluster.write_rows("orders", 0, 0..10);
    let mock = cluster.into_mock();
    let source =
        source(&mock.bootstrap_servers(), &["orders"]).startup_mode(StartupMode::Earliest).build().unwrap();
    let mut reader = reading(&source, 10).await;
    // Requests are taken and not answered.
    mock.broker_round_trip_time(-1, Duration::from_secs(120)).unwrap();
    reader.acknowledge(&reader.splits()).await.unwrap();
    let begin = Instant::now();
    reader.close().await.unwrap();
    assert!(begin.elapsed() < DEADLINE + Duration::from_secs(1), "{:?}", begin.elapsed());
}

/// Names of the threads of this process, those of librdkafka's clients included and the runtime's not.
fn threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::io::Result<fs::DirEntry>| fs::read_to_string(task.unwrap().path().join("comm"));
    let names = tasks.filter_map(|task| name(task).ok()).map(|name| name.trim().to_owned());
    names.filter(|name| !name.starts_with("tokio")).collect()
}

/// Runs in a process of its own: what it counts must be its own.
#[test]
fn no_thread_is_left() {
    if std::env::var_os("CONNECTOR_KAFKA_COUNT_THREADS").is_none() {
        let program = std::env::current_exe().unwrap();
        let output = std::process::Command::new(program)
            .args(["--exact", "lifecycle::no_thread_is_left", "--nocapture", "--test-threads=1"])
            .env("CONNECTOR_KAFKA_COUNT_THREADS", "1")
            .output()
            .unwrap();
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let cluster = Cluster::with_topic("orders", 1);
    cluster.write_rows("orders", 0, 0..10);
    let mock = cluster.into_mock();
    let address = mock.bootstrap_servers();
    let before = threads().len();
    for (how, broker_is_up) in
        [("close", true), ("drop", true), ("drop", false), ("runtime", true), ("runtime", false)]
    {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let source = source(&address, &["orders"]).startup_mode(StartupMode::Earliest).build().unwrap();
        let mut reader = runtime.block_on(reading(&source, 10));
        assert!(threads().iter().any(|name| name == "kafka-reader"), "{:?}", threads());
        if !broker_is_up {
            mock.broker_down(-1).unwrap();
        }
        let begin = Instant::now();
        match how {
            "close" => runtime.block_on(reader.close()).unwrap(),
            "drop" => runtime.block_on(async { drop(reader) }),
            _ => {
                // Its future is cancelled, then the runtime goes before the reader does.
                let waiting = async { tokio::time::timeout(Duration::from_millis(50), reader.next()).await };
                assert!(runtime.block_on(waiting).is_err());
                drop(runtime);
                assert!(
                    begin.elapsed() < Duration::from_secs(1),
                    "{how}: dropping the runtime took {:?}",
                    begin.elapsed()
                );
                let begin = Instant::now();
                drop(reader);
                assert!(begin.elapsed() < Duration::from_millis(500), "{how}: {:?}", begin.elapsed());
            }
        }
        if how == "drop" {
            assert!(begin.elapsed() < Duration::from_millis(500), "{how}: {:?}", begin.elapsed());
        }
        while threads().len() > before && begin.elapsed() < PATIENCE {
            std::thread::park_timeout(Duration::from_millis(20));
        }
        assert!(threads().len() <= before, "{how}, {broker_is_up}: {:?}", threads());
        assert!(
            begin.elapsed() < DEADLINE + Duration::from_secs(1),
            "{how}, {broker_is_up}: {:?}",
            begin.elapsed()
        );
        mock.broker_up(-1).unwrap();
    }
}

#[tokio::test]
async fn a_question_that_is_cancelled_leaves_at_once() {
    let cluster = Cluster::with_topic("orders", 1);
    let source = cluster.source(&["orders"]).request_timeout(Duration::from_secs(600)).build().unwrap();
    cluster.mock.broker_down(-1).unwrap();
    let begin = Instant::now();
    assert!(tokio::time::timeout(Duration::from_millis(100), source.check()).await.is_err());
    assert!(begin.elapsed() < Duration::from_secs(2));
    while threads().iter().any(|name| name == "kafka.check") && begin.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(begin.elapsed() < DEADLINE, "{:?}", begin.elapsed());
}
