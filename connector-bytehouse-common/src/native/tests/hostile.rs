//! Bytes that no honest server sends: errors, never a panic, and no more memory than there are bytes.

use connector_core::{
    Error, ErrorKind,
    arrow::{
        array::{Array, AsArray},
        datatypes::DataType,
    },
};
use proptest::prelude::*;

use super::{
    super::{BlockEncoder, ColumnDef, EncodeRules, ReadOptions},
    batch,
    generate::{Dice, any_type, values},
    read,
};

fn error(bytes: &[u8]) -> Error {
    read(bytes, &ReadOptions::default()).unwrap_err()
}

/// A block of one column, `c`, up to its data.
fn head(rows: u64, ty: &str) -> Vec<u8> {
    let mut out = vec![1];
    crate::wire::io::put_varuint(&mut out, rows);
    crate::wire::io::put_string(&mut out, b"c");
    crate::wire::io::put_string(&mut out, ty.as_bytes());
    out
}

fn with(rows: u64, ty: &str, data: &[&[u8]]) -> Vec<u8> {
    [&head(rows, ty)[..], &data.concat()].concat()
}

#[test]
fn types_that_cannot_be_read_are_named() {
    for ty in ["Dynamic", "Array(Variant(String, UInt8))", "AggregateFunction(sum, UInt8)", "BitMap64"] {
        for rows in [0, 1] {
            let error = error(&head(rows, ty));
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(
                error.message().contains(ty.strip_prefix("Array(").map_or(ty, |t| &t[..t.len() - 1])),
                "{error}"
            );
            assert_eq!((error.context_value("column"), error.context_value("type")), (Some("c"), Some(ty)));
        }
    }
    let error = error(&head(1, "Array("));
    assert_eq!((error.kind(), error.context_value("column")), (ErrorKind::Unexpected, Some("c")));
}

#[test]
fn counts_are_bounded() {
    assert!(error(&[0xff, 0xff, 0xff, 0xff, 1, 0]).message().contains("columns, at most 10000"));
    assert!(error(&head(1 << 40, "UInt8")).message().contains("rows, at most"));
    // Announced, but not there: the memory grows with what comes in.
    for ty in [
        "UInt256",
        "String",
        "FixedString(16777215)",
        "Array(UInt8)",
        "Nullable(UInt8)",
        "LowCardinality(String)",
    ] {
        let error = error(&head(16 << 20, ty));
        assert!(matches!(error.kind(), ErrorKind::Closed | ErrorKind::Unexpected), "{ty}: {error}");
    }
    let text = with(1, "String", &[&[0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]]);
    assert!(error(&text).message().contains("more than"), "{}", error(&text));
    let small = ReadOptions { max_bytes: 100, ..ReadOptions::default() };
    let numbers = with(20, "UInt64", &[&[0; 160]]);
    assert_eq!(read(&numbers, &small).unwrap_err().kind(), ErrorKind::Unexpected);
    assert!(read(&numbers, &ReadOptions::default()).is_ok());
}

#[test]
fn few_bytes_that_stand_for_many() {
    // One long key, which a million rows refer to.
    let key = vec![b'x'; 4096];
    let bytes = with(
        1 << 20,
        "LowCardinality(String)",
        &[
            &1u64.to_le_bytes(),
            &0x600u64.to_le_bytes(),
            &1u64.to_le_bytes(),
            &[0x80, 0x20],
            &key,
            &(1u64 << 20).to_le_bytes(),
            &vec![0; 1 << 20],
        ],
    );
    assert!(error(&bytes).message().contains("more than 1073741824 bytes"), "{}", error(&bytes));
    let name = "n".repeat(4096);
    let bytes = with(1 << 20, &format!("Enum8('{name}' = 0)"), &[&vec![0; 1 << 20]]);
    assert!(error(&bytes).message().contains("more than"), "{}", error(&bytes));
}

#[test]
fn arrays_whose_ends_make_no_sense() {
    let n = |n: u64| n.to_le_bytes();
    for ends in [[n(2), n(1)], [n(0), n(u64::MAX)], [n(1 << 40), n(1 << 40)], [n(5), n(1 << 31)]] {
        let error = error(&with(2, "Array(UInt8)", &[&ends.concat(), &[0; 64]]));
        assert_eq!(error.kind(), ErrorKind::Unexpected, "{error}");
    }
    assert_eq!(error(&with(1, "Map(String, UInt8)", &[&n(1 << 33)])).kind(), ErrorKind::Unexpected);
}

#[test]
fn dictionaries_that_make_no_sense() {
    let n = |n: u64| n.to_le_bytes();
    let ty = "LowCardinality(UInt8)";
    for (data, why) in [
        (vec![n(2)], "version 2"),
        (vec![n(1), n(0x604)], "unknown width"),
        (vec![n(1), n(0x500)], "flags 0x500"),
        (vec![n(1), n(0x400)], "flags 0x400"),
        (vec![n(1), n(0x600), n(0), n(0)], "stands for 0"),
        (vec![n(1), n(0x600), n(0), n(3)], "stands for 3"),
        (vec![n(1), n(0x600), n(0), n(2), n(0)], "key 0 of a dictionary of 0"),
        (vec![n(1), n(0x603), n(0), n(2), n(u64::MAX), n(0)], "key 18446744073709551615"),
        (vec![n(1), n(0x600), n(u64::MAX)], "more than"),
    ] {
        let error = error(&with(2, ty, &[&data.concat()]));
        assert!(error.message().contains(why), "{why}: {error}");
    }
}

