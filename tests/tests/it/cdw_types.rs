//! Every type of the documents, and the others of the servers, from Arrow to a real ClickHouse and read by its own SQL.

use std::sync::Arc;

use connector_bytehouse_cdw::{BytehouseCdwSink, SinkModeName};
use connector_core::{
    ChangeBatch, Sink, SinkWriter, TableId, WriterContext,
    arrow::{
        array::{
            Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Decimal256Array,
            FixedSizeBinaryArray, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array,
            ListArray, MapArray, RecordBatch, StringArray, StructArray, Time64MicrosecondArray,
            TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray, UInt8Array,
            UInt16Array, UInt32Array, UInt64Array,
        },
        buffer::OffsetBuffer,
        datatypes::{DataType, Field, Int32Type, i256},
    },
};
use connector_tests::services::{self, Clickhouse};

/// A column: its name, its type at the server, two values, and what the server says they are.
type Case = (&'static str, &'static str, ArrayRef, [&'static str; 2]);

fn list() -> ArrayRef {
    let lists = vec![Some(vec![Some(1), None, Some(-3)]), Some(vec![])];
    Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))
}

fn map() -> ArrayRef {
    let entries = StructArray::from(vec![
        (
            Arc::new(Field::new("keys", DataType::Utf8, false)),
            Arc::new(StringArray::from(vec!["a", "b"])) as ArrayRef,
        ),
        (
            Arc::new(Field::new("values", DataType::Int64, true)),
            Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef,
        ),
    ]);
    let field = Arc::new(Field::new("entries", entries.data_type().clone(), false));
    Arc::new(MapArray::new(field, OffsetBuffer::from_lengths([2, 0]), entries, None, false))
}

fn row() -> ArrayRef {
    Arc::new(StructArray::from(vec![
        (
            Arc::new(Field::new("x", DataType::Int64, false)),
            Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef,
        ),
        (
            Arc::new(Field::new("y", DataType::Utf8, false)),
            Arc::new(StringArray::from(vec!["p", "q"])) as ArrayRef,
        ),
    ]))
}

