//! Canal's flat messages: many rows a message, and all values as texts.

use connector_core::{
    RowKind, SchemaChange,
    arrow::datatypes::{Field, Fields},
};

use super::{
    ddl,
    debezium::fingerprint,
    decoder::{ChangeDecoder, Layout, Ready, at_end, cursor_at, push_update, unexpected},
    types::{column, folded, mysql_type},
};
use crate::format::{
    json::{
        cursor::{Cursor, each_entry, each_item},
        error::Fault,
    },
    record::Taken,
};

/// Where the parts of a message stand.
#[derive(Debug, Default)]
struct Message {
    data: Option<usize>,
    old: Option<usize>,
    types: Option<(usize, usize)>,
    keys: Option<usize>,
    is_ddl: bool,
    kind: String,
    database: String,
    table: String,
    sql: Option<usize>,
}

fn text_into(cursor: &mut Cursor<'_>, out: &mut String) -> Result<(), Fault> {
    if cursor.peek() != b'"' {
        return cursor.skip_value();
    }
    let mut scratch = String::new();
    out.push_str(cursor.string(&mut scratch)?);
    Ok(())
}

impl Message {
    fn scan(text: &str) -> Result<Self, Fault> {
        let mut message = Self::default();
        let mut cursor = Cursor::new(text);
        cursor.skip_space();
        each_entry(&mut cursor, &mut String::new(), |key, cursor| {
            let at = Some(cursor.pos()).filter(|_| cursor.peek() != b'n');
            match key {
                "data" => message.data = at,
                "old" => message.old = at,
                "pkNames" => message.keys = at,
                "sql" => message.sql = at,
                "isDdl" => message.is_ddl = cursor.peek() == b't',
                "type" => return text_into(cursor, &mut message.kind),
                "database" => return text_into(cursor, &mut message.database),
                "table" => return text_into(cursor, &mut message.table),
                "mysqlType" => {
                    cursor.skip_value()?;
                    message.types = at.map(|at| (at, cursor.pos()));
                    return Ok(());
                }
                _ => {}
            }
            cursor.skip_value()
        })?;
        at_end(&mut cursor)?;
        Ok(message)
    }
}

pub(super) fn decode(decoder: &mut ChangeDecoder, text: &str) -> Result<Taken, Fault> {
    let message = Message::scan(text)?;
    if message.is_ddl {
        return statement(decoder, text, &message);
    }
    let kind = match message.kind.as_str() {
        kind if kind.eq_ignore_ascii_case("INSERT") => RowKind::Insert,
        kind if kind.eq_ignore_ascii_case("UPDATE") => RowKind::UpdateAfter,
        kind if kind.eq_ignore_ascii_case("DELETE") => RowKind::Delete,
        // Queries, transactions and heartbeats.
        kind if !kind.is_empty() => {
            tracing::debug!(kind, "a message of Canal's that is about no row");
            return Ok(Taken::Nothing);
        }
        _ => return Err(unexpected(0, "a message of Canal's with its `type`")),
    };
    let index = if decoder.needs_name() {
        if message.table.is_empty() {
            return Err(unexpected(0, "the name of the message's table").in_field("table"));
        }
        match decoder.locate(&message.database, &message.table, 0)? {
            Some(index) => index,
            None => return Ok(Taken::Nothing),
        }
    } else {
        decoder.home()
    };
    let Some(data) = message.data else {
        return Err(unexpected(0, "the message's rows").in_field("data"));
    };
    if prepare(decoder, index, text, &message)? == Ready::HandOver {
        return Ok(Taken::Changes { again: true });
    }
    push(decoder, index, kind, text, data, &message)?;
    Ok(decoder.settle(index, text.len()))
}

