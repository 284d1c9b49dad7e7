//! What the encoders write is what the projects document, and what our own decoders read.

use std::sync::Arc;

use connector_core::{
    RowKind, RowKinds, TableId, TableSchema,
    arrow::{
        array::{
            ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Decimal256Array, Float32Array,
            Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, Int64Builder, LargeStringArray,
            ListArray, MapBuilder, StringArray, StringBuilder, StructArray, Time32MillisecondArray,
            Time32SecondArray, Time64MicrosecondArray, Time64NanosecondArray, TimestampMicrosecondArray,
            TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray, UInt8Array,
            UInt16Array, UInt32Array, UInt64Array,
        },
        compute::cast,
        datatypes::{Field, Int32Type, Schema, TimeUnit, i256},
        util::display::{ArrayFormatter, FormatOptions},
    },
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    Csv, Format, Json,
    format::{
        Changes,
        change::Registry,
        metadata::MetadataColumns,
        record::{Decoder, Taken},
    },
};

const NOW: i64 = 1_767_225_600_123;

fn table() -> TableId {
    TableId::new("shop", "orders")
}

/// What a decoder makes of the records: one batch, and the kinds of its rows.
fn read(format: &Format, records: &Encoded, count: usize) -> (RecordBatch, Vec<RowKind>) {
    let registry = Arc::<Registry>::default();
    let mut decoder =
        Decoder::new(format, TableId::new("", "home"), &MetadataColumns::default(), &registry).unwrap();
    for at in 0..count {
        let record = records.get(at);
        loop {
            match decoder.decode(None, Some(record)) {
                Ok(Taken::Changes { again: true }) => drop(decoder.take_changes()),
                Ok(_) => break,
                Err(e) => panic!("{e:?}: {}", String::from_utf8_lossy(record)),
            }
        }
    }
    let mut outputs = decoder.finish().unwrap();
    let (rows, kinds) = outputs.swap_remove(0).rows.into_parts();
    assert!(outputs.is_empty(), "all rows are of one table and one shape");
    let kinds = (0..rows.num_rows()).map(|row| kinds.get(row)).collect();
    (rows, kinds)
}

fn encode(dialect: Dialect, rows: &RecordBatch, events: &[Event], key: &[&str]) -> Encoded {
    let key: Vec<String> = key.iter().map(|name| (*name).to_owned()).collect();
    let table = table();
    let facts = Facts { table: &table, key: &key, topic: "cdc", pipeline: "copy", now: NOW };
    let mut out = Encoded::default();
    ChangeEncoder::new(dialect).encode(rows, events, &facts, &mut out).unwrap();
    out
}

fn values(records: &Encoded, count: usize) -> Vec<Value> {
    (0..count).map(|at| serde_json::from_slice(records.get(at)).unwrap()).collect()
}

/// Two versions of an order.
fn order() -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int32Array::from(vec![1001, 1001]))),
        ("name", Arc::new(StringArray::from(vec![Some("a\"b"), None]))),
        ("amount", Arc::new(Decimal128Array::from(vec![3900, -1]).with_precision_and_scale(10, 2).unwrap())),
        ("day", Arc::new(Date32Array::from(vec![18_395, 18_395]))),
        ("at", Arc::new(TimestampMicrosecondArray::from(vec![1_589_373_515_000_001, 0]))),
        ("seen", Arc::new(TimestampMillisecondArray::from(vec![1_589_373_515_477, 0]).with_timezone("UTC"))),
        ("ok", Arc::new(BooleanArray::from(vec![true, false]))),
        ("raw", Arc::new(BinaryArray::from(vec![b"\x00\xff\"".as_slice(), b"a"]))),
        ("big", Arc::new(UInt64Array::from(vec![u64::MAX, 128]))),
        ("f", Arc::new(Float64Array::from(vec![f64::NAN, 1e300]))),
        (
            "tags",
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None])),
        ),
    ];
    let nullable = |name: &str| matches!(name, "name" | "tags");
    RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, column)| (name, column, nullable(name))),
    )
    .unwrap()
}

const UPDATE: Event = Event::Update { before: Some(0), after: 1 };
const UPSERT: Event = Event::Update { before: None, after: 1 };

