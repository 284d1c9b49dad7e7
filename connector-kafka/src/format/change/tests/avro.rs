//! Avro, encoded by Apache's own crate. Schemas as Confluent's converter registers them for Debezium:
//! `https://docs.confluent.io/platform/current/schema-registry/connect.html`.

use apache_avro::{Decimal, Schema as Theirs, to_avro_datum, types::Value};
use connector_core::{RowKind, RowKinds};
use proptest::prelude::*;

use super::*;
use crate::{format::Avro, schema_registry::SchemaRegistry};

/// A value behind its schema's number.
fn framed(number: u32, schema: &str, value: Value) -> Vec<u8> {
    let schema = Theirs::parse_str(schema).unwrap();
    let datum = to_avro_datum(&schema, value).unwrap();
    [&[0], &number.to_be_bytes()[..], &datum].concat()
}

fn record(fields: &[(&str, Value)]) -> Value {
    Value::Record(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
}

fn maybe(value: Option<Value>) -> Value {
    let branch = u32::from(value.is_some());
    Value::Union(branch, Box::new(value.unwrap_or(Value::Null)))
}

/// Rows of schemas with numbers from 1 on.
fn rows(schemas: &[&str], table: Option<TableSchema>) -> Split {
    let numbered: Vec<(u32, &str)> = (1..).zip(schemas.iter().copied()).collect();
    let avro = Avro::new(SchemaRegistry::holding(&numbered));
    let avro = match table {
        Some(table) => avro.table(table),
        None => avro,
    };
    Split::new(&avro.0)
}

impl Split {
    fn take(&mut self, value: &[u8]) -> &mut Self {
        self.try_give_bytes(None, value).unwrap_or_else(|e| panic!("{value:?}: {e:?}"));
        self
    }

    fn not_taken(&mut self, value: &[u8]) -> crate::format::JsonError {
        match self.try_give_bytes(None, value) {
            Err(Refusal::Record(error)) => error,
            other => panic!("{value:?}: {other:?}"),
        }
    }
}

const ALL_TYPES: &str = r#"{"type": "record", "name": "All", "namespace": "shop", "fields": [
    {"name": "flag", "type": "boolean"},
    {"name": "i", "type": "int"},
    {"name": "l", "type": "long"},
    {"name": "f", "type": "float"},
    {"name": "d", "type": "double"},
    {"name": "b", "type": "bytes"},
    {"name": "s", "type": "string"},
    {"name": "fixed", "type": {"type": "fixed", "name": "Three", "size": 3}},
    {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "GREEN"]}},
    {"name": "dec", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 4}},
    {"name": "wide", "type": {"type": "fixed", "name": "Wide", "size": 30, "logicalType": "decimal", "precision": 60, "scale": 2}},
    {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
    {"name": "day", "type": {"type": "int", "logicalType": "date"}},
    {"name": "t3", "type": {"type": "int", "logicalType": "time-millis"}},
    {"name": "t6", "type": {"type": "long", "logicalType": "time-micros"}},
    {"name": "ts3", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "ts6", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "ts9", "type": {"type": "long", "logicalType": "timestamp-nanos"}},
    {"name": "lts3", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
    {"name": "lts6", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
    {"name": "maybe", "type": ["null", "int"]},
    {"name": "last", "type": ["string", "null"]},
    {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
    {"name": "more", "type": {"type": "map", "values": "long"}},
    {"name": "inner", "type": {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "int"}, {"name": "c", "type": "Color"}]}},
    {"name": "either", "type": ["null", "long", "string", "Inner"]},
    {"name": "nothing", "type": "null"}
]}"#;

