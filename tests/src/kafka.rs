//! What tests do with a Kafka cluster beside the code under test: make topics, fill them, look at offsets.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer as _, ProducerContext};
use rdkafka::{ClientContext, Message as _, Offset, TopicPartitionList};

use crate::orders::Order;
use crate::services::Kafka;

const TIMEOUT: Duration = Duration::from_secs(30);

/// One record to be written. An absent value is a tombstone.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Where it goes.
    pub partition: i32,
    /// The key, if any.
    pub key: Option<Vec<u8>>,
    /// The value, if any.
    pub value: Option<Vec<u8>>,
    /// The time in milliseconds since 1970; the time of writing when absent.
    pub timestamp: Option<i64>,
}

impl Record {
    /// A record with a value and no key.
    #[must_use]
    pub fn new(partition: i32, value: impl Into<Vec<u8>>) -> Self {
        Self { partition, value: Some(value.into()), ..Self::default() }
    }
}

/// A record as a plain client reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// Where it stands.
    pub partition: i32,
    /// Its offset there.
    pub offset: i64,
    /// The key, if any.
    pub key: Option<Vec<u8>>,
    /// The value, if any.
    pub value: Option<Vec<u8>>,
}

impl Kafka {
    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap).set("group.id", "connector-tests");
        config
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.client().create().expect("an admin client")
    }

    fn consumer(&self) -> BaseConsumer {
        self.client().create().expect("a consumer")
    }

    /// Makes a topic that keeps everything, with a replica on each broker, and returns once all its partitions have a
    /// leader. `options` are topic options such as `("cleanup.policy", "compact")`.
    ///
    /// # Panics
    /// When the cluster refuses it.
    pub async fn create_topic(&self, topic: &str, partitions: i32, options: &[(&str, &str)]) {
        let replicas = i32::try_from(self.bootstrap.split(',').count()).expect("a few brokers");
        let mut new =
            NewTopic::new(topic, partitions, TopicReplication::Fixed(replicas)).set("retention.ms", "-1");
        for (key, value) in options {
            new = new.set(key, value);
        }
        let made = self.admin().create_topics(&[new], &admin_options()).await.expect("the cluster answers");
        for result in made {
            result.expect("the topic is made");
        }
        let (this, topic) = (self.clone(), topic.to_owned());
        blocking(move || this.wait_for_leaders(&topic, partitions)).await;
    }

    fn wait_for_leaders(&self, topic: &str, partitions: i32) {
        let deadline = Instant::now() + TIMEOUT;
        let consumer = self.consumer();
        loop {
            let metadata = consumer.fetch_metadata(Some(topic), TIMEOUT).expect("metadata of the topic");
            let led = metadata.topics().iter().flat_map(rdkafka::metadata::MetadataTopic::partitions);
            if led.filter(|partition| partition.leader() >= 0).count()
                == usize::try_from(partitions).unwrap_or(0)
            {
                return;
            }
            assert!(Instant::now() < deadline, "the partitions of {topic} got no leaders");
            pause();
        }
    }

    /// The broker that leads a partition, if one does.
    ///
    /// # Panics
    /// When the cluster does not tell.
    pub async fn leader(&self, topic: &str, partition: i32) -> Option<i32> {
        let (this, topic) = (self.clone(), topic.to_owned());
        blocking(move || {
            let metadata = this.consumer().fetch_metadata(Some(&topic), TIMEOUT).expect("metadata");
            let mut all = metadata.topics().iter().flat_map(rdkafka::metadata::MetadataTopic::partitions);
            let found =
                all.find(|found| found.id() == partition).map(rdkafka::metadata::MetadataPartition::leader);
            found.filter(|leader| *leader >= 0)
        })
        .await
    }

    /// How many partitions a topic has.
    ///
    /// # Panics
    /// When the cluster does not tell.
    pub async fn partition_count(&self, topic: &str) -> usize {
        let (this, topic) = (self.clone(), topic.to_owned());
        blocking(move || {
            let metadata = this.consumer().fetch_metadata(Some(&topic), TIMEOUT).expect("metadata");
            metadata.topics().iter().map(|topic| topic.partitions().len()).sum()
        })
        .await
    }

    /// The value of an option of a topic.
    ///
    /// # Panics
    /// When the cluster does not tell.
    pub async fn topic_option(&self, topic: &str, name: &str) -> String {
        let asked = [ResourceSpecifier::Topic(topic)];
        let told =
            self.admin().describe_configs(&asked, &admin_options()).await.expect("the cluster answers");
        let told = told.into_iter().next().expect("one topic").expect("its options");
        told.get(name).and_then(|entry| entry.value.clone()).expect("the option has a value")
    }

    /// Removes a topic.
    ///
    /// # Panics
    /// When the cluster refuses it.
    pub async fn delete_topic(&self, topic: &str) {
        let removed =
            self.admin().delete_topics(&[topic], &admin_options()).await.expect("the cluster answers");
        for result in removed {
            result.expect("the topic is removed");
        }
    }

    /// Removes the records of a partition before an offset, as retention does.
    ///
    /// # Panics
    /// When the cluster refuses it.
    pub async fn delete_records(&self, topic: &str, partition: i32, before: i64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(before)).expect("a valid offset");
        let removed =
            self.admin().delete_records(&list, &admin_options()).await.expect("the cluster answers");
        for element in removed.elements() {
            element.error().expect("the records are removed");
        }
    }

    /// Writes the orders with these ids: order `id` to partition `id % partitions`, with its own time as timestamp.
    /// Returns once the cluster has them all.
    ///
    /// # Panics
    /// When a record is not taken.
    pub async fn produce_orders(&self, topic: &str, ids: Range<u64>, partitions: i32) {
        let (this, topic) = (self.clone(), topic.to_owned());
        let modulus = u64::try_from(partitions).expect("a positive number of partitions");
        blocking(move || {
            let producer = this.producer();
            let mut json = String::with_capacity(256);
            for id in ids {
                let order = Order::new(id);
                json.clear();
                order.write_json(&mut json);
                let partition = i32::try_from(id % modulus).unwrap_or(0);
                let record = BaseRecord::<[u8], str>::to(&topic)
                    .partition(partition)
                    .payload(&json)
                    .timestamp(order.created_at);
                send(&producer, record);
            }
            finish(&producer);
        })
        .await;
    }

    /// Writes records. Those of one partition keep their order. Returns once the cluster has them all.
    ///
    /// # Panics
    /// When a record is not taken.
    pub async fn produce(&self, topic: &str, records: Vec<Record>) {
        let (this, topic) = (self.clone(), topic.to_owned());
        blocking(move || {
            let producer = this.producer();
            send_all(&producer, &topic, &records);
            finish(&producer);
        })
        .await;
    }

    /// Writes records in a transaction, which stays open. Returns once the cluster has them all.
    ///
    /// # Panics
    /// When a record is not taken.
    pub async fn begin_transaction(&self, topic: &str, records: Vec<Record>) -> Transaction {
        let mut config = self.client();
        config.set("transactional.id", crate::unique_name("transaction"));
        let (kafka, topic) = (self.clone(), topic.to_owned());
        blocking(move || {
            let producer: BaseProducer<Deliveries> =
                config.create_with_context(Deliveries::default()).expect("a producer");
            producer.init_transactions(TIMEOUT).expect("transactions");
            producer.begin_transaction().expect("a transaction begins");
            send_all(&producer, &topic, &records);
            finish(&producer);
            let partitions = records.iter().map(|record| record.partition).collect();
            Transaction { kafka, topic, partitions, producer }
        })
        .await
    }

    /// Waits until nothing in these partitions waits for the outcome of a transaction.
    fn wait_until_settled(&self, topic: &str, partitions: &BTreeSet<i32>) {
        let deadline = Instant::now() + TIMEOUT;
        let all: BaseConsumer =
            self.client().set("isolation.level", "read_uncommitted").create().expect("a consumer");
        let committed = self.consumer();
        for partition in partitions {
            let end = |consumer: &BaseConsumer| {
                consumer.fetch_watermarks(topic, *partition, TIMEOUT).expect("watermarks").1
            };
            while end(&committed) < end(&all) {
                assert!(Instant::now() < deadline, "a transaction in {topic}-{partition} does not end");
                pause();
            }
        }
    }

    /// Large batches: what makes filling a topic quick.
    fn producer(&self) -> BaseProducer<Deliveries> {
        self.client()
            .set("linger.ms", "50")
            .set("batch.num.messages", "10000")
            .set("queue.buffering.max.messages", "200000")
            .set("enable.idempotence", "true")
            .create_with_context(Deliveries::default())
            .expect("a producer")
    }

    /// The first offset of a partition and the one after its last record.
    ///
    /// # Panics
    /// When the cluster does not tell.
    pub async fn watermarks(&self, topic: &str, partition: i32) -> (i64, i64) {
        let (this, topic) = (self.clone(), topic.to_owned());
        blocking(move || this.consumer().fetch_watermarks(&topic, partition, TIMEOUT).expect("watermarks"))
            .await
    }

    /// The offset behind everything that was written to a partition, whether it was committed or not.
    ///
    /// # Panics
    /// When the cluster does not tell.
    pub async fn written_end(&self, topic: &str, partition: i32) -> i64 {
        let mut config = self.client();
        config.set("isolation.level", "read_uncommitted");
        let topic = topic.to_owned();
        blocking(move || {
            let consumer: BaseConsumer = config.create().expect("a consumer");
            consumer.fetch_watermarks(&topic, partition, TIMEOUT).expect("watermarks").1
        })
        .await
    }

    /// All records of a topic that are not part of an open or aborted transaction, up to the ends of its partitions as they
    /// are now; in the order of each partition.
    ///
    /// # Panics
    /// When the cluster does not hand them over in time.
    pub async fn read_committed(&self, topic: &str, partitions: i32) -> Vec<Read> {
        let mut config = self.client();
        config.set("isolation.level", "read_committed").set("enable.partition.eof", "true");
        let topic = topic.to_owned();
        blocking(move || {
            let consumer: BaseConsumer = config.create().expect("a consumer");
            let mut places = TopicPartitionList::new();
            for partition in 0..partitions {
                places.add_partition_offset(&topic, partition, Offset::Beginning).expect("a valid offset");
            }
            consumer.assign(&places).expect("an assignment");
            let (mut found, mut ended) = (Vec::new(), BTreeSet::new());
            while ended.len() < usize::try_from(partitions).unwrap_or(0) {
                match consumer.poll(TIMEOUT).expect("a record or the end of a partition") {
                    Ok(message) => found.push(Read {
                        partition: message.partition(),
                        offset: message.offset(),
                        key: message.key().map(<[u8]>::to_vec),
                        value: message.payload().map(<[u8]>::to_vec),
                    }),
                    Err(KafkaError::PartitionEOF(partition)) => {
                        ended.insert(partition);
                    }
                    Err(error) => panic!("records of {topic} cannot be read: {error}"),
                }
            }
            found
        })
        .await
    }

    /// The offset that a group has committed for a partition, if any.
    ///
    /// # Panics
    /// When the cluster does not tell.
    pub async fn committed_offset(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        let mut config = self.client();
        config.set("group.id", group);
        let topic = topic.to_owned();
        blocking(move || {
            let consumer: BaseConsumer = config.create().expect("a consumer");
            let mut list = TopicPartitionList::new();
            list.add_partition(&topic, partition);
            let committed = consumer.committed_offsets(list, TIMEOUT).expect("committed offsets");
            match committed.find_partition(&topic, partition)?.offset() {
                Offset::Offset(offset) => Some(offset),
                _ => None,
            }
        })
        .await
    }
}

