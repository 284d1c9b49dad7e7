//! Which Arrow types a column takes, and how rows that are null or sliced away come out.

use std::sync::Arc;

use connector_core::{
    ErrorKind,
    arrow::{
        array::{
            Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, Decimal128Array, Decimal256Array,
            DictionaryArray, FixedSizeBinaryArray, FixedSizeListArray, Float64Array, Int8Array, Int32Array,
            Int64Array, LargeBinaryArray, ListArray, NullArray, RunArray, StringArray, StringViewArray,
            StructArray, Time64MicrosecondArray, UInt8Array, UInt64Array,
        },
        buffer::{NullBuffer, OffsetBuffer},
        compute::cast,
        datatypes::{DataType, Field, Int32Type, i256},
    },
};

use super::{
    super::{BlockEncoder, ColumnDef, EncodeError, EncodeRules},
    batch, data_of, data_with, encode_one, encoder, read_one, refused,
};

fn strict() -> EncodeRules {
    EncodeRules::default()
}

fn lenient() -> EncodeRules {
    EncodeRules { null_as_default: true, ..EncodeRules::default() }
}

fn mismatch(array: impl Array + 'static, ty: &str) -> String {
    match encode_one(Arc::new(array), ty, &strict()) {
        Err(EncodeError::Other(error)) => {
            assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
            error.message().to_owned()
        }
        other => panic!("expected a mismatch, got {other:?}"),
    }
}

#[test]
fn integers_of_another_width() {
    assert_eq!(data_of(Int8Array::from(vec![-1]), "Int32"), [0xff; 4]);
    assert_eq!(data_of(UInt8Array::from(vec![255]), "Int16"), [255, 0]);
    assert_eq!(data_of(UInt64Array::from(vec![u64::MAX]), "UInt128"), [[0xff; 8], [0; 8]].concat());
    assert_eq!(data_of(Int64Array::from(vec![-1]), "Int256"), [0xff; 32]);
    assert_eq!(data_of(Int64Array::from(vec![1, 0]), "Bool"), [1, 0]);
    assert_eq!(data_of(BooleanArray::from(vec![true]), "UInt8"), [1]);
    for (value, ty, limits) in [
        (128, "Int8", "-128 to 127"),
        (-1, "UInt64", "0 to 18446744073709551615"),
        (256, "UInt8", "0 to 255"),
        (2, "Bool", "0 to 1"),
        (1 << 32, "IPv4", "0 to 4294967295"),
        (-1, "UInt256", "0 to "),
    ] {
        let (row, shown, reason) = refused(Int64Array::from(vec![1, value]), ty, &strict());
        assert_eq!((row, shown), (1, value.to_string()));
        assert!(reason.contains(limits), "{reason}");
    }
    let (_, shown, reason) = refused(UInt64Array::from(vec![u64::MAX]), "Int64", &strict());
    assert_eq!(
        (shown.as_str(), reason.as_str()),
        ("18446744073709551615", "the type holds -9223372036854775808 to 9223372036854775807")
    );
}