fn all_types(big: i64, text: &str) -> Value {
    let decimal = |bytes: &[u8]| Value::Decimal(Decimal::from(bytes.to_vec()));
    let inner = |x| record(&[("x", Value::Int(x)), ("c", Value::Enum(1, "GREEN".into()))]);
    record(&[
        ("flag", Value::Boolean(true)),
        ("i", Value::Int(i32::MIN)),
        ("l", Value::Long(big)),
        ("f", Value::Float(0.1)),
        ("d", Value::Double(-0.0)),
        ("b", Value::Bytes(vec![0, 255])),
        ("s", Value::String(text.to_owned())),
        ("fixed", Value::Fixed(3, vec![1, 2, 3])),
        ("color", Value::Enum(0, "RED".into())),
        ("dec", decimal(&(-12_345_678_i64).to_be_bytes())),
        ("wide", decimal(&[&[0; 14][..], &i128::MAX.to_be_bytes()].concat())),
        ("uuid", Value::Uuid(uuid::Uuid::from_u128(0x1234))),
        ("day", Value::Date(-1)),
        ("t3", Value::TimeMillis(1)),
        ("t6", Value::TimeMicros(86_399_999_999)),
        ("ts3", Value::TimestampMillis(1_700_000_000_001)),
        ("ts6", Value::TimestampMicros(1_700_000_000_000_001)),
        ("ts9", Value::TimestampNanos(1_700_000_000_000_000_001)),
        ("lts3", Value::LocalTimestampMillis(1_700_000_000_001)),
        ("lts6", Value::LocalTimestampMicros(1_700_000_000_000_001)),
        ("maybe", maybe(None)),
        ("last", Value::Union(0, Box::new(Value::String("é".into())))),
        ("tags", Value::Array(vec![maybe(Some(Value::String("a\"b".into()))), maybe(None)])),
        ("more", Value::Map([("k\n".to_owned(), Value::Long(1))].into())),
        ("inner", inner(7)),
        ("either", Value::Union(3, Box::new(inner(8)))),
        ("nothing", Value::Null),
    ])
}

#[test]
fn every_type_has_its_column() {
    let mut split = rows(&[ALL_TYPES], None);
    split.take(&framed(1, ALL_TYPES, all_types(i64::MAX, "订单 🎁\u{1}\\")));
    let outputs = split.decoder.finish().unwrap();
    let batch = outputs[0].rows.rows();
    assert_eq!(*outputs[0].rows.kinds(), RowKinds::Uniform(RowKind::Insert));
    let types: Vec<String> = batch
        .schema()
        .fields()
        .iter()
        .map(|field| {
            format!("{} {}{}", field.name(), field.data_type(), if field.is_nullable() { "?" } else { "" })
        })
        .collect();
    assert_eq!(
        types,
        [
            "flag Boolean",
            "i Int32",
            "l Int64",
            "f Float32",
            "d Float64",
            "b Binary",
            "s Utf8",
            "fixed FixedSizeBinary(3)",
            "color Utf8",
            "dec Decimal128(20, 4)",
            "wide Decimal256(60, 2)",
            "uuid Utf8",
            "day Date32",
            "t3 Time32(ms)",
            "t6 Time64(µs)",
            "ts3 Timestamp(ms, \"UTC\")",
            "ts6 Timestamp(µs, \"UTC\")",
            "ts9 Timestamp(ns, \"UTC\")",
            "lts3 Timestamp(ms)",
            "lts6 Timestamp(µs)",
            "maybe Int32?",
            "last Utf8?",
            "tags List(Utf8)",
            "more Map(\"entries\": non-null Struct(\"key\": non-null Utf8, \"value\": non-null Int64), unsorted)",
            "inner Struct(\"x\": non-null Int32, \"c\": non-null Utf8)",
            "either Utf8?",
            "nothing Null?",
        ]
    );
    let mut split = rows(&[ALL_TYPES], None);
    split.take(&framed(1, ALL_TYPES, all_types(i64::MIN, "订单 🎁\u{1}\\")));
    let row = split.rows().pop().unwrap();
    for part in [
        "flag=true i=-2147483648 l=-9223372036854775808 f=0.1 d=-0.0 b=00ff s=订单 🎁\u{1}\\ fixed=010203 color=RED",
        " dec=-1234.5678 wide=1701411834604692317316873037158841057.27 ",
        " uuid=00000000-0000-0000-0000-000000001234 day=1969-12-31 t3=00:00:00.001 t6=23:59:59.999999 ",
        " ts3=2023-11-14T22:13:20.001Z ts6=2023-11-14T22:13:20.000001Z ts9=2023-11-14T22:13:20.000000001Z ",
        " lts3=2023-11-14T22:13:20.001 lts6=2023-11-14T22:13:20.000001 maybe=null last=é ",
        " tags=[a\"b, null] more={k\n: 1} inner={x: 7, c: GREEN} either={\"x\":8,\"c\":\"GREEN\"} nothing=null",
    ] {
        assert!(row.contains(part), "{part}\n{row}");
    }
}