/// A transaction whose records are written; whether they count is not yet said.
pub struct Transaction {
    kafka: Kafka,
    topic: String,
    partitions: BTreeSet<i32>,
    producer: BaseProducer<Deliveries>,
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("topic", &self.topic).finish_non_exhaustive()
    }
}

impl Transaction {
    /// Makes the records count. Returns once the partitions have the marker that says so.
    ///
    /// # Panics
    /// When the cluster refuses it.
    pub async fn commit(self) {
        blocking(move || {
            self.producer.commit_transaction(TIMEOUT).expect("the transaction is committed");
            self.kafka.wait_until_settled(&self.topic, &self.partitions);
        })
        .await;
    }

    /// Drops the records; they stay in the log, with a marker behind them. Returns once it is there.
    ///
    /// # Panics
    /// When the cluster refuses it.
    pub async fn abort(self) {
        blocking(move || {
            self.producer.abort_transaction(TIMEOUT).expect("the transaction is aborted");
            self.kafka.wait_until_settled(&self.topic, &self.partitions);
        })
        .await;
    }
}

fn admin_options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(TIMEOUT)).request_timeout(Some(TIMEOUT))
}

/// librdkafka waits on threads of its own; the calls that block stay off the threads that run async code.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("the work does not panic")
}

#[allow(clippy::disallowed_methods, reason = "runs on a thread for blocking work")]
fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}