#[test]
fn decimals_of_another_scale() {
    let decimal =
        |values: Vec<i128>, p, s| Decimal128Array::from(values).with_precision_and_scale(p, s).unwrap();
    let whole = |value: i64| value.to_le_bytes();
    assert_eq!(data_of(decimal(vec![-125], 5, 1), "Decimal(18, 4)"), whole(-125_000));
    assert_eq!(data_of(decimal(vec![125_000], 9, 4), "Decimal(18, 1)"), whole(125));
    assert_eq!(data_of(decimal(vec![3], 5, -2), "Int64"), whole(300));
    assert_eq!(data_of(decimal(vec![i128::from(u64::MAX)], 20, 0), "UInt64"), [0xff; 8]);
    assert_eq!(data_of(Int64Array::from(vec![7]), "Decimal(18, 2)"), whole(700));
    let wide = Decimal256Array::from(vec![i256::from_i128(-700)]).with_precision_and_scale(76, 2).unwrap();
    assert_eq!(data_of(wide.clone(), "Int8"), [0xf9]);
    assert_eq!(data_of(wide, "Decimal(18, 2)"), whole(-700));

    let fine = decimal(vec![-12_345], 9, 4);
    let (row, shown, reason) = refused(fine.clone(), "Decimal(9, 2)", &strict());
    assert_eq!(
        (row, shown.as_str(), reason.as_str()),
        (0, "-1.2345", "the type holds 2 digits behind the point")
    );
    let (_, _, reason) = refused(fine.clone(), "Int32", &strict());
    assert_eq!(reason, "the type holds whole numbers only");
    // Down, not toward zero.
    let floor = EncodeRules { round_down: true, ..strict() };
    assert_eq!(data_with(Arc::new(fine.clone()), "Decimal(9, 2)", &floor), (-124i32).to_le_bytes());
    assert_eq!(data_with(Arc::new(fine), "Int32", &floor), (-2i32).to_le_bytes());

    let (_, shown, reason) = refused(decimal(vec![100_000], 9, 2), "Decimal(4, 2)", &floor);
    assert_eq!((shown.as_str(), reason.as_str()), ("1000.00", "the type holds -99.99 to 99.99"));
    // A value beyond its own type's precision is found as well, and one that overflows on the way.
    refused(decimal(vec![1 << 70], 18, 4), "Decimal(18, 4)", &strict());
    refused(decimal(vec![i128::MAX], 38, 0), "Decimal(38, 10)", &strict());
    let huge = Decimal256Array::from(vec![i256::MAX]).with_precision_and_scale(76, 0).unwrap();
    refused(huge, "Decimal(76, 76)", &strict());
}

#[test]
fn floats_of_another_width() {
    let half = cast(&Float64Array::from(vec![1.5]), &DataType::Float16).unwrap();
    assert_eq!(data_of(half, "Float64"), 1.5f64.to_le_bytes());
    assert_eq!(
        data_of(Float64Array::from(vec![0.5, f64::INFINITY]), "Float32"),
        [0.5f32.to_le_bytes(), f32::INFINITY.to_le_bytes()].concat()
    );
    assert!(
        read_one(&encode_one(Arc::new(Float64Array::from(vec![f64::NAN])), "BFloat16", &strict()).unwrap())
            .data_type()
            == &DataType::Float32
    );
    assert_eq!(
        refused(Float64Array::from(vec![0.1]), "Float32", &strict()).2,
        "the type holds it only approximately"
    );
    refused(Float64Array::from(vec![1e300]), "Float32", &strict());
    assert_eq!(data_of(Int64Array::from(vec![1 << 53]), "Float64"), 9_007_199_254_740_992f64.to_le_bytes());
    refused(Int64Array::from(vec![(1 << 53) + 1]), "Float64", &strict());
    refused(Int64Array::from(vec![i64::MAX]), "Float32", &strict());
    mismatch(Float64Array::from(vec![1.0]), "Int32");
    mismatch(Float64Array::from(vec![1.0]), "Decimal(9, 2)");
}

#[test]
fn bytes_go_in_as_they_are() {
    // B27: any bytes, a lone byte that is no text, 4 MB.
    let raw: Vec<&[u8]> = vec![b"\x00\xde\xad\xbe\xef\x00", b"\xff", b"\xf0\x9f\x98", b""];
    let expected = b"\x06\x00\xde\xad\xbe\xef\x00\x01\xff\x03\xf0\x9f\x98\x00";
    assert_eq!(data_of(BinaryArray::from(raw.clone()), "String"), expected);
    assert_eq!(data_of(LargeBinaryArray::from(raw.clone()), "String"), expected);
    assert_eq!(data_of(BinaryViewArray::from(raw.clone()), "String"), expected);
    let long = vec![b'x'; 4 << 20];
    let block = encode_one(Arc::new(BinaryArray::from(vec![long.as_slice()])), "String", &strict()).unwrap();
    assert_eq!(&block[block.len() - long.len() - 4..block.len() - long.len()], [0x80, 0x80, 0x80, 2]);

    let three = BinaryArray::from(vec![&b"\xff\x00\x01"[..]]);
    assert_eq!(data_of(three, "FixedString(4)"), b"\xff\x00\x01\x00");
    let five = BinaryArray::from(vec![&b"ok"[..], b"\xff1234"]);
    let (row, shown, reason) = refused(five, "FixedString(4)", &strict());
    assert_eq!(
        (row, shown.as_str(), reason.as_str()),
        (1, "\"\\xff1234\"", "it has 5 bytes, the type holds at most 4")
    );
    let (_, shown, _) =
        refused(StringArray::from(vec!["é".repeat(500).as_str()]), "FixedString(4)", &strict());
    assert!(shown.ends_with("…\" (1000 bytes)") && shown.chars().count() < 150, "{shown}");
}