/// An instant stays one in whatever zone the job is; a time on a wall clock moves with it.
#[test]
fn instants_do_not_move_with_the_zone() {
    let schema = r#"{"type": "record", "name": "r", "fields": [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "wall", "type": {"type": "long", "logicalType": "local-timestamp-millis"}}]}"#;
    let value = record(&[("at", Value::TimestampMillis(0)), ("wall", Value::LocalTimestampMillis(0))]);
    let utc = Some("UTC".into());
    let declared = table(
        &[
            ("at", DataType::Timestamp(TimeUnit::Second, utc.clone())),
            ("wall", DataType::Timestamp(TimeUnit::Nanosecond, utc)),
        ],
        &[],
    );
    for (table, expected) in [
        (None, "+I topic at=1970-01-01T00:00:00Z wall=1970-01-01T00:00:00"),
        (Some(declared), "+I topic at=1970-01-01T00:00:00Z wall=1969-12-31T16:00:00Z"),
    ] {
        let mut avro = Avro::new(SchemaRegistry::holding(&[(1, schema)]));
        if let Some(table) = table {
            avro = avro.table(table);
        }
        let mut split = Split::new(&avro.time_zone(TimeZone::get("Asia/Shanghai").unwrap()).0);
        split.take(&framed(1, schema, value.clone()));
        assert_eq!(split.rows(), [expected]);
    }
}

/// Fields and columns belong together by name; what does not fit exactly is refused with its field.
#[test]
fn declared_columns() {
    let schema = r#"{"type": "record", "name": "r", "fields": [
        {"name": "n", "type": "long"}, {"name": "more", "type": "string"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "code", "type": "string"}]}"#;
    let declared = table(
        &[
            ("amount", DataType::Utf8),
            ("n!", DataType::Int16),
            ("absent", DataType::Boolean),
            ("code", DataType::UInt64),
        ],
        &["n"],
    );
    let value = |n: i64, code: &str| {
        record(&[
            ("n", Value::Long(n)),
            ("more", Value::String("left out".into())),
            ("amount", Value::Decimal(Decimal::from(vec![0x0F, 0x3C]))),
            ("code", Value::String(code.into())),
        ])
    };
    let mut split = rows(&[schema], Some(declared));
    split.take(&framed(1, schema, value(5, "18446744073709551615")));
    let error = split.not_taken(&framed(1, schema, value(40_000, "1")));
    assert_eq!((error.kind(), error.path(), error.value()), (JsonErrorKind::OutOfRange, "n", "40000"));
    let error = split.not_taken(&framed(1, schema, value(1, "x")));
    assert_eq!((error.kind(), error.path()), (JsonErrorKind::InvalidText, "code"));
    split.take(&framed(1, schema, value(6, "1")));
    assert_eq!(
        split.rows(),
        [
            "+I topic amount=39.00 n=5 absent=null code=18446744073709551615",
            "+I topic amount=39.00 n=6 absent=null code=1"
        ]
    );
}

/// New schemas add and widen columns, once; old ones may come again.
#[test]
fn columns_follow_the_schemas() {
    let old = r#"{"type": "record", "name": "r", "fields": [{"name": "id", "type": "int"}, {"name": "gone", "type": "string"}]}"#;
    let new = r#"{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}, {"name": "v", "type": ["null", "string"]}]}"#;
    let first = |id| framed(1, old, record(&[("id", Value::Int(id)), ("gone", Value::String("g".into()))]));
    let second = |id| framed(2, new, record(&[("id", Value::Long(id)), ("v", maybe(None))]));
    let mut split = rows(&[old, new], None);
    split.take(&first(1)).take(&second(1 << 40)).take(&first(2)).take(&second(3));
    assert_eq!(
        split.lines(),
        [
            "create topic (id Int32!, gone Utf8!) key ()",
            "+I topic id=1 gone=g",
            "alter topic id Int64!",
            "add topic v Utf8",
            "alter topic gone Utf8",
            "+I topic id=1099511627776 gone=null v=null",
            "+I topic id=2 gone=g v=null",
            "+I topic id=3 gone=null v=null",
        ]
    );
}

