#![no_main]

use std::sync::Arc;

use connector_core::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use connector_kafka::format::{DuplicateKeys, Json, JsonDecoder};
use libfuzzer_sys::fuzz_target;

fn decoder() -> JsonDecoder {
    let list = |ty| DataType::List(Arc::new(Field::new("item", ty, true)));
    let entries = DataType::Struct(
        vec![Field::new("key", DataType::Utf8, false), Field::new("value", list(DataType::Int16), true)]
            .into(),
    );
    let inner = vec![Field::new("a", DataType::Boolean, true), Field::new("b", list(DataType::Utf8), true)];
    let schema = Schema::new(vec![
        Field::new("i", DataType::Int64, true),
        Field::new("u", DataType::UInt64, true),
        Field::new("f", DataType::Float64, true),
        Field::new("d", DataType::Decimal128(18, 4), true),
        Field::new("w", DataType::Decimal256(76, 20), true),
        Field::new("t", DataType::Utf8, true),
        Field::new("y", DataType::Binary, true),
        Field::new("z", DataType::Date32, true),
        Field::new("s", DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())), true),
        Field::new("m", DataType::Map(Arc::new(Field::new("entries", entries, false)), false), true),
        Field::new("o", DataType::Struct(inner.into()), true),
        Field::new("l", list(list(DataType::Int8)), true),
    ]);
    Json::with_schema(schema).duplicate_keys(DuplicateKeys::Last).decoder().expect("a valid schema")
}

// Records are parted by a zero byte, which no JSON text holds.
fuzz_target!(|bytes: &[u8]| {
    let (mut one_by_one, mut together) = (decoder(), decoder());
    let mut taken = Vec::new();
    for record in bytes.split(|byte| *byte == 0) {
        match together.decode(record) {
            Ok(()) => taken.push(record),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    for record in &taken {
        one_by_one.decode(record).expect("a record that was taken is taken again");
    }
    let (found, expected) = (together.finish().expect("a batch"), one_by_one.finish().expect("a batch"));
    assert_eq!(found.num_rows(), taken.len());
    // NaN is not equal to itself.
    assert_eq!(format!("{found:?}"), format!("{expected:?}"), "a refused record left a trace");
});
