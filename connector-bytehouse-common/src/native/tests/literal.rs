//! Bytes as servers have them.

use std::sync::Arc;

use connector_core::arrow::{
    array::builder::{Int32Builder, MapBuilder, StringBuilder},
    array::{
        Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float32Array,
        Int8Array, Int16Array, Int32Array, Int64Array, ListArray, NullArray, StringArray, StructArray,
        Time32MillisecondArray, Time32SecondArray, TimestampMillisecondArray, TimestampSecondArray,
        UInt32Array, UInt64Array,
    },
    datatypes::{DataType, Field, Int32Type},
};

use super::{
    super::{EncodeRules, ReadOptions},
    batch, data_of, encode_one, encoder, read, read_one,
};

/// A number of 64 bits, as it stands on the wire.
fn n(value: u64) -> [u8; 8] {
    value.to_le_bytes()
}

/// Encodes, compares, and reads back what was sent.
fn same(array: impl Array + Clone + 'static, ty: &str, bytes: &[u8]) {
    assert_eq!(data_of(array.clone(), ty), bytes, "{ty}");
    let block = encode_one(Arc::new(array.clone()), ty, &EncodeRules::default()).unwrap();
    assert_eq!(&read_one(&block), &(Arc::new(array) as ArrayRef), "{ty}");
}

#[test]
fn a_block() {
    let batch = batch(&[
        ("id", Arc::new(UInt64Array::from(vec![1, 258]))),
        ("名", Arc::new(StringArray::from(vec![Some("a"), None]))),
    ]);
    let mut out = Vec::new();
    encoder(&batch, &["UInt64", "Nullable(String)"], &EncodeRules::default())
        .unwrap()
        .encode(&batch, &mut out)
        .unwrap();
    let expected = [
        &[2, 2][..],
        b"\x02id\x06UInt64",
        &n(1),
        &n(258),
        "\x03名\x10Nullable(String)".as_bytes(),
        &[0, 1],
        b"\x01a\x00",
    ]
    .concat();
    assert_eq!(out, expected);
    let block = read(&out, &ReadOptions::default()).unwrap();
    assert_eq!(block.rows.columns(), batch.columns());
    assert_eq!(block.columns[1].type_text(), "Nullable(String)");
}

