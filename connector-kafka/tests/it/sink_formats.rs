//! The sink's formats against the mock cluster: what another client sees, and what our own source reads back.

use std::collections::BTreeMap;

use connector_core::{
    ChangeBatch, RowKind, RowKinds, SchemaChange, Sink, SinkWriter, SourceEvent, TableId, TableSchema,
    arrow::{
        array::RecordBatch,
        util::display::{ArrayFormatter, FormatOptions},
    },
};
use connector_kafka::{Changes, Csv, Format, KafkaSource, StartupMode, options::FormatType};
use rdkafka::{
    ClientConfig, Message, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    message::Headers,
};

use crate::{
    common::{Cluster, PATIENCE, next, open_all, schema},
    sink::{open, rows, sink, table},
};

/// A record as a plain client sees it.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    key: Option<String>,
    value: Option<String>,
    headers: BTreeMap<String, String>,
}

/// The first `count` records of the one partition.
fn seen(cluster: &Cluster, topic: &str, count: usize) -> Vec<Seen> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", cluster.address())
        .set("group.id", "reader")
        .create()
        .unwrap();
    let mut assignment = TopicPartitionList::new();
    assignment.add_partition_offset(topic, 0, Offset::Beginning).unwrap();
    consumer.assign(&assignment).unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (0..count)
        .map(|_| {
            let message = consumer.poll(PATIENCE).expect("a record").unwrap();
            let headers = message
                .headers()
                .map(|headers| headers.iter().map(|h| (h.key.to_owned(), text(h.value.unwrap()))).collect());
            Seen {
                key: message.key().map(text),
                value: message.payload().map(text),
                headers: headers.unwrap_or_default(),
            }
        })
        .collect()
}

/// An insertion, an update, an update without what was before, an update of the key, and a deletion.
fn changes() -> ChangeBatch {
    use RowKind::{Delete, Insert, UpdateAfter, UpdateBefore};
    let kinds = [Insert, UpdateBefore, UpdateAfter, UpdateAfter, UpdateBefore, UpdateAfter, Delete];
    let rows = rows(
        &[1, 1, 1, 1, 1, 2, 2],
        &[Some("a"), Some("a"), Some("b"), Some("c"), Some("c"), Some("c"), Some("c")],
    );
    ChangeBatch::try_new(rows, RowKinds::from_kinds(&kinds)).unwrap()
}