/// Remembers the first record that was not delivered.
#[derive(Default)]
struct Deliveries {
    failed: Mutex<Option<KafkaError>>,
}

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _: ()) {
        if let Err((error, _)) = result {
            self.failed.lock().expect("nobody panics with the lock").get_or_insert_with(|| error.clone());
        }
    }
}

fn send_all(producer: &BaseProducer<Deliveries>, topic: &str, records: &[Record]) {
    for record in records {
        let mut out = BaseRecord::<[u8], [u8]>::to(topic).partition(record.partition);
        out.key = record.key.as_deref();
        out.payload = record.value.as_deref();
        out.timestamp = record.timestamp;
        send(producer, out);
    }
}

fn send<K, V>(producer: &BaseProducer<Deliveries>, record: BaseRecord<'_, K, V>)
where
    K: rdkafka::message::ToBytes + ?Sized,
    V: rdkafka::message::ToBytes + ?Sized,
{
    let mut record = record;
    loop {
        match producer.send(record) {
            Ok(()) => return,
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                record = back;
                producer.poll(Duration::from_millis(20));
            }
            Err((error, _)) => panic!("a record cannot be sent: {error}"),
        }
    }
}

fn finish(producer: &BaseProducer<Deliveries>) {
    producer.flush(Duration::from_secs(120)).expect("all records are delivered in time");
    let failed = producer.context().failed.lock().expect("nobody panics with the lock").take();
    assert!(failed.is_none(), "a record was not delivered: {failed:?}");
}