fn prepare(decoder: &mut ChangeDecoder, index: usize, text: &str, message: &Message) -> Result<Ready, Fault> {
    let fold = decoder.fold();
    let Some((start, end)) = message.types else { return decoder.prepare(index, None, 0) };
    // The types stand in every message: the text of those met last saves reading them.
    let types = text.get(start..end).unwrap_or_default().as_bytes();
    if let Some(fingerprint) =
        decoder.types_met.get(&index).and_then(|(met, found)| (met == types).then_some(*found))
        && decoder.is_read_by(index, fingerprint)
    {
        return Ok(Ready::Yes);
    }
    let mut key = Vec::new();
    if let Some(at) = message.keys {
        each_item(&mut cursor_at(text, at), |_, cursor| {
            let mut name = String::new();
            text_into(cursor, &mut name)?;
            key.push(folded(&name, fold));
            Ok(())
        })?;
    }
    let mut fields: Vec<Field> = Vec::new();
    each_entry(&mut cursor_at(text, start), &mut String::new(), |name, cursor| {
        let mut told = String::new();
        text_into(cursor, &mut told)?;
        let name = folded(name, fold);
        let nullable = !key.contains(&name);
        fields.push(column(&name, mysql_type(&told), nullable, Some(&told)));
        Ok(())
    })?;
    let fields = Fields::from(fields);
    let layout = Layout { fingerprint: fingerprint(&fields), fields, key };
    decoder.types_met.insert(index, (types.to_vec(), layout.fingerprint));
    decoder.prepare(index, Some(&layout), start)
}

fn push(
    decoder: &mut ChangeDecoder,
    index: usize,
    kind: RowKind,
    text: &str,
    data: usize,
    message: &Message,
) -> Result<(), Fault> {
    let before_images = decoder.format.has_before_images();
    let mut key: Vec<String> = decoder.primary_key(index).to_vec();
    let fold = decoder.fold();
    if let Some(at) = message.keys.filter(|_| key.is_empty()) {
        each_item(&mut cursor_at(text, at), |_, cursor| {
            let mut name = String::new();
            text_into(cursor, &mut name)?;
            key.push(name);
            Ok(())
        })?;
    }
    let key: Vec<String> = key.iter().map(|name| folded(name, fold)).collect();
    // Where the old values of each row stand.
    let mut olds: Vec<Option<usize>> = Vec::new();
    if let Some(old) = message.old.filter(|_| kind == RowKind::UpdateAfter) {
        each_item(&mut cursor_at(text, old), |_, cursor| {
            olds.push(Some(cursor.pos()).filter(|_| cursor.peek() == b'{'));
            cursor.skip_value()
        })
        .map_err(|fault| fault.in_field("old"))?;
    }
    let rows = decoder.rows(index, text.len())?;
    each_item(&mut cursor_at(text, data), |at, cursor| {
        let result = match (kind, olds.get(at).copied().flatten()) {
            (RowKind::Delete, _) => rows.push_sparse(RowKind::Delete, cursor),
            (RowKind::UpdateAfter, Some(old)) => {
                let key_changed = names_any(text, old, &key, fold)?;
                let new = cursor.clone();
                cursor.skip_value()?;
                push_update(rows, key_changed, before_images, &mut cursor_at(text, old), &new)
            }
            (kind, _) => rows.push(kind, cursor),
        };
        result.map_err(|fault| fault.in_item(at))
    })
    .map_err(|fault| fault.in_field("data"))
}

/// Whether the object at a place has one of these keys.
pub(super) fn names_any(text: &str, at: usize, names: &[String], fold: bool) -> Result<bool, Fault> {
    let mut found = false;
    if !names.is_empty() {
        each_entry(&mut cursor_at(text, at), &mut String::new(), |key, cursor| {
            found |= names.iter().any(|name| if fold { *name == folded(key, true) } else { name == key });
            cursor.skip_value()
        })?;
    }
    Ok(found)
}

/// A message about a statement.
#[cold]
fn statement(decoder: &mut ChangeDecoder, text: &str, message: &Message) -> Result<Taken, Fault> {
    if message.table.is_empty() {
        return Ok(Taken::Nothing);
    }
    let Some(index) = decoder.locate(&message.database, &message.table, 0)? else {
        return Ok(Taken::Nothing);
    };
    let table = decoder.id(index).clone();
    let mut sql = String::new();
    if let Some(at) = message.sql {
        text_into(&mut cursor_at(text, at), &mut sql)?;
    }
    let changes = match message.kind.to_ascii_uppercase().as_str() {
        "TRUNCATE" => vec![SchemaChange::TruncateTable { table }],
        "ERASE" | "DROP" => vec![SchemaChange::DropTable { table }],
        "ALTER" => match ddl::parse(&sql, &table, decoder.fold()) {
            Some(changes) => changes,
            None => {
                tracing::warn!(%table, "a statement that is not understood is left out; the rows behind it tell their columns");
                Vec::new()
            }
        },
        // A new table tells its columns with its first row.
        _ => Vec::new(),
    };
    Ok(decoder.tell(index, None, None, changes))
}
