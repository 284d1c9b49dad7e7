//! What is written is read back.

use std::sync::Arc;

use connector_core::arrow::{
    array::{Array, ArrayRef, DictionaryArray, Int16Array, Int32Array, RecordBatch, RecordBatchOptions},
    compute::{cast, take},
    datatypes::{DataType, Field, Int16Type, Schema},
};
use proptest::prelude::*;

use super::{
    super::{BlockEncoder, ChType, ColumnDef, EncodeRules, ReadOptions, read_block},
    Drip, encode_one,
    generate::{Dice, any_type, values},
    read, read_one, run,
};

fn field(name: &str, array: &ArrayRef) -> Field {
    Field::new(name, array.data_type().clone(), true)
}

/// Another Arrow type that holds the same values.
fn other_type(data_type: &DataType, dice: &mut Dice) -> DataType {
    match data_type {
        DataType::Utf8 => match dice.below(4) {
            0 => DataType::LargeUtf8,
            1 => DataType::Utf8View,
            2 => DataType::Dictionary(Box::new(DataType::Int16), Box::new(DataType::Utf8)),
            _ => DataType::Utf8,
        },
        DataType::Decimal128(precision @ ..=9, scale) => DataType::Decimal32(*precision, *scale),
        DataType::Decimal128(precision @ ..=18, scale) => DataType::Decimal64(*precision, *scale),
        DataType::Decimal128(precision, scale) => DataType::Decimal256(*precision, *scale),
        DataType::Int8 | DataType::Int16 | DataType::Int32 => DataType::Int64,
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => DataType::UInt64,
        DataType::List(item) => {
            let item = Arc::new(Field::new("item", other_type(item.data_type(), dice), item.is_nullable()));
            match dice.below(3) {
                0 => DataType::LargeList(item),
                1 => DataType::ListView(item),
                _ => DataType::List(item),
            }
        }
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_block(types in prop::collection::vec(any_type(), 1..5), seed: u64, before in 0usize..70, rows in 0usize..140, step in 1usize..40) {
        let mut dice = Dice::new(seed);
        let columns: Vec<ColumnDef> =
            types.iter().enumerate().map(|(i, ty)| ColumnDef::new(format!("c{i}"), ty.clone())).collect();
        let arrays: Vec<ArrayRef> = types
            .iter()
            .map(|ty| values(ty, before + rows + 3, false, &mut dice).slice(before, rows))
            .collect();
        let fields: Vec<Field> = columns.iter().zip(&arrays).map(|(column, array)| field(&column.name, array)).collect();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays.clone()).unwrap();
        let encoder = BlockEncoder::new(&batch.schema(), &columns, &EncodeRules::default()).unwrap();
        let mut bytes = b"before".to_vec();
        encoder.encode(&batch, &mut bytes).unwrap();
        prop_assert!(encoder.check(&batch).is_empty());

        let bytes = bytes.strip_prefix(b"before").unwrap();
        let mut source = Drip { bytes, here: 0, step };
        let block = run(read_block(&mut source, &ReadOptions::default())).unwrap();
        prop_assert!(source.bytes.is_empty());
        prop_assert_eq!(&block, &read(bytes, &ReadOptions::default()).unwrap());
        prop_assert_eq!(&block.columns, &columns);
        prop_assert_eq!(block.rows.num_rows(), rows);
        for (array, found) in arrays.iter().zip(block.rows.columns()) {
            prop_assert_eq!(array, found);
        }

        // Reading gives what can be written again, byte by byte.
        let again = BlockEncoder::new(&block.rows.schema(), &columns, &EncodeRules::default()).unwrap();
        let mut second = Vec::new();
        again.encode(&block.rows, &mut second).unwrap();
        prop_assert_eq!(bytes, &second[..]);
    }

    #[test]
    fn any_other_arrow_type(ty in any_type(), seed: u64, before in 0usize..20, rows in 0usize..100) {
        let mut dice = Dice::new(seed);
        let natural = values(&ty, before + rows, false, &mut dice);
        let other = cast(&natural, &other_type(natural.data_type(), &mut dice)).unwrap();
        let bytes = encode_one(other.slice(before, rows), &ty.to_string(), &EncodeRules::default()).unwrap();
        prop_assert_eq!(&natural.slice(before, rows), &read_one(&bytes));
    }

    #[test]
    fn a_dictionary_is_as_good_as_its_values(ty in any_type(), seed: u64, before in 0usize..20, rows in 0usize..400) {
        let mut dice = Dice::new(seed);
        let keys = dice.below(300) + 1;
        let nullable = ty.is_nullable();
        let keys_values = values(&ty, keys, false, &mut dice);
        let places = Int16Array::new(
            (0..before + rows).map(|_| i16::try_from(dice.below(keys)).unwrap()).collect(),
            if nullable { dice.nulls(before + rows) } else { None },
        );
        let plain = take(&keys_values, &places, None).unwrap().slice(before, rows);
        let dictionary = DictionaryArray::<Int16Type>::new(places, keys_values).slice(before, rows);
        let bytes = encode_one(Arc::new(dictionary), &ty.to_string(), &EncodeRules::default()).unwrap();
        prop_assert_eq!(&plain, &read_one(&bytes));
    }

    #[test]
    fn bad_rows_are_found_and_the_others_can_be_sent(seed: u64, rows in 1usize..300, odds in 1usize..60) {
        let mut dice = Dice::new(seed);
        let bad: Vec<bool> = (0..rows).map(|_| dice.below(odds) == 0).collect();
        let narrow = Int32Array::from_iter(bad.iter().map(|bad| Some(if *bad { 300 } else { 7 })));
        let also: Vec<bool> = (0..rows).map(|_| dice.below(odds) == 0).collect();
        let required = Int32Array::from_iter(also.iter().map(|null| (!null).then_some(1)));
        let batch = super::batch(&[("a", Arc::new(narrow)), ("b", Arc::new(required))]);
        let encoder = super::encoder(&batch, &["LowCardinality(UInt8)", "Int32"], &EncodeRules::default()).unwrap();
        let found = encoder.check(&batch);
        let expected: Vec<(usize, &str)> = (0..rows)
            .filter(|row| bad[*row] || also[*row])
            .map(|row| (row, if bad[row] { "300" } else { "null" }))
            .collect();
        prop_assert_eq!(found.iter().map(|cell| (cell.row, cell.value.as_str())).collect::<Vec<_>>(), expected);
        prop_assert_eq!(encoder.encode(&batch, &mut Vec::new()).is_err(), !found.is_empty());
        let good: Vec<u32> =
            (0..rows).filter(|row| !bad[*row] && !also[*row]).map(|row| u32::try_from(row).unwrap()).collect();
        let good = connector_core::arrow::array::UInt32Array::from(good);
        let rest = connector_core::arrow::compute::take_record_batch(&batch, &good).unwrap();
        let mut out = Vec::new();
        encoder.encode(&rest, &mut out).unwrap();
        prop_assert_eq!(read(&out, &ReadOptions::default()).unwrap().rows.num_rows(), rest.num_rows());
    }
}