/// Shapes and types: Debezium's documentation of its MySQL connector, `decimal.handling.mode=string`.
#[test]
fn debezium_without_its_schema() {
    let events = [Event::Insert(0), UPDATE, UPSERT, Event::Delete(1)];
    let out = encode(Dialect::Debezium { schema: false }, &order(), &events, &["id"]);
    let first = json!({
        "id": 1001, "name": "a\"b", "amount": "39.00", "day": 18395, "at": 1_589_373_515_000_001_i64,
        "seen": "2020-05-13T12:38:35.477Z", "ok": true, "raw": "AP8i", "big": u64::MAX, "f": "NaN",
        "tags": [1, null],
    });
    let second = json!({
        "id": 1001, "name": null, "amount": "-0.01", "day": 18395, "at": 0, "seen": "1970-01-01T00:00:00Z",
        "ok": false, "raw": "YQ==", "big": 128, "f": 1e300, "tags": null,
    });
    let source = json!({
        "version": env!("CARGO_PKG_VERSION"), "connector": "connector-kafka", "name": "copy", "ts_ms": NOW,
        "snapshot": "false", "db": "shop", "schema": null, "table": "orders",
    });
    let event = |before: &Value, after: &Value, op: &str| json!({"before": before, "after": after, "source": source, "op": op, "ts_ms": NOW});
    assert_eq!(
        values(&out, 4),
        [
            event(&Value::Null, &first, "c"),
            event(&first, &second, "u"),
            event(&Value::Null, &second, "u"),
            event(&second, &Value::Null, "d"),
        ]
    );
}

#[test]
fn debezium_with_its_schema() {
    let out = encode(Dialect::Debezium { schema: true }, &order(), &[UPDATE], &["id"]);
    let event = &values(&out, 1)[0];
    // 39.00 and -0.01 as unscaled numbers, as Connect writes decimals; 2^64-1 and 128 keep a byte for their sign.
    assert_eq!(event["payload"]["before"]["amount"], "Dzw=");
    assert_eq!(event["payload"]["after"]["amount"], "/w==");
    assert_eq!(event["payload"]["before"]["big"], "AP//////////");
    assert_eq!(event["payload"]["after"]["big"], "AIA=");
    assert_eq!(event["payload"]["op"], "u");
    assert_eq!(event["schema"]["name"], "cdc.Envelope");
    let parts = event["schema"]["fields"].as_array().unwrap();
    let named: Vec<&str> = parts.iter().map(|part| part["field"].as_str().unwrap()).collect();
    assert_eq!(named, ["before", "after", "source", "op", "ts_ms"]);
    for part in &parts[..2] {
        assert_eq!((part["name"].as_str(), part["optional"].as_bool()), (Some("cdc.Value"), Some(true)));
    }
    let decimal = |precision: &str, scale: &str| {
        json!({"type": "bytes", "optional": false, "name": "org.apache.kafka.connect.data.Decimal", "version": 1,
               "parameters": {"scale": scale, "connect.decimal.precision": precision}})
    };
    let time = |kind: &str, name: &str| json!({"type": kind, "optional": false, "name": name, "version": 1});
    let plain = |kind: &str| json!({"type": kind, "optional": false});
    let mut expected = vec![
        ("id", plain("int32")),
        ("name", json!({"type": "string", "optional": true})),
        ("amount", decimal("10", "2")),
        ("day", time("int32", "io.debezium.time.Date")),
        ("at", time("int64", "io.debezium.time.MicroTimestamp")),
        ("seen", time("string", "io.debezium.time.ZonedTimestamp")),
        ("ok", plain("boolean")),
        ("raw", plain("bytes")),
        ("big", decimal("20", "0")),
        ("f", plain("double")),
        ("tags", json!({"type": "array", "items": {"type": "int32", "optional": true}, "optional": true})),
    ];
    for (name, schema) in &mut expected {
        schema["field"] = json!(name);
    }
    let expected: Vec<Value> = expected.into_iter().map(|(_, schema)| schema).collect();
    assert_eq!(parts[1]["fields"], Value::Array(expected));
}