/// While producers of two schemas take turns, rows of both stand in one batch.
#[test]
fn schemas_that_take_turns_do_not_part_the_rows() {
    let old = r#"{"type": "record", "name": "r", "fields": [{"name": "id", "type": "int"}, {"name": "v", "type": ["null", "string"]}]}"#;
    let new = r#"{"type": "record", "name": "r", "fields": [{"name": "more", "type": ["null", "int"]}, {"name": "id", "type": "int"}, {"name": "v", "type": ["null", "string"]}]}"#;
    let first =
        |id| framed(1, old, record(&[("id", Value::Int(id)), ("v", maybe(Some(Value::String("o".into()))))]));
    let second = |id| {
        framed(
            2,
            new,
            record(&[("more", maybe(Some(Value::Int(7)))), ("id", Value::Int(id)), ("v", maybe(None))]),
        )
    };
    let declared = table(&[("id!", DataType::Int64), ("v", DataType::Utf8), ("more", DataType::Int32)], &[]);
    for declared in [None, Some(declared)] {
        let mut split = rows(&[old, new], declared);
        split.take(&first(0)).take(&second(1)).take(&first(2));
        split.rows();
        for id in 0..50 {
            let value = if id % 2 == 0 { first(id) } else { second(id) };
            assert_eq!(split.decoder.decode(None, &value).unwrap(), Taken::Rows(1), "{id}");
        }
        let rows = split.rows();
        assert_eq!(rows.len(), 50);
        assert_eq!(rows[48], "+I topic id=48 v=o more=null");
        assert_eq!(rows[49], "+I topic id=49 v=null more=7");
    }
}

#[test]
fn a_type_that_holds_itself_is_text_from_there_on() {
    let schema = r#"{"type": "record", "name": "Node", "fields": [
        {"name": "v", "type": "int"}, {"name": "next", "type": ["null", "Node"]}]}"#;
    let node = |v, next: Option<Value>| record(&[("v", Value::Int(v)), ("next", maybe(next))]);
    let mut split = rows(&[schema], None);
    split.take(&framed(1, schema, node(1, Some(node(2, Some(node(3, None)))))));
    assert_eq!(split.rows(), [r#"+I topic v=1 next={"v":2,"next":{"v":3,"next":null}}"#]);
    // Deeper than any reader of JSON goes: refused, not a full stack.
    let mut deep = vec![0, 0, 0, 0, 1];
    for _ in 0..1_000_000 {
        deep.extend([2, 2]);
    }
    deep.extend([2, 0]);
    assert_eq!(split.not_taken(&deep).kind(), JsonErrorKind::Syntax);
}

#[test]
fn what_is_not_framed_or_not_known_is_refused() {
    let schema = r#"{"type": "record", "name": "r", "fields": [{"name": "id", "type": "int"}]}"#;
    let registry = SchemaRegistry::holding(&[(1, schema), (2, r#""string""#)]);
    let mut split = Split::new(&Avro::new(registry).0);
    for value in [&b""[..], b"{\"id\":1}", b"\0\0\0", b"\x01\0\0\0\x01\x02"] {
        assert_eq!(split.not_taken(value).kind(), JsonErrorKind::Syntax, "{value:?}");
    }
    let error = split.not_taken(&[0, 0, 0, 0, 2, 0]);
    assert!(error.expected().contains("a record with fields"), "{error}");
    assert_eq!(
        split.not_taken(&[0, 0, 0, 0, 1, 2, 9]).kind(),
        JsonErrorKind::Syntax,
        "bytes behind the value"
    );
    // Nobody answers there: that is no fault of the record's.
    match split.try_give_bytes(None, &[0, 0, 0, 0, 3, 2]) {
        Err(Refusal::Later(error)) => assert!(error.is_transient(), "{error}"),
        other => panic!("{other:?}"),
    }
    split.take(&[0, 0, 0, 0, 1, 2]);
    assert_eq!(split.rows(), ["+I topic id=1"]);
}

/// A few bytes must not stand for billions of items.
#[test]
fn items_without_bytes_are_bounded() {
    let schema = r#"{"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}]}"#;
    let mut split = rows(&[schema], None);
    let mut value = vec![0, 0, 0, 0, 1];
    // 2^40 nulls.
    value.extend([0x80, 0x80, 0x80, 0x80, 0x80, 0x40]);
    value.push(0);
    assert_eq!(split.not_taken(&value).kind(), JsonErrorKind::OutOfRange);
    let event = r#"{"type": "record", "name": "e", "fields": [
        {"name": "more", "type": {"type": "array", "items": "null"}},
        {"name": "after", "type": ["null", {"type": "record", "name": "row", "fields": [{"name": "id", "type": "int"}]}]},
        {"name": "op", "type": "string"}]}"#;
    let changes = Changes::debezium_avro(SchemaRegistry::holding(&[(1, event)]))
        .table(table(&[("id", DataType::Int32)], &[]));
    let mut split = Split::new(&changes);
    // Stepped over at once.
    value.extend([2, 2, 2, b'c']);
    split.take(&value);
    assert_eq!(split.rows(), ["+I topic id=1"]);
}

/// What Confluent's converter makes of Debezium's schemas.
fn envelope(database: &str, table: &str, row: &str) -> String {
    format!(
        r#"{{"type":"record","name":"Envelope","namespace":"srv.{database}.{table}","fields":[
        {{"name":"before","type":["null",{{"type":"record","name":"Value","fields":[{row}],"connect.name":"srv.{database}.{table}.Value"}}],"default":null}},
        {{"name":"after","type":["null","Value"],"default":null}},
        {{"name":"source","type":{{"type":"record","name":"Source","namespace":"io.debezium.connector.mysql","fields":[
            {{"name":"version","type":"string"}},{{"name":"connector","type":"string"}},
            {{"name":"snapshot","type":[{{"type":"string","connect.version":1,"connect.parameters":{{"allowed":"true,last,false"}},"connect.default":"false","connect.name":"io.debezium.data.Enum"}},"null"],"default":"false"}},
            {{"name":"db","type":"string"}},{{"name":"table","type":["null","string"],"default":null}}],"connect.name":"io.debezium.connector.mysql.Source"}}}},
        {{"name":"op","type":"string"}},
        {{"name":"ts_ms","type":["null","long"],"default":null}},
        {{"name":"transaction","type":["null",{{"type":"record","name":"block","namespace":"event","fields":[{{"name":"id","type":"string"}},{{"name":"total_order","type":"long"}}]}}],"default":null}}
        ],"connect.version":1,"connect.name":"srv.{database}.{table}.Envelope"}}"#
    )
}

