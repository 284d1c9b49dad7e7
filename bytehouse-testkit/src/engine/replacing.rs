//! ReplacingMergeTree: which row of a sorting key FINAL shows, and what OPTIMIZE leaves.

use std::sync::Arc;

use connector_core::arrow::array::{ArrayRef, AsArray, RecordBatch};
use connector_core::arrow::datatypes::UInt8Type;
use hashbrown::HashMap;

use super::{
    catalog::{Behaviour, TableDef},
    eval::{Context, Scope, internal},
    keys::row_bytes,
    storage::{RowPlace, TableData, take_rows},
};
use crate::{exception::Result, sql::ast::Expr};

/// True for engines that know FINAL.
pub(crate) fn supports_final(def: &TableDef) -> bool {
    matches!(def.behaviour, Behaviour::Unique { .. } | Behaviour::Replacing { .. })
}

/// The rows that FINAL shows: the newest of each sorting key, without those that are marked as deleted.
pub(crate) fn last_rows(def: &TableDef, data: &TableData, context: &Context) -> Result<RecordBatch> {
    let all = data.visible(None)?;
    let (kept, _) = newest(def, &all, context, true)?;
    take_rows(&all, &kept)
}

/// The places of the newest rows in `rows`, in order, and those of all others.
fn newest(
    def: &TableDef,
    rows: &RecordBatch,
    context: &Context,
    drop_deleted: bool,
) -> Result<(Vec<u32>, Vec<u32>)> {
    let Behaviour::Replacing { version, is_deleted } = &def.behaviour else {
        return Ok(((0..u32::try_from(rows.num_rows()).map_err(internal)?).collect(), Vec::new()));
    };
    let scope = Scope::of_table(def, rows, context);
    let key = def.order_by.as_ref().or(def.primary_key.as_ref()).map(Expr::elements).unwrap_or_default();
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(key.len());
    for expr in &key {
        columns.push(scope.eval(expr)?.into_array(rows.num_rows())?);
    }
    let find = |name: &String| rows.column_by_name(name).map(Arc::clone);
    let versions = version.as_ref().and_then(find).map(|column| row_bytes(&[column])).transpose()?;
    let deleted = is_deleted.as_ref().and_then(find);
    let deleted = deleted.as_ref().and_then(|column| column.as_primitive_opt::<UInt8Type>());
    // `ORDER BY tuple()`: all rows have the same key.
    let keys = if columns.is_empty() { None } else { Some(row_bytes(&columns)?) };
    let mut best: HashMap<&[u8], u32> = HashMap::new();
    let mut kept = Vec::new();
    let mut others = Vec::new();
    for row in 0..u32::try_from(rows.num_rows()).map_err(internal)? {
        let key = keys.as_ref().map_or(&[][..], |keys| keys.row(row as usize).data());
        let newer = best.get(key).is_none_or(|known| {
            versions.as_ref().is_none_or(|v| v.row(row as usize) >= v.row(*known as usize))
        });
        let loser = if newer { best.insert(key, row) } else { Some(row) };
        others.extend(loser);
    }
    for row in best.into_values() {
        if drop_deleted && deleted.is_some_and(|flags| flags.value(row as usize) != 0) {
            others.push(row);
        } else {
            kept.push(row);
        }
    }
    kept.sort_unstable();
    Ok((kept, others))
}

/// OPTIMIZE … FINAL: takes away what a merge of each partition would take away.
pub(crate) fn optimize(def: &TableDef, data: &mut TableData, context: &Context) -> Result<()> {
    if !matches!(def.behaviour, Behaviour::Replacing { .. }) {
        return Ok(());
    }
    let mut ids: Vec<String> = data.parts.iter().map(|part| part.partition.id.clone()).collect();
    ids.sort_unstable();
    ids.dedup();
    for id in ids {
        let mut places = Vec::new();
        let mut batches = Vec::new();
        for (number, part) in data.parts.iter().enumerate().filter(|(_, part)| part.partition.id == id) {
            let live = (0..part.rows.num_rows()).filter(|row| part.is_live(*row));
            places.extend(live.map(|row| RowPlace { part: number, row }));
            batches.push(part.visible(None)?);
        }
        let rows =
            connector_core::arrow::compute::concat_batches(&data.schema, &batches).map_err(internal)?;
        let (_, others) = newest(def, &rows, context, false)?;
        for row in others {
            if let Some(place) = places.get(row as usize) {
                data.kill(*place);
            }
        }
    }
    Ok(())
}
