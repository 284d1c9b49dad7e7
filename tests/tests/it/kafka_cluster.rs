//! A cluster of three brokers that loses one while records flow both ways.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed},
    time::Duration,
};

use connector_core::{
    ChangeBatch, Sink, SinkWriter, Source, SourceEvent, SourceReader, TableId, WriterContext,
    arrow::{array::AsArray, datatypes::Int64Type},
};
use connector_kafka::{KafkaReader, KafkaSink, KafkaSource, StartupMode, format::Json};
use connector_tests::{OwnedService, services::Kafka, unique_name};
use tokio::time::{sleep, timeout};

use crate::kafka_sink::versions;

/// 1,000,000 show no more.
const ROWS: i64 = 200_000;
const BATCH: i64 = 2_000;
/// A prime, so that each batch has rows of all keys.
const KEYS: i64 = 997;
const PARTITIONS: i32 = 6;
const LIMIT: Duration = Duration::from_secs(240);

/// What the three parts of the test know of each other.
#[derive(Default)]
struct Progress {
    written: AtomicI64,
    read: AtomicI64,
    killed: AtomicBool,
}

/// Writes all rows, with a flush now and then. Half of them wait until the broker is gone.
async fn write(kafka: &Kafka, topic: &str, rows: i64, progress: &Progress) -> u64 {
    let sink = KafkaSink::builder()
        .bootstrap_servers(kafka.bootstrap.as_str())
        .topic(topic)
        .key_fields(["note"])
        .linger(Duration::from_millis(5))
        .build()
        .unwrap();
    let mut writer = sink.open(WriterContext::default()).await.unwrap();
    let table = TableId::new("", topic);
    let mut flushed = 0;
    for from in (0..rows).step_by(usize::try_from(BATCH).unwrap()) {
        while from >= rows / 2 && !progress.killed.load(Relaxed) {
            sleep(Duration::from_millis(5)).await;
        }
        writer.write(&table, ChangeBatch::append(versions(from, KEYS, BATCH))).await.unwrap();
        progress.written.store(from + BATCH, Relaxed);
        if from % (20 * BATCH) == 0 {
            flushed += writer.flush(None).await.unwrap().rows;
        }
    }
    flushed += writer.flush(None).await.unwrap().rows;
    writer.close().await.unwrap();
    flushed
}

async fn open(kafka: &Kafka, topic: &str) -> KafkaReader {
    let source = KafkaSource::builder()
        .bootstrap_servers(kafka.bootstrap.as_str())
        .topics([topic])
        .startup_mode(StartupMode::Earliest)
        .format(Json::with_schema(versions(0, 1, 1).schema()))
        .build()
        .unwrap();
    source.open(source.discover(&[]).await.unwrap()).await.unwrap()
}

/// Reads all rows: the numbers of a key come in their order, and so none comes twice.
async fn read(mut reader: KafkaReader, rows: i64, progress: &Progress) {
    let mut last: BTreeMap<String, i64> = BTreeMap::new();
    while progress.read.load(Relaxed) < rows {
        let event = reader.next().await.unwrap().expect("a source without an end");
        let SourceEvent::Batch { rows, .. } = event else { continue };
        let (numbers, keys) = (rows.rows().column(0), rows.rows().column(1));
        let numbers = numbers.as_primitive::<Int64Type>();
        for (number, key) in numbers.values().iter().zip(keys.as_string::<i32>()) {
            let key = key.unwrap();
            // Every KEYS-th number has the same key.
            let expected = match last.get(key) {
                Some(before) => before + KEYS,
                None => key.trim_start_matches("key-").parse().unwrap(),
            };
            assert_eq!(*number, expected, "{key}: out of order, twice or lost");
            last.insert(key.to_owned(), *number);
        }
        progress.read.fetch_add(i64::try_from(rows.rows().num_rows()).unwrap(), Relaxed);
    }
    reader.close().await.unwrap();
}

/// Kills the leader of a partition when records flow both ways, and starts it again when another leads.
async fn lose_a_broker(cluster: &OwnedService, kafka: &Kafka, topic: &str, rows: i64, progress: &Progress) {
    while progress.written.load(Relaxed) < rows / 4 || progress.read.load(Relaxed) < rows / 10 {
        sleep(Duration::from_millis(5)).await;
    }
    let leader = kafka.leader(topic, 0).await.expect("a leader");
    cluster.kill_broker(leader).await;
    progress.killed.store(true, Relaxed);
    assert!(progress.written.load(Relaxed) <= rows / 2, "the other half is written without it");
    while kafka.leader(topic, 0).await.is_none_or(|now| now == leader) {
        sleep(Duration::from_millis(100)).await;
    }
    sleep(Duration::from_secs(1)).await;
    cluster.start_missing().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_loses_a_broker_loses_no_record_and_keeps_the_order_of_each_key() {
    let Some(cluster) = OwnedService::start_kafka(3).await else { return };
    let kafka = cluster.kafka();
    let rows = std::env::var("CONNECTOR_TEST_ROWS").map_or(ROWS, |rows| rows.parse().unwrap());
    let topic = unique_name("cluster");
    kafka.create_topic(&topic, PARTITIONS, &[("min.insync.replicas", "2")]).await;
    let reader = open(&kafka, &topic).await;
    let progress = Progress::default();
    let all = async {
        tokio::join!(
            write(&kafka, &topic, rows, &progress),
            read(reader, rows, &progress),
            lose_a_broker(&cluster, &kafka, &topic, rows, &progress),
        )
    };
    let Ok((flushed, (), ())) = timeout(LIMIT, all).await else {
        panic!("after {LIMIT:?}: {:?} written, {:?} read", progress.written, progress.read);
    };
    assert_eq!(i64::try_from(flushed).unwrap(), rows);
    // The log has each once, too: no record stands behind those that were read.
    let mut ends = 0;
    for partition in 0..PARTITIONS {
        ends += kafka.watermarks(&topic, partition).await.1;
    }
    assert_eq!(ends, rows);
}
