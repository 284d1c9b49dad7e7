//! The last row of each key: what a unique table would be left with anyway, sent once.

use connector_core::{
    ChangeBatch, Error, ErrorKind, Result, RowKind, RowKinds,
    arrow::{
        array::{ArrayRef, RecordBatch, UInt32Array},
        compute::{concat_batches, take_record_batch},
        error::ArrowError,
        row::{RowConverter, Rows, SortField},
    },
};
use hashbrown::{HashTable, hash_table::Entry};

/// What is left of a buffer: rows to put, and rows whose keys to delete. No key is in both, and none twice.
#[derive(Debug)]
pub(super) struct Compacted {
    pub(super) upserts: RecordBatch,
    pub(super) deletes: RecordBatch,
}

/// Keeps the last row of each key, in the order of those rows. `-U` rows do not count: their `+U` follows.
///
/// All batches have the same columns. `key` names columns of them.
pub(super) fn compact(batches: &[ChangeBatch], key: &[String]) -> Result<Option<Compacted>> {
    let Some(first) = batches.first() else { return Ok(None) };
    let failed =
        |e: ArrowError| Error::new(ErrorKind::Unexpected, "cannot compact rows by their key").with_source(e);
    let rows =
        concat_batches(&first.rows().schema(), batches.iter().map(ChangeBatch::rows)).map_err(failed)?;
    let deleted = deletions(batches, rows.num_rows());
    let keys = key_rows(&rows, key)?;
    let last = last_of_each(&keys, &deleted)?;
    let pick = |delete: bool| -> Result<RecordBatch> {
        let chosen: UInt32Array =
            last.iter().copied().filter(|row| (deleted[*row as usize] == Fate::Delete) == delete).collect();
        if chosen.len() == rows.num_rows() {
            return Ok(rows.clone());
        }
        take_record_batch(&rows, &chosen).map_err(failed)
    };
    Ok(Some(Compacted { upserts: pick(false)?, deletes: pick(true)? }))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Put,
    Delete,
    Ignore,
}

fn deletions(batches: &[ChangeBatch], rows: usize) -> Vec<Fate> {
    let fate = |kind| match kind {
        RowKind::Insert | RowKind::UpdateAfter => Fate::Put,
        RowKind::Delete => Fate::Delete,
        RowKind::UpdateBefore => Fate::Ignore,
    };
    let mut fates = Vec::with_capacity(rows);
    for batch in batches {
        match batch.kinds() {
            RowKinds::Uniform(kind) => fates.resize(fates.len() + batch.num_rows(), fate(*kind)),
            RowKinds::PerRow(_) => {
                fates.extend((0..batch.num_rows()).map(|row| fate(batch.kinds().get(row))))
            }
        }
    }
    fates
}

/// The key columns as comparable bytes, a row each.
fn key_rows(rows: &RecordBatch, key: &[String]) -> Result<Rows> {
    let columns: Vec<ArrayRef> = key
        .iter()
        .map(|name| {
            rows.column_by_name(name).cloned().ok_or_else(|| {
                Error::new(ErrorKind::SchemaMismatch, format!("the rows lack the key column `{name}`"))
            })
        })
        .collect::<Result<_>>()?;
    let unsupported = |e: ArrowError| {
        Error::new(ErrorKind::Unsupported, "a key column has a type that cannot be a key").with_source(e)
    };
    let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
    let converter = RowConverter::new(fields).map_err(unsupported)?;
    converter.convert_columns(&columns).map_err(unsupported)
}

/// Index of the last row of each key that counts, ascending.
fn last_of_each(keys: &Rows, fates: &[Fate]) -> Result<Vec<u32>> {
    let count = u32::try_from(fates.len()).map_err(|_| {
        Error::new(ErrorKind::Unsupported, "more than 4 billion rows in one flush; flush more often")
    })?;
    let hasher = hashbrown::DefaultHashBuilder::default();
    let hash = |row: u32| std::hash::BuildHasher::hash_one(&hasher, keys.row(row as usize).as_ref());
    let mut seen: HashTable<u32> = HashTable::with_capacity(fates.len());
    let mut last = Vec::new();
    // From the end: the first row met of a key is its last one.
    for row in (0..count).rev() {
        if fates[row as usize] == Fate::Ignore {
            continue;
        }
        let same = |other: &u32| keys.row(*other as usize) == keys.row(row as usize);
        if let Entry::Vacant(vacant) = seen.entry(hash(row), same, |other| hash(*other)) {
            vacant.insert(row);
            last.push(row);
        }
    }
    last.reverse();
    Ok(last)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use connector_core::{
        arrow::{array::AsArray, datatypes::UInt64Type},
        testkit::{change_sequence, orders},
    };

    use super::*;

    fn key() -> Vec<String> {
        vec!["id".to_owned()]
    }

    fn ids(rows: &RecordBatch) -> Vec<u64> {
        rows.column(0).as_primitive::<UInt64Type>().values().to_vec()
    }

    #[test]
    fn the_last_row_of_a_key_wins_whatever_its_kind() {
        use RowKind::{Delete, Insert, UpdateAfter, UpdateBefore};
        let kinds = [Insert, Insert, UpdateBefore, UpdateAfter, Delete, Insert, Delete];
        let batch =
            ChangeBatch::try_new(orders([1, 2, 1, 1, 2, 3, 9]), RowKinds::from_kinds(&kinds)).unwrap();
        let more = ChangeBatch::append(orders([9, 4]));
        let left = compact(&[batch, more], &key()).unwrap().unwrap();
        assert_eq!((ids(&left.upserts), ids(&left.deletes)), (vec![1, 3, 9, 4], vec![2]));
        assert!(compact(&[], &key()).unwrap().is_none());
    }

    #[test]
    fn a_missing_key_column_is_named() {
        let error = compact(&[ChangeBatch::append(orders([1]))], &["no".to_owned()]).unwrap_err();
        assert!(error.message().contains("`no`"), "{error}");
    }

    #[test]
    fn any_cut_into_flushes_ends_in_the_state_of_a_plain_model() {
        for seed in 0..200 {
            let (batches, wanted) = change_sequence(seed, 12, 80, 7);
            let mut state: BTreeMap<u64, RecordBatch> = BTreeMap::new();
            let flush = usize::try_from(seed % 5 + 1).unwrap();
            for flush in batches.chunks(flush) {
                let left = compact(flush, &key()).unwrap().unwrap();
                for (row, id) in ids(&left.deletes).into_iter().enumerate() {
                    let _gone = (row, state.remove(&id));
                }
                for (row, id) in ids(&left.upserts).into_iter().enumerate() {
                    state.insert(id, left.upserts.slice(row, 1));
                }
            }
            let rows: Vec<RecordBatch> = state.into_values().collect();
            assert_eq!(concat_batches(&wanted.schema(), &rows).unwrap(), wanted, "seed {seed}");
        }
    }
}
