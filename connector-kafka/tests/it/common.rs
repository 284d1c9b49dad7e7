//! A mock cluster with records in it, and what every test needs around a source.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use connector_core::{
    Error, Source, SourceEvent, SourceReader, SplitId,
    arrow::{
        array::AsArray,
        datatypes::{DataType, Field, Int64Type, Schema, SchemaRef},
    },
};
use connector_kafka::{Json, KafkaOffset, KafkaReader, KafkaSource, KafkaSplit, source::KafkaSourceBuilder};
use rdkafka::{
    ClientConfig,
    message::{Header, OwnedHeaders},
    mocking::MockCluster,
    producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer},
};

/// Far longer than anything here takes; a test that hangs fails by it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Columns `id` (not null) and `note`.
pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("note", DataType::Utf8, true),
    ]))
}

/// A broker in this process.
pub(crate) struct Cluster {
    pub(crate) mock: MockCluster<'static, DefaultProducerContext>,
    producer: BaseProducer,
}

impl Cluster {
    /// One broker with a topic of so many partitions.
    pub(crate) fn with_topic(topic: &str, partitions: i32) -> Self {
        let mock = MockCluster::new(1).unwrap();
        mock.create_topic(topic, partitions, 1).unwrap();
        let producer = ClientConfig::new()
            .set("bootstrap.servers", mock.bootstrap_servers())
            .set("linger.ms", "1")
            .create()
            .unwrap();
        Self { mock, producer }
    }

    pub(crate) fn address(&self) -> String {
        self.mock.bootstrap_servers()
    }

    /// The broker alone, without the client that wrote to it.
    pub(crate) fn into_mock(self) -> MockCluster<'static, DefaultProducerContext> {
        self.mock
    }

    /// Writes one record; `None` for a tombstone.
    pub(crate) fn write(&self, topic: &str, partition: i32, key: &str, value: Option<&[u8]>) {
        let mut record = BaseRecord::to(topic).partition(partition).key(key);
        record.payload = value;
        self.producer.send(record).map_err(|(e, _)| e).unwrap();
        self.flush();
    }

    /// Writes one record with a time and headers, of which a value may be missing.
    pub(crate) fn write_with(
        &self,
        topic: &str,
        key: &str,
        value: &str,
        time: i64,
        headers: &[(&str, Option<&str>)],
    ) {
        let mut owned = OwnedHeaders::new();
        for (key, value) in headers {
            owned = owned.insert(Header { key, value: *value });
        }
        let record =
            BaseRecord::to(topic).partition(0).key(key).payload(value).timestamp(time).headers(owned);
        self.producer.send(record).map_err(|(e, _)| e).unwrap();
        self.flush();
    }

    /// Queues one record; [`Self::flush`] writes it.
    pub(crate) fn queue(&self, topic: &str, partition: i32, value: &[u8]) {
        let record = BaseRecord::<str, [u8]>::to(topic).partition(partition).payload(value);
        self.producer.send(record).map_err(|(e, _)| e).unwrap();
    }

    pub(crate) fn flush(&self) {
        self.producer.flush(PATIENCE).unwrap();
    }

    /// Writes rows with the ids of `ids`.
    pub(crate) fn write_rows(&self, topic: &str, partition: i32, ids: std::ops::Range<i64>) {
        for id in ids {
            self.queue(topic, partition, row(id).as_bytes());
        }
        self.flush();
    }

    /// A builder for the topics of this cluster, with time-outs that suit a test.
    pub(crate) fn source(&self, topics: &[&str]) -> KafkaSourceBuilder {
        source(&self.address(), topics)
    }
}

/// The same for any cluster.
pub(crate) fn source(address: &str, topics: &[&str]) -> KafkaSourceBuilder {
    KafkaSource::builder()
        .bootstrap_servers(address)
        .topics(topics.to_vec())
        .request_timeout(Duration::from_secs(20))
        .max_batch_wait(Duration::from_millis(20))
        .format(Json::with_schema(schema()))
}

/// A row as it stands in a record.
pub(crate) fn row(id: i64) -> String {
    format!(r#"{{"id":{id},"note":"note {id}"}}"#)
}

/// What came out of a reader so far.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Ids by split, in order.
    pub(crate) ids: BTreeMap<SplitId, Vec<i64>>,
    pub(crate) dead: Vec<connector_core::BadRecord>,
    pub(crate) finished: Vec<SplitId>,
    pub(crate) announced: Vec<SplitId>,
    /// Offsets by split, as the events gave them.
    pub(crate) next: BTreeMap<SplitId, KafkaOffset>,
    pub(crate) batches: usize,
}

impl Seen {
    pub(crate) fn note(&mut self, event: SourceEvent<KafkaSplit>) {
        match event {
            SourceEvent::Batch { split, rows, next, .. } => {
                assert!(self.announced.contains(&split), "rows of a table that was not announced");
                assert!(rows.num_rows() > 0, "an empty batch");
                assert!(rows.is_append_only());
                let ids = rows.rows().column(0).as_primitive::<Int64Type>();
                self.ids.entry(split.clone()).or_default().extend(ids.values());
                self.batches += 1;
                self.move_to(split, next);
            }
            SourceEvent::DeadLetters { split, records, next } => {
                self.dead.extend(records);
                self.move_to(split, next);
            }
            SourceEvent::Advanced { split, next } => self.move_to(split, next),
            SourceEvent::Schema { split, next, .. } => {
                assert_eq!(next, None);
                self.announced.push(split);
            }
            SourceEvent::Finished { split } => self.finished.push(split),
            other => panic!("{other:?}"),
        }
    }

    fn move_to(&mut self, split: SplitId, next: KafkaOffset) {
        let before = self.next.insert(split, next);
        assert!(before.is_none_or(|before| before <= next), "an offset went back");
    }

    /// All ids, whatever their split.
    pub(crate) fn all(&self) -> Vec<i64> {
        let mut all: Vec<i64> = self.ids.values().flatten().copied().collect();
        all.sort_unstable();
        all
    }

    pub(crate) fn rows(&self) -> usize {
        self.ids.values().map(Vec::len).sum()
    }
}

/// The next event, or a failed test when it does not come.
pub(crate) async fn next(reader: &mut KafkaReader) -> Result<Option<SourceEvent<KafkaSplit>>, Error> {
    tokio::time::timeout(PATIENCE, reader.next()).await.expect("no event came")
}

/// Pulls until the source says that it is at its end.
pub(crate) async fn drain(reader: &mut KafkaReader) -> Seen {
    let mut seen = Seen::default();
    while let Some(event) = next(reader).await.unwrap() {
        seen.note(event);
    }
    seen
}

/// Pulls until `enough`.
pub(crate) async fn pull_until(reader: &mut KafkaReader, seen: &mut Seen, enough: impl Fn(&Seen) -> bool) {
    let until = Instant::now() + PATIENCE;
    while !enough(seen) {
        assert!(Instant::now() < until, "not enough came: {seen:?}");
        let event = next(reader).await.unwrap().expect("the source is at its end");
        seen.note(event);
    }
}

/// Discovers and opens everything.
pub(crate) async fn open_all(source: &KafkaSource) -> KafkaReader {
    let splits = source.discover(&[]).await.unwrap();
    source.open(splits).await.unwrap()
}

pub(crate) fn id(topic: &str, partition: i32) -> SplitId {
    SplitId::new(format!("{topic}-{partition}"))
}