/// Canal's flat message: all values are texts, `old` has what changed.
#[test]
fn canal() {
    let events = [Event::Insert(0), UPDATE, UPSERT, Event::Delete(1)];
    let out = encode(Dialect::Canal, &order(), &events, &["id"]);
    let first = json!({
        "id": "1001", "name": "a\"b", "amount": "39.00", "day": "2020-05-13", "at": "2020-05-13 12:38:35.000001",
        "seen": "2020-05-13 12:38:35.477", "ok": "1", "raw": "\u{0}\u{ff}\"", "big": "18446744073709551615",
        "f": "NaN", "tags": "[1,null]",
    });
    let second = json!({
        "id": "1001", "name": null, "amount": "-0.01", "day": "2020-05-13", "at": "1970-01-01 00:00:00.000000",
        "seen": "1970-01-01 00:00:00.000", "ok": "0", "raw": "a", "big": "128", "f": "1e300", "tags": null,
    });
    let mut changed = first.clone();
    for same in ["id", "day"] {
        changed.as_object_mut().unwrap().remove(same);
    }
    let message = |id: u64, data: &Value, old: &Value, kind: &str| {
        json!({
            "data": [data], "database": "shop", "es": NOW, "id": id, "isDdl": false,
            "mysqlType": {
                "id": "int", "name": "longtext", "amount": "decimal(10,2)", "day": "date", "at": "datetime(6)",
                "seen": "timestamp(3)", "ok": "bit(1)", "raw": "longblob", "big": "bigint unsigned", "f": "double",
                "tags": "json",
            },
            "old": old, "pkNames": ["id"], "sql": "",
            "sqlType": {
                "id": 4, "name": 2005, "amount": 3, "day": 91, "at": 93, "seen": 93, "ok": -7, "raw": 2004, "big": -5,
                "f": 8, "tags": 12,
            },
            "table": "orders", "ts": NOW, "type": kind,
        })
    };
    assert_eq!(
        values(&out, 4),
        [
            message(1, &first, &Value::Null, "INSERT"),
            message(2, &second, &json!([changed]), "UPDATE"),
            message(3, &second, &Value::Null, "UPDATE"),
            message(4, &second, &Value::Null, "DELETE"),
        ]
    );
    // Without a key that anybody told, and with types that MySQL told.
    let told = Field::new("id", DataType::Int32, false).with_metadata(
        [(connector_core::schema::metadata::SOURCE_TYPE.to_owned(), "int(11)".to_owned())].into(),
    );
    let rows =
        RecordBatch::try_new(Arc::new(Schema::new(vec![told])), vec![Arc::new(Int32Array::from(vec![1]))])
            .unwrap();
    let found = &values(&encode(Dialect::Canal, &rows, &[Event::Insert(0)], &[]), 1)[0];
    assert_eq!((&found["mysqlType"]["id"], &found["pkNames"]), (&json!("int(11)"), &Value::Null));
}

/// Maxwell's data format: `ts` in seconds, `old` has what changed.
#[test]
fn maxwell() {
    let events = [Event::Insert(0), UPDATE, UPSERT, Event::Delete(1)];
    let out = encode(Dialect::Maxwell, &order(), &events, &["id"]);
    let first = json!({
        "id": 1001, "name": "a\"b", "amount": 39.00, "day": "2020-05-13", "at": "2020-05-13 12:38:35.000001",
        "seen": "2020-05-13 12:38:35.477", "ok": 1, "raw": "AP8i", "big": u64::MAX, "f": "NaN", "tags": [1, null],
    });
    let second = json!({
        "id": 1001, "name": null, "amount": -0.01, "day": "2020-05-13", "at": "1970-01-01 00:00:00.000000",
        "seen": "1970-01-01 00:00:00.000", "ok": 0, "raw": "YQ==", "big": 128, "f": 1e300, "tags": null,
    });
    let mut changed = first.clone();
    for same in ["id", "day"] {
        changed.as_object_mut().unwrap().remove(same);
    }
    let event = |data: &Value, kind: &str| json!({"database": "shop", "table": "orders", "type": kind, "ts": 1_767_225_600, "data": data});
    let mut update = event(&second, "update");
    update["old"] = changed;
    assert_eq!(
        values(&out, 4),
        [event(&first, "insert"), update, event(&second, "update"), event(&second, "delete")]
    );
    assert!(String::from_utf8_lossy(out.get(0)).contains(r#""amount":39.00,"#), "all digits of a decimal");
}

#[test]
fn what_no_text_can_say_names_its_column() {
    let day: ArrayRef = Arc::new(Date32Array::from(vec![0, i32::MAX]));
    let noon: ArrayRef = Arc::new(Time32SecondArray::from(vec![0, 86_400]));
    let long: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![0, -99_999_999_999_999]));
    for column in [day, noon, long] {
        let rows = RecordBatch::try_from_iter([("odd", column)]).unwrap();
        let error = json(&rows, &mut Encoded::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DataInvalid);
        assert!(error.message().contains("row 1") && error.message().contains("`odd`"), "{error}");
    }
    let odd = connector_core::arrow::array::DurationSecondArray::from(vec![1]);
    let rows = RecordBatch::try_from_iter([("odd", Arc::new(odd) as ArrayRef)]).unwrap();
    let error = json(&rows, &mut Encoded::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("`odd`"), "{error}");
}