#[test]
fn texts_are_parsed_where_that_is_what_they_are_for() {
    for (text, ty, reason) in [
        ("no", "UUID", "it is not a UUID"),
        ("1.2.3", "IPv4", "it is not an IPv4 address"),
        ("1.2.3.4.5", "IPv6", "it is not an IPv6 address"),
        ("[1]", "JSON", "the type holds JSON objects"),
    ] {
        assert_eq!(
            refused(StringArray::from(vec![text]), ty, &strict()),
            (0, format!("\"{text}\""), reason.to_owned())
        );
    }
    for text in ["", "{", "{'a': 1}", "{} {}"] {
        for ty in ["JSON", "Object('json')", "Nullable(Object('json'))"] {
            let (_, _, reason) = refused(StringArray::from(vec![text]), ty, &strict());
            assert!(reason.starts_with("it is not JSON: "), "{text}: {reason}");
        }
    }
    for ty in ["Int32", "Date", "DateTime", "DateTime64(3)", "Decimal(9, 2)", "Float64", "Bool"] {
        let message = mismatch(StringArray::from(vec!["1"]), ty);
        assert!(
            message.starts_with(&format!("column `c` of type {ty} cannot take Utf8: text is not read")),
            "{message}"
        );
    }
    assert!(mismatch(Int32Array::from(vec![1]), "String").contains("values are not turned into text"));
    assert!(mismatch(Int32Array::from(vec![1]), "Dynamic").contains("does not know the type"));
    assert!(mismatch(BinaryArray::from(vec![&b"{}"[..]]), "JSON").contains("cannot take Binary"));
    let address = FixedSizeBinaryArray::try_from_iter([[1u8, 2, 3, 4]].into_iter()).unwrap();
    assert_eq!(data_of(address, "IPv4"), [4, 3, 2, 1]);
}

#[test]
fn enums_take_listed_names_and_numbers_only() {
    // B18
    let ty = "Enum8('public' = 1, 'restricted' = 2)";
    assert_eq!(data_of(StringArray::from(vec!["public", "restricted"]), ty), [1, 2]);
    assert_eq!(data_of(StringViewArray::from(vec!["restricted"]), ty), [2]);
    assert_eq!(data_of(Int64Array::from(vec![2]), ty), [2]);
    assert_eq!(
        refused(StringArray::from(vec!["public", "user"]), ty, &strict()).2,
        "the name is not listed in the enum"
    );
    assert_eq!(
        refused(Int64Array::from(vec![1, 3]), ty, &strict()),
        (1, "3".into(), "the number is not listed in the enum".into())
    );
    assert_eq!(refused(Int64Array::from(vec![1 << 20]), ty, &strict()).0, 0);
    assert_eq!(refused(StringArray::from(vec![Some("public"), None]), ty, &strict()).1, "null");
    assert_eq!(
        data_of(StringArray::from(vec![None, Some("restricted")]), &format!("Nullable({ty})")),
        [1, 0, 1, 2]
    );
    assert_eq!(data_with(Arc::new(StringArray::from(vec![None::<&str>])), ty, &lenient()), [1]);
    // The same rows fit once the enum has the value.
    assert_eq!(data_of(Int64Array::from(vec![1, 3]), "Enum8('public' = 1, 'user' = 3)"), [1, 3]);
    mismatch(Float64Array::from(vec![1.0]), ty);
}