#[test]
fn values_that_arrow_cannot_hold_are_named() {
    for (rows, ty, data, why) in [
        (2, "String", &b"\x01a\x01\xff"[..], "row 1"),
        (2, "String", b"\x02a\xc3\x01\xa9", "row 0"),
        (1, "Tuple(a String)", b"\x01\xff", "row 0"),
        (1, "Array(String)", b"\x01\0\0\0\0\0\0\0\x01\xff", "element 0"),
        (2, "Enum8('a' = 1)", &[1, 2], "row 1"),
        (1, "Time", &[0xff, 0xff, 0xff, 0xff], "row 0"),
        (1, "Time(3)", &[0xff; 8], "row 0"),
        (1, "DateTime64(8)", &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], "row 0"),
    ] {
        let error = error(&with(rows, ty, &[data]));
        assert_eq!(error.kind(), ErrorKind::DataInvalid, "{error}");
        assert_eq!(error.context_value("column"), Some("c"));
        assert!(error.message().starts_with(why), "{ty}: {error}");
    }
    // Under a null nothing matters.
    assert!(read(&with(1, "Nullable(Enum8('a' = 1))", &[&[1, 9]]), &ReadOptions::default()).is_ok());
    assert!(
        read(&with(1, "Nullable(Time)", &[&[1, 0xff, 0xff, 0xff, 0xff]]), &ReadOptions::default()).is_ok()
    );
    let overflow = [&[1][..], &i64::MAX.to_le_bytes()].concat();
    assert!(read(&with(1, "Nullable(DateTime64(8))", &[&overflow]), &ReadOptions::default()).is_ok());
}

#[test]
fn any_bytes_can_be_read_as_binary() {
    // B27
    let options = ReadOptions { strings_as_binary: true, ..ReadOptions::default() };
    let bytes = with(3, "String", &[b"\x06\x00\xde\xad\xbe\xef\x00\x01\xff\x00"]);
    let block = read(&bytes, &options).unwrap();
    let column = block.rows.column(0);
    assert_eq!(column.data_type(), &DataType::Binary);
    let values: Vec<&[u8]> = column.as_binary::<i32>().iter().flatten().collect();
    assert_eq!(values, [&b"\x00\xde\xad\xbe\xef\x00"[..], b"\xff", b""]);
    for ty in ["Array(LowCardinality(String))", "Map(String, Tuple(a Nullable(String)))", "JSON"] {
        let block = read(&head(0, ty), &options).unwrap();
        assert_eq!(block.rows.schema().field(0).data_type().to_string().contains("Binary"), ty != "JSON");
    }
}

#[test]
fn json_that_is_not_text_says_what_to_set() {
    let error = error(&with(1, "JSON", &[&[0; 8]]));
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("output_format_native_write_json_as_string=1"));
    assert_eq!(super::hostile::error(&with(1, "Object('json')", &[&[0]])).kind(), ErrorKind::Unsupported);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn a_block_that_is_cut_or_changed(ty in any_type(), seed: u64, rows in 1usize..20, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6), cut: Option<prop::sample::Index>) {
        let column = ColumnDef::new("c", ty.clone());
        let source = batch(&[("c", values(&ty, rows, false, &mut Dice::new(seed)))]);
        let encoder = BlockEncoder::new(&source.schema(), &[column], &EncodeRules::default()).unwrap();
        let mut bytes = Vec::new();
        encoder.encode(&source, &mut bytes).unwrap();
        let whole = bytes.len();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(whole));
        }
        let options = ReadOptions { max_bytes: 1 << 20, ..ReadOptions::default() };
        if let Ok(block) = super::run(super::read_block(&mut crate::wire::io::SliceSource(&bytes), &options)) {
            // What was read is sound enough to be used.
            for column in block.rows.columns() {
                column.to_data().validate_full().unwrap();
            }
            prop_assert!(block.rows.get_array_memory_size() < 8 << 20);
        } else {
            prop_assert!(whole > 0);
        }
    }

    #[test]
    fn any_bytes_after_any_type(ty in any_type(), rows in 0u64..300, data in prop::collection::vec(prop_oneof![3 => Just(0u8), 2 => Just(1), 1 => any::<u8>()], 0..400)) {
        let options = ReadOptions { max_bytes: 1 << 20, ..ReadOptions::default() };
        let bytes = with(rows, &ty.to_string(), &[&data]);
        if let Ok(block) = super::run(super::read_block(&mut crate::wire::io::SliceSource(&bytes), &options)) {
            block.rows.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
        }
    }
}