/// The values of one row; each column takes of them what it can hold.
#[derive(Debug, Clone)]
struct Values {
    number: i64,
    wide: i128,
    float: f64,
    text: String,
    bytes: Vec<u8>,
    /// Nanoseconds since 1970, in the years that texts can say.
    time: i128,
    nulls: u64,
}

fn values_of_a_row() -> impl Strategy<Value = Values> {
    let text = prop_oneof![".{0,6}", "[a\",\r\n\\\\\u{feff}é\u{1}]{0,5}"];
    let times = -62_167_219_200_000_000_000_i128..253_402_300_800_000_000_000;
    (
        any::<i64>(),
        any::<i128>(),
        any::<f64>(),
        text,
        proptest::collection::vec(any::<u8>(), 0..5),
        times,
        any::<u64>(),
    )
        .prop_map(|(number, wide, float, text, bytes, time, nulls)| Values {
            number,
            wide,
            float,
            text,
            bytes,
            time,
            nulls,
        })
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "any value will do")]
fn batch(rows: &[Values], finite: bool) -> RecordBatch {
    let mut columns: Vec<(String, ArrayRef)> = Vec::new();
    macro_rules! add {
        ($name:literal, $array:ty, $value:expr) => {
            add!($name, $array, $value, |array: $array| array)
        };
        ($name:literal, $array:ty, $value:expr, $finish:expr) => {{
            let bit = 1_u64 << columns.len();
            let value: fn(&Values) -> _ = $value;
            let column: $array = rows.iter().map(|row| (row.nulls & bit == 0).then(|| value(row))).collect();
            columns.push(($name.to_owned(), Arc::new($finish(column))));
        }};
    }
    let float = |row: &Values| if row.float.is_finite() { row.float } else { f64::NAN };
    let dec = 10_i128.pow(37);
    add!("bool", BooleanArray, |row| row.number > 0);
    add!("i8", Int8Array, |row| row.number as i8);
    add!("i16", Int16Array, |row| row.number as i16);
    add!("i32", Int32Array, |row| row.number as i32);
    add!("i64", Int64Array, |row| row.number);
    add!("u8", UInt8Array, |row| row.number as u8);
    add!("u16", UInt16Array, |row| row.number as u16);
    add!("u32", UInt32Array, |row| row.number as u32);
    add!("u64", UInt64Array, |row| row.number as u64);
    add!("text", StringArray, |row| row.text.clone());
    add!("long", LargeStringArray, |row| row.text.clone());
    add!("date", Date32Array, |row| row.time.div_euclid(86_400_000_000_000) as i32);
    add!("time_s", Time32SecondArray, |row| (row.time / 1_000_000_000).rem_euclid(86_400) as i32);
    add!("time_ms", Time32MillisecondArray, |row| (row.time / 1_000_000).rem_euclid(86_400_000) as i32);
    add!("time_us", Time64MicrosecondArray, |row| (row.time / 1000).rem_euclid(86_400_000_000) as i64);
    add!("time_ns", Time64NanosecondArray, |row| row.time.rem_euclid(86_400_000_000_000) as i64);
    add!("at_s", TimestampSecondArray, |row| row.time.div_euclid(1_000_000_000) as i64);
    add!("at_ms", TimestampMillisecondArray, |row| row.time.div_euclid(1_000_000) as i64);
    add!("at_us", TimestampMicrosecondArray, |row| row.time.div_euclid(1000) as i64);
    add!("at_ns", TimestampNanosecondArray, |row| row.number);
    add!(
        "zoned_s",
        TimestampSecondArray,
        |row| row.time.div_euclid(1_000_000_000) as i64,
        |a: TimestampSecondArray| a.with_timezone("UTC")
    );
    add!(
        "zoned_us",
        TimestampMicrosecondArray,
        |row| row.time.div_euclid(1000) as i64,
        |a: TimestampMicrosecondArray| a.with_timezone("Asia/Shanghai")
    );
    let nulls = |bit: u64| move |row: &Values| row.nulls & bit == 0;
    let (a, b, c, d) = (nulls(1 << 40), nulls(1 << 41), nulls(1 << 42), nulls(1 << 43));
    let decimals: Decimal128Array = rows.iter().map(|row| a(row).then_some(row.wide % dec)).collect();
    columns.push(("dec".to_owned(), Arc::new(decimals.with_precision_and_scale(38, 9).unwrap())));
    let wide: Decimal256Array = rows
        .iter()
        .map(|row| b(row).then_some(i256::from_i128(row.wide).wrapping_mul(i256::from_i128(dec))))
        .collect();
    columns.push(("dec_wide".to_owned(), Arc::new(wide.with_precision_and_scale(76, 20).unwrap())));
    let bytes: BinaryArray = rows.iter().map(|row| c(row).then_some(row.bytes.as_slice())).collect();
    columns.push(("bytes".to_owned(), Arc::new(bytes)));
    let keep = move |row: &Values| if finite && !row.float.is_finite() { 0.5 } else { float(row) };
    let floats: Float64Array = rows.iter().map(|row| d(row).then(|| keep(row))).collect();
    columns.push(("f64".to_owned(), Arc::new(floats)));
    let floats: Float32Array = rows
        .iter()
        .map(|row| Some(if (keep(row) as f32).is_infinite() { 0.1 } else { keep(row) as f32 }))
        .collect();
    columns.push(("f32".to_owned(), Arc::new(floats)));
    columns.extend(nested(rows));
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
        .unwrap()
}

