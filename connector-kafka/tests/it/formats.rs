//! Formats as a reader hands them out: tables, changes of tables, offsets and bad records.

use std::sync::Arc;

use connector_core::{
    BadRecordPolicy, ChangelogMode, ErrorKind, RowKind, SchemaChange, Source, SourceEvent, SourceReader,
    SplitId, TableSchema,
    arrow::{
        array::AsArray,
        datatypes::{DataType, Field, Int64Type, Schema},
    },
};
use connector_kafka::{Changes, Csv, Json, KafkaOffset, KafkaSource, KafkaSplit};

use crate::common::{Cluster, drain, id, next, open_all, schema};

fn base(cluster: &Cluster) -> Vec<(String, String)> {
    [("bootstrap_servers", cluster.address().as_str()), ("topics", "orders"), ("job_type", "BATCH")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .to_vec()
}

fn source(cluster: &Cluster, more: &[(&str, &str)], table: Option<TableSchema>) -> KafkaSource {
    let more = more.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let builder = KafkaSource::from_options(base(cluster).into_iter().chain(more)).unwrap();
    match table {
        Some(table) => builder.schema(table).build().unwrap(),
        None => builder.build().unwrap(),
    }
}

#[tokio::test]
async fn csv_with_its_options() {
    let cluster = Cluster::with_topic("orders", 1);
    for value in ["note;id\n'a;''b';1\nNULL;2", "id;note\n3;\n"] {
        cluster.write("orders", 0, "k", Some(value.as_bytes()));
    }
    let options = [
        ("format_type", "csv"),
        ("csv_delimiter", ";"),
        ("csv_quote", "'"),
        ("csv_null_text", "NULL"),
        ("csv_header", "true"),
    ];
    let source = source(&cluster, &options, Some(TableSchema::new(schema())));
    let mut reader = open_all(&source).await;
    let mut notes = Vec::new();
    while let Some(event) = next(&mut reader).await.unwrap() {
        if let SourceEvent::Batch { rows, next, .. } = event {
            assert_eq!(next, KafkaOffset(2));
            assert_eq!(rows.rows().column(0).as_primitive::<Int64Type>().values().as_ref(), [1, 2, 3]);
            notes.extend(rows.rows().column(1).as_string::<i32>().iter().map(|note| note.map(str::to_owned)));
        }
    }
    assert_eq!(notes, [Some("a;'b".to_owned()), None, Some(String::new())]);
}

#[tokio::test]
async fn columns_come_from_a_sample_on_request() {
    let cluster = Cluster::with_topic("orders", 2);
    cluster.write("orders", 0, "k", Some(br#"{"id": 1, "note": "a"}"#));
    cluster.write("orders", 0, "k", None);
    cluster.write("orders", 1, "k", Some(br#"{"id": 2, "note": null, "price": 1.5}"#));
    let builder = || KafkaSource::from_options(base(&cluster)).unwrap();
    let source = builder().infer_schema(100).await.unwrap().build().unwrap();
    let mut reader = open_all(&source).await;
    let mut ids = Vec::new();
    while let Some(event) = next(&mut reader).await.unwrap() {
        if let SourceEvent::Batch { rows, .. } = event {
            let rows = rows.rows();
            let fields: Vec<String> =
                rows.schema().fields().iter().map(|f| format!("{} {}", f.name(), f.data_type())).collect();
            let mut sorted = fields.clone();
            sorted.sort();
            assert_eq!(sorted, ["id Int64", "note Utf8", "price Float64"]);
            ids.extend_from_slice(rows.column_by_name("id").unwrap().as_primitive::<Int64Type>().values());
        }
    }
    ids.sort_unstable();
    assert_eq!(ids, [1, 2]);
    // No more records are looked at than asked for.
    cluster.write("orders", 0, "k", Some(b"no JSON"));
    cluster.write("orders", 1, "k", Some(b"no JSON"));
    builder().infer_schema(1).await.unwrap().build().unwrap();
    assert_eq!(builder().infer_schema(100).await.unwrap_err().kind(), ErrorKind::DataInvalid);
    let given = builder().schema(TableSchema::new(schema())).infer_schema(1).await.unwrap_err();
    assert_eq!(given.kind(), ErrorKind::OptionInvalid);
    let empty = Cluster::with_topic("orders", 1);
    let error = KafkaSource::from_options(base(&empty)).unwrap().infer_schema(5).await.unwrap_err();
    assert!(error.message().contains("no record"), "{error}");
}

#[tokio::test]
async fn a_bad_line_is_a_bad_record() {
    let cluster = Cluster::with_topic("orders", 1);
    for value in ["1,a", "2,a,b", "3,\"", "4,d"] {
        cluster.write("orders", 0, "k", Some(value.as_bytes()));
    }
    let with = |policy| {
        let csv = Csv::with_schema(schema());
        cluster.source(&["orders"]).format(csv).bounded().bad_record_policy(policy).build().unwrap()
    };
    let seen = drain(&mut open_all(&with(BadRecordPolicy::DeadLetter)).await).await;
    assert_eq!(seen.all(), [1, 4]);
    let dead: Vec<(&str, Option<&[u8]>)> =
        seen.dead.iter().map(|dead| (dead.offset.as_str(), dead.value.as_deref())).collect();
    assert_eq!(dead, [("1", Some(&b"2,a,b"[..])), ("2", Some(&b"3,\""[..]))]);
    let mut reader = open_all(&with(BadRecordPolicy::Fail)).await;
    let error = loop {
        match next(&mut reader).await {
            Ok(event) => assert!(event.is_some()),
            Err(error) => break error,
        }
    };
    assert_eq!((error.kind(), error.context_value("offset")), (ErrorKind::DataInvalid, Some("1")));
}

/// What an event says, in a line.
fn line(event: &SourceEvent<KafkaSplit>) -> String {
    match event {
        SourceEvent::Schema { change, next, .. } => {
            let next = next.map_or("-".to_owned(), |next| next.to_string());
            format!("{} {} {next}", change.kind().as_str(), change.table())
        }
        SourceEvent::Batch { table, rows, next, .. } => {
            let kinds: Vec<&str> = (0..rows.num_rows()).map(|row| rows.kinds().get(row).as_str()).collect();
            format!("{table} {} {next}", kinds.join(""))
        }
        SourceEvent::Advanced { next, .. } => format!("advanced {next}"),
        SourceEvent::Finished { .. } => "finished".to_owned(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn one_topic_with_many_tables_and_changes_of_them() {
    let cluster = Cluster::with_topic("orders", 1);
    let row = |table: &str, types: &str, data: &str| {
        format!(
            r#"{{"data":[{data}],"database":"D","table":"{table}","isDdl":false,"mysqlType":{types},"pkNames":["id"],"type":"INSERT"}}"#
        )
    };
    let one = row("A", r#"{"id":"int"}"#, r#"{"id":"1"}"#);
    let two = row("b", r#"{"id":"int"}"#, r#"{"id":"1"},{"id":"2"}"#);
    let more = row("a", r#"{"id":"int","x":"text"}"#, r#"{"id":"2","x":"y"}"#);
    let ddl = r#"{"data":null,"database":"D","table":"a","isDdl":true,"sql":"alter table a add c int, drop x","type":"ALTER"}"#;
    for value in
        [&one, &two, &one, &more, ddl, &row("a", r#"{"id":"int","c":"int"}"#, r#"{"id":"3","c":"4"}"#)]
    {
        cluster.write("orders", 0, "k", Some(value.as_bytes()));
    }
    let options = [("format_type", "canal_json"), ("use_multi_table_record", "true")];
    let source = source(&cluster, &options, None);
    assert_eq!(source.changelog_mode(), ChangelogMode::Full);
    let mut reader = open_all(&source).await;
    let mut lines = Vec::new();
    while let Some(event) = next(&mut reader).await.unwrap() {
        lines.push(line(&event));
        if let SourceEvent::Batch { next, .. } = &event {
            let at: Vec<SplitId> = reader.splits().iter().map(connector_core::Split::id).collect();
            assert_eq!(at, [id("orders", 0)]);
            assert_eq!(reader.splits()[0].offset, Some(*next));
        }
    }
    assert_eq!(
        lines,
        [
            "create.table d.a -",
            // Rows of the same read follow: a restart between the two batches reads both again.
            "d.a +I+I 0",
            "create.table d.b -",
            "d.b +I+I 3",
            "add.column d.a 3",
            "d.a +I 4",
            "add.column d.a 4",
            "drop.column d.a 5",
            "d.a +I 6",
            "finished",
        ]
    );
}

#[tokio::test]
async fn names_keep_their_case_where_that_is_asked_for() {
    let cluster = Cluster::with_topic("orders", 1);
    let value =
        r#"{"data":[{"Id":"1"}],"database":"D","table":"A","mysqlType":{"Id":"int"},"type":"INSERT"}"#;
    cluster.write("orders", 0, "k", Some(value.as_bytes()));
    let options = [("format_type", "canal_json"), ("use_multi_table_record", "true")];
    let off = [("cdc_multiplex_record_case_insensitive", "false")];
    for (more, table, column) in [(&[][..], "d.a", "id"), (&off[..], "D.A", "Id")] {
        let options: Vec<_> = options.iter().chain(more).copied().collect();
        let event = next(&mut open_all(&source(&cluster, &options, None)).await).await.unwrap().unwrap();
        let SourceEvent::Schema { change: SchemaChange::CreateTable { table: named, schema }, .. } = event
        else {
            panic!("{event:?}")
        };
        assert_eq!((named.to_string().as_str(), schema.columns.field(0).name().as_str()), (table, column));
    }
}

#[tokio::test]
async fn debezium_and_maxwell_by_their_names() {
    let cluster = Cluster::with_topic("orders", 1);
    let debezium = [
        (r#"{"op":"u","before":{"id":1,"note":"a"},"after":{"id":1,"note":"b"}}"#, Some("-U+U")),
        (r#"{"op":"d","before":{"id":1},"after":null}"#, Some("-D")),
    ];
    for (value, _) in debezium {
        cluster.write("orders", 0, "k", Some(value.as_bytes()));
    }
    // The record without a value that follows a deletion.
    cluster.write("orders", 0, "k", None);
    let declared = TableSchema::new(schema()).with_primary_key(["id"]).unwrap();
    let mut reader =
        open_all(&source(&cluster, &[("content_type", "DEBEZIUM_JSON")], Some(declared.clone()))).await;
    let mut kinds = Vec::new();
    while let Some(event) = next(&mut reader).await.unwrap() {
        if let SourceEvent::Batch { rows, next, .. } = event {
            kinds.extend((0..rows.num_rows()).map(|row| rows.kinds().get(row)));
            assert_eq!(next, KafkaOffset(3));
        }
    }
    assert_eq!(kinds, [RowKind::UpdateBefore, RowKind::UpdateAfter, RowKind::Delete]);
    // The same records are not Maxwell's.
    let maxwell = source(&cluster, &[("format_type", "maxwell_json")], Some(declared));
    let mut reader = open_all(&maxwell).await;
    assert_eq!(next(&mut reader).await.unwrap_err().kind(), ErrorKind::DataInvalid);
}

#[test]
fn a_format_that_contradicts_its_option_is_refused() {
    let builder = |pairs: &[(&str, &str)]| {
        KafkaSource::from_options(
            [("bootstrap_servers", "b:1"), ("topics", "t")].iter().chain(pairs).copied(),
        )
        .unwrap()
    };
    let schema = || Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
    let json = || Json::with_schema(schema());
    let table = || TableSchema::new(schema());
    for (built, part) in [
        (builder(&[("format_type", "csv")]).format(json()).build(), "format_type is csv"),
        (builder(&[]).build(), "no format is given"),
        (builder(&[("format_type", "csv")]).build(), "no format is given"),
        (builder(&[]).format(json()).schema(table()).build(), "both a format and a schema"),
        (builder(&[("format_type", "raw")]).schema(table()).build(), "one binary column"),
        (builder(&[("use_multi_table_record", "true")]).format(json()).build(), "change formats"),
        (
            builder(&[("use_multi_table_record", "true")]).format(Changes::canal().table(table())).build(),
            "one table was declared",
        ),
    ] {
        let error = built.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OptionInvalid);
        assert!(error.message().contains(part), "{part}: {error}");
    }
    builder(&[("format_type", "json")]).format(json()).build().unwrap();
    builder(&[("format_type", "debezium_json"), ("use_multi_table_record", "true")]).build().unwrap();
    builder(&[("format_type", "csv")]).schema(table()).build().unwrap();
}
