//! Records that cannot be read, on a real broker: each policy does what it says, and nothing disappears uncounted.

use std::time::Duration;

use connector_bytehouse_cdw::SinkModeName;
use connector_core::{
    BadRecordPolicy, CancellationToken, ErrorKind, Pipeline, TableId, arrow::array::AsArray,
    memory::MemorySink,
};
use connector_kafka::{
    KafkaSource, KafkaSourceBuilder, StartupMode,
    format::{Json, UnknownFields},
};
use connector_tests::{
    kafka::Record,
    orders::{Order, schema},
    services::{self, Kafka},
    unique_name,
};

use crate::kafka_to_clickhouse::{orders_table, sink};

fn good(id: u64) -> String {
    let mut text = String::new();
    Order::new(id).write_json(&mut text);
    text
}

/// Records that are wrong, each with a part of what the error must say.
fn bad() -> Vec<(Vec<u8>, &'static str)> {
    let change = |field: &str, value: &str| {
        let mut order: serde_json::Value = serde_json::from_str(&good(1)).unwrap();
        order[field] = serde_json::from_str(value).unwrap();
        order.to_string().into_bytes()
    };
    vec![
        (b"{\"id\": 1, \"customer\": ".to_vec(), "end"),
        (b"not json".to_vec(), ""),
        (change("id", "\"twelve\""), "id"),
        (change("id", "-1"), "id"),
        (change("discount", "3000000000"), "discount"),
        (change("amount", "\"123456789012345678.1\""), "amount"),
        (change("customer", "null"), "customer"),
        (change("tags", "[\"a\", null]"), "tags"),
        (change("surprise", "1"), "surprise"),
        (Vec::new(), ""),
    ]
}

struct Topic {
    kafka: Kafka,
    name: String,
    bad: Vec<(Vec<u8>, &'static str)>,
}

impl Topic {
    /// A topic of one partition: good records around every bad one, and a tombstone.
    async fn new() -> Option<Self> {
        let kafka = services::kafka()?;
        let name = unique_name("bad");
        kafka.create_topic(&name, 1, &[]).await;
        let bad = bad();
        let mut records = Vec::new();
        for (id, (value, _)) in bad.iter().enumerate() {
            records.push(Record::new(0, good(id as u64)));
            records.push(Record::new(0, value.clone()));
        }
        records.push(Record { value: None, ..Record::new(0, "") });
        records.push(Record::new(0, good(bad.len() as u64)));
        kafka.produce(&name, records).await;
        Some(Self { kafka, name, bad })
    }

    fn source(&self, policy: BadRecordPolicy) -> KafkaSourceBuilder {
        KafkaSource::builder()
            .bootstrap_servers(self.kafka.bootstrap.as_str())
            .topics([self.name.as_str()])
            .startup_mode(StartupMode::Earliest)
            .bounded()
            .bad_record_policy(policy)
            .format(Json::with_schema(schema()).unknown_fields(UnknownFields::Fail))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fail_names_topic_partition_offset_field_and_value() {
    let Some(topic) = Topic::new().await else { return };
    for (place, (value, says)) in topic.bad.iter().enumerate() {
        // Begin at the bad record itself.
        let offset = i64::try_from(place * 2 + 1).unwrap();
        let source =
            topic.source(BadRecordPolicy::Fail).startup_mode(StartupMode::Offset(offset)).build().unwrap();
        let error = Pipeline::new(source, MemorySink::new())
            .run(CancellationToken::new())
            .await
            .expect_err("a bad record");
        let text = error.to_string();
        println!("{text}");
        assert_eq!(error.kind(), ErrorKind::DataInvalid, "{text}");
        assert_eq!(error.context_value("topic"), Some(topic.name.as_str()), "{text}");
        assert_eq!(error.context_value("partition"), Some("0"), "{text}");
        assert_eq!(error.context_value("offset"), Some(offset.to_string().as_str()), "{text}");
        assert!(text.contains(says), "{text} names `{says}` for {}", String::from_utf8_lossy(value));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn skip_leaves_out_and_counts() {
    let (Some(topic), Some(server)) = (Topic::new().await, services::clickhouse_current()) else { return };
    let table = orders_table(&server, "MergeTree ORDER BY id").await;
    let good = topic.bad.len() as u64 + 1;
    let source = topic.source(BadRecordPolicy::Skip).build().unwrap();
    let report = Pipeline::new(source, sink(&server, &table, SinkModeName::Insert, 1000))
        .run(CancellationToken::new())
        .await
        .unwrap();
    assert_eq!(report.rows_written, good);
    assert_eq!(server.count(&table).await, good);
    // Records in = rows out + skipped + the tombstone.
    let (_, end) = topic.kafka.watermarks(&topic.name, 0).await;
    assert_eq!(u64::try_from(end).unwrap(), good + topic.bad.len() as u64 + 1);
    assert_eq!(report.splits[0].to, Some(end.to_string()));
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letter_keeps_the_bytes_the_place_and_the_reason() {
    let Some(topic) = Topic::new().await else { return };
    let (rows, letters) = (MemorySink::new(), MemorySink::new());
    let table = TableId::new("ops", "dead_letters");
    let source = topic.source(BadRecordPolicy::DeadLetter).build().unwrap();
    let report = Pipeline::new(source, rows)
        .dead_letters(letters.clone(), table.clone())
        .run(CancellationToken::new())
        .await
        .unwrap();
    assert_eq!(report.dead_letters, topic.bad.len() as u64);
    assert_eq!(report.rows_written, topic.bad.len() as u64 + 1);
    let mut kept = Vec::new();
    for batch in letters.rows(&table) {
        let rows = batch.rows();
        for row in 0..rows.num_rows() {
            let text =
                |column: &str| rows.column_by_name(column).unwrap().as_string::<i32>().value(row).to_owned();
            let value = rows.column_by_name("value").unwrap().as_binary::<i32>().value(row).to_vec();
            kept.push((text("origin"), text("offset"), value, text("reason")));
        }
    }
    assert_eq!(kept.len(), topic.bad.len());
    for (place, ((origin, offset, value, reason), (sent, says))) in kept.iter().zip(&topic.bad).enumerate() {
        assert_eq!((origin, offset), (&topic.name, &(place * 2 + 1).to_string()));
        assert_eq!(value, sent, "the raw bytes");
        assert!(reason.contains(says), "{reason} names `{says}`");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letter_without_a_place_for_them_is_an_error() {
    let Some(topic) = Topic::new().await else { return };
    let source = topic.source(BadRecordPolicy::DeadLetter).build().unwrap();
    let run = Pipeline::new(source, MemorySink::new()).run(CancellationToken::new());
    let error =
        tokio::time::timeout(Duration::from_secs(60), run).await.unwrap().expect_err("no dead-letter sink");
    assert!(error.message().contains("dead_letters"), "{error}");
}