fn nested(rows: &[Values]) -> Vec<(String, ArrayRef)> {
    let lists = rows.iter().map(|row| {
        (row.nulls & (1 << 50) == 0)
            .then(|| row.bytes.iter().map(|byte| (*byte > 9).then_some(i32::from(*byte))).collect::<Vec<_>>())
    });
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    for row in rows {
        for (at, byte) in row.bytes.iter().enumerate() {
            maps.keys().append_value(format!("{at}\"{}", row.text));
            maps.values().append_option((*byte > 9).then_some(i64::from(*byte)));
        }
        maps.append(row.nulls & (1 << 51) == 0 || !row.bytes.is_empty()).unwrap();
    }
    let decimals: Decimal128Array = rows.iter().map(|row| Some(row.wide % 1000)).collect();
    let fields: Vec<(&str, ArrayRef)> = vec![
        ("t", Arc::new(rows.iter().map(|row| Some(row.text.as_str())).collect::<StringArray>())),
        ("d", Arc::new(decimals.with_precision_and_scale(9, 3).unwrap())),
    ];
    vec![
        ("list".to_owned(), Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))),
        ("map".to_owned(), Arc::new(maps.finish())),
        ("struct".to_owned(), Arc::new(StructArray::try_from(fields).unwrap())),
    ]
}

/// What happens with so many rows, and the kinds of rows that stand for it.
fn events(kinds: &[u8], rows: usize) -> (Vec<Event>, Vec<RowKind>) {
    let (mut events, mut all) = (Vec::new(), Vec::new());
    let mut kinds = kinds.iter().cycle();
    while all.len() < rows {
        let row = all.len();
        match kinds.next() {
            Some(0) if row + 1 < rows => {
                events.push(Event::Update { before: Some(row), after: row + 1 });
                all.extend([RowKind::UpdateBefore, RowKind::UpdateAfter]);
            }
            Some(1) => {
                events.push(Event::Update { before: None, after: row });
                all.push(RowKind::UpdateAfter);
            }
            Some(2) => {
                events.push(Event::Delete(row));
                all.push(RowKind::Delete);
            }
            _ => {
                events.push(Event::Insert(row));
                all.push(RowKind::Insert);
            }
        }
    }
    (events, all)
}

