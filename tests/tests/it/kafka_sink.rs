//! The Kafka sink on a real broker.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use connector_core::{
    CancellationToken, ChangeBatch, FileCheckpointStore, Pipeline, Sink, SinkWriter, Source, SourceEvent,
    SourceReader, TableId, WriterContext,
    arrow::{
        array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray},
        datatypes::UInt64Type,
    },
};
use connector_kafka::{KafkaSink, KafkaSource, StartupMode, format::Json};
use connector_tests::{
    OwnedService, Service, orders,
    services::{self, Kafka},
    unique_name,
};

const ROWS: u64 = 200_000;

fn source(kafka: &Kafka, topic: &str) -> KafkaSource {
    KafkaSource::builder()
        .bootstrap_servers(kafka.bootstrap.as_str())
        .topics([topic])
        .startup_mode(StartupMode::Earliest)
        .bounded()
        .format(Json::with_schema(orders::schema()))
        .build()
        .unwrap()
}

/// How often each id stands in a topic.
async fn ids(kafka: &Kafka, topic: &str) -> BTreeMap<u64, u32> {
    let source = source(kafka, topic);
    let splits = source.discover(&[]).await.unwrap();
    let mut reader = source.open(splits).await.unwrap();
    let mut ids = BTreeMap::new();
    while let Some(event) = reader.next().await.unwrap() {
        if let SourceEvent::Batch { rows, .. } = event {
            for id in rows.rows().column_by_name("id").unwrap().as_primitive::<UInt64Type>().values() {
                *ids.entry(*id).or_default() += 1;
            }
        }
    }
    reader.close().await.unwrap();
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_is_copied_row_by_row() {
    let Some(kafka) = services::kafka() else { return };
    let (from, to) = (unique_name("from"), unique_name("to"));
    kafka.create_topic(&from, 4, &[]).await;
    kafka.create_topic(&to, 3, &[]).await;
    kafka.produce_orders(&from, 0..ROWS, 4).await;
    let sink = KafkaSink::builder()
        .bootstrap_servers(kafka.bootstrap.as_str())
        .topic(to.as_str())
        .key_fields(["id"])
        .build()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let report = Pipeline::new(source(&kafka, &from), sink)
        .parallelism(2)
        .checkpoints(FileCheckpointStore::open(folder.path()).unwrap(), Duration::from_millis(500))
        .run(CancellationToken::new())
        .await
        .unwrap();
    assert_eq!((report.rows_read, report.rows_written), (ROWS, ROWS));
    let ids = ids(&kafka, &to).await;
    assert_eq!(ids.len() as u64, ROWS, "no row is lost");
    assert!(ids.values().all(|count| *count == 1), "and none comes twice");
}

/// Rows of tests of the order of keys: the number of each, and its key.
pub(crate) fn versions(from: i64, keys: i64, rows: i64) -> RecordBatch {
    let numbers: Vec<i64> = (from..from + rows).collect();
    let keys: Vec<String> = numbers.iter().map(|number| format!("key-{}", number % keys)).collect();
    RecordBatch::try_from_iter([
        ("id", Arc::new(Int64Array::from(numbers)) as ArrayRef),
        ("note", Arc::new(StringArray::from(keys)) as ArrayRef),
    ])
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_dies_and_comes_back_loses_nothing_and_keeps_the_order_of_each_key() {
    let Some(broker) = OwnedService::start(Service::Kafka).await else { return };
    let kafka = broker.kafka();
    let topic = unique_name("order");
    kafka.create_topic(&topic, 3, &[]).await;
    let sink = KafkaSink::builder()
        .bootstrap_servers(kafka.bootstrap.as_str())
        .topic(topic.as_str())
        .key_fields(["note"])
        .linger(Duration::from_millis(5))
        .build()
        .unwrap();
    let mut writer = sink.open(WriterContext::default()).await.unwrap();
    let table = TableId::new("", "order");
    let (batches, rows) = (40, 1000);
    let write = async {
        for batch in 0..batches {
            writer.write(&table, ChangeBatch::append(versions(batch * rows, 17, rows))).await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        writer.flush(None).await.unwrap()
    };
    let crash = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        broker.kill().await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        broker.start_again().await;
    };
    let (flushed, ()) = tokio::join!(write, crash);
    assert_eq!(flushed.rows, u64::try_from(batches * rows).unwrap());
    writer.close().await.unwrap();

    let source = KafkaSource::builder()
        .bootstrap_servers(kafka.bootstrap.as_str())
        .topics([topic.as_str()])
        .startup_mode(StartupMode::Earliest)
        .bounded()
        .format(Json::with_schema(versions(0, 1, 1).schema()))
        .build()
        .unwrap();
    let splits = source.discover(&[]).await.unwrap();
    let mut reader = source.open(splits).await.unwrap();
    let mut last: BTreeMap<String, i64> = BTreeMap::new();
    let mut count = 0;
    while let Some(event) = reader.next().await.unwrap() {
        let SourceEvent::Batch { rows, .. } = event else { continue };
        let (numbers, keys) = (rows.rows().column(0), rows.rows().column(1));
        let numbers = numbers.as_primitive::<connector_core::arrow::datatypes::Int64Type>();
        for (number, key) in numbers.values().iter().zip(keys.as_string::<i32>()) {
            let before = last.insert(key.unwrap().to_owned(), *number);
            assert!(before.is_none_or(|before| before < *number), "{key:?}: {number} after {before:?}");
            count += 1;
        }
    }
    assert_eq!(count, batches * rows, "each record is there once");
}
