//! Every column type on both real servers: written from Arrow by the sink, read back by the wire client into Arrow,
//! and read as text over HTTP, which shares no code with either.

use connector_bytehouse_cdw::{CompressionName, SinkModeName};
use connector_bytehouse_common::{
    native::{ChType, ColumnDef, TupleElement},
    wire::{Client, ClientOptions, Settings},
};
use connector_core::{
    ChangeBatch, Sink, SinkWriter, TableId, WriterContext,
    arrow::{
        array::{ArrayRef, RecordBatch, UInt32Array},
        compute::concat_batches,
        datatypes::{DataType, Field, Schema},
    },
};
use connector_tests::services::{self, Clickhouse, Version};
use std::sync::Arc;

use crate::{
    kafka_to_clickhouse::sink_at,
    values::{Column, Dice},
};

const ROWS: usize = 150;

/// Types of both servers.
const BOTH: &[&str] = &[
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "UInt8",
    "UInt16",
    "UInt32",
    "UInt64",
    "Float32",
    "Float64",
    "Decimal(9, 0)",
    "Decimal(9, 9)",
    "Decimal(18, 4)",
    "Decimal(38, 10)",
    "String",
    "FixedString(1)",
    "FixedString(7)",
    "UUID",
    "Date",
    "DateTime",
    "DateTime('UTC')",
    "DateTime('Asia/Shanghai')",
    "DateTime('America/New_York')",
    "Enum8('' = -128, 'plain' = 0, '订单''s' = 1, 'last' = 127)",
    "Enum16('low' = -32768, 'a b' = 300, 'high' = 32767)",
    "LowCardinality(String)",
    "LowCardinality(FixedString(3))",
    "LowCardinality(Nullable(String))",
    "Nullable(Int8)",
    "Nullable(UInt64)",
    "Nullable(Float64)",
    "Nullable(Decimal(18, 4))",
    "Nullable(String)",
    "Nullable(FixedString(7))",
    "Nullable(UUID)",
    "Nullable(Date)",
    "Nullable(DateTime('UTC'))",
    "Nullable(Enum8('a' = 1, 'b' = 2))",
    "Array(Int64)",
    "Array(String)",
    "Array(Nullable(String))",
    "Array(Nullable(Decimal(38, 10)))",
    "Array(Array(UInt16))",
    "Array(Array(Array(Nullable(Int32))))",
    "Array(FixedString(7))",
    "Array(Date)",
    "Array(DateTime('Asia/Shanghai'))",
    "Array(Enum8('a' = 1, 'b' = 2))",
    "Array(UUID)",
    "Tuple(Int8, String)",
    "Tuple(Nullable(String), Array(Nullable(Float32)), Tuple(UInt8, Date))",
];

