//! Columns that records have besides their values.

use connector_core::{
    ErrorKind, SchemaChange, Source, SourceEvent,
    arrow::{
        array::{Array, AsArray, RecordBatch},
        datatypes::{DataType, Int32Type, Int64Type, TimeUnit, TimestampMillisecondType},
    },
};
use connector_kafka::{KafkaSource, Raw};

use crate::common::{Cluster, next, open_all};

async fn only_batch(source: &KafkaSource) -> (SchemaChange, RecordBatch) {
    let mut reader = open_all(source).await;
    let Some(SourceEvent::Schema { change, .. }) = next(&mut reader).await.unwrap() else { panic!() };
    let Some(SourceEvent::Batch { rows, .. }) = next(&mut reader).await.unwrap() else { panic!() };
    (change, rows.into_parts().0)
}

#[tokio::test]
async fn every_column_has_what_the_record_has() {
    let cluster = Cluster::with_topic("orders", 1);
    let headers = [("trace", Some("1")), ("trace", None), ("x", Some(""))];
    cluster.write_with("orders", "k", r#"{"id":1}"#, 1_767_225_600_123, &headers);
    cluster.write_with("orders", "", r#"{"id":2}"#, 1_767_225_600_124, &[]);
    let source = KafkaSource::from_options([
        ("bootstrap_servers", cluster.address().as_str()),
        ("topics", "orders"),
        ("job_type", "BATCH"),
        ("metadata_columns", "HEADERS,Timestamp,offset,key,value,topic,partition"),
    ])
    .unwrap()
    .schema(connector_core::TableSchema::new(crate::common::schema()))
    .build()
    .unwrap();
    let (change, rows) = only_batch(&source).await;
    let SchemaChange::CreateTable { schema, .. } = change else { panic!() };
    assert_eq!(schema.columns, rows.schema(), "the table is announced with them");
    let names: Vec<&str> = schema.columns.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["id", "note", "headers", "timestamp", "offset", "key", "value", "topic", "partition"]);
    let column = |name: &str| rows.column_by_name(name).unwrap();
    assert_eq!(
        column("timestamp").data_type(),
        &DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()))
    );
    assert_eq!(
        column("timestamp").as_primitive::<TimestampMillisecondType>().values().as_ref(),
        [1_767_225_600_123, 1_767_225_600_124]
    );
    assert_eq!(column("offset").as_primitive::<Int64Type>().values().as_ref(), [0, 1]);
    assert_eq!(column("partition").as_primitive::<Int32Type>().values().as_ref(), [0, 0]);
    assert_eq!(column("topic").as_string::<i32>().value(1), "orders");
    assert_eq!(column("value").as_binary::<i32>().value(1), br#"{"id":2}"#);
    assert_eq!((column("key").as_binary::<i32>().value(0), column("key").is_null(1)), (&b"k"[..], false));
    let lists = column("headers").as_list::<i32>();
    assert_eq!((lists.value_length(0), lists.value_length(1)), (3, 0));
    let pairs = lists.value(0);
    let values = pairs.as_struct().column(1).as_binary::<i32>();
    assert_eq!(pairs.as_struct().column(0).as_string::<i32>().value(1), "trace");
    assert_eq!((values.value(0), values.is_null(1), values.is_null(2)), (&b"1"[..], true, false));
}

#[tokio::test]
async fn names_that_clash_or_are_not_known_are_refused() {
    let cluster = Cluster::with_topic("orders", 1);
    let with = |columns: &str| {
        KafkaSource::from_options([
            ("bootstrap_servers", cluster.address().as_str()),
            ("topics", "orders"),
            ("metadata_columns", columns),
        ])
    };
    let error = with("event_timestamp").unwrap_err();
    assert!(error.message().contains("event_timestamp"), "{error}");
    let error = with("value").unwrap().format(Raw::default()).build().unwrap_err();
    assert_eq!((error.kind(), error.context_value("column")), (ErrorKind::SchemaMismatch, Some("value")));
    with("value").unwrap().format(Raw::column("body")).build().unwrap();
}

/// A value that is missing is a row of the format raw, and of no other.
#[tokio::test]
async fn raw_values_and_tombstones() {
    let cluster = Cluster::with_topic("orders", 1);
    cluster.write("orders", 0, "a", Some(b"\x00\xFF"));
    cluster.write("orders", 0, "b", None);
    cluster.write("orders", 0, "c", Some(b""));
    let source = KafkaSource::from_options([
        ("bootstrap_servers", cluster.address().as_str()),
        ("topics", "orders"),
        ("format_type", "raw"),
        ("job_type", "BATCH"),
        ("metadata_columns", "key"),
    ])
    .unwrap()
    .build()
    .unwrap();
    assert_eq!(source.changelog_mode(), connector_core::ChangelogMode::Append);
    let (_, rows) = only_batch(&source).await;
    let values = rows.column_by_name("value").unwrap().as_binary::<i32>();
    assert_eq!((values.value(0), values.is_null(1), values.value(2)), (&b"\x00\xFF"[..], true, &b""[..]));
    assert!(!values.is_null(2));
    assert_eq!(rows.column_by_name("key").unwrap().as_binary::<i32>().value(1), b"b");
}