#[test]
fn a_block_without_columns_or_rows() {
    let none: [Field; 0] = [];
    let empty = RecordBatch::try_new_with_options(
        Arc::new(Schema::new(none.to_vec())),
        vec![],
        &RecordBatchOptions::new().with_row_count(Some(0)),
    )
    .unwrap();
    let mut out = Vec::new();
    BlockEncoder::new(&empty.schema(), &[], &EncodeRules::default())
        .unwrap()
        .encode(&empty, &mut out)
        .unwrap();
    assert_eq!(out, [0, 0]);
    let block = read(&out, &ReadOptions::default()).unwrap();
    assert!(block.columns.is_empty() && block.rows.num_rows() == 0);

    // A header: names and types, no bytes for the data, not even for a dictionary.
    let header = b"\x02\x00\x01a\x16LowCardinality(String)\x01b\x05Int32";
    let block = read(header, &ReadOptions::default()).unwrap();
    assert_eq!(block.columns[0].ty, ChType::LowCardinality(Box::new(ChType::String)));
    assert_eq!((block.columns.len(), block.rows.num_columns(), block.rows.num_rows()), (2, 2, 0));
}

#[test]
fn a_dictionary_with_more_keys_than_a_byte_counts() {
    for (keys, width) in [(256, 0u8), (257, 1), (65_536, 1), (65_537, 2)] {
        let texts: Vec<String> = (0..keys).map(|i| format!("{i}")).collect();
        let array: ArrayRef = Arc::new(connector_core::arrow::array::StringArray::from(texts));
        let bytes =
            encode_one(Arc::clone(&array), "LowCardinality(String)", &EncodeRules::default()).unwrap();
        let flags = bytes.windows(8).find(|w| w[1..] == [6, 0, 0, 0, 0, 0, 0]).unwrap();
        assert_eq!(flags[0], width, "{keys} keys");
        assert_eq!(&read_one(&bytes), &array);
    }
}