/// Types that every server of the family has.
fn old() -> Vec<Case> {
    let wide = Decimal128Array::from(vec![99_999_999_999_999_999_999_999_999_999_999_999_999_i128, -1]);
    let narrow = Decimal128Array::from(vec![123_456_789_012_345_678, -5]);
    // 2024-02-29 03:59:00 and 2105-12-31 15:59:59: days after that 18.16 cannot show.
    let seconds = [1_709_179_140_000i64, 4_291_718_399_000];
    let millis = TimestampMillisecondArray::from(seconds.to_vec());
    vec![
        ("i8", "Int8", Arc::new(Int8Array::from(vec![i8::MIN, i8::MAX])), ["-128", "127"]),
        ("i16", "Int16", Arc::new(Int16Array::from(vec![i16::MIN, i16::MAX])), ["-32768", "32767"]),
        ("i32", "Int32", Arc::new(Int32Array::from(vec![i32::MIN, i32::MAX])), ["-2147483648", "2147483647"]),
        (
            "i64",
            "Int64",
            Arc::new(Int64Array::from(vec![i64::MIN, i64::MAX])),
            ["-9223372036854775808", "9223372036854775807"],
        ),
        ("u8", "UInt8", Arc::new(UInt8Array::from(vec![0, u8::MAX])), ["0", "255"]),
        ("u16", "UInt16", Arc::new(UInt16Array::from(vec![0, u16::MAX])), ["0", "65535"]),
        ("u32", "UInt32", Arc::new(UInt32Array::from(vec![0, u32::MAX])), ["0", "4294967295"]),
        ("u64", "UInt64", Arc::new(UInt64Array::from(vec![0, u64::MAX])), ["0", "18446744073709551615"]),
        ("f32", "Float32", Arc::new(Float32Array::from(vec![0.5, -1.25])), ["0.5", "-1.25"]),
        ("f64", "Float64", Arc::new(Float64Array::from(vec![0.1, 1e300])), ["0.1", "1e300"]),
        (
            "dec",
            "Decimal(18, 4)",
            Arc::new(narrow.with_precision_and_scale(18, 4).unwrap()),
            ["12345678901234.5678", "-0.0005"],
        ),
        (
            "wide",
            "Decimal(38, 10)",
            Arc::new(wide.with_precision_and_scale(38, 10).unwrap()),
            ["9999999999999999999999999999.9999999999", "-0.0000000001"],
        ),
        ("bool", "UInt8", Arc::new(BooleanArray::from(vec![true, false])), ["1", "0"]),
        ("day", "Date", Arc::new(Date32Array::from(vec![1, 19_782])), ["1970-01-02", "2024-02-29"]),
        ("at", "DateTime('UTC')", Arc::new(millis.clone()), ["2024-02-29 03:59:00", "2105-12-31 15:59:59"]),
        (
            "at_zone",
            "DateTime('Asia/Shanghai')",
            Arc::new(millis.with_timezone("+00:00")),
            ["2024-02-29 11:59:00", "2105-12-31 23:59:59"],
        ),
        ("text", "String", Arc::new(StringArray::from(vec!["客户 🎁", ""])), ["客户 🎁", ""]),
        ("fixed", "FixedString(3)", Arc::new(StringArray::from(vec!["abc", "xyz"])), ["abc", "xyz"]),
        (
            "bytes",
            "String",
            Arc::new(BinaryArray::from(vec![&[0xffu8, 0x00, 0xde][..], b"ok"])),
            ["FF00DE", "6F6B"],
        ),
        (
            "uuid",
            "UUID",
            Arc::new(StringArray::from(vec![
                "61f0c404-5cb3-11e7-907b-a6006ad3dba0",
                "00000000-0000-0000-0000-000000000001",
            ])),
            ["61f0c404-5cb3-11e7-907b-a6006ad3dba0", "00000000-0000-0000-0000-000000000001"],
        ),
        (
            "e",
            "Enum8('public' = 1, 'restricted' = -2)",
            Arc::new(StringArray::from(vec!["restricted", "public"])),
            ["restricted", "public"],
        ),
        ("list", "Array(Nullable(Int32))", list(), ["[1,NULL,-3]", "[]"]),
        (
            "low",
            "LowCardinality(Nullable(String))",
            Arc::new(StringArray::from(vec![Some("x"), None])),
            ["x", "ᴺᵁᴸᴸ"],
        ),
        ("maybe", "Nullable(Int64)", Arc::new(Int64Array::from(vec![None, Some(5)])), ["ᴺᵁᴸᴸ", "5"]),
        (
            "time_text",
            "String",
            Arc::new(Time64MicrosecondArray::from(vec![45_296_000_007, 0])),
            ["12:34:56.000007", "00:00:00.000000"],
        ),
    ]
}

