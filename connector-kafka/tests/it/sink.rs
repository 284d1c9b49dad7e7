//! The sink against the mock cluster.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use connector_core::{
    ChangeBatch, DeliveryGuarantee, ErrorKind, RowKind, RowKinds, SchemaChange, Sink, SinkWriter, TableId,
    TableSchema, WriterContext,
    arrow::array::{ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray, TimestampSecondArray},
    async_trait,
    testkit::{SinkFixture, check_sink, orders_schema},
};
use connector_kafka::{
    Json, KafkaSink, KafkaSource, KafkaWriter, KeyFormat, StartupMode, options::FormatType,
    sink::KafkaSinkBuilder,
};
use rdkafka::{
    ClientConfig, Message, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    types::{RDKafkaApiKey, RDKafkaRespErr},
};

use crate::common::{Cluster, PATIENCE, schema};

/// Longer than any test waits: what arrives did not wait for it.
const LINGER: Duration = Duration::from_secs(800);

/// Topics for the contracts' tables.
const TOPICS: usize = 16;

pub(crate) fn sink(cluster: &Cluster, topic: &str) -> KafkaSinkBuilder {
    sink_at(cluster.address(), topic)
}

fn sink_at(address: String, topic: &str) -> KafkaSinkBuilder {
    KafkaSink::builder()
        .bootstrap_servers(address)
        .topic(topic)
        .linger(LINGER)
        .request_timeout(Duration::from_secs(20))
}

pub(crate) async fn open(builder: KafkaSinkBuilder) -> KafkaWriter {
    builder.build().unwrap().open(WriterContext::default()).await.unwrap()
}

pub(crate) fn rows(ids: &[i64], notes: &[Option<&str>]) -> RecordBatch {
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from(ids.to_vec())), Arc::new(StringArray::from(notes.to_vec()))];
    RecordBatch::try_new(schema(), columns).unwrap()
}

pub(crate) fn table() -> TableId {
    TableId::new("shop", "orders")
}

/// Key and value of a record, and where it stood.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    partition: i32,
    key: Option<String>,
    value: Option<String>,
}

/// Reads so many records with a plain client, ordered by partition and offset.
fn read(cluster: &Cluster, topic: &str, partitions: i32, count: usize) -> Vec<Found> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", cluster.address())
        .set("group.id", "reader")
        .create()
        .unwrap();
    let mut assignment = TopicPartitionList::new();
    for partition in 0..partitions {
        assignment.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
    }
    consumer.assign(&assignment).unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut found = Vec::new();
    while found.len() < count {
        let message = consumer.poll(PATIENCE).expect("a record").unwrap();
        let record = Found {
            partition: message.partition(),
            key: message.key().map(text),
            value: message.payload().map(text),
        };
        found.push((message.partition(), message.offset(), record));
    }
    found.sort();
    found.into_iter().map(|(_, _, record)| record).collect()
}

/// Hands out the topics `table-0`, `table-1`, ….
struct Fixture {
    address: String,
    topics: AtomicUsize,
}

#[async_trait]
impl SinkFixture for Fixture {
    type Sink = KafkaSink;

    async fn sink(&self) -> KafkaSink {
        // The mock cluster knows no fencing and aborts nothing: exactly-once is for a real one.
        sink_at(self.address.clone(), "${table}").log_failures_only(true).build().unwrap()
    }

    async fn table(&self) -> TableId {
        let number = self.topics.fetch_add(1, Ordering::Relaxed);
        assert!(number < TOPICS, "more topics are needed");
        TableId::new("", format!("table-{number}"))
    }