fn event(database: &str, table: &str, op: &str, before: Option<Value>, after: Option<Value>) -> Value {
    let source = record(&[
        ("version", Value::String("2.7.0.Final".into())),
        ("connector", Value::String("mysql".into())),
        ("snapshot", Value::Union(0, Box::new(Value::String("false".into())))),
        ("db", Value::String(database.into())),
        ("table", maybe(Some(Value::String(table.into())))),
    ]);
    record(&[
        ("before", maybe(before)),
        ("after", maybe(after)),
        ("source", source),
        ("op", Value::String(op.into())),
        ("ts_ms", maybe(Some(Value::Long(1)))),
        (
            "transaction",
            maybe(Some(record(&[("id", Value::String("x".into())), ("total_order", Value::Long(9))]))),
        ),
    ])
}

const ROW: &str = r#"{"name":"id","type":"long"},{"name":"v","type":["null","string"],"default":null}"#;

fn id_v(id: i64, v: &str) -> Value {
    record(&[("id", Value::Long(id)), ("v", maybe(Some(Value::String(v.into()))))])
}

#[test]
fn events_of_debezium() {
    let schema = envelope("shop", "orders", ROW);
    let changes = Changes::debezium_avro(SchemaRegistry::holding(&[(7, &schema)]));
    for format in [changes.clone().table(id_and_v()), changes] {
        let mut split = Split::new(&format);
        for (op, before, after) in [
            ("c", None, Some(id_v(1, "a"))),
            ("r", None, Some(id_v(2, "b"))),
            ("u", Some(id_v(1, "a")), Some(id_v(1, "c"))),
            ("u", None, Some(id_v(2, "d"))),
            ("d", Some(id_v(1, "c")), None),
            ("m", None, None),
        ] {
            split.take(&framed(7, &schema, event("shop", "orders", op, before, after)));
        }
        assert_eq!(
            split.rows(),
            [
                "+I topic id=1 v=a",
                "+I topic id=2 v=b",
                "-U topic id=1 v=a",
                "+U topic id=1 v=c",
                "+U topic id=2 v=d",
                "-D topic id=1 v=c",
            ]
        );
        split.take(&framed(7, &schema, event("shop", "orders", "t", None, None)));
        assert_eq!(split.lines(), ["truncate.table topic"]);
        let error = split.not_taken(&framed(7, &schema, event("shop", "orders", "x", None, None)));
        assert_eq!((error.kind(), error.path()), (JsonErrorKind::Unexpected, "op"));
        let error = split.not_taken(&framed(7, &schema, event("shop", "orders", "c", None, None)));
        assert_eq!((error.kind(), error.path()), (JsonErrorKind::MissingValue, "after"));
    }
}

