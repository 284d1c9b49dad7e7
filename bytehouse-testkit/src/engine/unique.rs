//! UNIQUE KEY tables: which row of a key lives.

use connector_core::arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    datatypes::UInt8Type,
};
use hashbrown::HashMap;

use super::{
    catalog::{Behaviour, TableDef},
    eval::{Context, Scope, internal},
    keys::{Partitions, row_bytes},
    storage::{RowPlace, TableData},
    value::Value,
};
use crate::exception::{Result, exception};

/// Where the live row of each key is.
#[derive(Debug, Default)]
pub(crate) struct UniqueIndex {
    pub(super) rows: HashMap<Box<[u8]>, Entry>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) place: RowPlace,
    version: u64,
}

/// What a block's rows need to be told apart.
#[derive(Debug)]
pub(crate) struct BlockKeys {
    /// The bytes of each row's key; empty for the rows of other engines.
    pub(super) keys: Vec<Box<[u8]>>,
    /// Empty without a version column: all rows are equally new.
    versions: Vec<u64>,
    /// Empty when no row is a delete.
    pub(super) deletes: Vec<bool>,
}

/// Reads keys, versions and delete flags of a block; `None` for tables without a UNIQUE KEY.
pub(crate) fn block_keys(
    def: &TableDef,
    rows: &RecordBatch,
    delete_flag: Option<&ArrayRef>,
    partitions: &Partitions,
    context: &Context,
) -> Result<Option<BlockKeys>> {
    let (Behaviour::Unique { version }, Some(unique)) = (&def.behaviour, &def.unique_key) else {
        return Ok(None);
    };
    let scope = Scope::of_table(def, rows, context);
    let mut columns = Vec::new();
    for expr in unique.elements() {
        columns.push(scope.eval(&expr)?.into_array(rows.num_rows())?);
    }
    check_size(def, &columns)?;
    let bytes = row_bytes(&columns)?;
    let per_partition = def.setting_number("partition_level_unique_keys", 1) != 0;
    let keys = (0..rows.num_rows())
        .map(|row| {
            let mut key = Vec::new();
            if per_partition {
                let partition = partitions.of_row.get(row).copied().unwrap_or(0);
                let id = partitions.list.get(partition as usize).map_or("", |partition| &partition.id);
                key.extend_from_slice(id.as_bytes());
                key.push(0);
            }
            key.extend_from_slice(bytes.row(row).data());
            key.into_boxed_slice()
        })
        .collect();
    let versions = match version {
        None => Vec::new(),
        Some(expr) => {
            let values = scope.eval(expr)?;
            let values = values.values()?;
            (0..rows.num_rows())
                .map(|row| version_of(values.get(if values.len() == 1 { 0 } else { row })))
                .collect()
        }
    };
    let deletes = match delete_flag {
        None => Vec::new(),
        Some(flags) => {
            let flags = flags
                .as_primitive_opt::<UInt8Type>()
                .ok_or_else(|| internal(format!("delete flags of type {}", flags.data_type())))?;
            flags.values().iter().map(|flag| *flag != 0).collect()
        }
    };
    Ok(Some(BlockKeys { keys, versions, deletes }))
}

/// String bytes of one key have a limit, because servers keep keys in memory.
fn check_size(def: &TableDef, columns: &[ArrayRef]) -> Result<()> {
    let limit = def.setting_number("max_string_size_for_unique_key", 1 << 20);
    let lengths: Vec<_> = columns
        .iter()
        .filter_map(|column| connector_core::arrow::compute::kernels::length::length(column).ok())
        .collect();
    if lengths.is_empty() {
        return Ok(());
    }
    for row in 0..columns.first().map_or(0, |column| column.len()) {
        let mut size = 0u64;
        for lengths in &lengths {
            size += lengths
                .as_primitive_opt::<connector_core::arrow::datatypes::Int32Type>()
                .map_or(0, |lengths| u64::try_from(lengths.value(row)).unwrap_or(0));
        }
        if size > limit {
            return Err(exception!(
                UNIQUE_KEY_STRING_SIZE_LIMIT_EXCEEDED,
                "The size of string columns in the unique key is {size} bytes, the limit is {limit}"
            ));
        }
    }
    Ok(())
}

fn version_of(value: Option<&Value>) -> u64 {
    match value {
        Some(Value::Int(number)) => number.to_i128().and_then(|n| u64::try_from(n).ok()).unwrap_or(0),
        Some(Value::Date(days)) => u64::try_from(*days).unwrap_or(0),
        Some(Value::Instant(ticks, _)) => u64::try_from(*ticks).unwrap_or(0),
        _ => 0,
    }
}

impl TableData {
    /// Gives effect to a block whose rows stand in the parts `places` names row by row.
    ///
    /// Row after row: one with a lower version than the key's living row is dropped, any other takes
    /// its place. A delete with version 0 asks for no version. Inside the block the version of a
    /// versioned delete counts against the rows behind it; once the block is done it is forgotten.
    pub(super) fn apply(&mut self, block: &BlockKeys, places: &[RowPlace]) {
        let mut deleted: HashMap<&[u8], u64> = HashMap::new();
        for (row, (key, place)) in block.keys.iter().zip(places).enumerate() {
            let version = block.versions.get(row).copied().unwrap_or(0);
            let is_delete = block.deletes.get(row).copied().unwrap_or(false);
            let forced = is_delete && version == 0;
            let known = self.index.rows.get(key.as_ref()).copied();
            let floor = known.map(|entry| entry.version).or_else(|| deleted.get(key.as_ref()).copied());
            if !forced && floor.is_some_and(|floor| version < floor) {
                self.kill(*place);
                continue;
            }
            if let Some(entry) = known {
                self.kill(entry.place);
            }
            if is_delete {
                self.kill(*place);
                self.index.rows.remove(key.as_ref());
                deleted.insert(key, version);
            } else {
                self.index.rows.insert(key.clone(), Entry { place: *place, version });
            }
        }
    }

    /// Takes rows away, and what the index knows of them.
    pub(super) fn remove_rows(&mut self, places: &[RowPlace]) {
        let gone: hashbrown::HashSet<RowPlace> = places.iter().copied().collect();
        places.iter().for_each(|place| self.kill(*place));
        self.index.rows.retain(|_, entry| !gone.contains(&entry.place));
    }
}