/// Seconds as milliseconds.
fn without_seconds(rows: &RecordBatch) -> RecordBatch {
    let columns = rows.schema_ref().fields().iter().zip(rows.columns()).map(|(field, column)| {
        let millis = match field.data_type() {
            DataType::Time32(TimeUnit::Second) => DataType::Time32(TimeUnit::Millisecond),
            DataType::Timestamp(TimeUnit::Second, None) => DataType::Timestamp(TimeUnit::Millisecond, None),
            other => other.clone(),
        };
        (field.name().clone(), cast(column, &millis).unwrap(), true)
    });
    RecordBatch::try_from_iter_with_nullable(columns.collect::<Vec<_>>()).unwrap()
}

/// The columns before the nested ones.
fn flat(rows: &RecordBatch) -> RecordBatch {
    let places: Vec<usize> = (0..rows.num_columns() - 3).collect();
    rows.project(&places).unwrap()
}

fn shown(column: &ArrayRef) -> Vec<String> {
    let options = FormatOptions::default().with_null("null");
    let formatter = ArrayFormatter::try_new(column, &options).unwrap();
    (0..column.len()).map(|row| formatter.value(row).to_string()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn our_decoders_read_all_types_of_all_formats(
        rows in proptest::collection::vec(values_of_a_row(), 1..6),
        kinds in proptest::collection::vec(0..4_u8, 1..5),
    ) {
        let (events, kinds) = events(&kinds, rows.len());
        let all = batch(&rows, false);
        let options = RowKinds::from_kinds(&kinds);
        prop_assert!(connector_core::ChangeBatch::try_new(all.clone(), options).is_ok());

        for (dialect, changes) in [
            (Dialect::Debezium { schema: false }, Changes::debezium()),
            (Dialect::Maxwell, Changes::maxwell()),
        ] {
            let out = encode(dialect, &all, &events, &[]);
            // Debezium counts nothing in seconds; without its schema nothing tells that but the columns.
            let expected = if dialect == Dialect::Maxwell { all.clone() } else { without_seconds(&all) };
            let declared = TableSchema::new(expected.schema());
            let (found, found_kinds) = read(&changes.table(declared).into(), &out, events.len());
            prop_assert_eq!(&found, &expected);
            prop_assert_eq!(&found_kinds, &kinds);
        }

        let narrow = flat(&all);
        let out = encode(Dialect::Canal, &narrow, &events, &[]);
        let canal = Changes::canal().table(TableSchema::new(narrow.schema()));
        let (found, found_kinds) = read(&canal.into(), &out, events.len());
        prop_assert_eq!(&found, &narrow);
        prop_assert_eq!(&found_kinds, &kinds);

        // The schema part tells the columns; where Connect has no such type, a wider one.
        let out = encode(Dialect::Debezium { schema: true }, &all, &events, &[]);
        let (found, found_kinds) = read(&Changes::debezium().into(), &out, events.len());
        prop_assert_eq!(&found_kinds, &kinds);
        for (column, field) in all.columns().iter().zip(all.schema().fields()) {
            let other = found.column_by_name(field.name()).unwrap();
            if field.data_type().is_nested() {
                prop_assert_eq!(shown(other), shown(column), "{}", field.name());
            } else {
                let other = cast(other, field.data_type()).unwrap();
                prop_assert_eq!(&other, column, "{}", field.name());
            }
        }

        let csv = CsvEncoder::new(",", "\"", "", false).unwrap();
        let mut out = Encoded::default();
        csv.encode(&all, &mut out).unwrap();
        let format = Csv::with_schema(all.schema()).options(|options| options.text_nan = true);
        prop_assert_eq!(&read(&format.into(), &out, rows.len()).0, &all);

        let all = batch(&rows, true);
        let mut out = Encoded::default();
        json(&all, &mut out).unwrap();
        prop_assert_eq!(&read(&Json::with_schema(all.schema()).into(), &out, rows.len()).0, &all);
    }
}
