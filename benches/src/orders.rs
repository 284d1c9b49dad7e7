//! Orders as Arrow columns and as JSON; what an order is made of is told by `connector_tests::orders`.

use std::sync::Arc;

use connector_core::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use connector_tests::orders::Order;

/// The columns of the records. The zone of the times is UTC, as `zone` spells it: arrow-json takes `+00:00` only.
pub(crate) fn schema(zone: &str) -> SchemaRef {
    let tag = Field::new("item", DataType::Utf8, false);
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::UInt64, false),
        Field::new("customer", DataType::Utf8, false),
        Field::new("amount", DataType::Decimal128(18, 4), false),
        Field::new("status", DataType::Utf8, false),
        Field::new("note", DataType::Utf8, false),
        Field::new("created_at", DataType::Timestamp(TimeUnit::Millisecond, Some(zone.into())), false),
        Field::new("discount", DataType::Int32, true),
        Field::new("tags", DataType::List(Arc::new(tag)), false),
    ]))
}

/// The types of these columns in a current ClickHouse.
pub(crate) const TYPES: [&str; 8] = [
    "UInt64",
    "String",
    "Decimal(18, 4)",
    "String",
    "String",
    "DateTime64(3, 'UTC')",
    "Nullable(Int32)",
    "Array(String)",
];

/// Records in one piece of memory, and where each ends.
#[derive(Debug)]
pub(crate) struct Payloads {
    bytes: String,
    ends: Vec<usize>,
}

impl Payloads {
    /// The orders with the ids from 0 on.
    pub(crate) fn new(rows: u64) -> Self {
        let mut payloads = Self { bytes: String::new(), ends: Vec::new() };
        for id in 0..rows {
            Order::new(id).write_json(&mut payloads.bytes);
            payloads.ends.push(payloads.bytes.len());
        }
        payloads
    }

    /// Bytes of all of them.
    pub(crate) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let bytes = self.bytes.as_bytes();
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, end)| &bytes[begin..*end])
    }
}

/// The sum of the ids from 0 on: what a reader has to find.
pub(crate) fn id_sum(rows: u64) -> u64 {
    rows * rows.saturating_sub(1) / 2
}
