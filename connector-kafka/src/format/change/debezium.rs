//! Debezium's events: with and without their schema part, and its messages about statements.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use connector_core::{
    RowKind, SchemaChange, TableSchema,
    arrow::datatypes::{DataType, Fields, Schema},
};
use hashbrown::HashMap;
use serde_json::Value;

use super::{
    avro, ddl,
    decoder::{ChangeDecoder, Layout, Ready, at_end, cursor_at, unexpected},
    evolve::difference,
    types::{column, connect_fields, folded, mysql_type},
};
use crate::format::{
    json::{
        JsonErrorKind,
        cursor::{Cursor, each_entry},
        decoder::not_utf8,
        error::Fault,
    },
    record::Taken,
};

/// So many schema texts are remembered; a stream with more forgets them all and learns them again.
const MAX_LAYOUTS: usize = 4096;

/// The schema parts that were met. They are as long as the rest of an event or longer, and nearly always the one of
/// the event before.
#[derive(Debug, Default)]
pub(super) struct Layouts {
    /// The text that was met last, and its layout.
    last: Vec<u8>,
    last_layout: usize,
    known: HashMap<Vec<u8>, usize>,
    layouts: Vec<Layout>,
}

impl Layouts {
    fn find(&mut self, text: &str, at: usize, fold: bool) -> Result<usize, Fault> {
        let bytes = text.as_bytes();
        if bytes == self.last {
            return Ok(self.last_layout);
        }
        let index = match self.known.get(bytes) {
            Some(index) => *index,
            None => self.meet(text, at, fold)?,
        };
        self.last.clear();
        self.last.extend_from_slice(bytes);
        self.last_layout = index;
        Ok(index)
    }

    #[cold]
    fn meet(&mut self, text: &str, at: usize, fold: bool) -> Result<usize, Fault> {
        let schema: Value =
            serde_json::from_str(text).map_err(|_| unexpected(at, "a schema that can be read"))?;
        let parts = schema.get("fields").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let part =
            |name: &str| parts.iter().find(|part| part.get("field").and_then(Value::as_str) == Some(name));
        let fields = part("after")
            .or_else(|| part("before"))
            .and_then(|row| connect_fields(row, fold))
            .unwrap_or_else(Fields::empty);
        if self.layouts.len() >= MAX_LAYOUTS {
            self.known.clear();
            self.layouts.clear();
        }
        self.layouts.push(Layout { fingerprint: fingerprint(&fields), fields, key: Vec::new() });
        self.known.insert(text.as_bytes().to_vec(), self.layouts.len() - 1);
        Ok(self.layouts.len() - 1)
    }
}

/// A number that tells layouts apart, the same in every run.
pub(super) fn fingerprint(fields: &Fields) -> u64 {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    // Never 0, which stands for no layout. `Field` hashes its name, type and metadata.
    hasher.hash_one(fields).max(1)
}

/// What an event says of its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Create,
    Update,
    Delete,
    Truncate,
    Message,
}

impl Op {
    pub(super) fn named(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"c" | b"r" => Self::Create,
            b"u" => Self::Update,
            b"d" => Self::Delete,
            b"t" => Self::Truncate,
            b"m" => Self::Message,
            _ => return None,
        })
    }

    #[cold]
    pub(super) fn unknown(at: usize) -> Fault {
        unexpected(at, "one of the operations c, r, u, d, t and m")
    }
}

/// Where the parts of an event stand.
#[derive(Debug, Default)]
pub(super) struct Event {
    schema: Option<(usize, usize)>,
    /// The payload is there and a null.
    empty: bool,
    pub(super) op: Option<Op>,
    pub(super) before: Option<usize>,
    pub(super) after: Option<usize>,
    pub(super) source: Option<usize>,
    /// A message about a statement.
    statement: bool,
    pub(super) payload: usize,
}

impl Event {
    fn entry(&mut self, key: &str, cursor: &mut Cursor<'_>) -> Result<(), Fault> {
        let at = cursor.pos();
        let is_null = cursor.peek() == b'n';
        match key {
            "before" if !is_null => self.before = Some(at),
            "after" if !is_null => self.after = Some(at),
            "source" if !is_null => self.source = Some(at),
            "ddl" | "tableChanges" if !is_null => self.statement = true,
            "op" if !is_null => {
                if cursor.peek() != b'"' {
                    return Err(cursor.mismatch("an operation, such as \"c\"").in_field("op"));
                }
                let mut scratch = String::new();
                let op = Op::named(cursor.string(&mut scratch)?.as_bytes());
                self.op = Some(op.ok_or_else(|| Op::unknown(at).in_field("op"))?);
                return Ok(());
            }
            _ => {}
        }
        cursor.skip_value()
    }

