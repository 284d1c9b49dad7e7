//! Maxwell's events: a row a message, and whole descriptions of tables with the statements that change them.

use std::sync::Arc;

use connector_core::{RowKind, SchemaChange, TableSchema, arrow::datatypes::Schema};
use serde_json::Value;

use super::{
    canal::names_any,
    ddl,
    decoder::{ChangeDecoder, Ready, at_end, cursor_at, push_update, unexpected},
    evolve::difference,
    types::{column, folded, mysql_type},
};
use crate::format::{
    json::{
        cursor::{Cursor, each_entry},
        error::Fault,
    },
    record::Taken,
};

/// Where the parts of a message stand.
#[derive(Debug, Default)]
struct Message {
    data: Option<usize>,
    old: Option<usize>,
    kind: String,
    database: String,
    table: String,
}

impl Message {
    fn scan(text: &str) -> Result<Self, Fault> {
        let mut message = Self::default();
        let mut cursor = Cursor::new(text);
        cursor.skip_space();
        each_entry(&mut cursor, &mut String::new(), |key, cursor| {
            let at = Some(cursor.pos()).filter(|_| cursor.peek() == b'{');
            let part = match key {
                "data" => {
                    message.data = at;
                    return cursor.skip_value();
                }
                "old" => {
                    message.old = at;
                    return cursor.skip_value();
                }
                "type" => &mut message.kind,
                "database" => &mut message.database,
                "table" => &mut message.table,
                _ => return cursor.skip_value(),
            };
            if cursor.peek() != b'"' {
                return cursor.skip_value();
            }
            let mut scratch = String::new();
            part.push_str(cursor.string(&mut scratch)?);
            Ok(())
        })?;
        at_end(&mut cursor)?;
        Ok(message)
    }
}

pub(super) fn decode(decoder: &mut ChangeDecoder, text: &str) -> Result<Taken, Fault> {
    let message = Message::scan(text)?;
    let kind = match message.kind.as_str() {
        "insert" | "bootstrap-insert" => RowKind::Insert,
        "update" => RowKind::UpdateAfter,
        "delete" => RowKind::Delete,
        "table-create" | "table-alter" | "table-drop" => return statement(decoder, text, &message),
        // Around a snapshot, and statements about whole databases.
        kind if kind.starts_with("bootstrap-") || kind.starts_with("database-") || kind == "heartbeat" => {
            return Ok(Taken::Nothing);
        }
        _ => return Err(unexpected(0, "an event of Maxwell's with its `type`")),
    };
    let index = if decoder.needs_name() {
        if message.table.is_empty() {
            return Err(unexpected(0, "the name of the event's table").in_field("table"));
        }
        match decoder.locate(&message.database, &message.table, 0)? {
            Some(index) => index,
            None => return Ok(Taken::Nothing),
        }
    } else {
        decoder.home()
    };
    let Some(data) = message.data else {
        return Err(unexpected(0, "the event's row").in_field("data"));
    };
    if decoder.prepare(index, None, 0)? == Ready::HandOver {
        return Ok(Taken::Changes { again: true });
    }
    let (fold, before_images) = (decoder.fold(), decoder.format.has_before_images());
    let key: Vec<String> = decoder.primary_key(index).iter().map(|name| folded(name, fold)).collect();
    let rows = decoder.rows(index, text.len())?;
    let mut row = cursor_at(text, data);
    let result = match (kind, message.old) {
        (RowKind::Delete, _) => rows.push_sparse(RowKind::Delete, &mut row),
        (RowKind::UpdateAfter, Some(old)) => {
            let key_changed = names_any(text, old, &key, fold)?;
            push_update(rows, key_changed, before_images, &mut cursor_at(text, old), &row)
        }
        (kind, _) => rows.push(kind, &mut row),
    };
    result.map_err(|fault| fault.in_field("data"))?;
    Ok(decoder.settle(index, text.len()))
}

/// A message about a statement. They are few, so they are read in comfort.
#[cold]
fn statement(decoder: &mut ChangeDecoder, text: &str, message: &Message) -> Result<Taken, Fault> {
    let Some(index) = decoder.locate(&message.database, &message.table, 0)? else {
        return Ok(Taken::Nothing);
    };
    let (table, fold) = (decoder.id(index).clone(), decoder.fold());
    let whole: Value =
        serde_json::from_str(text).map_err(|_| unexpected(0, "a message about a statement"))?;
    let new = whole.get("def").and_then(|def| table_schema(def, fold));
    let old = whole.get("old").and_then(|old| table_schema(old, fold));
    let sql = whole.get("sql").and_then(Value::as_str).unwrap_or_default();
    let old = decoder.known_schema(index).or(old);
    Ok(match (message.kind.as_str(), old, new) {
        ("table-drop", ..) => decoder.tell(index, None, None, vec![SchemaChange::DropTable { table }]),
        ("table-create", _, Some(schema)) => {
            decoder.tell(index, None, None, vec![SchemaChange::CreateTable { table, schema }])
        }
        ("table-alter", Some(old), Some(new)) => {
            let changes = difference(&table, &old, &new, &ddl::renames(sql, &table, fold));
            decoder.tell(index, Some(old), Some(new), changes)
        }
        _ => return Err(unexpected(0, "the table's columns in `def`")),
    })
}

/// A table as Maxwell describes it.
fn table_schema(def: &Value, fold: bool) -> Option<TableSchema> {
    let names = |key: &str| -> Vec<String> {
        let names = def.get(key).and_then(Value::as_array);
        names.into_iter().flatten().filter_map(Value::as_str).map(|name| folded(name, fold)).collect()
    };
    let key = names("primary-key");
    let columns = def.get("columns")?.as_array()?;
    let fields: Option<Vec<_>> = columns
        .iter()
        .map(|told| {
            let name = folded(told.get("name")?.as_str()?, fold);
            let mut text = told.get("type")?.as_str()?.to_owned();
            if let Some(length) = told.get("column-length").and_then(Value::as_u64) {
                text.push_str(&format!("({length})"));
            }
            if told.get("signed").and_then(Value::as_bool) == Some(false) {
                text.push_str(" unsigned");
            }
            let nullable = !key.contains(&name);
            // Maxwell tells no digits of decimals: the text holds each as it is.
            let data_type = match told.get("type").and_then(Value::as_str) {
                Some("decimal" | "numeric") => connector_core::arrow::datatypes::DataType::Utf8,
                _ => mysql_type(&text),
            };
            Some(column(&name, data_type, nullable, Some(&text)))
        })
        .collect();
    let schema = TableSchema::new(Arc::new(Schema::new(fields?)));
    let keyless = schema.clone();
    Some(schema.with_primary_key(key).unwrap_or(keyless))
}
