//! Kafka works, and the harness fills topics as it says.

use std::time::{Duration, Instant};

use connector_tests::kafka::Record;
use connector_tests::orders::{FIRST_CREATED_AT, Order};
use connector_tests::services::{self, TESTER};
use connector_tests::unique_name;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Message, Offset, TopicPartitionList};

struct Found {
    offset: i64,
    time: Option<i64>,
    value: Option<Vec<u8>>,
}

/// The records of a partition from its first to its last.
fn read_all(client: &mut ClientConfig, topic: &str, partition: i32) -> Vec<Found> {
    let consumer: BaseConsumer = client.set("group.id", "connector-tests").create().unwrap();
    let (low, high) = consumer.fetch_watermarks(topic, partition, Duration::from_secs(30)).unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition, Offset::Offset(low)).unwrap();
    consumer.assign(&list).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut records: Vec<Found> = Vec::new();
    while records.last().map_or(low, |record| record.offset + 1) < high {
        assert!(Instant::now() < deadline, "only {} of {} records came", records.len(), high - low);
        if let Some(message) = consumer.poll(Duration::from_millis(100)) {
            let message = message.unwrap();
            records.push(Found {
                offset: message.offset(),
                time: message.timestamp().to_millis(),
                value: message.payload().map(<[u8]>::to_vec),
            });
        }
    }
    records
}

fn client(bootstrap: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap);
    config
}

#[tokio::test]
async fn orders_go_to_the_partition_of_their_id() {
    let Some(kafka) = services::kafka() else { return };
    let topic = unique_name("orders");
    kafka.create_topic(&topic, 4, &[]).await;
    kafka.produce_orders(&topic, 0..1002, 4).await;
    for (partition, expected) in [(0, 251), (1, 251), (2, 250), (3, 250)] {
        assert_eq!(kafka.watermarks(&topic, partition).await, (0, expected));
    }
    let records = read_all(&mut client(&kafka.bootstrap), &topic, 1);
    for (record, id) in records.into_iter().zip((1..).step_by(4)) {
        let order = Order::new(id);
        let mut json = String::new();
        order.write_json(&mut json);
        assert_eq!(String::from_utf8(record.value.unwrap()).unwrap(), json);
        assert_eq!(u64::try_from(record.offset).unwrap(), id / 4);
        assert_eq!(record.time, Some(order.created_at));
    }

    kafka.delete_records(&topic, 1, 100).await;
    assert_eq!(kafka.watermarks(&topic, 1).await, (100, 251));
    kafka.delete_topic(&topic).await;
}

#[tokio::test]
async fn records_are_written_as_given() {
    let Some(kafka) = services::kafka() else { return };
    let topic = unique_name("records");
    kafka.create_topic(&topic, 2, &[("cleanup.policy", "compact")]).await;
    let tombstone =
        Record { partition: 1, key: Some(b"k".to_vec()), value: None, timestamp: Some(FIRST_CREATED_AT) };
    let keyed = Record { key: Some(b"k".to_vec()), ..Record::new(1, "not json") };
    kafka.produce(&topic, vec![keyed, tombstone]).await;
    let records = read_all(&mut client(&kafka.bootstrap), &topic, 1);
    assert_eq!(records.len(), 2);
    assert_eq!(records[0].value.as_deref(), Some(b"not json".as_slice()));
    assert_eq!((records[1].time, &records[1].value), (Some(FIRST_CREATED_AT), &None));
    assert_eq!(kafka.committed_offset(&unique_name("group"), &topic, 1).await, None);
}

#[tokio::test]
async fn committed_offsets_are_seen() {
    let Some(kafka) = services::kafka() else { return };
    let (topic, group) = (unique_name("committed"), unique_name("group"));
    kafka.create_topic(&topic, 1, &[]).await;
    let consumer: BaseConsumer = client(&kafka.bootstrap).set("group.id", &group).create().unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&topic, 0, Offset::Offset(42)).unwrap();
    consumer.commit(&list, rdkafka::consumer::CommitMode::Sync).unwrap();
    assert_eq!(kafka.committed_offset(&group, &topic, 0).await, Some(42));
}

#[tokio::test]
async fn tls_and_logins_work() {
    let Some(kafka) = services::kafka() else { return };
    let topic = unique_name("secure");
    kafka.create_topic(&topic, 1, &[]).await;
    kafka.produce(&topic, vec![Record::new(0, "value")]).await;

    let mut tls = client(&kafka.tls_bootstrap);
    tls.set("security.protocol", "ssl").set("ssl.ca.location", kafka.certificate.to_str().unwrap());
    assert_eq!(read_all(&mut tls, &topic, 0).len(), 1);

    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        let mut sasl = client(&kafka.sasl_bootstrap);
        sasl.set("security.protocol", "sasl_plaintext").set("sasl.mechanism", mechanism);
        sasl.set("sasl.username", TESTER.0).set("sasl.password", TESTER.1);
        assert_eq!(read_all(&mut sasl, &topic, 0).len(), 1, "{mechanism}");
    }
}