    /// Looks for the parts of an event.
    fn scan(text: &str, last_schema: &[u8]) -> Result<Self, Fault> {
        let mut event = Self::default();
        let mut cursor = Cursor::new(text);
        cursor.skip_space();
        each_entry(&mut cursor, &mut String::new(), |key, cursor| {
            let at = cursor.pos();
            match (key, cursor.peek()) {
                ("schema", b'{') => {
                    // An object that is the whole text of one met before ends where that did.
                    if !last_schema.is_empty() && cursor.rest().starts_with(last_schema) {
                        cursor.advance(last_schema.len());
                    } else {
                        cursor.skip_value()?;
                    }
                    event.schema = Some((at, cursor.pos()));
                    Ok(())
                }
                ("payload", b'{') => {
                    event.payload = at;
                    each_entry(cursor, &mut String::new(), |key, cursor| event.entry(key, cursor))
                }
                ("payload", b'n') => {
                    event.empty = true;
                    cursor.skip_value()
                }
                _ => event.entry(key, cursor),
            }
        })?;
        at_end(&mut cursor)?;
        Ok(event)
    }
}

pub(super) fn decode(decoder: &mut ChangeDecoder, key: Option<&[u8]>, text: &str) -> Result<Taken, Fault> {
    let event = Event::scan(text, &decoder.layouts.last)?;
    if event.op.is_none() && event.empty {
        return Ok(Taken::Nothing);
    }
    if event.op.is_none() && event.statement {
        return statement(decoder, text, event.payload);
    }
    let prepare = |decoder: &mut ChangeDecoder, index| prepare(decoder, index, key, text, &event);
    take(decoder, &event, text, text.len(), prepare, |decoder, index, op| match (op, event.before) {
        (Op::Delete, None) => push_key(decoder, index, key, event.payload, text.len()),
        _ => push(decoder, index, op, text, &event),
    })
}

/// Takes an event of `bytes` bytes whose source stands in `text`. `prepare` sees to it that the next rows of a table are read as
/// they are in this event, and `push` appends them.
pub(super) fn take(
    decoder: &mut ChangeDecoder,
    event: &Event,
    text: &str,
    bytes: usize,
    prepare: impl FnOnce(&mut ChangeDecoder, usize) -> Result<Ready, Fault>,
    push: impl FnOnce(&mut ChangeDecoder, usize, Op) -> Result<(), Fault>,
) -> Result<Taken, Fault> {
    let Some(op) = event.op else {
        return Err(unexpected(event.payload, "a change event with its operation in `op`"));
    };
    if op == Op::Message {
        return Ok(Taken::Nothing);
    }
    let index = if decoder.needs_name() {
        let Some(source) = event.source else {
            return Err(unexpected(event.payload, "the event's `source`, which names its table"));
        };
        match locate(decoder, text, source)? {
            Some(index) => index,
            None => return Ok(Taken::Nothing),
        }
    } else {
        decoder.home()
    };
    if op == Op::Truncate {
        let change = SchemaChange::TruncateTable { table: decoder.id(index).clone() };
        return Ok(decoder.tell(index, None, None, vec![change]));
    }
    if prepare(decoder, index)? == Ready::HandOver {
        return Ok(Taken::Changes { again: true });
    }
    push(decoder, index, op)?;
    Ok(decoder.settle(index, bytes))
}

/// Finds the table that an event's source names.
fn locate(decoder: &mut ChangeDecoder, text: &str, source: usize) -> Result<Option<usize>, Fault> {
    let (mut db, mut schema, mut table) = (String::new(), String::new(), String::new());
    let mut cursor = cursor_at(text, source);
    each_entry(&mut cursor, &mut String::new(), |key, cursor| {
        let part = match key {
            "db" => &mut db,
            "schema" => &mut schema,
            // MongoDB's word for it.
            "table" | "collection" => &mut table,
            _ => return cursor.skip_value(),
        };
        if cursor.peek() != b'"' {
            return cursor.skip_value();
        }
        let mut scratch = String::new();
        part.push_str(cursor.string(&mut scratch)?);
        Ok(())
    })?;
    if table.is_empty() {
        return Err(unexpected(source, "the name of the event's table").in_field("table").in_field("source"));
    }
    if !schema.is_empty() {
        if !db.is_empty() {
            db.push('.');
        }
        db.push_str(&schema);
    }
    decoder.locate(&db, &table, source)
}

