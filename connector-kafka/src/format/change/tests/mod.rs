//! Events in the shapes that the projects document, written by hand.

mod avro;
mod canal;
mod debezium;
mod maxwell;
mod statements;
mod tables;

use std::sync::Arc;

use connector_core::{
    ErrorKind, SchemaChange, TableId, TableSchema,
    arrow::{
        array::{Array, ArrayRef, make_array},
        datatypes::{DataType, Field, Schema, TimeUnit},
        util::display::{ArrayFormatter, FormatOptions},
    },
};

use super::*;
use crate::format::{
    JsonErrorKind,
    metadata::{MetadataColumn, MetadataColumns},
    record::{Output, Refusal, Taken},
};

/// A table with these columns, which may be null unless their name ends in `!`.
fn table(columns: &[(&str, DataType)], key: &[&str]) -> TableSchema {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, data_type)| match name.strip_suffix('!') {
            Some(name) => Field::new(name, data_type.clone(), false),
            None => Field::new(*name, data_type.clone(), true),
        })
        .collect();
    TableSchema::new(Arc::new(Schema::new(fields))).with_primary_key(key.iter().copied()).unwrap()
}

/// `id` and `v`.
fn id_and_v() -> TableSchema {
    table(&[("id!", DataType::Int64), ("v", DataType::Utf8)], &["id"])
}

/// One split of a topic, with everything that came out of it as lines of text.
struct Split {
    decoder: ChangeDecoder,
    lines: Vec<String>,
}

impl Split {
    fn new(format: &Changes) -> Self {
        Self::beside(format, &Arc::default())
    }

    /// A split of the same source as others.
    fn beside(format: &Changes, registry: &Arc<Registry>) -> Self {
        format.check().unwrap();
        let home = TableId::new("", "topic");
        let decoder = ChangeDecoder::new(format, home, Arc::clone(registry), MetadataColumns::default());
        Self { decoder, lines: Vec::new() }
    }

    fn try_give(&mut self, key: Option<&str>, value: &str) -> Result<Taken, Refusal> {
        self.try_give_bytes(key.map(str::as_bytes), value.as_bytes())
    }

    /// Gives a record, as a reader does.
    fn try_give_bytes(&mut self, key: Option<&[u8]>, value: &[u8]) -> Result<Taken, Refusal> {
        for _ in 0..8 {
            match self.decoder.decode(key, value)? {
                Taken::Changes { again } => {
                    self.hand_over();
                    for change in self.decoder.take_changes() {
                        self.lines.push(shown_change(&change));
                    }
                    if !again {
                        return Ok(Taken::Changes { again });
                    }
                }
                taken => return Ok(taken),
            }
        }
        panic!("a record is never taken: {}", String::from_utf8_lossy(value))
    }

    fn give(&mut self, value: &str) -> &mut Self {
        self.try_give(None, value).unwrap_or_else(|e| panic!("{value}: {e:?}"));
        self
    }

    fn give_with_key(&mut self, key: &str, value: &str) -> &mut Self {
        self.try_give(Some(key), value).unwrap_or_else(|e| panic!("{value}: {e:?}"));
        self
    }

    /// The kind of error and its field.
    fn refused(&mut self, value: &str) -> (JsonErrorKind, String) {
        match self.try_give(None, value) {
            Err(Refusal::Record(error)) => (error.kind(), error.path().to_owned()),
            other => panic!("{value}: {other:?}"),
        }
    }

    fn hand_over(&mut self) {
        for Output { announce, table, rows } in self.decoder.finish().unwrap() {
            self.lines.extend(announce.as_ref().map(shown_change));
            let options = FormatOptions::default().with_null("null");
            let arrays: Vec<ArrayRef> = rows.rows().columns().iter().map(printable).collect();
            let columns: Vec<(String, ArrayFormatter<'_>)> = rows
                .rows()
                .schema()
                .fields()
                .iter()
                .zip(&arrays)
                .map(|(field, column)| {
                    (field.name().clone(), ArrayFormatter::try_new(column, &options).unwrap())
                })
                .collect();
            for row in 0..rows.num_rows() {
                let values: Vec<String> =
                    columns.iter().map(|(name, column)| format!("{name}={}", column.value(row))).collect();
                self.lines.push(format!("{} {table} {}", rows.kinds().get(row), values.join(" ")));
            }
        }
    }

    /// Everything that came since the last look.
    fn lines(&mut self) -> Vec<String> {
        self.hand_over();
        std::mem::take(&mut self.lines)
    }

    /// The same without announcements.
    fn rows(&mut self) -> Vec<String> {
        self.lines().into_iter().filter(|line| !line.starts_with("create")).collect()
    }
}

/// Arrow prints no times with a zone that has a name.
fn printable(array: &ArrayRef) -> ArrayRef {
    let DataType::Timestamp(unit, Some(_)) = array.data_type() else { return Arc::clone(array) };
    let data_type = DataType::Timestamp(*unit, Some("+00:00".into()));
    make_array(array.to_data().into_builder().data_type(data_type).build().unwrap())
}

fn shown_change(change: &SchemaChange) -> String {
    let table = change.table();
    match change {
        SchemaChange::CreateTable { schema, .. } => {
            let columns: Vec<String> = schema
                .columns
                .fields()
                .iter()
                .map(|f| format!("{} {}{}", f.name(), f.data_type(), if f.is_nullable() { "" } else { "!" }))
                .collect();
            format!("create {table} ({}) key ({})", columns.join(", "), schema.primary_key.join(", "))
        }
        SchemaChange::AddColumn { column, .. } => {
            format!("add {table} {} {}", column.name(), column.data_type())
        }
        SchemaChange::AlterColumnType { column, data_type, nullable, .. } => {
            format!("alter {table} {column} {data_type}{}", if *nullable { "" } else { "!" })
        }
        SchemaChange::RenameColumn { from, to, .. } => format!("rename {table} {from} {to}"),
        SchemaChange::DropColumn { column, .. } => format!("drop {table} {column}"),
        other => format!("{} {table}", other.kind().as_str()),
    }
}