/// Types of the current server alone. The old one knows arrays of tuples too, but takes them apart into a column for
/// each element.
const CURRENT: &[&str] = &[
    "Array(Tuple(String, Nullable(Int32)))",
    "Bool",
    "Int128",
    "Int256",
    "UInt128",
    "UInt256",
    "BFloat16",
    "Decimal(76, 20)",
    "Decimal(76, 76)",
    "Decimal(39, 0)",
    "IPv4",
    "IPv6",
    "Date32",
    "DateTime64(0, 'UTC')",
    "DateTime64(1, 'UTC')",
    "DateTime64(2, 'UTC')",
    "DateTime64(3, 'UTC')",
    "DateTime64(4, 'UTC')",
    "DateTime64(5, 'UTC')",
    "DateTime64(6, 'UTC')",
    "DateTime64(7, 'UTC')",
    "DateTime64(8, 'UTC')",
    "DateTime64(9, 'UTC')",
    "DateTime64(3, 'Asia/Shanghai')",
    "DateTime64(6, 'America/New_York')",
    "DateTime64(3)",
    "Time",
    "Time64(0)",
    "Time64(3)",
    "Time64(6)",
    "Time64(9)",
    "IntervalDay",
    "Nullable(Bool)",
    "Nullable(Int128)",
    "Nullable(UInt256)",
    "Nullable(Decimal(76, 20))",
    "Nullable(IPv4)",
    "Nullable(IPv6)",
    "Nullable(Date32)",
    "Nullable(DateTime64(9, 'UTC'))",
    "Nullable(Time64(6))",
    "LowCardinality(UInt64)",
    "LowCardinality(Nullable(Date))",
    "LowCardinality(Nullable(FixedString(2)))",
    "Array(LowCardinality(String))",
    "Array(LowCardinality(Nullable(String)))",
    "Array(Nullable(Int256))",
    "Array(IPv6)",
    "Array(Bool)",
    "Map(String, UInt64)",
    "Map(LowCardinality(String), Array(Nullable(DateTime64(3, 'UTC'))))",
    "Map(UInt16, Map(String, Nullable(Decimal(38, 10))))",
    "Map(String, Tuple(a UInt8, b Array(Nullable(String))))",
    "Tuple(id UInt64, note Nullable(String), `a b` Array(Tuple(x Int8, y Map(String, Bool))))",
    "Nested(id UInt32, note LowCardinality(String))",
    "Array(Map(UUID, Array(Nullable(Enum8('a' = 1, 'b' = 2)))))",
];

fn client_options(server: &Clickhouse) -> ClientOptions {
    let (host, port) = server.tcp.rsplit_once(':').unwrap();
    ClientOptions::new(host, port.parse().unwrap())
}

/// Settings without which the current server refuses some of the types in a table.
fn settings(server: &Clickhouse) -> Settings {
    let mut settings = Settings::new();
    if server.version == Version::Current {
        for name in ["allow_suspicious_low_cardinality_types", "enable_time_time64_type"] {
            settings.set(name, 1);
        }
        // One column of arrays of tuples, not one array a part.
        settings.set("flatten_nested", 0);
    }
    settings
}

/// Columns of these types with values of a seed.
fn columns(types: &[String], rows: usize, version: Version, dice: &mut Dice) -> Vec<Column> {
    types
        .iter()
        .enumerate()
        .map(|(place, ty)| {
            let definition = ColumnDef::parse(format!("c{place}"), ty.as_str()).unwrap();
            Column::random(&definition, rows, version, dice)
        })
        .collect()
}

