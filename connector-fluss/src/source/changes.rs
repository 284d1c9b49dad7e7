//! Change records of the client as columns.

use connector_core::{
    ChangeBatch, Error, ErrorKind, Result, RowKind, RowKinds,
    arrow::{
        array::{ArrayRef, BooleanArray, RecordBatch},
        compute::{concat_batches, filter_record_batch},
        error::ArrowError,
        row::{RowConverter, Rows, SortField},
    },
};
use fluss::record::{ChangeType, ScanRecord};

use super::split::Part;

pub(crate) fn unexpected(text: &'static str) -> impl Fn(ArrowError) -> Error {
    move |e| Error::new(ErrorKind::Unexpected, text).with_source(e)
}

/// Fetched change records: the columns, and beside them kinds and offsets.
pub(crate) struct Changes {
    pub(crate) rows: RecordBatch,
    pub(crate) kinds: Vec<RowKind>,
    pub(crate) offsets: Vec<i64>,
}

fn kind(change: ChangeType) -> RowKind {
    match change {
        ChangeType::AppendOnly | ChangeType::Insert => RowKind::Insert,
        ChangeType::UpdateBefore => RowKind::UpdateBefore,
        ChangeType::UpdateAfter => RowKind::UpdateAfter,
        ChangeType::Delete => RowKind::Delete,
    }
}

impl Changes {
    /// Records are rows of batches that lie behind them: what follows in one batch is taken as one slice, so no value
    /// is looked at. `None` for no records.
    pub(crate) fn of(records: &[ScanRecord]) -> Result<Option<Self>> {
        let mut slices: Vec<RecordBatch> = Vec::new();
        let mut at = 0;
        while at < records.len() {
            let first = records[at].row();
            let batch = first.get_record_batch().ok_or_else(|| {
                Error::new(ErrorKind::Unexpected, "the client gave a change without its columns")
            })?;
            let start = first.get_row_id();
            let same = |record: &ScanRecord, place: usize| {
                record.row().get_row_id() == start + place
                    && record.row().get_record_batch().is_some_and(|other| std::ptr::eq(other, batch))
            };
            let length =
                records[at..].iter().enumerate().take_while(|(place, record)| same(record, *place)).count();
            slices.push(batch.slice(start, length));
            at += length;
        }
        let rows = match slices.as_slice() {
            [] => return Ok(None),
            [one] => one.clone(),
            many => concat_batches(&many[0].schema(), many).map_err(unexpected("cannot join changes"))?,
        };
        Ok(Some(Self {
            rows,
            kinds: records.iter().map(|record| kind(*record.change_type())).collect(),
            offsets: records.iter().map(ScanRecord::offset).collect(),
        }))
    }

    /// Only the changes for which `keep` holds.
    pub(crate) fn retain(&mut self, keep: &[bool]) -> Result<()> {
        if keep.iter().all(|keep| *keep) {
            return Ok(());
        }
        self.rows = filter_record_batch(&self.rows, &BooleanArray::from(keep.to_vec()))
            .map_err(unexpected("cannot choose changes"))?;
        let mut keep_kind = keep.iter();
        self.kinds.retain(|_| *keep_kind.next().unwrap_or(&false));
        let mut keep_offset = keep.iter();
        self.offsets.retain(|_| *keep_offset.next().unwrap_or(&false));
        Ok(())
    }

    /// Drops what lies at `end` or behind it.
    pub(crate) fn end_before(&mut self, end: i64) -> Result<()> {
        let keep: Vec<bool> = self.offsets.iter().map(|offset| *offset < end).collect();
        self.retain(&keep)
    }

    /// Drops changes that a full read had seen already: see [`Part`].
    pub(crate) fn after(&mut self, parts: &[Part], keys: &Keys) -> Result<()> {
        let Some(last) = parts.last() else { return Ok(()) };
        // Behind the last part's offset there is nothing to drop.
        if self.offsets.first().is_none_or(|first| *first >= last.from) {
            return Ok(());
        }
        let of = keys.of(&self.rows)?;
        let is_new = |(row, offset): (usize, &i64)| {
            let key = of.row(row);
            let part = parts
                .iter()
                .find(|part| part.up_to.as_ref().is_none_or(|up_to| key.as_ref() <= up_to.bytes()));
            part.is_none_or(|part| *offset >= part.from)
        };
        let keep: Vec<bool> = self.offsets.iter().enumerate().map(is_new).collect();
        self.retain(&keep)
    }

