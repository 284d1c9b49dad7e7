//! Options of the sink, by what they do.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use connector_core::{ChangeBatch, DeliveryGuarantee, ErrorKind, Sink, SinkWriter};
use connector_kafka::sink::metrics::{BIG_MESSAGES, RECORDS};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use crate::{
    common::Cluster,
    sink::{open, rows, sink, table},
};

/// Counts what the code under test counts.
#[derive(Default)]
struct Counts(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl Counts {
    fn get(&self, name: &str) -> u64 {
        self.0.lock().unwrap().get(name).map_or(0, |count| count.load(Ordering::Relaxed))
    }
}

impl Recorder for Counts {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Arc::clone(self.0.lock().unwrap().entry(key.name().to_owned()).or_default()))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// On one thread, where the counts are.
#[tokio::test]
async fn big_messages_are_counted_and_sent() {
    let counts = Counts::default();
    let _counting = metrics::set_default_local_recorder(&counts);
    for (threshold, big) in [(20_u64, 2), (30, 1), (1000, 0)] {
        let cluster = Cluster::with_topic("orders", 1);
        let (records, before) = (counts.get(RECORDS), counts.get(BIG_MESSAGES));
        let mut writer = open(sink(&cluster, "orders").big_message_threshold(threshold)).await;
        // 18, 26 and 36 bytes.
        let notes = [Some("a"), Some("0123456789"), Some("01234567890123456789")];
        writer.write(&table(), ChangeBatch::append(rows(&[1, 2, 3], &notes))).await.unwrap();
        writer.flush(None).await.unwrap();
        assert_eq!(counts.get(RECORDS) - records, 3, "they are sent all the same");
        assert_eq!(counts.get(BIG_MESSAGES) - before, big, "above {threshold}");
    }
}

/// A request that fails once more than it may be repeated fails its records. Without idempotence, which repeats for as long
/// as it takes.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_repeated_as_often_as_the_options_say() {
    let busy = RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS;
    for (retries, fails) in [(1_u32, true), (3, false)] {
        let cluster = Cluster::with_topic("orders", 1);
        let mut writer = open(
            sink(&cluster, "orders")
                .retries(retries)
                .retry_backoff(Duration::from_millis(1))
                .property("enable.idempotence", "false"),
        )
        .await;
        cluster.mock.request_errors(RDKafkaApiKey::Produce, &[busy; 2]);
        writer.write(&table(), ChangeBatch::append(rows(&[1], &[None]))).await.unwrap();
        assert_eq!(writer.flush(None).await.is_err(), fails, "{retries}");
    }
}

#[tokio::test]
async fn questions_end_within_their_time() {
    let nobody = connector_kafka::KafkaSink::builder()
        .bootstrap_servers("127.0.0.1:1")
        .topic("orders")
        .request_timeout(Duration::from_millis(234));
    let error = nobody.build().unwrap().check(DeliveryGuarantee::AtLeastOnce).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(format!("{error:?} {error}").contains("234ms"), "{error:?}");
}
