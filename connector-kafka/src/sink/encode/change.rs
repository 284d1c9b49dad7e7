//! Rows as change events of Debezium, Canal and Maxwell.

use std::io::Write as _;

use connector_core::{
    Result, TableId,
    arrow::{
        array::RecordBatch,
        datatypes::{DataType, SchemaRef},
    },
};

use super::{Encoded, Style, column, key_of, types};

/// Whose events they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// With its schema part, or without.
    Debezium {
        schema: bool,
    },
    Canal,
    Maxwell,
}

/// What happened, by the rows of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    Insert(usize),
    Update {
        /// The row as it was, where the batch has it.
        before: Option<usize>,
        after: usize,
    },
    Delete(usize),
}

impl Event {
    /// The row that the event's key and partition come from.
    pub(crate) fn row(self) -> usize {
        match self {
            Self::Insert(row) | Self::Update { after: row, .. } | Self::Delete(row) => row,
        }
    }
}

/// What events tell besides rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub(crate) table: &'a TableId,
    /// The columns of the table's key; empty where it is not known.
    pub(crate) key: &'a [String],
    pub(crate) topic: &'a str,
    /// Who writes.
    pub(crate) pipeline: &'a str,
    /// Milliseconds since 1970.
    pub(crate) now: i64,
}

/// How a value's JSON becomes the value of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrap {
    AsIs,
    /// A number becomes a text.
    Quote,
    /// JSON becomes a text.
    Text,
}

/// What follows from the columns and the table, and is the same in many batches.
#[derive(Debug)]
struct Layout {
    schema: SchemaRef,
    topic: String,
    wraps: Vec<Wrap>,
    /// Each column's name with its colon.
    names: Vec<Vec<u8>>,
    /// Debezium's schema part, or Canal's types.
    types: Vec<u8>,
    /// Canal's numbers of types.
    numbers: Vec<u8>,
}

/// Writes events of one dialect.
#[derive(Debug)]
pub(crate) struct ChangeEncoder {
    dialect: Dialect,
    /// The values of each column.
    cells: Vec<Encoded>,
    layout: Option<Layout>,
    /// Canal's messages have a number.
    messages: u64,
}

impl ChangeEncoder {
    pub(crate) fn new(dialect: Dialect) -> Self {
        Self { dialect, cells: Vec::new(), layout: None, messages: 0 }
    }

    fn style(&self, data_type: &DataType) -> Style {
        match self.dialect {
            Dialect::Debezium { schema } => Style::Debezium { precise: schema },
            // JSON within a text is JSON of its own.
            Dialect::Canal if data_type.is_nested() => Style::Json,
            Dialect::Canal => Style::Mysql { latin1: true },
            Dialect::Maxwell => Style::Mysql { latin1: false },
        }
    }

    /// Appends a message for each event.
    ///
    /// # Errors
    /// `Unsupported` for a type that the dialect has nothing for; `DataInvalid` for a time beyond the year 9999.
    pub(crate) fn encode(
        &mut self,
        rows: &RecordBatch,
        events: &[Event],
        facts: &Facts<'_>,
        out: &mut Encoded,
    ) -> Result<()> {
        let layout = match self.layout.take() {
            Some(layout) if layout.schema == rows.schema() && layout.topic == facts.topic => layout,
            _ => self.lay_out(rows, facts.topic)?,
        };
        self.cells.resize_with(rows.num_columns(), Encoded::default);
        for (at, (field, array)) in layout.schema.fields().iter().zip(rows.columns()).enumerate() {
            let style = self.style(field.data_type());
            self.cells[at].clear(out.before);
            column(field, array.as_ref(), style, &mut self.cells[at])?;
        }
        let row = Row { cells: &self.cells, layout: &layout };
        match self.dialect {
            Dialect::Debezium { schema } => debezium(row, events, facts, schema, out),
            Dialect::Canal => canal(row, events, facts, &mut self.messages, out),
            Dialect::Maxwell => maxwell(row, events, facts, out),
        }
        self.layout = Some(layout);
        Ok(())
    }