    pub(crate) fn into_batch(self, rows: RecordBatch) -> Result<ChangeBatch> {
        ChangeBatch::try_new(rows, RowKinds::from_kinds(&self.kinds))
    }
}

/// Makes comparable bytes of key columns.
pub(crate) struct Keys {
    converter: RowConverter,
    columns: Vec<usize>,
}

impl Keys {
    pub(crate) fn new(rows: &RecordBatch, columns: &[usize]) -> Result<Self> {
        let fields =
            columns.iter().map(|place| SortField::new(rows.column(*place).data_type().clone())).collect();
        let converter =
            RowConverter::new(fields).map_err(unexpected("the key's types cannot be compared"))?;
        Ok(Self { converter, columns: columns.to_vec() })
    }

    pub(crate) fn of(&self, rows: &RecordBatch) -> Result<Rows> {
        let columns: Vec<ArrayRef> =
            self.columns.iter().map(|place| ArrayRef::clone(rows.column(*place))).collect();
        self.converter.convert_columns(&columns).map_err(unexpected("keys cannot be compared"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use connector_core::arrow::{
        array::{AsArray, Int64Array, StringArray},
        datatypes::{DataType, Field, Int64Type, Schema},
    };

    use super::*;
    use crate::source::split::Key;

    fn rows(ids: &[i64]) -> RecordBatch {
        let schema = Schema::new(vec![Field::new("id", DataType::Int64, false)]);
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(Int64Array::from(ids.to_vec()))]).unwrap()
    }

    fn ids(changes: &Changes) -> Vec<i64> {
        changes.rows.column(0).as_primitive::<Int64Type>().values().to_vec()
    }

    #[test]
    fn changes_that_a_full_read_has_seen_are_dropped_by_key_and_offset() {
        let all = rows(&[1, 2, 3, 1, 2, 3]);
        let keys = Keys::new(&all, &[0]).unwrap();
        let key = |id: i64| Some(Key::new(keys.of(&rows(&[id])).unwrap().row(0).as_ref()));
        // Key 1 was read as of 10, key 2 as of 12, all others as of 14.
        let parts = [
            Part { up_to: key(1), from: 10 },
            Part { up_to: key(2), from: 12 },
            Part { up_to: None, from: 14 },
        ];
        let changes = |offsets: &[i64]| Changes {
            rows: all.clone(),
            kinds: vec![RowKind::Insert; 6],
            offsets: offsets.to_vec(),
        };
        let mut some = changes(&[10, 11, 12, 12, 13, 13]);
        some.after(&parts, &keys).unwrap();
        assert_eq!((ids(&some), some.offsets.clone()), (vec![1, 1, 2], vec![10, 12, 13]));
        assert_eq!(some.kinds.len(), 3);
        let mut late = changes(&[14, 15, 16, 17, 18, 19]);
        late.after(&parts, &keys).unwrap();
        late.end_before(17).unwrap();
        assert_eq!(ids(&late), [1, 2, 3]);
    }

    /// Checkpoints hold keys in this form: when it changes, the version of splits has to.
    #[test]
    fn the_bytes_of_keys_stay_what_they_are() {
        let schema = Schema::new(vec![
            Field::new("a", DataType::Utf8, false),
            Field::new("b", DataType::Int64, false),
        ]);
        let columns: Vec<ArrayRef> =
            vec![Arc::new(StringArray::from(vec!["eu"])), Arc::new(Int64Array::from(vec![-2]))];
        let rows = RecordBatch::try_new(Arc::new(schema), columns).unwrap();
        let keys = Keys::new(&rows, &[0, 1]).unwrap().of(&rows).unwrap();
        let golden = serde_json::to_string(&Key::new(keys.row(0).as_ref())).unwrap();
        assert_eq!(golden, "\"02657500000000000002017ffffffffffffffe\"");
    }
}
