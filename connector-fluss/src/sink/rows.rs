//! What is to be done with each row of a batch of changes.

use connector_core::{ChangeBatch, Result, RowKind, arrow::array::RecordBatch};

use crate::source::changes::Keys;

/// What a row does to its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Put,
    Delete,
    Nothing,
}

/// The row before an update is looked at only for its key: where the update changed it, the old key goes.
pub(crate) fn ops(batch: &ChangeBatch, converted: &RecordBatch, key: &[usize]) -> Result<Vec<Op>> {
    let kinds = batch.kinds();
    let count = batch.num_rows();
    let has_before = (0..count).any(|row| kinds.get(row) == RowKind::UpdateBefore);
    let keys = if has_before { Some(Keys::new(converted, key)?.of(converted)?) } else { None };
    let op = |row: usize| match kinds.get(row) {
        RowKind::Insert | RowKind::UpdateAfter => Op::Put,
        RowKind::Delete => Op::Delete,
        RowKind::UpdateBefore => match &keys {
            Some(keys) if row + 1 < count && keys.row(row) != keys.row(row + 1) => Op::Delete,
            _ => Op::Nothing,
        },
    };
    Ok((0..count).map(op).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use connector_core::{
        RowKinds,
        arrow::{
            array::Int64Array,
            datatypes::{DataType, Field, Schema},
        },
    };

    use super::*;

    #[test]
    fn an_update_is_one_write_unless_it_moves_the_key() {
        use RowKind::{Delete, Insert, UpdateAfter, UpdateBefore};
        let schema = Schema::new(vec![Field::new("id", DataType::Int64, false)]);
        let ids = Int64Array::from(vec![1, 1, 1, 1, 2, 2]);
        let rows = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(ids)]).unwrap();
        let kinds = [Insert, UpdateBefore, UpdateAfter, UpdateBefore, UpdateAfter, Delete];
        let batch = ChangeBatch::try_new(rows.clone(), RowKinds::from_kinds(&kinds)).unwrap();
        let expected = [Op::Put, Op::Nothing, Op::Put, Op::Delete, Op::Put, Op::Delete];
        assert_eq!(ops(&batch, &rows, &[0]).unwrap(), expected);
    }
}
