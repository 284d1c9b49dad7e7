//! Partial updates: what a row does not bring, it keeps.

use std::sync::Arc;

use connector_core::arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    compute::{cast, interleave},
    datatypes::DataType,
};
use hashbrown::HashMap;

use super::{catalog::TableDef, eval::internal, storage::TableData, unique::BlockKeys};
use crate::exception::Result;

/// Which columns the rows of a block change.
#[derive(Debug)]
pub(crate) struct Partial {
    /// For each row, a flag for each stored column.
    changed: Vec<Arc<[bool]>>,
    /// A null changes nothing.
    null_keeps: bool,
}

impl Partial {
    /// `named` are the INSERT's columns. `update_columns` says for each row which of them count: a list with commas and
    /// nothing else between, unknown names left out; all of the table's columns when it is empty.
    pub(crate) fn new(
        def: &TableDef,
        named: &[&str],
        update_columns: Option<&ArrayRef>,
        rows: usize,
    ) -> Result<Self> {
        let mut keys = Vec::new();
        for key in def.unique_key.iter().chain(&def.partition_by) {
            key.columns(&mut |name| keys.push(name.to_owned()));
        }
        let flags = |changes: &dyn Fn(&str) -> bool| -> Arc<[bool]> {
            def.stored().map(|c| !keys.contains(&c.name) && changes(&c.name)).collect()
        };
        let changed = match update_columns {
            None => vec![flags(&|name| named.contains(&name)); rows],
            Some(lists) => {
                let lists = cast(lists, &DataType::Utf8).map_err(internal)?;
                let lists = lists.as_string::<i32>();
                (0..rows)
                    .map(|row| match lists.value(row) {
                        "" => flags(&|_| true),
                        list => {
                            let listed: Vec<&str> = list.split(',').collect();
                            flags(&|name| listed.contains(&name))
                        }
                    })
                    .collect()
            }
        };
        Ok(Self { changed, null_keeps: def.setting_number("partial_update_replace_if_not_null", 0) != 0 })
    }
}

/// Where a cell comes from: 0 for the block, else the number of a part and one; and its row there.
type Origin = (usize, usize);

impl TableData {
    /// The block's rows with the values that they keep.
    pub(super) fn merged(
        &self,
        rows: &RecordBatch,
        keys: &BlockKeys,
        partial: &Partial,
    ) -> Result<RecordBatch> {
        let mut origins: Vec<Vec<Origin>> =
            vec![(0..rows.num_rows()).map(|row| (0, row)).collect(); rows.num_columns()];
        // The last row of each key in the block; none when that was a delete.
        let mut known: HashMap<&[u8], Option<usize>> = HashMap::new();
        for (row, key) in keys.keys.iter().enumerate() {
            if keys.deletes.get(row).copied().unwrap_or(false) {
                known.insert(key, None);
                continue;
            }
            let place = match known.get(key.as_ref()) {
                Some(Some(earlier)) => Some((0, *earlier)),
                Some(None) => None,
                None => self.index.rows.get(key).map(|entry| (entry.place.part + 1, entry.place.row)),
            };
            if let Some((source, old)) = place {
                for (column, origins) in origins.iter_mut().enumerate() {
                    let null = partial.null_keeps && rows.column(column).is_null(row);
                    if null || !partial.changed[row][column] {
                        origins[row] = if source == 0 { origins[old] } else { (source, old) };
                    }
                }
            }
            known.insert(key, Some(row));
        }
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(rows.num_columns());
        for (column, origins) in origins.iter().enumerate() {
            let mut arrays: Vec<&dyn Array> = vec![rows.column(column).as_ref()];
            arrays.extend(self.parts.iter().map(|part| part.rows.column(column).as_ref()));
            columns.push(interleave(&arrays, origins).map_err(internal)?);
        }
        RecordBatch::try_new(rows.schema(), columns).map_err(internal)
    }
}