/// A column `n` that numbers the rows from `start`, and the columns.
fn batch(columns: &[Column], start: u32) -> RecordBatch {
    let rows = columns.first().map_or(0, |column| column.array.len());
    let numbers = UInt32Array::from_iter_values(start..start + u32::try_from(rows).unwrap());
    let mut fields = vec![Field::new("n", DataType::UInt32, false)];
    let mut arrays: Vec<ArrayRef> = vec![Arc::new(numbers)];
    for (place, column) in columns.iter().enumerate() {
        fields.push(Field::new(format!("c{place}"), column.array.data_type().clone(), true));
        arrays.push(Arc::clone(&column.array));
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

/// Writes values of these types, reads them in both ways, and compares.
async fn round_trip(server: &Clickhouse, types: &[String], seed: u64) {
    let mut client = Client::connect(client_options(server)).await.unwrap();
    let table = format!("{}.types", server.create_database().await);
    let list: Vec<String> = types.iter().enumerate().map(|(place, ty)| format!("c{place} {ty}")).collect();
    let create =
        format!("CREATE TABLE {table} (n UInt32, {}) ENGINE = MergeTree ORDER BY n", list.join(", "));
    client.execute(&create, &settings(server)).await.unwrap_or_else(|error| panic!("{create}: {error}"));

    let mut dice = Dice::new(seed);
    let written = columns(types, ROWS, server.version, &mut dice);
    let all = batch(&written, 0);
    let compression = [CompressionName::None, CompressionName::Lz4, CompressionName::Zstd];
    let sink = sink_at(&server.tcp)
        .mode(SinkModeName::Insert)
        .table(table.as_str())
        .compression(compression[usize::try_from(seed % 3).unwrap()])
        .build()
        .unwrap();
    let mut writer = sink.open(WriterContext::default()).await.unwrap();
    // In pieces that begin anywhere, so that offsets and null maps do not begin at 0.
    let mut start = 0;
    while start < ROWS {
        let length = (1 + dice.below(60)).min(ROWS - start);
        let piece = ChangeBatch::append(all.slice(start, length));
        writer.write(&TableId::new("", "any"), piece).await.unwrap();
        if dice.below(3) == 0 {
            writer.flush(None).await.unwrap();
        }
        start += length;
    }
    writer.flush(None).await.unwrap();
    writer.close().await.unwrap();

    let read = read_back(&mut client, &format!("SELECT * FROM {table} ORDER BY n")).await;
    assert_eq!(read.num_rows(), ROWS);
    for (place, column) in written.iter().enumerate() {
        let (ty, found) = (&types[place], read.column(place + 1));
        assert_eq!(found.data_type(), column.array.data_type(), "{ty} at {:?}", server.version);
        assert_eq!(found, &column.array, "{ty} at {:?}, seed {seed}: read by our client", server.version);
        let texts = server.query(&format!("SELECT c{place} FROM {table} ORDER BY n")).await.unwrap();
        for (row, expected) in column.texts.iter().enumerate() {
            // A line end within a text is escaped, so a row is a line; an empty text may come as no cell.
            let text = texts[row].first().map_or("", String::as_str);
            assert_eq!(text, expected, "{ty} at {:?}, seed {seed}, row {row}: as text", server.version);
        }
    }
}

async fn read_back(client: &mut Client, sql: &str) -> RecordBatch {
    let mut stream = client.query(sql, &Settings::new()).await.unwrap();
    let mut batches = Vec::new();
    while let Some(block) = stream.next_block().await.unwrap() {
        batches.push(block.rows);
    }
    concat_batches(&batches[0].schema(), &batches).unwrap()
}

fn known_types(version: Version) -> Vec<String> {
    let more = if version == Version::Current { CURRENT } else { &[] };
    BOTH.iter().chain(more).map(|ty| (*ty).to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_type_goes_in_and_comes_back_at_the_current_server() {
    let Some(server) = services::clickhouse_current() else { return };
    for seed in 1..=3 {
        round_trip(&server, &known_types(server.version), seed).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_type_goes_in_and_comes_back_at_the_old_server() {
    let Some(server) = services::clickhouse_18() else { return };
    for seed in 1..=3 {
        round_trip(&server, &known_types(server.version), seed).await;
    }
}

/// A type made of others, as deep as `depth`.
fn random_type(version: Version, depth: usize, dice: &mut Dice) -> String {
    let flat = || -> Vec<String> {
        let all = known_types(version).into_iter();
        let nested = ["Array", "Map", "Tuple", "Nested", "Interval"];
        all.filter(|ty| !nested.iter().any(|name| ty.starts_with(name))).collect()
    };
    if depth == 0 {
        let flat = flat();
        return flat[dice.below(flat.len())].clone();
    }
    let mut inner = || random_type(version, depth - 1, dice);
    let (first, second, third) = (inner(), inner(), inner());
    let keys = ["String", "UInt8", "Int64", "LowCardinality(String)", "UUID", "Date"];
    match dice.below(if version == Version::Current { 4 } else { 2 }) {
        0 if version == Version::Current || !first.starts_with("Tuple") => format!("Array({first})"),
        0 | 1 => format!("Tuple({first}, {second}, {third})"),
        2 => format!("Map({}, {first})", keys[dice.below(keys.len())]),
        _ => format!("Tuple(a {first}, `b c` {second})"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn types_within_types_go_in_and_come_back() {
    for server in [services::clickhouse_18(), services::clickhouse_current()].into_iter().flatten() {
        for seed in 100..103 {
            let mut dice = Dice::new(seed);
            let types: Vec<String> =
                (0..25).map(|_| random_type(server.version, 1 + dice.below(2), &mut dice.split())).collect();
            round_trip(&server, &types, seed).await;
        }
    }
}

#[test]
fn the_types_of_these_tests_are_those_that_the_encoder_knows() {
    let mut known = std::collections::BTreeSet::new();
    for ty in BOTH.iter().chain(CURRENT) {
        note(&ColumnDef::parse("c", *ty).unwrap().ty, &mut known);
    }
    // Besides these: Nothing has no column, JSON and Object have tests of their own, Unknown is refused.
    let all = [
        "Array",
        "BFloat16",
        "Bool",
        "Date",
        "Date32",
        "DateTime",
        "DateTime64",
        "Decimal",
        "Enum16",
        "Enum8",
        "FixedString",
        "Float32",
        "Float64",
        "IPv4",
        "IPv6",
        "Int128",
        "Int16",
        "Int256",
        "Int32",
        "Int64",
        "Int8",
        "IntervalDay",
        "LowCardinality",
        "Map",
        "Nullable",
        "String",
        "Time",
        "Time64",
        "Tuple",
        "UInt128",
        "UInt16",
        "UInt256",
        "UInt32",
        "UInt64",
        "UInt8",
        "UUID",
    ];
    assert_eq!(known.into_iter().collect::<Vec<_>>(), all);
}

fn note(ty: &ChType, known: &mut std::collections::BTreeSet<String>) {
    known.insert(ty.to_string().split(['(', ' ']).next().unwrap().to_owned());
    match ty {
        ChType::Nullable(inner) | ChType::LowCardinality(inner) | ChType::Array(inner) => note(inner, known),
        ChType::Map(key, value) => {
            note(key, known);
            note(value, known);
        }
        ChType::Tuple(elements) => {
            elements.iter().for_each(|TupleElement { ty, .. }| note(ty, known));
        }
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn json_goes_in_and_comes_back_as_text() {
    let Some(server) = services::clickhouse_current() else { return };
    let mut client = Client::connect(client_options(&server)).await.unwrap();
    let table = format!("{}.json", server.create_database().await);
    let create = format!("CREATE TABLE {table} (n UInt32, c0 JSON) ENGINE = MergeTree ORDER BY n");
    client.execute(&create, &Settings::new()).await.unwrap();
    let texts = [r#"{"a":1,"b":{"c":"订单","d":[1,2,3]}}"#, "{}", r#"{"a":"text \"quoted\""}"#];
    let column = Column::of_texts(&texts);
    let sink = sink_at(&server.tcp).mode(SinkModeName::Insert).table(table.as_str()).build().unwrap();
    let mut writer = sink.open(WriterContext::default()).await.unwrap();
    writer.write(&TableId::new("", "any"), ChangeBatch::append(batch(&[column], 0))).await.unwrap();
    writer.flush(None).await.unwrap();
    let found = server
        .query(&format!("SELECT c0.a, c0.b.c, toString(c0.b.d) FROM {table} ORDER BY n"))
        .await
        .unwrap();
    assert_eq!(found[0], ["1", "订单", "[1,2,3]"]);
    assert_eq!(found[2][0], "text \"quoted\"");
    let mut settings = Settings::new();
    settings.set("output_format_native_write_json_as_string", 1);
    let mut stream = client.query(&format!("SELECT c0 FROM {table} ORDER BY n"), &settings).await.unwrap();
    let block = stream.next_block().await.unwrap().unwrap();
    let read = connector_core::arrow::array::AsArray::as_string::<i32>(block.rows.column(0));
    for (found, written) in read.iter().zip(texts) {
        let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(parse(found.unwrap()), parse(written));
    }
}
