//! `ALTER TABLE … PARTITION`: partitions that move, are copied, replaced, detached and dropped.

use std::sync::Arc;

use connector_core::arrow::array::RecordBatch;

use super::{
    catalog::{Catalog, TableDef, resolve},
    eval::Context,
    keys::Partitions,
    storage::{Partition, RowPlace, TableData},
    unique::block_keys,
};
use crate::{
    exception::{Result, exception},
    sql::ast::{Expr, Literal, PartitionAction, PartitionName, TableName},
};

/// A table by its database and name.
type Place = (String, String);

/// Runs one action on a partition of `name`.
pub(crate) fn run(
    catalog: &mut Catalog,
    name: &TableName,
    action: &PartitionAction,
    partition: &PartitionName,
    current: &str,
    context: &Context,
) -> Result<()> {
    let place = |name: &TableName| -> Place {
        let (database, table) = resolve(name, current);
        (database.to_owned(), table.to_owned())
    };
    let here = place(name);
    let def = Arc::clone(&catalog.table(&here.0, &here.1)?.def);
    if !def.engine.name.ends_with("MergeTree") {
        return Err(exception!(
            NOT_IMPLEMENTED,
            "Table engine {} doesn't support partitioning",
            def.engine.name
        ));
    }
    let cnch = def.engine.name.starts_with("Cnch");
    match action {
        PartitionAction::Drop => {
            take(catalog, &here, partition)?;
            Ok(())
        }
        PartitionAction::Detach => {
            let parts = take(catalog, &here, partition)?;
            catalog.table_mut(&here.0, &here.1)?.data.detached.extend(parts);
            Ok(())
        }
        PartitionAction::Attach => {
            let parts = take_detached(catalog, &here, partition)?;
            put(catalog, &here, parts, context)
        }
        PartitionAction::AttachDetachedFrom(from) if cnch => {
            let from = place(from);
            same_structure(catalog, &here, &from)?;
            let parts = take_detached(catalog, &from, partition)?;
            put(catalog, &here, parts, context)
        }
        PartitionAction::AttachFrom(from) => {
            refuse_unique(&def, "ATTACH PARTITION FROM")?;
            let from = place(from);
            same_structure(catalog, &here, &from)?;
            // CNCH moves what an open-source server copies.
            let parts =
                if cnch { take(catalog, &from, partition)? } else { copy(catalog, &from, partition)? };
            put(catalog, &here, parts, context)
        }
        PartitionAction::ReplaceFrom(from) => {
            refuse_unique(&def, "REPLACE PARTITION FROM")?;
            let from = place(from);
            same_structure(catalog, &here, &from)?;
            let parts =
                if cnch { take(catalog, &from, partition)? } else { copy(catalog, &from, partition)? };
            take(catalog, &here, partition)?;
            put(catalog, &here, parts, context)
        }
        PartitionAction::MoveTo(to) if !cnch => {
            let to = place(to);
            same_structure(catalog, &here, &to)?;
            let parts = take(catalog, &here, partition)?;
            put(catalog, &to, parts, context)
        }
        PartitionAction::AttachDetachedFrom(_) | PartitionAction::MoveTo(_) => {
            Err(exception!(SYNTAX_ERROR, "Syntax error: the engine {} has no such ALTER", def.engine.name))
        }
    }
}

fn refuse_unique(def: &TableDef, what: &str) -> Result<()> {
    if def.is_unique() {
        return Err(exception!(NOT_IMPLEMENTED, "{what} is not supported by tables with a UNIQUE KEY"));
    }
    Ok(())
}

fn same_structure(catalog: &Catalog, left: &Place, right: &Place) -> Result<()> {
    let outline = |place: &Place| -> Result<_> {
        let def = &catalog.table(&place.0, &place.1)?.def;
        let columns: Vec<(String, String)> =
            def.stored().map(|column| (column.name.clone(), column.ty.to_string())).collect();
        Ok((
            columns,
            def.partition_by.clone(),
            def.order_by.clone(),
            def.unique_key.clone(),
            def.engine.name.clone(),
        ))
    };
    if outline(left)? == outline(right)? {
        return Ok(());
    }
    Err(exception!(INCOMPATIBLE_COLUMNS, "Tables have different structure"))
}

/// True when a statement means this partition.
fn is_meant(name: &PartitionName, partition: &Partition) -> bool {
    match name {
        PartitionName::Id(id) => *id == partition.id,
        PartitionName::Value(Expr::Literal(Literal::Text(text))) => *text == partition.text.as_bytes(),
        PartitionName::Value(Expr::Literal(Literal::Number(text))) => *text == partition.text,
        PartitionName::Value(expr) => {
            let elements: Vec<String> = expr.elements().iter().map(Expr::to_sql).collect();
            elements.is_empty() && partition.id == "all"
                || format!("({})", elements.join(",")) == partition.text
        }
    }
}

fn copy(catalog: &Catalog, place: &Place, name: &PartitionName) -> Result<Vec<(Partition, RecordBatch)>> {
    let parts = &catalog.table(&place.0, &place.1)?.data.parts;
    let meant = parts.iter().filter(|part| part.live_rows > 0 && is_meant(name, &part.partition));
    meant.map(|part| Ok((part.partition.clone(), part.visible(None)?))).collect()
}

fn take(catalog: &mut Catalog, place: &Place, name: &PartitionName) -> Result<Vec<(Partition, RecordBatch)>> {
    let parts = copy(catalog, place, name)?;
    let data = &mut catalog.table_mut(&place.0, &place.1)?.data;
    let mut gone = Vec::new();
    for (number, part) in data.parts.iter().enumerate().filter(|(_, part)| is_meant(name, &part.partition)) {
        gone.extend((0..part.rows.num_rows()).map(|row| RowPlace { part: number, row }));
    }
    data.remove_rows(&gone);
    Ok(parts)
}

fn take_detached(
    catalog: &mut Catalog,
    place: &Place,
    name: &PartitionName,
) -> Result<Vec<(Partition, RecordBatch)>> {
    let detached = &mut catalog.table_mut(&place.0, &place.1)?.data.detached;
    let (meant, others) =
        std::mem::take(detached).into_iter().partition(|(partition, _)| is_meant(name, partition));
    *detached = others;
    Ok(meant)
}

/// Adds parts; in a table with a UNIQUE KEY their rows replace those of the same key.
fn put(
    catalog: &mut Catalog,
    place: &Place,
    parts: Vec<(Partition, RecordBatch)>,
    context: &Context,
) -> Result<()> {
    let table = catalog.table_mut(&place.0, &place.1)?;
    for (partition, rows) in parts {
        let partitions = Partitions { list: vec![partition.clone()], of_row: Vec::new() };
        let keys = block_keys(&table.def, &rows, None, &partitions, context)?;
        add(&mut table.data, partition, rows, keys.as_ref());
    }
    Ok(())
}

fn add(
    data: &mut TableData,
    partition: Partition,
    rows: RecordBatch,
    keys: Option<&super::unique::BlockKeys>,
) {
    let count = rows.num_rows();
    let part = data.add(partition, rows);
    if let Some(keys) = keys {
        let places: Vec<RowPlace> = (0..count).map(|row| RowPlace { part, row }).collect();
        data.apply(keys, &places);
    }
}