#[test]
fn nulls() {
    // B24
    let values = Int32Array::from(vec![None, Some(5), None]);
    assert_eq!(data_of(values.clone(), "Nullable(Int32)"), [1, 0, 1, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(
        refused(values.clone(), "Int32", &strict()),
        (0, "null".into(), "the column is not nullable".into())
    );
    assert_eq!(data_with(Arc::new(values), "Int32", &lenient()), [0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(
        data_with(Arc::new(StringArray::from(vec![None, Some("a")])), "String", &lenient()),
        [0, 1, b'a']
    );
    assert_eq!(data_with(Arc::new(NullArray::new(2)), "UInt16", &lenient()), [0; 4]);
    let json = StringArray::from(vec![Some("[]"), None]);
    assert_eq!(data_of(json, "Nullable(Object('json'))"), b"\x01\x00\x01\x02[]\x02{}");
    assert_eq!(data_with(Arc::new(NullArray::new(1)), "Object('json')", &lenient()), b"\x01\x02{}");
    assert_eq!(refused(NullArray::new(2), "UInt16", &strict()).0, 0);
    // A Nullable column of plain values still has its map.
    assert_eq!(data_of(Int8Array::from(vec![1]), "Nullable(Int8)"), [0, 1]);

    let list = |rows: Vec<Option<Vec<Option<i32>>>>| ListArray::from_iter_primitive::<Int32Type, _, _>(rows);
    let rows = list(vec![Some(vec![Some(1)]), None, Some(vec![])]);
    assert_eq!(refused(rows.clone(), "Array(Int32)", &strict()).0, 1);
    let one = 1u64.to_le_bytes();
    assert_eq!(
        data_with(Arc::new(rows), "Array(Int32)", &lenient()),
        [&one[..], &one, &one, &[1, 0, 0, 0]].concat()
    );
    let rows = list(vec![Some(vec![Some(1)]), Some(vec![]), Some(vec![Some(2), Some(3), None])]);
    let (row, shown, reason) = refused(rows.clone(), "Array(Int32)", &strict());
    assert_eq!((row, shown.as_str()), (2, "null"));
    assert!(reason.contains("element 3"), "{reason}");
    assert_eq!(data_of(rows, "Array(Nullable(Int32))").len(), 24 + 4 + 16);

    let words = StringArray::from(vec![None, Some("a")]);
    assert_eq!(refused(words.clone(), "LowCardinality(String)", &strict()).0, 0);
    let block = encode_one(Arc::new(words), "LowCardinality(String)", &lenient()).unwrap();
    assert_eq!(&read_one(&block), &(Arc::new(StringArray::from(vec!["", "a"])) as ArrayRef));
}

#[test]
fn what_lies_under_a_null_is_neither_checked_nor_sent() {
    let nulls = Some(NullBuffer::from(vec![true, false]));
    let number = Int64Array::new(vec![1, 1 << 40].into(), nulls.clone());
    assert_eq!(data_of(number.clone(), "Nullable(UInt8)"), [0, 1, 1, 0]);
    assert_eq!(data_of(number, "Nullable(Int64)"), [&[0, 1][..], &1i64.to_le_bytes(), &[0; 8]].concat());

    // A null row of a list with elements, in a list of one's own, in a map, and under a null tuple.
    let elements: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(3)]));
    let item = Arc::new(Field::new("item", DataType::Int32, true));
    let offsets = OffsetBuffer::from_lengths([1, 1, 1]);
    let hidden = Some(NullBuffer::from(vec![true, false, true]));
    let list = ListArray::new(Arc::clone(&item), offsets, Arc::clone(&elements), hidden.clone());
    let ends: Vec<u8> = [1u64, 1, 2].iter().flat_map(|end| end.to_le_bytes()).collect();
    let expected = [&ends[..], &[1, 0, 0, 0, 3, 0, 0, 0]].concat();
    assert_eq!(data_with(Arc::new(list.clone()), "Array(Int32)", &lenient()), expected);
    let views = cast(&list, &DataType::ListView(Arc::clone(&item))).unwrap();
    assert_eq!(data_with(views, "Array(Int32)", &lenient()), expected);
    let fixed = FixedSizeListArray::new(item, 1, elements, hidden.clone());
    assert_eq!(data_with(Arc::new(fixed), "Array(Int32)", &lenient()), expected);

    let fields =
        vec![Field::new("a", DataType::Int32, true), Field::new("b", list.data_type().clone(), true)];
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Int32Array::from(vec![Some(1), None, Some(3)])), Arc::new(list)];
    let tuple = StructArray::new(fields.into(), columns, hidden);
    let bytes = data_with(Arc::new(tuple.clone()), "Tuple(a UInt8, b Array(UInt8))", &lenient());
    assert_eq!(bytes, [&[1, 0, 3][..], &ends, &[1, 3]].concat());
    let bytes = data_of(tuple.clone(), "Nullable(Tuple(a UInt8, b Array(UInt8)))");
    assert_eq!(bytes, [&[0, 1, 0, 1, 0, 3][..], &ends, &[1, 3]].concat());
    let bytes = data_of(tuple, "Nullable(Tuple(a Nullable(UInt8), b Array(UInt8)))");
    assert_eq!(bytes, [&[0, 1, 0, 0, 1, 0, 1, 0, 3][..], &ends, &[1, 3]].concat());
}

