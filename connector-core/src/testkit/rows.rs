//! Rows for tests: everything follows from an id or a seed.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Decimal128Array, Int32Array, RecordBatch, StringArray, UInt64Array},
    datatypes::{DataType, Field, Schema, SchemaRef},
};

use crate::change::{ChangeBatch, RowKind, RowKinds};

/// Columns of [`orders`]: `id`, `customer`, `amount`, `discount`.
pub fn orders_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::UInt64, false),
        Field::new("customer", DataType::Utf8, false),
        Field::new("amount", DataType::Decimal128(18, 4), false),
        Field::new("discount", DataType::Int32, true),
    ]))
}

/// One row an id; text with more than ASCII in it, nulls in `discount`.
pub fn orders(ids: impl IntoIterator<Item = u64>) -> RecordBatch {
    let ids: Vec<u64> = ids.into_iter().collect();
    order_versions(&ids.iter().map(|id| (*id, 0)).collect::<Vec<_>>())
}

/// Rows of (id, version): a later version of an id differs in every other column.
fn order_versions(rows: &[(u64, u64)]) -> RecordBatch {
    let amount = |(id, version): (u64, u64)| i128::from(id % 1_000_000) * 10_007 + i128::from(version);
    let discount = |(id, version): (u64, u64)| i32::try_from((id + version) % 90).ok().filter(|d| d % 5 != 0);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|(id, _)| *id).collect::<UInt64Array>()),
        Arc::new(rows.iter().map(|(id, v)| Some(format!("客户-{id}-{v}🎁"))).collect::<StringArray>()),
        Arc::new(
            rows.iter()
                .map(|row| Some(amount(*row)))
                .collect::<Decimal128Array>()
                .with_precision_and_scale(18, 4)
                .expect("a valid decimal type"),
        ),
        Arc::new(rows.iter().map(|row| discount(*row)).collect::<Int32Array>()),
    ];
    RecordBatch::try_new(orders_schema(), columns).expect("columns of one length")
}

/// A seeded sequence of inserts, updates and deletes of `keys` ids in batches, and the rows that are
/// left at its end in a plain model, sorted by id.
pub fn change_sequence(
    seed: u64,
    keys: u64,
    changes: usize,
    batch: usize,
) -> (Vec<ChangeBatch>, RecordBatch) {
    let mut state = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut model = std::collections::BTreeMap::<u64, u64>::new();
    let mut rows: Vec<((u64, u64), RowKind)> = Vec::new();
    for version in 1..=changes as u64 {
        let id = random(keys);
        match (model.get(&id).copied(), random(4)) {
            (None, _) => {
                rows.push(((id, version), RowKind::Insert));
                model.insert(id, version);
            }
            (Some(old), 0) => {
                rows.push(((id, old), RowKind::Delete));
                model.remove(&id);
            }
            (Some(old), _) => {
                rows.push(((id, old), RowKind::UpdateBefore));
                rows.push(((id, version), RowKind::UpdateAfter));
                model.insert(id, version);
            }
        }
    }
    let mut batches = Vec::new();
    let mut rest = rows.as_slice();
    while !rest.is_empty() {
        let mut cut = batch.clamp(1, rest.len());
        if rest[cut - 1].1 == RowKind::UpdateBefore {
            cut += 1;
        }
        let (head, tail) = rest.split_at(cut);
        let columns = order_versions(&head.iter().map(|(row, _)| *row).collect::<Vec<_>>());
        let kinds: Vec<RowKind> = head.iter().map(|(_, kind)| *kind).collect();
        batches.push(ChangeBatch::try_new(columns, RowKinds::from_kinds(&kinds)).expect("paired kinds"));
        rest = tail;
    }
    (batches, order_versions(&model.into_iter().collect::<Vec<_>>()))
}