/// The key's schema tells the columns of the key, and the key alone which row is gone.
#[test]
fn keys_of_events() {
    let schema = envelope("shop", "orders", r#"{"name":"n","type":"int"},{"name":"ID","type":"long"}"#);
    let key_schema = r#"{"type":"record","name":"Key","namespace":"srv.shop.orders","fields":[{"name":"ID","type":"long"}],"connect.name":"srv.shop.orders.Key"}"#;
    let registry = SchemaRegistry::holding(&[(1, key_schema), (2, &schema)]);
    let row = |id| record(&[("n", Value::Int(5)), ("ID", Value::Long(id))]);
    let key = |id| framed(1, key_schema, record(&[("ID", Value::Long(id))]));
    let mut split = Split::new(&Changes::debezium_avro(registry));
    let created = framed(2, &schema, event("shop", "orders", "c", None, Some(row(1))));
    let deleted = framed(2, &schema, event("shop", "orders", "d", None, None));
    split.try_give_bytes(Some(&key(1)), &created).unwrap();
    split.try_give_bytes(Some(&key(1)), &deleted).unwrap();
    // A key in JSON beside a value in Avro.
    split.try_give_bytes(Some(br#"{"ID":2}"#), &deleted).unwrap();
    assert_eq!(
        split.lines(),
        [
            "create topic (n Int32!, id Int64!) key (id)",
            "+I topic n=5 id=1",
            "-D topic n=0 id=1",
            "-D topic n=0 id=2",
        ]
    );
    let error = split.not_taken(&deleted);
    assert_eq!((error.kind(), error.path()), (JsonErrorKind::MissingValue, "before"));
    match split.try_give_bytes(Some(&[0, 0, 0]), &deleted) {
        Err(Refusal::Record(error)) => assert_eq!(error.kind(), JsonErrorKind::Syntax),
        other => panic!("{other:?}"),
    }
}

#[test]
fn many_tables_in_one_topic() {
    let (orders, users) =
        (envelope("shop", "orders", ROW), envelope("shop", "users", r#"{"name":"name","type":"string"}"#));
    let wider = envelope(
        "shop",
        "orders",
        &format!(
            r#"{ROW},{{"name":"at","type":["null",{{"type":"long","connect.version":1,"connect.name":"io.debezium.time.MicroTimestamp"}}],"default":null}}"#
        ),
    );
    let registry = SchemaRegistry::holding(&[(1, &orders), (2, &users), (3, &wider)]);
    let mut split = Split::new(&Changes::debezium_avro(registry).multi_table().include("shop\\..*").unwrap());
    let user = record(&[("name", Value::String("n".into()))]);
    split.take(&framed(1, &orders, event("shop", "orders", "c", None, Some(id_v(1, "a")))));
    split.take(&framed(2, &users, event("shop", "users", "c", None, Some(user))));
    split.take(&framed(1, &orders, event("other", "orders", "c", None, Some(id_v(9, "z")))));
    let Value::Record(mut row) = id_v(2, "b") else { unreachable!() };
    row.push(("at".into(), maybe(Some(Value::Long(1_500_000)))));
    split.take(&framed(3, &wider, event("shop", "orders", "c", None, Some(Value::Record(row)))));
    split.take(&framed(1, &orders, event("shop", "orders", "c", None, Some(id_v(3, "c")))));
    assert_eq!(
        split.lines(),
        [
            "create shop.orders (id Int64!, v Utf8) key ()",
            "+I shop.orders id=1 v=a",
            "create shop.users (name Utf8!) key ()",
            "+I shop.users name=n",
            "add shop.orders at Timestamp(µs)",
            "+I shop.orders id=2 v=b at=1970-01-01T00:00:01.500",
            "+I shop.orders id=3 v=c at=null",
        ]
    );
}

/// The types that Debezium tells by `connect.name`.
#[test]
fn types_of_connect() {
    let typed = |name: &str, plain: &str, more: &str| {
        format!(r#"{{"type":"{plain}","connect.version":1,"connect.name":"{name}"{more}}}"#)
    };
    let variable = r#"{"type":"record","name":"VariableScaleDecimal","namespace":"io.debezium.data","fields":[{"name":"scale","type":"int"},{"name":"value","type":"bytes"}],"connect.name":"io.debezium.data.VariableScaleDecimal"}"#;
    let columns: Vec<(&str, String, Value, &str)> = vec![
        ("small", r#"{"type":"int","connect.type":"int16"}"#.into(), Value::Int(-3), "Int16 -3"),
        ("day", typed("io.debezium.time.Date", "int", ""), Value::Int(1), "Date32 1970-01-02"),
        ("t", typed("io.debezium.time.MicroTime", "long", ""), Value::Long(1), "Time64(µs) 00:00:00.000001"),
        (
            "ts",
            typed("io.debezium.time.Timestamp", "long", ""),
            Value::Long(1),
            "Timestamp(ms) 1970-01-01T00:00:00.001",
        ),
        (
            "ts6",
            typed("io.debezium.time.MicroTimestamp", "long", ""),
            Value::Long(1),
            "Timestamp(µs) 1970-01-01T00:00:00.000001",
        ),
        (
            "ts9",
            typed("io.debezium.time.NanoTimestamp", "long", ""),
            Value::Long(1),
            "Timestamp(ns) 1970-01-01T00:00:00.000000001",
        ),
        // Connect's own time is an instant to Avro, and none to Debezium.
        (
            "connect",
            typed("org.apache.kafka.connect.data.Timestamp", "long", r#","logicalType":"timestamp-millis""#),
            Value::TimestampMillis(1),
            "Timestamp(ms) 1970-01-01T00:00:00.001",
        ),
        (
            "zoned",
            typed("io.debezium.time.ZonedTimestamp", "string", ""),
            Value::String("2024-01-02T03:04:05.000006+01:00".into()),
            "Timestamp(µs, \"UTC\") 2024-01-02T02:04:05.000006Z",
        ),
        (
            "amount",
            typed(
                "org.apache.kafka.connect.data.Decimal",
                "bytes",
                r#","logicalType":"decimal","precision":64,"scale":2,"connect.parameters":{"scale":"2","connect.decimal.precision":"10"}"#,
            ),
            Value::Decimal(Decimal::from(vec![0xFF])),
            "Decimal128(10, 2) -0.01",
        ),
        (
            "free",
            variable.into(),
            record(&[("scale", Value::Int(1)), ("value", Value::Bytes(vec![5]))]),
            "Utf8 0.5",
        ),
        (
            "json",
            typed("io.debezium.data.Json", "string", ""),
            Value::String("{\"a\":1}".into()),
            "Utf8 {\"a\":1}",
        ),
        ("bits", typed("io.debezium.data.Bits", "bytes", ""), Value::Bytes(vec![2]), "Binary 02"),
    ];
    let fields: Vec<String> =
        columns.iter().map(|(name, schema, ..)| format!(r#"{{"name":"{name}","type":{schema}}}"#)).collect();
    let schema = envelope("shop", "t", &fields.join(","));
    let row: Vec<(&str, Value)> = columns.iter().map(|(name, _, value, _)| (*name, value.clone())).collect();
    let mut split = Split::new(&Changes::debezium_avro(SchemaRegistry::holding(&[(1, &schema)])));
    split.take(&framed(1, &schema, event("shop", "t", "c", None, Some(record(&row)))));
    let lines = split.lines();
    for (name, .., expected) in &columns {
        let (data_type, shown) = expected.rsplit_once(' ').unwrap();
        assert!(lines[0].contains(&format!("{name} {data_type}!")), "{name}: {}", lines[0]);
        assert!(lines[1].contains(&format!("{name}={shown}")), "{name}: {}", lines[1]);
    }
}

/// Messages of the topic of statements have no operation.
#[test]
fn statements_are_read_as_in_json() {
    let schema = r#"{"type":"record","name":"SchemaChangeValue","namespace":"io.debezium.connector.mysql","fields":[
        {"name":"source","type":{"type":"record","name":"Source","fields":[{"name":"connector","type":"string"}]}},
        {"name":"databaseName","type":"string"},{"name":"ddl","type":"string"},
        {"name":"tableChanges","type":{"type":"array","items":{"type":"record","name":"Change","fields":[
            {"name":"type","type":"string"},{"name":"id","type":"string"}]}}}]}"#;
    let value = record(&[
        ("source", record(&[("connector", Value::String("mysql".into()))])),
        ("databaseName", Value::String("shop".into())),
        ("ddl", Value::String("DROP TABLE orders".into())),
        (
            "tableChanges",
            Value::Array(vec![record(&[
                ("type", Value::String("DROP".into())),
                ("id", Value::String("\"shop\".\"orders\"".into())),
            ])]),
        ),
    ]);
    let orders = envelope("shop", "orders", ROW);
    let registry = SchemaRegistry::holding(&[(1, &orders), (2, schema)]);
    let mut split = Split::new(&Changes::debezium_avro(registry).multi_table());
    split.take(&framed(1, &orders, event("shop", "orders", "c", None, Some(id_v(1, "a")))));
    split.take(&framed(2, schema, value));
    assert_eq!(split.lines().pop().unwrap(), "drop.table shop.orders");
}

/// A row that was cut short, or has other bytes, is refused or read; it takes no other row with it.
#[test]
fn cut_and_changed_records() {
    let good = framed(1, ALL_TYPES, all_types(5, "text"));
    let mut split = rows(&[ALL_TYPES], None);
    split.take(&good);
    for len in 0..good.len() {
        split.not_taken(&good[..len]);
    }
    let mut taken = 1;
    for at in 5..good.len() {
        for change in [0x01, 0x80, 0xFF] {
            let mut bad = good.clone();
            bad[at] ^= change;
            match split.try_give_bytes(None, &bad) {
                Ok(Taken::Rows(1)) => taken += 1,
                Err(Refusal::Record(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    split.take(&good);
    let rows = split.rows();
    assert_eq!(rows.len(), taken + 1);
    assert_eq!(rows.first(), rows.last());
}

proptest! {
    /// Numbers, texts and bytes of any kind come through as they are.
    #[test]
    fn values_come_through(
        numbers in proptest::collection::vec((any::<i32>(), any::<i64>(), any::<f32>(), any::<f64>()), 1..20),
        text in any::<String>(),
        bytes in any::<Vec<u8>>(),
    ) {
        use connector_core::arrow::{array::AsArray as _, datatypes::{Float32Type, Float64Type, Int32Type, Int64Type}};
        let schema = r#"{"type": "record", "name": "r", "fields": [{"name": "i", "type": "int"}, {"name": "l", "type": "long"},
            {"name": "f", "type": "float"}, {"name": "d", "type": "double"}, {"name": "s", "type": "string"}, {"name": "b", "type": "bytes"}]}"#;
        let mut split = rows(&[schema], None);
        for (i, l, f, d) in &numbers {
            split.take(&framed(1, schema, record(&[
                ("i", Value::Int(*i)), ("l", Value::Long(*l)), ("f", Value::Float(*f)), ("d", Value::Double(*d)),
                ("s", Value::String(text.clone())), ("b", Value::Bytes(bytes.clone())),
            ])));
        }
        let outputs = split.decoder.finish().unwrap();
        let batch = outputs[0].rows.rows();
        prop_assert_eq!(batch.num_rows(), numbers.len());
        for (row, (i, l, f, d)) in numbers.iter().enumerate() {
            prop_assert_eq!(batch.column(0).as_primitive::<Int32Type>().value(row), *i);
            prop_assert_eq!(batch.column(1).as_primitive::<Int64Type>().value(row), *l);
            let float = batch.column(2).as_primitive::<Float32Type>().value(row);
            prop_assert!(float.to_bits() == f.to_bits() || float.is_nan() && f.is_nan(), "{} {}", float, f);
            let double = batch.column(3).as_primitive::<Float64Type>().value(row);
            prop_assert!(double.to_bits() == d.to_bits() || double.is_nan() && d.is_nan(), "{} {}", double, d);
            prop_assert_eq!(batch.column(4).as_string::<i32>().value(row), &text);
            prop_assert_eq!(batch.column(5).as_binary::<i32>().value(row), &bytes);
        }
    }

    /// Whatever bytes come, nothing breaks.
    #[test]
    fn any_bytes(body in any::<Vec<u8>>()) {
        let event_schema = envelope("shop", "orders", ROW);
        let registry = SchemaRegistry::holding(&[(1, ALL_TYPES), (2, &event_schema)]);
        let value = |number: u8| [&[0, 0, 0, 0, number], &body[..]].concat();
        // Taken or refused: a panic is what fails the test.
        drop(Split::new(&Avro::new(registry.clone()).0).try_give_bytes(None, &value(1)));
        drop(Split::new(&Changes::debezium_avro(registry)).try_give_bytes(Some(&value(2)), &value(2)));
    }
}