    #[cold]
    fn lay_out(&self, rows: &RecordBatch, topic: &str) -> Result<Layout> {
        let schema = rows.schema();
        let wrap = |data_type: &DataType| match self.dialect {
            Dialect::Canal if data_type.is_nested() => Wrap::Text,
            Dialect::Canal => Wrap::Quote,
            _ => Wrap::AsIs,
        };
        let wraps = schema.fields().iter().map(|field| wrap(field.data_type())).collect();
        let names: Vec<Vec<u8>> = schema.fields().iter().map(|field| key_of(field.name())).collect();
        let (mut types, mut numbers) = (Vec::new(), Vec::new());
        match self.dialect {
            Dialect::Debezium { schema: true } => {
                types = types::envelope(schema.fields(), topic)?.to_string().into_bytes();
            }
            Dialect::Canal => {
                for (field, name) in schema.fields().iter().zip(&names) {
                    let (told, number) = types::mysql(field);
                    let before: &[u8] = if types.is_empty() { b"{" } else { b"," };
                    types.extend([before, name, &text(&told)].concat());
                    numbers.extend([before, name, number.to_string().as_bytes()].concat());
                }
                types.push(b'}');
                numbers.push(b'}');
            }
            _ => {}
        }
        Ok(Layout { schema, topic: topic.to_owned(), wraps, names, types, numbers })
    }
}

/// A text as JSON.
fn text(text: &str) -> Vec<u8> {
    // A text always is JSON.
    serde_json::to_vec(text).unwrap_or_default()
}

/// The rows of a batch as objects.
#[derive(Clone, Copy)]
struct Row<'a> {
    cells: &'a [Encoded],
    layout: &'a Layout,
}

impl Row<'_> {
    fn put(self, row: usize, out: &mut Vec<u8>) {
        self.put_columns(row, 0..self.cells.len(), out);
    }

    /// The values of `row` that `other` does not have.
    fn put_differences(self, row: usize, other: usize, out: &mut Vec<u8>) {
        let differ = |at: &usize| self.cells[*at].get(row) != self.cells[*at].get(other);
        self.put_columns(row, (0..self.cells.len()).filter(differ), out);
    }

    fn put_columns(self, row: usize, columns: impl Iterator<Item = usize>, out: &mut Vec<u8>) {
        out.push(b'{');
        for (count, at) in columns.enumerate() {
            if count > 0 {
                out.push(b',');
            }
            out.extend_from_slice(&self.layout.names[at]);
            let value = self.cells[at].get(row);
            match self.layout.wraps[at] {
                Wrap::Quote if value != b"null" && !value.starts_with(b"\"") => {
                    out.push(b'"');
                    out.extend_from_slice(value);
                    out.push(b'"');
                }
                Wrap::Text if value != b"null" => {
                    let json = std::str::from_utf8(value).unwrap_or_default();
                    // Writing a text into memory does not fail.
                    drop(serde_json::to_writer(&mut *out, json));
                }
                _ => out.extend_from_slice(value),
            }
        }
        out.push(b'}');
    }
}