#[test]
fn fixed_size_lists_and_runs_and_slices() {
    let item = Arc::new(Field::new("item", DataType::Int32, true));
    let elements: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3, 4, 5, 300]));
    let fixed = FixedSizeListArray::new(item, 2, elements, None);
    let ends = |ends: &[u64]| ends.iter().flat_map(|end| end.to_le_bytes()).collect::<Vec<u8>>();
    assert_eq!(data_of(fixed.slice(1, 1), "Array(UInt8)"), [ends(&[2]), vec![3, 4]].concat());
    let (row, shown, reason) = refused(fixed.slice(1, 2), "Array(UInt8)", &strict());
    assert_eq!((row, shown.as_str()), (1, "300"));
    assert!(reason.contains("element 2"), "{reason}");

    let runs = RunArray::<Int32Type>::try_new(
        &Int32Array::from(vec![2, 5]),
        &StringArray::from(vec![Some("a"), None]),
    )
    .unwrap();
    assert_eq!(data_of(runs.slice(1, 3), "Nullable(String)"), [&[0, 1, 1][..], b"\x01a\x00\x00"].concat());
}

#[test]
fn dictionaries_send_only_what_occurs() {
    let values = StringArray::from(vec![Some("unused and far too long"), Some("b"), None, Some("a")]);
    let keys = Int32Array::from(vec![Some(3), None, Some(1), Some(2), Some(3)]);
    let words = DictionaryArray::<Int32Type>::new(keys, Arc::new(values));
    let n = |value: u64| value.to_le_bytes();
    let expected = [&n(1)[..], &n(0x600), &n(3), b"\0\0a\0b\0", &n(5), &[1, 0, 2, 0, 1]].concat();
    assert_eq!(data_of(words.clone(), "LowCardinality(Nullable(FixedString(2)))"), expected);
    assert_eq!(refused(words.clone(), "LowCardinality(String)", &strict()).0, 1);
    assert_eq!(refused(words.slice(2, 2), "LowCardinality(String)", &strict()).0, 1);
    let block = encode_one(Arc::new(words.clone()), "LowCardinality(String)", &lenient()).unwrap();
    assert_eq!(&read_one(&block), &(Arc::new(StringArray::from(vec!["a", "", "b", "", "a"])) as ArrayRef));
    assert_eq!(data_of(words, "Nullable(FixedString(1))"), b"\0\x01\0\x01\0a\0b\0a");
    let long = DictionaryArray::<Int32Type>::new(
        Int32Array::from(vec![1, 0, 0]),
        Arc::new(StringArray::from(vec!["long", "s"])),
    );
    assert_eq!(refused(long, "LowCardinality(FixedString(2))", &strict()).0, 1);
    let empty = DictionaryArray::<Int32Type>::new(
        Int32Array::from(vec![None, None]),
        Arc::new(StringArray::from(Vec::<&str>::new())),
    );
    assert_eq!(
        data_of(empty, "LowCardinality(Nullable(String))"),
        [&n(1)[..], &n(0x600), &n(1), &[0], &n(2), &[0, 0]].concat()
    );
}