fn prepare(
    decoder: &mut ChangeDecoder,
    index: usize,
    key: Option<&[u8]>,
    text: &str,
    event: &Event,
) -> Result<Ready, Fault> {
    let fold = decoder.fold();
    let Some((start, end)) = event.schema else { return decoder.prepare(index, None, event.payload) };
    let layout = decoder.layouts.find(text.get(start..end).unwrap_or_default(), start, fold)?;
    let fingerprint = decoder.layouts.layouts[layout].fingerprint;
    decoder.prepare_by(index, fingerprint, event.payload, |decoder| {
        let fields = decoder.layouts.layouts[layout].fields.clone();
        Ok(Layout { fingerprint, fields, key: key.map(|key| key_names(key, fold)).unwrap_or_default() })
    })
}

/// The columns of the key, as the record's key tells them.
pub(super) fn key_names(key: &[u8], fold: bool) -> Vec<String> {
    let Ok(Value::Object(object)) = serde_json::from_slice(key) else { return Vec::new() };
    let payload = match (object.get("schema"), object.get("payload")) {
        (Some(_), Some(Value::Object(payload))) => payload,
        _ => &object,
    };
    payload.keys().map(|name| folded(name, fold)).collect()
}

fn push(decoder: &mut ChangeDecoder, index: usize, op: Op, text: &str, event: &Event) -> Result<(), Fault> {
    let before_images = decoder.format.has_before_images();
    let rows = decoder.rows(index, text.len())?;
    if op == Op::Delete || op == Op::Update && before_images {
        let kind = if op == Op::Delete { RowKind::Delete } else { RowKind::UpdateBefore };
        if let Some(before) = event.before {
            rows.push_sparse(kind, &mut cursor_at(text, before)).map_err(|fault| fault.in_field("before"))?;
        }
    }
    if op == Op::Delete {
        return Ok(());
    }
    let kind = if op == Op::Update { RowKind::UpdateAfter } else { RowKind::Insert };
    let after = event.after.ok_or_else(|| missing(event.payload, "after"))?;
    rows.push(kind, &mut cursor_at(text, after)).map_err(|fault| fault.in_field("after"))
}

/// A deletion in a table without images of before: the record's key says which row is gone.
pub(super) fn push_key(
    decoder: &mut ChangeDecoder,
    index: usize,
    key: Option<&[u8]>,
    payload: usize,
    bytes: usize,
) -> Result<(), Fault> {
    let key = key.ok_or_else(|| missing(payload, "before"))?;
    let read;
    let (key, at) = if decoder.is_avro() && key.first() == Some(&0) {
        read = avro::key_text(decoder, key)?;
        (read.as_str(), 0)
    } else {
        let key = simdutf8::basic::from_utf8(key).map_err(|_| not_utf8(key))?;
        (key, key_payload(key)?)
    };
    let rows = decoder.rows(index, bytes)?;
    rows.push_sparse(RowKind::Delete, &mut cursor_at(key, at)).map_err(|fault| fault.in_field("key"))
}

#[cold]
pub(super) fn missing(at: usize, field: &'static str) -> Fault {
    let fault = Fault::new(JsonErrorKind::MissingValue, at, "the row, as the operation needs it");
    fault.showing("none").in_field(field)
}

/// Where the key's columns stand in a record's key.
fn key_payload(key: &str) -> Result<usize, Fault> {
    let mut cursor = Cursor::new(key);
    cursor.skip_space();
    let whole = cursor.pos();
    let (mut schema, mut payload) = (false, None);
    each_entry(&mut cursor, &mut String::new(), |name, cursor| {
        match (name, cursor.peek()) {
            ("schema", b'{') => schema = true,
            ("payload", b'{') => payload = Some(cursor.pos()),
            _ => {}
        }
        cursor.skip_value()
    })?;
    Ok(payload.filter(|_| schema).unwrap_or(whole))
}

/// A message about a statement. They are few, so they are read in comfort.
#[cold]
fn statement(decoder: &mut ChangeDecoder, text: &str, payload: usize) -> Result<Taken, Fault> {
    let at = if payload == 0 { 0 } else { payload };
    let mut cursor = cursor_at(text, at);
    cursor.skip_space();
    let start = cursor.pos();
    cursor.skip_value()?;
    let message: Value = serde_json::from_str(text.get(start..cursor.pos()).unwrap_or_default())
        .map_err(|_| unexpected(at, "a message about a statement"))?;
    let connector = message.pointer("/source/connector").and_then(Value::as_str).unwrap_or_default();
    if !matches!(connector, "mysql" | "mariadb" | "") {
        tracing::debug!(connector, "a statement of a system whose types are not known here is left out");
        return Ok(Taken::Nothing);
    }
    let sql = message.get("ddl").and_then(Value::as_str).unwrap_or_default();
    let changes =
        message.get("tableChanges").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut taken = Taken::Nothing;
    for change in changes {
        let told = table_change(decoder, change, sql, at)?;
        if told != Taken::Nothing {
            taken = told;
        }
    }
    Ok(taken)
}

