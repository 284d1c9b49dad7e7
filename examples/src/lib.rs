//! What the examples share: the orders that they move.

use std::sync::Arc;

use connector_core::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

/// The columns of an order.
pub fn orders_schema() -> SchemaRef {
    let text = |name: &str| Field::new(name, DataType::Utf8, false);
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::UInt64, false),
        text("customer"),
        Field::new("amount", DataType::Decimal128(18, 4), false),
        text("status"),
        text("note"),
        Field::new("created_at", DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())), false),
        Field::new("discount", DataType::Int32, true),
        Field::new("tags", DataType::List(Arc::new(Field::new("item", DataType::Utf8, false))), false),
    ]))
}

/// Order `id` as JSON, the way a shop would write it to Kafka.
pub fn order_json(id: u64) -> String {
    const STATUS: [&str; 4] = ["created", "paid", "shipped", "delivered"];
    const NOTES: [&str; 4] = ["加急处理", "leave at the door 🚪", "", "fragile — 小心轻放"];
    let pick = |list: [&'static str; 4]| {
        list.into_iter().cycle().nth(usize::try_from(id % 4).unwrap_or(0)).unwrap_or("")
    };
    serde_json::json!({
        "id": id,
        "customer": format!("cust-{:05}", id % 1000),
        "amount": format!("{}.{:04}", id % 500, id % 10_000),
        "status": pick(STATUS),
        "note": pick(NOTES),
        "created_at": format!("2026-11-30T08:{:02}:{:02}.{:03}Z", id / 60_000 % 60, id / 1000 % 60, id % 1000),
        "discount": (!id.is_multiple_of(3)).then_some(id % 90),
        "tags": if id.is_multiple_of(2) { vec!["vip", "北京"] } else { vec![] },
    })
    .to_string()
}