#[test]
fn tuples_are_matched_by_name() {
    let fields = vec![Field::new("a", DataType::Int8, true), Field::new("b", DataType::Utf8, true)];
    let columns: Vec<ArrayRef> =
        vec![Arc::new(Int8Array::from(vec![1])), Arc::new(StringArray::from(vec!["x"]))];
    let tuple = StructArray::new(fields.into(), columns, None);
    for (ty, why) in [
        ("Tuple(a Int8)", "2 fields, the tuple 1"),
        ("Tuple(a Int8, c String)", "no field `c`"),
        ("Tuple(a Int8, b UInt8)", "in `b`"),
        ("Tuple(a Int8, a Int8)", "two elements of one name"),
        ("Tuple(String, Int8)", "in `1`"),
    ] {
        let message = mismatch(tuple.clone(), ty);
        assert!(message.contains(why), "{ty}: {message}");
    }
    let wide = StructArray::from(vec![(
        Arc::new(Field::new("a", DataType::Int64, true)),
        Arc::new(Int64Array::from(vec![1, 300])) as ArrayRef,
    )]);
    assert!(refused(wide, "Tuple(a UInt8)", &strict()).2.ends_with("(in `a`)"));
}

#[test]
fn columns_are_found_by_name() {
    let source = batch(&[
        ("b", Arc::new(Int8Array::from(vec![2]))),
        ("extra", Arc::new(Int8Array::from(vec![9]))),
        ("a", Arc::new(Int8Array::from(vec![1]))),
    ]);
    let columns = |names: &[&str]| -> Vec<ColumnDef> {
        names.iter().map(|n| ColumnDef::parse(*n, "Int8").unwrap()).collect()
    };
    let new = |names: &[&str]| BlockEncoder::new(&source.schema(), &columns(names), &strict());
    let mut out = Vec::new();
    let planned = new(&["a", "b"]).unwrap();
    planned.encode(&source, &mut out).unwrap();
    assert_eq!(out, b"\x02\x01\x01a\x04Int8\x01\x01b\x04Int8\x02");
    assert_eq!(planned.columns().len(), 2);
    let error = new(&["a", "missing"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
    assert!(error.message().contains("no column `missing`") && error.message().contains("Int8"), "{error}");

    let twice =
        batch(&[("a", Arc::new(Int8Array::from(vec![1]))), ("a", Arc::new(Int8Array::from(vec![1])))]);
    let error = BlockEncoder::new(&twice.schema(), &columns(&["a"]), &strict()).unwrap_err();
    assert!(error.message().contains("two columns named `a`"), "{error}");

    // A batch of another schema is refused and leaves nothing behind.
    let other =
        batch(&[("b", Arc::new(Int64Array::from(vec![2]))), ("a", Arc::new(Int8Array::from(vec![2])))]);
    let error = planned.encode(&other, &mut out).unwrap_err();
    assert!(matches!(&error, EncodeError::Other(e) if e.kind() == ErrorKind::SchemaMismatch), "{error}");
    assert_eq!(out.len(), 18);
    let bad =
        batch(&[("a", Arc::new(Int32Array::from(vec![1]))), ("b", Arc::new(Int32Array::from(vec![1000])))]);
    let narrow = encoder(&bad, &["Int8", "Int8"], &strict()).unwrap();
    let error = connector_core::Error::from(narrow.encode(&bad, &mut out).unwrap_err());
    assert_eq!(out.len(), 18);
    assert_eq!(
        error.to_string(),
        "DataInvalid at bytehouse.encode: row 0: column `b` of type Int8 cannot hold 1000: the type holds -128 to 127 [column=b, row=0]"
    );
}

#[test]
fn times_of_day_as_text() {
    let times = Time64MicrosecondArray::from(vec![Some(0), None, Some(86_399_999_999)]);
    assert_eq!(
        data_of(times.clone(), "Nullable(String)"),
        b"\x00\x01\x00\x0f00:00:00.000000\x00\x0f23:59:59.999999"
    );
    assert_eq!(
        data_of(
            cast(&times, &DataType::Time32(connector_core::arrow::datatypes::TimeUnit::Second))
                .unwrap()
                .slice(2, 1),
            "String"
        ),
        b"\x0823:59:59"
    );
    refused(Time64MicrosecondArray::from(vec![86_400_000_000]), "String", &strict());
}