#[test]
fn numbers() {
    same(Int8Array::from(vec![-1, 5]), "Int8", &[0xff, 5]);
    same(Int16Array::from(vec![-2]), "Int16", &[0xfe, 0xff]);
    same(Int32Array::from(vec![Some(1), None]), "Nullable(Int32)", &[0, 1, 1, 0, 0, 0, 0, 0, 0, 0]);
    same(Float32Array::from(vec![1.5]), "Float32", &[0, 0, 0xc0, 0x3f]);
    same(Float32Array::from(vec![1.5]), "BFloat16", &[0xc0, 0x3f]);
    same(BooleanArray::from(vec![true, false]), "Bool", &[1, 0]);
    let decimal = |p, s| Decimal128Array::from(vec![12345, -1]).with_precision_and_scale(p, s).unwrap();
    same(decimal(9, 2), "Decimal(9, 2)", &[0x39, 0x30, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    same(decimal(18, 4), "Decimal(18, 4)", &[&n(12345)[..], &[0xff; 8]].concat());
    same(decimal(38, 0), "Decimal(38, 0)", &[&n(12345)[..], &n(0), &[0xff; 16]].concat());
    assert_eq!(
        data_of(decimal(38, 0), "Decimal(76, 0)"),
        [&n(12345)[..], &n(0), &n(0), &n(0), &[0xff; 32]].concat()
    );
    assert_eq!(data_of(decimal(38, 0), "Int256"), [&n(12345)[..], &n(0), &n(0), &n(0), &[0xff; 32]].concat());
}

#[test]
fn texts_and_bytes() {
    same(StringArray::from(vec!["", "é"]), "String", b"\x00\x02\xc3\xa9");
    let long = "x".repeat(300);
    same(StringArray::from(vec![long.as_str()]), "String", &[&[0xac, 2][..], long.as_bytes()].concat());
    let fixed = FixedSizeBinaryArray::try_from_iter([b"abc\0"].into_iter()).unwrap();
    same(fixed, "FixedString(4)", b"abc\0");
    assert_eq!(data_of(StringArray::from(vec!["abc", ""]), "FixedString(4)"), b"abc\0\0\0\0\0");
    let uuid: [u8; 16] = std::array::from_fn(|i| u8::try_from(i).unwrap());
    let wire = [7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8];
    same(FixedSizeBinaryArray::try_from_iter([uuid].into_iter()).unwrap(), "UUID", &wire);
    assert_eq!(data_of(StringArray::from(vec!["00010203-0405-0607-0809-0A0B0C0D0E0F"]), "UUID"), wire);
    same(UInt32Array::from(vec![0x0102_0304]), "IPv4", &[4, 3, 2, 1]);
    assert_eq!(data_of(StringArray::from(vec!["1.2.3.4"]), "IPv4"), [4, 3, 2, 1]);
    assert_eq!(data_of(Int64Array::from(vec![0x0102_0304]), "IPv4"), [4, 3, 2, 1]);
    let v6 = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    same(FixedSizeBinaryArray::try_from_iter([v6].into_iter()).unwrap(), "IPv6", &v6);
    assert_eq!(data_of(StringArray::from(vec!["2001:db8::1"]), "IPv6"), v6);
    let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 1, 2, 3, 4];
    assert_eq!(data_of(StringArray::from(vec!["1.2.3.4"]), "IPv6"), mapped);
    same(StringArray::from(vec![Some("b"), None]), "Nullable(Enum8('a' = -3, 'b' = 2))", &[0, 1, 2, 0xfd]);
    same(StringArray::from(vec!["b"]), "Enum16('a' = 1, 'b' = 258)", &[2, 1]);
    same(StringArray::from(vec!["{}"]), "JSON", &[&n(1)[..], b"\x02{}"].concat());
    same(StringArray::from(vec!["{}"]), "Object('json')", b"\x01\x02{}");
}

#[test]
fn times() {
    same(Date32Array::from(vec![1, 65535]), "Date", &[1, 0, 0xff, 0xff]);
    same(Date32Array::from(vec![-1]), "Date32", &[0xff; 4]);
    same(TimestampSecondArray::from(vec![3]).with_timezone("UTC"), "DateTime", &[3, 0, 0, 0]);
    same(
        TimestampSecondArray::from(vec![3]).with_timezone("Asia/Tokyo"),
        "DateTime('Asia/Tokyo')",
        &[3, 0, 0, 0],
    );
    same(TimestampMillisecondArray::from(vec![-1]).with_timezone("UTC"), "DateTime64(3)", &[0xff; 8]);
    let hundredths = TimestampMillisecondArray::from(vec![1230]).with_timezone("UTC");
    same(hundredths, "DateTime64(2)", &n(123));
    same(Time32MillisecondArray::from(vec![1500]), "Time(3)", &n(1500));
    same(Time32MillisecondArray::from(vec![1500]), "Time64(1)", &n(15));
    same(Time32SecondArray::from(vec![86_399]), "Time", &[0x7f, 0x51, 1, 0]);
}

#[test]
fn arrays_and_maps_and_tuples() {
    let list = |rows: Vec<Option<Vec<Option<i32>>>>| ListArray::from_iter_primitive::<Int32Type, _, _>(rows);
    let rows = list(vec![Some(vec![Some(7), None]), Some(vec![]), Some(vec![Some(8)])]);
    let expected = [&n(2)[..], &n(2), &n(3), &[0, 1, 0], &[7, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0]].concat();
    same(rows, "Array(Nullable(Int32))", &expected);
    assert_eq!(data_of(list(vec![Some(vec![]), Some(vec![])]), "Array(Int32)"), [n(0), n(0)].concat());

    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for (key, value) in [("a", 1), ("b", 2)] {
        map.keys().append_value(key);
        map.values().append_value(value);
    }
    map.append(true).unwrap();
    map.append(true).unwrap();
    let expected = [&n(2)[..], &n(2), b"\x01a\x01b", &[1, 0, 0, 0, 2, 0, 0, 0]].concat();
    let map = map.finish();
    assert_eq!(data_of(map.clone(), "Map(String, Int32)"), expected);
    assert_eq!(data_of(map, "Array(Tuple(String, Int32))"), expected);

    let fields = vec![Field::new("a", DataType::Int8, true), Field::new("b", DataType::Utf8, true)];
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Int8Array::from(vec![1, 2])), Arc::new(StringArray::from(vec![Some("x"), None]))];
    let tuple = StructArray::new(fields.into(), columns, None);
    assert_eq!(data_of(tuple.clone(), "Tuple(Int8, Nullable(String))"), b"\x01\x02\x00\x01\x01x\x00");
    assert_eq!(data_of(tuple, "Tuple(b Nullable(String), a Int8)"), b"\x00\x01\x01x\x00\x01\x02");
}