fn table_change(decoder: &mut ChangeDecoder, change: &Value, sql: &str, at: usize) -> Result<Taken, Fault> {
    let fold = decoder.fold();
    let id = change.get("id").and_then(Value::as_str).unwrap_or_default();
    let (database, table) = quoted_id(id);
    let Some(index) = decoder.locate(&database, &table, at)? else { return Ok(Taken::Nothing) };
    let id = decoder.id(index).clone();
    let new = change.get("table").and_then(|table| table_schema(table, fold));
    Ok(match (change.get("type").and_then(Value::as_str), new) {
        (Some("DROP"), _) => decoder.tell(index, None, None, vec![SchemaChange::DropTable { table: id }]),
        (Some("CREATE"), Some(new)) => {
            decoder.tell(index, None, None, vec![SchemaChange::CreateTable { table: id, schema: new }])
        }
        (Some("ALTER"), Some(new)) => match decoder.known_schema(index) {
            Some(old) => {
                let changes = difference(&id, &old, &new, &ddl::renames(sql, &id, fold));
                decoder.tell(index, None, Some(new), changes)
            }
            None => {
                let changes = ddl::parse(sql, &id, fold).unwrap_or_default();
                let old = before(&new, &changes);
                decoder.tell(index, Some(old), Some(new), changes)
            }
        },
        _ => Taken::Nothing,
    })
}

/// The table before changes, as far as they can be taken back: without what they added, and with the names from before.
fn before(new: &TableSchema, changes: &[SchemaChange]) -> TableSchema {
    let added = |name: &str| {
        changes.iter().any(|c| matches!(c, SchemaChange::AddColumn { column, .. } if column.name() == name))
    };
    let renamed = |name: &str| {
        changes.iter().find_map(|change| match change {
            SchemaChange::RenameColumn { from, to, .. } if to == name => Some(from.clone()),
            _ => None,
        })
    };
    let fields: Vec<_> = new
        .columns
        .fields()
        .iter()
        .filter(|field| !added(field.name()))
        .map(|field| match renamed(field.name()) {
            Some(from) => std::sync::Arc::new(field.as_ref().clone().with_name(from)),
            None => std::sync::Arc::clone(field),
        })
        .collect();
    let primary_key =
        new.primary_key.iter().map(|name| renamed(name).unwrap_or_else(|| name.clone())).collect();
    TableSchema { columns: std::sync::Arc::new(Schema::new(fields)), primary_key, ..new.clone() }
}

/// The parts of `"inventory"."customers"`: everything before the table, and the table.
fn quoted_id(id: &str) -> (String, String) {
    let mut parts: Vec<String> =
        id.split("\".\"").map(|part| part.trim_matches('"').replace("\"\"", "\"")).collect();
    let table = parts.pop().unwrap_or_default();
    (parts.join("."), table)
}

/// A table as Debezium describes it, with the types in which its events carry the columns.
fn table_schema(table: &Value, fold: bool) -> Option<TableSchema> {
    let columns = table.get("columns")?.as_array()?;
    let fields: Option<Vec<_>> = columns
        .iter()
        .map(|told| {
            let name = folded(told.get("name")?.as_str()?, fold);
            let type_name = told.get("typeName")?.as_str()?;
            let number = |key: &str| told.get(key).and_then(Value::as_u64);
            let text = match (number("length"), number("scale")) {
                (Some(length), Some(scale)) => format!("{type_name}({length},{scale})"),
                (Some(length), None) => format!("{type_name}({length})"),
                _ => type_name.to_owned(),
            };
            let optional = told.get("optional").and_then(Value::as_bool).unwrap_or(true);
            Some(column(&name, event_type(mysql_type(&text)), optional, None))
        })
        .collect();
    let schema = TableSchema::new(std::sync::Arc::new(Schema::new(fields?)));
    let key: Vec<String> = table
        .get("primaryKeyColumnNames")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).map(|name| folded(name, fold)).collect())
        .unwrap_or_default();
    let keyless = schema.clone();
    Some(schema.with_primary_key(key).unwrap_or(keyless))
}

/// The type in which Debezium's events carry a column: it has no unsigned ones, and none of 8 bits.
fn event_type(column: DataType) -> DataType {
    match column {
        DataType::Int8 | DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 | DataType::UInt64 => DataType::Int64,
        other => other,
    }
}