/// Types that came later.
fn new() -> Vec<Case> {
    let big = i256::from_string("1234567890123456789012345678901234567890123456789012345678").unwrap();
    let decimal = Decimal256Array::from(vec![big, i256::from_i128(-1)]);
    let micros = TimestampMicrosecondArray::from(vec![-1, 1_712_030_340_072_229]);
    let nanos = TimestampNanosecondArray::from(vec![-1, 1_712_030_340_072_229_523]);
    let addresses = vec![&[1u8, 2, 3, 4][..], &[255, 0, 0, 1]];
    vec![
        (
            "dec256",
            "Decimal(76, 20)",
            Arc::new(decimal.with_precision_and_scale(76, 20).unwrap()),
            ["12345678901234567890123456789012345678.90123456789012345678", "-0.00000000000000000001"],
        ),
        ("flag", "Bool", Arc::new(BooleanArray::from(vec![true, false])), ["true", "false"]),
        ("far", "Date32", Arc::new(Date32Array::from(vec![-25_567, 120_529])), ["1900-01-01", "2299-12-31"]),
        (
            "ms",
            "DateTime64(3, 'UTC')",
            Arc::new(TimestampMillisecondArray::from(vec![-1, 0])),
            ["1969-12-31 23:59:59.999", "1970-01-01 00:00:00.000"],
        ),
        (
            "us",
            "DateTime64(6, 'UTC')",
            Arc::new(micros),
            ["1969-12-31 23:59:59.999999", "2024-04-02 03:59:00.072229"],
        ),
        (
            "ns",
            "DateTime64(9, 'UTC')",
            Arc::new(nanos),
            ["1969-12-31 23:59:59.999999999", "2024-04-02 03:59:00.072229523"],
        ),
        (
            "ip4",
            "IPv4",
            Arc::new(FixedSizeBinaryArray::try_from_iter(addresses.into_iter()).unwrap()),
            ["1.2.3.4", "255.0.0.1"],
        ),
        ("ip6", "IPv6", Arc::new(StringArray::from(vec!["2001:db8::1", "::"])), ["2001:db8::1", "::"]),
        ("map", "Map(String, Int64)", map(), ["{'a':1,'b':2}", "{}"]),
        ("tuple", "Tuple(x Int64, y String)", row(), ["(1,'p')", "(2,'q')"]),
        (
            "json",
            "JSON",
            Arc::new(StringArray::from(vec![r#"{"a":{"b":1}}"#, "{}"])),
            [r#"{"a":{"b":1}}"#, "{}"],
        ),
        (
            "i256",
            "Int256",
            Arc::new(Decimal128Array::from(vec![i128::MAX / 2, -7]).with_precision_and_scale(38, 0).unwrap()),
            ["85070591730234615865843651857942052863", "-7"],
        ),
        (
            "time",
            "Time64(6)",
            Arc::new(Time64MicrosecondArray::from(vec![45_296_000_007, 0])),
            ["12:34:56.000007", "00:00:00.000000"],
        ),
    ]
}

async fn arrive_exactly(server: &Clickhouse, cases: Vec<Case>, settings: &str) {
    let database = server.create_database().await;
    let declared: Vec<String> = cases.iter().map(|(name, ty, ..)| format!("`{name}` {ty}")).collect();
    server
        .execute(&format!(
            "CREATE TABLE {database}.t (id UInt8, {}) ENGINE = Memory {settings}",
            declared.join(", ")
        ))
        .await;
    let mut columns: Vec<(&str, ArrayRef)> = vec![("id", Arc::new(UInt8Array::from(vec![0, 1])))];
    columns.extend(cases.iter().map(|(name, _, array, _)| (*name, Arc::clone(array))));
    let rows = RecordBatch::try_from_iter(columns).unwrap();
    let (host, port) = server.tcp.rsplit_once(':').unwrap();
    let sink = BytehouseCdwSink::builder()
        .clickhouse(host, port.parse().unwrap())
        .mode(SinkModeName::Insert)
        .build()
        .unwrap();
    let mut writer = sink.open(WriterContext::default()).await.unwrap();
    writer.write(&TableId::new(&database, "t"), ChangeBatch::append(rows)).await.unwrap();
    assert_eq!(writer.flush(None).await.unwrap().rows, 2);
    writer.close().await.unwrap();
    for (name, ty, _, wanted) in &cases {
        let shown = if *name == "bytes" { "hex(`bytes`)".to_owned() } else { format!("`{name}`") };
        let rows = server.query(&format!("SELECT {shown} FROM {database}.t ORDER BY id")).await.unwrap();
        let found: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
        assert_eq!(found, wanted, "{name} {ty}");
    }
    server.execute(&format!("DROP DATABASE {database}")).await;
}

#[tokio::test]
async fn clickhouse_18_holds_what_it_is_given() {
    let Some(server) = services::clickhouse_18() else { return };
    arrive_exactly(&server, old(), "").await;
}

#[tokio::test]
async fn clickhouse_current_holds_what_it_is_given() {
    let Some(server) = services::clickhouse_current() else { return };
    arrive_exactly(&server, old(), "").await;
    for case in new() {
        arrive_exactly(&server, vec![case], "").await;
    }
}