fn debezium(row: Row<'_>, events: &[Event], facts: &Facts<'_>, schema: bool, out: &mut Encoded) {
    let (db, namespace) = match facts.table.database.split_once('.') {
        Some((db, namespace)) => (db, text(namespace)),
        None => (facts.table.database.as_str(), b"null".to_vec()),
    };
    let now = facts.now.to_string();
    let tail = [
        b",\"source\":{\"version\":".as_slice(),
        &text(env!("CARGO_PKG_VERSION")),
        b",\"connector\":\"connector-kafka\",\"name\":",
        &text(facts.pipeline),
        b",\"ts_ms\":",
        now.as_bytes(),
        b",\"snapshot\":\"false\",\"db\":",
        &text(db),
        b",\"schema\":",
        &namespace,
        b",\"table\":",
        &text(&facts.table.table),
        b"},\"op\":\"",
    ]
    .concat();
    let end = format!("\",\"ts_ms\":{now}}}");
    for event in events {
        let (before, after, op) = match *event {
            Event::Insert(row) => (None, Some(row), b'c'),
            Event::Update { before, after } => (before, Some(after), b'u'),
            Event::Delete(row) => (Some(row), None, b'd'),
        };
        let image = |place: Option<usize>, bytes: &mut Vec<u8>| match place {
            Some(place) => row.put(place, bytes),
            None => bytes.extend_from_slice(b"null"),
        };
        out.push(|bytes| {
            if schema {
                bytes.extend_from_slice(b"{\"schema\":");
                bytes.extend_from_slice(&row.layout.types);
                bytes.extend_from_slice(b",\"payload\":");
            }
            bytes.extend_from_slice(b"{\"before\":");
            image(before, bytes);
            bytes.extend_from_slice(b",\"after\":");
            image(after, bytes);
            bytes.extend_from_slice(&tail);
            bytes.push(op);
            bytes.extend_from_slice(end.as_bytes());
            if schema {
                bytes.push(b'}');
            }
        });
    }
}

fn canal(row: Row<'_>, events: &[Event], facts: &Facts<'_>, messages: &mut u64, out: &mut Encoded) {
    let key = if facts.key.is_empty() {
        b"null".to_vec()
    } else {
        serde_json::to_vec(facts.key).unwrap_or_default()
    };
    let now = facts.now.to_string();
    let middle = [
        b"],\"database\":".as_slice(),
        &text(&facts.table.database),
        b",\"es\":",
        now.as_bytes(),
        b",\"id\":",
    ]
    .concat();
    let types = [b",\"isDdl\":false,\"mysqlType\":".as_slice(), &row.layout.types, b",\"old\":"].concat();
    let tail = [
        b",\"pkNames\":".as_slice(),
        &key,
        b",\"sql\":\"\",\"sqlType\":",
        &row.layout.numbers,
        b",\"table\":",
        &text(&facts.table.table),
        b",\"ts\":",
        now.as_bytes(),
        b",\"type\":\"",
    ]
    .concat();
    for event in events {
        *messages += 1;
        let (data, kind) = match *event {
            Event::Insert(row) => (row, "INSERT"),
            Event::Update { after, .. } => (after, "UPDATE"),
            Event::Delete(row) => (row, "DELETE"),
        };
        out.push(|bytes| {
            bytes.extend_from_slice(b"{\"data\":[");
            row.put(data, bytes);
            bytes.extend_from_slice(&middle);
            // Writing into memory does not fail.
            drop(write!(bytes, "{messages}"));
            bytes.extend_from_slice(&types);
            match *event {
                Event::Update { before: Some(before), after } => {
                    bytes.push(b'[');
                    row.put_differences(before, after, bytes);
                    bytes.push(b']');
                }
                _ => bytes.extend_from_slice(b"null"),
            }
            bytes.extend_from_slice(&tail);
            bytes.extend_from_slice(kind.as_bytes());
            bytes.extend_from_slice(b"\"}");
        });
    }
}

fn maxwell(row: Row<'_>, events: &[Event], facts: &Facts<'_>, out: &mut Encoded) {
    let head = [
        b"{\"database\":".as_slice(),
        &text(&facts.table.database),
        b",\"table\":",
        &text(&facts.table.table),
        b",\"type\":\"",
    ]
    .concat();
    let middle = format!("\",\"ts\":{},\"data\":", facts.now.div_euclid(1000));
    for event in events {
        let (data, kind) = match *event {
            Event::Insert(row) => (row, "insert"),
            Event::Update { after, .. } => (after, "update"),
            Event::Delete(row) => (row, "delete"),
        };
        out.push(|bytes| {
            bytes.extend_from_slice(&head);
            bytes.extend_from_slice(kind.as_bytes());
            bytes.extend_from_slice(middle.as_bytes());
            row.put(data, bytes);
            if let Event::Update { before: Some(before), after } = *event {
                bytes.extend_from_slice(b",\"old\":");
                row.put_differences(before, after, bytes);
            }
            bytes.push(b'}');
        });
    }
}