#[test]
fn dictionaries() {
    let plain = StringArray::from(vec!["a", "b", "a"]);
    let keys = [&n(1)[..], &n(0x600), &n(2), b"\x01a\x01b", &n(3), &[0, 1, 0]].concat();
    same(plain, "LowCardinality(String)", &keys);
    // The first key of a nullable dictionary stands for null.
    let nullable = StringArray::from(vec![None, Some("x"), Some("")]);
    let keys = [&n(1)[..], &n(0x600), &n(3), b"\x00\x01x\x00", &n(3), &[0, 1, 2]].concat();
    same(nullable, "LowCardinality(Nullable(String))", &keys);
    same(
        Int32Array::from(vec![5, 5]),
        "LowCardinality(Int32)",
        &[&n(1)[..], &n(0x600), &n(1), &[5, 0, 0, 0], &n(2), &[0, 0]].concat(),
    );

    // The version stands before the ends of the arrays, the dictionary behind them.
    let mut list = connector_core::arrow::array::builder::ListBuilder::new(StringBuilder::new());
    list.append_value([Some("a"), Some("a")]);
    list.append_value([Some("b"); 1]);
    let list = list.finish();
    let expected = [&n(1)[..], &n(2), &n(3), &n(0x600), &n(2), b"\x01a\x01b", &n(3), &[0, 0, 1]].concat();
    assert_eq!(data_of(list.clone(), "Array(LowCardinality(String))"), expected);
    assert_eq!(data_of(list.slice(0, 0), "Array(LowCardinality(String))"), [0u8; 0]);
    let empty = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(Vec::<Option<i32>>::new())]);
    assert_eq!(data_of(empty, "Array(LowCardinality(Int32))"), [n(1), n(0)].concat());

    // A server may send a column's rows in several dictionaries.
    let wire = [
        &b"\x01\x03\x01c\x16LowCardinality(String)"[..],
        &n(1),
        &[&n(0x600)[..], &n(1), b"\x01a", &n(2), &[0, 0]].concat(),
        &[&n(0x201)[..], &n(2), b"\x01b\x01c", &n(1), &[1, 0]].concat(),
    ]
    .concat();
    assert_eq!(&read_one(&wire), &(Arc::new(StringArray::from(vec!["a", "a", "c"])) as ArrayRef));
}

#[test]
fn nothing() {
    same(NullArray::new(2), "Nullable(Nothing)", &[1, 1, 0, 0]);
    assert_eq!(data_of(NullArray::new(2), "Nullable(Int16)"), [1, 1, 0, 0, 0, 0]);
    assert_eq!(data_of(NullArray::new(1), "Nullable(Enum8('a' = 3, 'b' = 4))"), [1, 3]);
    let none = [&n(1)[..], &n(0x600), &n(1), b"\x00", &n(2), &[0, 0]].concat();
    assert_eq!(data_of(NullArray::new(2), "LowCardinality(Nullable(String))"), none);
}
