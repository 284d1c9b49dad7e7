//! ALTER TABLE: a new definition, and the rows rewritten for it.

use std::sync::Arc;

use connector_core::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};

use super::{
    catalog::{Column, Table, TableDef},
    create::columns_of,
    eval::{Context, Data, Evaluated, Scope, internal},
    settings::check_table_settings,
    value::default_value,
};
use crate::{
    exception::{Result, exception},
    sql::ast::{AlterAction, ColumnDecl, Place},
};

/// Runs all actions, or none when one of them is refused.
pub(crate) fn alter(table: &mut Table, actions: &[AlterAction], context: &Context) -> Result<()> {
    let mut def = (*table.def).clone();
    // Which column of the old definition each new one continues.
    let mut origins: Vec<Option<String>> =
        def.columns.iter().map(|column| Some(column.name.clone())).collect();
    for action in actions {
        apply(&mut def, &mut origins, action, context)?;
    }
    if def.columns.is_empty() {
        return Err(exception!(BAD_ARGUMENTS, "Cannot drop all columns"));
    }
    check_table_settings(&def)?;
    let schema = def.schema()?;
    let mut parts = Vec::with_capacity(table.data.parts.len());
    for part in &table.data.parts {
        parts.push(rewrite(&table.def, &def, &origins, &part.rows, Arc::clone(&schema), context)?);
    }
    for (part, rows) in table.data.parts.iter_mut().zip(parts) {
        part.rows = rows;
    }
    table.data.schema = schema;
    table.def = Arc::new(def);
    Ok(())
}

fn position(def: &TableDef, name: &str, if_exists: bool) -> Result<Option<usize>> {
    match def.columns.iter().position(|column| column.name == name) {
        Some(at) => Ok(Some(at)),
        None if if_exists => Ok(None),
        None => Err(exception!(
            NO_SUCH_COLUMN,
            "Wrong column name. Cannot find column {name} in {}",
            def.full_name()
        )),
    }
}

fn place_of(def: &TableDef, place: &Place) -> Result<usize> {
    match place {
        Place::Last => Ok(def.columns.len()),
        Place::First => Ok(0),
        Place::After(name) => position(def, name, false).map(|at| at.map_or(def.columns.len(), |at| at + 1)),
    }
}

fn refuse_fixed(def: &TableDef, name: &str, what: &str) -> Result<()> {
    if def.is_fixed(name) {
        return Err(exception!(ALTER_OF_COLUMN_IS_FORBIDDEN, "Trying to {what} the key column {name}"));
    }
    Ok(())
}

fn apply(
    def: &mut TableDef,
    origins: &mut Vec<Option<String>>,
    action: &AlterAction,
    context: &Context,
) -> Result<()> {
    match action {
        AlterAction::AddColumn { column, if_not_exists, place } => {
            if def.column(&column.name).is_some() {
                if *if_not_exists {
                    return Ok(());
                }
                return Err(exception!(
                    DUPLICATE_COLUMN,
                    "Cannot add column {}: column with this name already exists",
                    column.name
                ));
            }
            let at = place_of(def, place)?;
            def.columns.insert(at, declared(def, column, context)?);
            origins.insert(at, None);
        }
        AlterAction::DropColumn { name, if_exists } => {
            if let Some(at) = position(def, name, *if_exists)? {
                refuse_fixed(def, name, "DROP")?;
                def.columns.remove(at);
                origins.remove(at);
            }
        }
        AlterAction::RenameColumn { from, to, if_exists } => {
            if let Some(at) = position(def, from, *if_exists)? {
                refuse_fixed(def, from, "RENAME")?;
                if def.column(to).is_some() {
                    return Err(exception!(
                        DUPLICATE_COLUMN,
                        "Cannot rename to {to}: column with this name already exists"
                    ));
                }
                def.columns[at].name.clone_from(to);
            }
        }
        AlterAction::ModifyColumn { column, if_exists, place } => {
            if let Some(at) = position(def, &column.name, *if_exists)? {
                modify(def, at, column, context)?;
                if let Some(place) = place {
                    let moved = def.columns.remove(at);
                    let origin = origins.remove(at);
                    let at = place_of(def, place)?;
                    def.columns.insert(at, moved);
                    origins.insert(at, origin);
                }
            }
        }
        AlterAction::CommentColumn { name, comment, if_exists } => {
            if let Some(at) = position(def, name, *if_exists)? {
                def.columns[at].comment.clone_from(comment);
            }
        }
        AlterAction::ModifySettings(settings) => {
            for (name, value) in settings {
                if ["partition_level_unique_keys", "storage_policy", "index_granularity"]
                    .contains(&name.as_str())
                {
                    return Err(exception!(
                        BAD_ARGUMENTS,
                        "Setting '{name}' is readonly for storage '{}'",
                        def.engine.name
                    ));
                }
                def.settings.retain(|(known, _)| known != name);
                def.settings.push((name.clone(), value.to_sql()));
            }
        }
    }
    Ok(())
}

/// A declared column, checked among the others.
fn declared(def: &TableDef, column: &ColumnDecl, context: &Context) -> Result<Column> {
    let others: Vec<ColumnDecl> = def
        .columns
        .iter()
        .filter(|known| known.name != column.name)
        .map(|known| ColumnDecl {
            name: known.name.clone(),
            type_text: Some(known.ty.to_string()),
            nullable: None,
            default: None,
            comment: String::new(),
            codec: String::new(),
        })
        .chain([column.clone()])
        .collect();
    columns_of(&others, context)?.pop().ok_or_else(|| internal("a declared column got lost"))
}

fn modify(def: &mut TableDef, at: usize, column: &ColumnDecl, context: &Context) -> Result<()> {
    let old = def.columns[at].clone();
    let mut declaration = column.clone();
    if declaration.type_text.is_none() {
        declaration.type_text = Some(old.ty.to_string());
    }
    let mut new = declared(def, &declaration, context)?;
    if new.ty != old.ty {
        refuse_fixed(def, &old.name, "change the type of")?;
    }
    if new.default.is_none() {
        new.default.clone_from(&old.default);
    }
    if new.comment.is_empty() {
        new.comment.clone_from(&old.comment);
    }
    def.columns[at] = new;
    Ok(())
}

/// The rows of a part under the new definition.
fn rewrite(
    old: &TableDef,
    new: &TableDef,
    origins: &[Option<String>],
    rows: &RecordBatch,
    schema: connector_core::arrow::datatypes::SchemaRef,
    context: &Context,
) -> Result<RecordBatch> {
    let scope = Scope::of_table(old, rows, context);
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(new.columns.len());
    for (column, origin) in new.columns.iter().zip(origins).filter(|(column, _)| column.is_stored()) {
        let kept = origin.as_ref().and_then(|name| rows.column_by_name(name).map(|array| (name, array)));
        let value = match (kept, &column.default) {
            (Some((name, array)), _) => {
                let ty = old.column(name).map_or_else(|| column.ty.clone(), |column| column.ty.clone());
                Evaluated { ty, data: Data::Array(Arc::clone(array)) }.cast(&column.ty, &context.zone)?
            }
            (None, Some((_, expr))) => scope.eval_as(expr, &column.ty)?,
            (None, None) => Evaluated::constant(default_value(&column.ty), column.ty.clone()),
        };
        columns.push(value.into_array(rows.num_rows())?);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(schema, columns, &options).map_err(internal)
}