    async fn rows(&self, table: &TableId) -> Vec<RecordBatch> {
        let source = KafkaSource::builder()
            .bootstrap_servers(self.address.as_str())
            .topics([table.table.as_str()])
            .startup_mode(StartupMode::Earliest)
            .bounded()
            .format(Json::with_schema(orders_schema()))
            .build()
            .unwrap();
        let mut reader = crate::common::open_all(&source).await;
        let mut rows = Vec::new();
        while let Some(event) = crate::common::next(&mut reader).await.unwrap() {
            if let connector_core::SourceEvent::Batch { rows: batch, .. } = event {
                rows.push(batch.rows().clone());
            }
        }
        rows
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contracts_of_a_sink_are_kept() {
    let cluster = Cluster::with_topic("unused", 1);
    for number in 0..TOPICS {
        cluster.mock.create_topic(&format!("table-{number}"), 2, 1).unwrap();
    }
    check_sink(&Fixture { address: cluster.address(), topics: AtomicUsize::new(0) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_become_values_and_tombstones() {
    let cluster = Cluster::with_topic("orders", 1);
    let mut writer = open(sink(&cluster, "orders").key_fields(["id"])).await;
    let kinds = [RowKind::Insert, RowKind::UpdateBefore, RowKind::UpdateAfter, RowKind::Delete];
    let batch = rows(&[1, 1, 1, 2], &[Some("a"), Some("a"), None, Some("gone")]);
    let batch = ChangeBatch::try_new(batch, RowKinds::from_kinds(&kinds)).unwrap();
    writer.write(&table(), batch).await.unwrap();
    assert_eq!(writer.flush(None).await.unwrap().rows, 3);
    let found = read(&cluster, "orders", 1, 3);
    let record = |key: &str, value: Option<&str>| Found {
        partition: 0,
        key: Some(key.to_owned()),
        value: value.map(ToOwned::to_owned),
    };
    assert_eq!(
        found,
        [
            record("1", Some(r#"{"id":1,"note":"a"}"#)),
            record("1", Some(r#"{"id":1,"note":null}"#)),
            record("2", None)
        ]
    );
}

/// Batches are encoded in pieces: none parts the two rows of an update, and errors count rows from the batch's beginning.
#[tokio::test(flavor = "multi_thread")]
async fn long_batches_are_written_whole_and_in_order() {
    const UPDATES: i64 = 2000;
    let cluster = Cluster::with_topic("out", 1);
    let mut writer = open(sink(&cluster, "out").key_fields(["id"])).await;
    // One row stands in front, so that a piece of an even number of rows would end within an update.
    let ids: Vec<i64> = (0..=2 * UPDATES).collect();
    let notes: Vec<Option<&str>> = ids.iter().map(|_| Some("n")).collect();
    let kinds: Vec<RowKind> = ids
        .iter()
        .map(|id| match id % 2 {
            _ if *id == 0 => RowKind::Insert,
            1 => RowKind::UpdateBefore,
            _ => RowKind::UpdateAfter,
        })
        .collect();
    let batch = ChangeBatch::try_new(rows(&ids, &notes), RowKinds::from_kinds(&kinds)).unwrap();
    writer.write(&table(), batch).await.unwrap();
    let flushed = writer.flush(None).await.unwrap();
    // Each update moves a row to another key.
    assert_eq!(flushed.rows, ids.len() as u64);
    let found = read(&cluster, "out", 1, ids.len());
    for (id, record) in ids.iter().zip(&found) {
        assert_eq!(record.key, Some(id.to_string()));
        assert_eq!(record.value.is_some(), id % 2 == 0, "{record:?}");
    }
    writer.close().await.unwrap();

    let mut writer = open(sink(&cluster, "out")).await;
    let mut times = vec![0; 3000];
    times[2999] = i64::MAX;
    let times: ArrayRef = Arc::new(TimestampSecondArray::from(times));
    let batch = RecordBatch::try_from_iter([("at", times)]).unwrap();
    let error = writer.write(&table(), ChangeBatch::append(batch)).await.unwrap_err();
    assert!(error.message().contains("row 2999"), "{error}");
    writer.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_key_nothing_is_deleted() {
    let cluster = Cluster::with_topic("orders", 1);
    let sink = sink(&cluster, "orders");
    assert!(!sink.clone().build().unwrap().capabilities().row_kinds.contains(&RowKind::Delete));
    let mut writer = open(sink).await;
    let batch =
        ChangeBatch::try_new(rows(&[1, 2], &[None, None]), RowKinds::Uniform(RowKind::Delete)).unwrap();
    writer.write(&table(), batch).await.unwrap();
    writer.write(&table(), ChangeBatch::append(rows(&[3], &[None]))).await.unwrap();
    assert_eq!(writer.flush(None).await.unwrap().rows, 1);
    let found = read(&cluster, "orders", 1, 1);
    assert_eq!((found[0].key.as_deref(), found[0].value.as_deref()), (None, Some(r#"{"id":3,"note":null}"#)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_chooses_the_partition_and_wins_over_the_key() {
    let cluster = Cluster::with_topic("orders", 3);
    let mut writer = open(
        sink(&cluster, "orders").key_fields(["id", "note"]).key_format(KeyFormat::Json).partition_field("id"),
    )
    .await;
    let ids: Vec<i64> = (0..30).collect();
    writer.write(&table(), ChangeBatch::append(rows(&ids, &vec![Some("x"); 30]))).await.unwrap();
    writer.flush(None).await.unwrap();
    for record in read(&cluster, "orders", 3, 30) {
        let key: serde_json::Value = serde_json::from_str(record.key.as_deref().unwrap()).unwrap();
        assert_eq!(key["note"], "x");
        assert_eq!(i64::from(record.partition), key["id"].as_i64().unwrap() % 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_go_where_the_java_client_sends_them() {
    let cluster = Cluster::with_topic("orders", 7);
    let mut writer = open(sink(&cluster, "orders").key_fields(["note"])).await;
    let keys =
        ["21", "foobar", "a-little-bit-long-string", "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8"];
    let notes: Vec<Option<&str>> = keys.iter().map(|key| Some(*key)).collect();
    writer.write(&table(), ChangeBatch::append(rows(&[0, 1, 2, 3], &notes))).await.unwrap();
    writer.flush(None).await.unwrap();
    // The hashes that the tests of Kafka's Java client expect of these keys.
    let hashes: [i32; 4] = [-973_932_308, -790_332_482, -985_981_536, -58_897_971];
    let mut found: Vec<(String, i32)> = read(&cluster, "orders", 7, 4)
        .into_iter()
        .map(|record| (record.key.unwrap(), record.partition))
        .collect();
    found.sort();
    let mut expected: Vec<(String, i32)> =
        keys.iter().zip(hashes).map(|(key, hash)| ((*key).to_owned(), (hash & 0x7fff_ffff) % 7)).collect();
    expected.sort();
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_have_topics_of_their_own() {
    let cluster = Cluster::with_topic("cdc.shop.orders", 1);
    cluster.mock.create_topic("cdc.shop.items", 1, 1).unwrap();
    let mut writer = open(sink(&cluster, "cdc.${database}.${table}")).await;
    for (name, id) in [("orders", 1), ("items", 2)] {
        let table = TableId::new("shop", name);
        let schema = TableSchema::new(schema());
        writer.apply(&SchemaChange::CreateTable { table: table.clone(), schema }).await.unwrap();
        writer.write(&table, ChangeBatch::append(rows(&[id], &[None]))).await.unwrap();
    }
    assert_eq!(writer.flush(None).await.unwrap().rows, 2);
    assert_eq!(read(&cluster, "cdc.shop.items", 1, 1)[0].value.as_deref(), Some(r#"{"id":2,"note":null}"#));
    let odd = TableId::new("shop", "a b");
    let error = writer.write(&odd, ChangeBatch::append(rows(&[1], &[None]))).await.unwrap_err();
    assert!(error.message().contains("cdc.shop.a b"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_values_are_bytes_as_they_are() {
    let cluster = Cluster::with_topic("orders", 1);
    let mut writer = open(sink(&cluster, "orders").format_type(FormatType::Raw).key_fields(["k"])).await;
    let batch = RecordBatch::try_from_iter([
        ("k", Arc::new(StringArray::from(vec!["a", "b"])) as ArrayRef),
        ("v", Arc::new(BinaryArray::from(vec![Some(b"\x00 1".as_slice()), None])) as ArrayRef),
    ])
    .unwrap();
    writer.write(&table(), ChangeBatch::append(batch)).await.unwrap();
    writer.flush(None).await.unwrap();
    let found = read(&cluster, "orders", 1, 2);
    assert_eq!((found[0].key.as_deref(), found[0].value.as_deref()), (Some("a"), Some("\0 1")));
    assert_eq!((found[1].key.as_deref(), found[1].value.as_deref()), (Some("b"), None));
    let error = writer.write(&table(), ChangeBatch::append(rows(&[1], &[None]))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_is_not_taken_fails_the_flush_and_the_writer() {
    let cluster = Cluster::with_topic("orders", 1);
    let mut writer = open(sink(&cluster, "orders")).await;
    cluster
        .mock
        .request_errors(RDKafkaApiKey::Produce, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE]);
    writer.write(&table(), ChangeBatch::append(rows(&[1, 2], &[None, None]))).await.unwrap();
    let error = writer.flush(None).await.unwrap_err();
    let text = format!("{error} {error:?}");
    for part in ["orders", "record", "failed_records", "large"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let again = writer.write(&table(), ChangeBatch::append(rows(&[3], &[None]))).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Closed, "{again}");
    writer.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_only_logged_where_that_is_asked_for() {
    let cluster = Cluster::with_topic("orders", 1);
    let mut writer =
        open(sink(&cluster, "orders").log_failures_only(true).property("enable.idempotence", "false")).await;
    cluster
        .mock
        .request_errors(RDKafkaApiKey::Produce, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE]);
    writer.write(&table(), ChangeBatch::append(rows(&[1, 2], &[None, None]))).await.unwrap();
    assert_eq!(writer.flush(None).await.unwrap().rows, 0, "what failed is not told as written");
    writer.write(&table(), ChangeBatch::append(rows(&[3], &[None]))).await.unwrap();
    assert_eq!(writer.flush(None).await.unwrap().rows, 1);
    assert_eq!(read(&cluster, "orders", 1, 1)[0].value.as_deref(), Some(r#"{"id":3,"note":null}"#));
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_the_buffer_holds_waits_for_room() {
    let cluster = Cluster::with_topic("orders", 4);
    let mut writer =
        open(sink(&cluster, "orders").linger(Duration::from_millis(5)).buffer_bytes(1_u64 << 20)).await;
    let note = "x".repeat(1000);
    let ids: Vec<i64> = (0..4000).collect();
    writer.write(&table(), ChangeBatch::append(rows(&ids, &vec![Some(note.as_str()); 4000]))).await.unwrap();
    assert_eq!(writer.flush(None).await.unwrap().rows, 4000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_topic_is_refused_at_the_start() {
    let cluster = Cluster::with_topic("orders", 1);
    let missing = sink(&cluster, "order").build().unwrap();
    let error = missing.check(DeliveryGuarantee::AtLeastOnce).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.message().contains("create_topic_enabled"), "{error}");
    let error = missing.open(WriterContext::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    // And at a table's first row, where its name is the topic's.
    let mut writer = open(sink(&cluster, "${table}")).await;
    let batch = ChangeBatch::append(rows(&[1], &[None]));
    let error = writer.write(&TableId::new("shop", "items"), batch).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_was_found_is_not_asked_for_again() {
    let cluster = Cluster::with_topic("orders", 1);
    let sink = sink(&cluster, "orders").build().unwrap();
    sink.check(DeliveryGuarantee::AtLeastOnce).await.unwrap();
    // Every question fails from here on for longer than the test has patience.
    let gone = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART; 50];
    cluster.mock.request_errors(RDKafkaApiKey::Metadata, &gone);
    sink.open(WriterContext::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_exactly_once_needs_is_asked_for_at_the_start() {
    let cluster = Cluster::with_topic("orders", 1);
    let refused = [
        (sink(&cluster, "orders").log_failures_only(true), "log_failures_only"),
        (sink(&cluster, "orders").retries(0_u32), "idempotent"),
        (sink(&cluster, "orders").property("acks", "1"), "idempotent"),
        (sink(&cluster, "orders").property("enable.idempotence", "false"), "idempotent"),
        (sink(&cluster, "${table}"), "transaction_topic"),
    ];
    for (builder, reason) in refused {
        let sink = builder.build().unwrap();
        let error = sink.check(DeliveryGuarantee::ExactlyOnce).await.unwrap_err();
        assert!(error.message().contains(reason), "{reason}: {error}");
    }
    let sink = sink(&cluster, "${table}").transaction_topic("orders").build().unwrap();
    sink.check(DeliveryGuarantee::ExactlyOnce).await.unwrap();
    let context = WriterContext { delivery: DeliveryGuarantee::ExactlyOnce, ..WriterContext::default() };
    let error = sink.open(context).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "earlier runs were not ended: {error}");
}

#[test]
fn wrong_options_are_all_told_at_once() {
    let error = KafkaSink::from_options([
        ("job.writer.bootstrap_servers", "b1"),
        ("job.writer.topic_name", "t"),
        ("job.writer.compression_type", "lzo"),
    ])
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OptionInvalid);
    for part in ["has no port", "lzo"] {
        assert!(error.message().contains(part), "{part}: {error}");
    }
    // What options say about each other is looked at when each of them is right.
    let error = KafkaSink::from_options([
        ("job.writer.bootstrap_servers", "b:1"),
        ("job.writer.topic_name", "a${x}"),
        ("job.writer.content_type", "csv"),
        ("job.writer.csv_delimiter", ",,"),
        ("job.writer.source_group", " "),
        ("job.writer.properties", r#"{"transactional.id": "t", "sasl.password": "hunter2", "no.such": "1"}"#),
    ])
    .unwrap_err();
    for part in ["${x}", "csv_delimiter", "source_group", "transactional.id", "no.such"] {
        assert!(error.message().contains(part), "{part}: {error}");
    }
    assert!(!format!("{error:?}").contains("hunter2"));
    // The names that the vendor's documents give, upper case included.
    let sink = KafkaSink::from_options([
        ("job.writer.kafka_servers", "b:1"),
        ("job.writer.topic_name", "t"),
        ("job.writer.compression_type", "SNAPPY"),
        ("job.writer.extra_raw_properties", r#"{"max.request.size": "2000000"}"#),
    ]);
    sink.unwrap().build().unwrap();
}