fn field(value: &str, pointer: &str) -> serde_json::Value {
    serde_json::from_str::<serde_json::Value>(value).unwrap().pointer(pointer).cloned().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn change_events_have_keys_and_headers() {
    let cluster = Cluster::with_topic("orders", 1);
    let builder = sink(&cluster, "orders").format_type(FormatType::DebeziumJson).key_fields(["id"]);
    assert!(builder.clone().build().unwrap().capabilities().row_kinds.contains(&RowKind::Delete));
    let mut writer = open(builder).await;
    let table = TableId::new("shop.public", "orders");
    writer.write(&table, changes()).await.unwrap();
    assert_eq!(writer.flush(None).await.unwrap().rows, 6);
    let found = seen(&cluster, "orders", 6);
    let told: Vec<(&str, &str, String)> = found
        .iter()
        .map(|record| {
            let op = field(record.value.as_deref().unwrap(), "/op").as_str().unwrap().to_owned();
            (record.key.as_deref().unwrap(), record.headers["op"].as_str(), op)
        })
        .collect();
    let expected = [
        ("1", "I", "c"),
        ("1", "U", "u"),
        ("1", "U", "u"),
        // The row moves to another key.
        ("1", "D", "d"),
        ("2", "I", "c"),
        ("2", "D", "d"),
    ];
    let expected: Vec<_> =
        expected.into_iter().map(|(key, header, op)| (key, header, op.to_owned())).collect();
    assert_eq!(told, expected);
    for record in &found {
        let value = record.value.as_deref().unwrap();
        for (header, place) in [("database", "db"), ("schema", "schema"), ("table", "table")] {
            assert_eq!(field(value, &format!("/source/{place}")), record.headers[header].as_str());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_can_be_switched_off_and_plain_formats_have_none() {
    for (format, on) in [(FormatType::MaxwellJson, false), (FormatType::Json, true), (FormatType::Csv, true)]
    {
        let cluster = Cluster::with_topic("orders", 1);
        let mut writer = open(sink(&cluster, "orders").format_type(format).enable_headers(on)).await;
        writer.write(&table(), ChangeBatch::append(rows(&[1], &[None]))).await.unwrap();
        writer.flush(None).await.unwrap();
        assert!(seen(&cluster, "orders", 1)[0].headers.is_empty(), "{format}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_of_the_key_takes_the_old_one_away() {
    let cluster = Cluster::with_topic("orders", 1);
    let mut writer = open(sink(&cluster, "orders").key_fields(["id"])).await;
    writer.write(&table(), changes()).await.unwrap();
    writer.flush(None).await.unwrap();
    let found: Vec<(String, bool)> = seen(&cluster, "orders", 6)
        .into_iter()
        .map(|record| (record.key.unwrap(), record.value.is_some()))
        .collect();
    let expected = [("1", true), ("1", true), ("1", true), ("1", false), ("2", true), ("2", false)];
    assert_eq!(found, expected.map(|(key, value)| (key.to_owned(), value)));
    // The same where a column chooses the partition and there is no key: the event tells the old row.
    let cluster = Cluster::with_topic("orders", 1);
    let mut writer =
        open(sink(&cluster, "orders").format_type(FormatType::CanalJson).partition_field("id")).await;
    writer.write(&table(), changes()).await.unwrap();
    writer.flush(None).await.unwrap();
    let kinds: Vec<String> = seen(&cluster, "orders", 6)
        .into_iter()
        .map(|record| field(&record.value.unwrap(), "/type").as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds, ["INSERT", "UPDATE", "UPDATE", "DELETE", "INSERT", "DELETE"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn options_of_the_formats_show_in_the_records() {
    let cluster = Cluster::with_topic("orders", 1);
    let csv = sink(&cluster, "orders").format_type(FormatType::Csv);
    let csv = csv.csv_delimiter(";").csv_quote("'").csv_null_text("-").csv_header(true);
    let mut writer = open(csv).await;
    writer.write(&table(), ChangeBatch::append(rows(&[1, 2], &[Some("a;'"), None]))).await.unwrap();
    writer.flush(None).await.unwrap();
    let debezium = sink(&cluster, "orders").format_type(FormatType::DebeziumJson);
    for on in [true, false] {
        let mut writer = open(debezium.clone().debezium_schema(on)).await;
        writer.write(&table(), ChangeBatch::append(rows(&[1], &[None]))).await.unwrap();
        writer.flush(None).await.unwrap();
    }
    // The key that a table was announced with is Canal's.
    let mut writer = open(sink(&cluster, "orders").format_type(FormatType::CanalJson)).await;
    let schema = TableSchema::new(schema()).with_primary_key(["id"]).unwrap();
    writer.apply(&SchemaChange::CreateTable { table: table(), schema }).await.unwrap();
    writer.write(&table(), ChangeBatch::append(rows(&[1], &[None]))).await.unwrap();
    writer.flush(None).await.unwrap();
    let found: Vec<String> =
        seen(&cluster, "orders", 5).into_iter().map(|record| record.value.unwrap()).collect();
    assert_eq!(found[..2], ["id;note\r\n1;'a;'''", "id;note\r\n2;-"]);
    assert_eq!(field(&found[2], "/schema/name"), "orders.Envelope");
    assert_eq!(field(&found[2], "/payload/after/id"), 1);
    assert_eq!(
        (field(&found[3], "/schema"), field(&found[3], "/after/id")),
        (serde_json::Value::Null, 1.into())
    );
    assert_eq!(field(&found[4], "/pkNames/0"), "id");
}

/// Rows as lines.
fn lines(rows: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("null");
    let columns: Vec<_> =
        rows.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
    (0..rows.num_rows())
        .map(|row| columns.iter().map(|column| format!("{}|", column.value(row))).collect())
        .collect()
}

/// What the source reads, as lines of kinds and of columns.
async fn read_back(cluster: &Cluster, format: impl Into<Format>) -> (Vec<String>, Vec<String>) {
    let source = KafkaSource::builder()
        .bootstrap_servers(cluster.address())
        .topics(["orders"])
        .startup_mode(StartupMode::Earliest)
        .bounded()
        .format(format)
        .build()
        .unwrap();
    let mut reader = open_all(&source).await;
    let (mut kinds, mut batches) = (Vec::new(), Vec::new());
    while let Some(event) = next(&mut reader).await.unwrap() {
        if let SourceEvent::Batch { rows, .. } = event {
            kinds.extend((0..rows.num_rows()).map(|row| rows.kinds().get(row).to_string()));
            batches.extend(lines(rows.rows()));
        }
    }
    (kinds, batches)
}

#[tokio::test(flavor = "multi_thread")]
async fn our_source_reads_what_the_sink_writes() {
    let declared = TableSchema::new(schema()).with_primary_key(["id"]).unwrap();
    let formats = [
        (FormatType::DebeziumJson, Changes::debezium()),
        (FormatType::CanalJson, Changes::canal()),
        (FormatType::MaxwellJson, Changes::maxwell()),
    ];
    let written = changes();
    let rows_shown = lines(written.rows());
    for (format, changes) in formats {
        let cluster = Cluster::with_topic("orders", 1);
        let mut writer = open(sink(&cluster, "orders").format_type(format).key_fields(["id"])).await;
        writer.write(&table(), written.clone()).await.unwrap();
        writer.flush(None).await.unwrap();
        let (kinds, rows) = read_back(&cluster, changes.table(declared.clone())).await;
        assert_eq!(kinds, ["+I", "-U", "+U", "+U", "-D", "+I", "-D"], "{format}");
        assert_eq!(rows, rows_shown, "{format}");
    }
    let cluster = Cluster::with_topic("orders", 1);
    let mut writer = open(sink(&cluster, "orders").format_type(FormatType::Csv)).await;
    let plain = rows(&[1, 2, 3], &[Some("a,\"b\""), Some(""), None]);
    writer.write(&table(), ChangeBatch::append(plain.clone())).await.unwrap();
    writer.flush(None).await.unwrap();
    let (_, found) = read_back(&cluster, Csv::with_schema(schema())).await;
    assert_eq!(found, lines(&plain));
}
