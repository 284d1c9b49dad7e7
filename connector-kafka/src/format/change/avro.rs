//! Rows and Debezium's events in Avro, by the schemas of a registry.

use std::sync::Arc;

use connector_core::{RowKind, arrow::datatypes::Fields};
use hashbrown::HashMap;

use super::{
    Dialect,
    debezium::{self, Event, Op, fingerprint},
    decoder::{ChangeDecoder, Layout, Ready},
    types::folded,
};
use crate::{
    format::{
        avro::{AvroSchema, Bytes, FRAME, NodeId, Reading, Row, Shape, Writer, columns, schema_number, skip},
        json::{JsonError, JsonErrorKind, error::Fault},
        record::{Refusal, Taken},
    },
    schema_registry::{NoSchema, SchemaRegistry},
};

/// A schema that values were written by, and what follows from it.
#[derive(Debug)]
struct Known {
    number: u32,
    schema: Arc<AvroSchema>,
    /// The record that the rows are, their columns, and what tells them apart.
    row: NodeId,
    fields: Fields,
    fingerprint: u64,
    /// Where the parts of an event stand; empty where it is none.
    parts: Vec<Part>,
}

/// What a field of an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Before,
    After,
    Op,
    Source,
    /// Nothing that is needed.
    Other,
}

/// The schemas that the records of a split were written by.
#[derive(Debug)]
pub(super) struct Schemas {
    registry: SchemaRegistry,
    known: HashMap<u32, Arc<Known>>,
    /// That of the record before.
    last: Option<Arc<Known>>,
}

impl Schemas {
    pub(super) fn new(registry: SchemaRegistry) -> Self {
        Self { registry, known: HashMap::new(), last: None }
    }
}

/// Takes one record.
pub(super) fn decode(
    decoder: &mut ChangeDecoder,
    key: Option<&[u8]>,
    value: &[u8],
) -> Result<Taken, JsonError> {
    let taken = schema_number(value).and_then(|number| known(decoder, number)).and_then(|known| {
        match (decoder.format.dialect, known.parts.is_empty()) {
            (Dialect::DebeziumAvro, false) => event(decoder, &known, key, value),
            (Dialect::DebeziumAvro, true) => statement(decoder, &known, key, value),
            _ => row(decoder, &known, value),
        }
    });
    // What is at fault in a text was told before, with that text.
    taken.map_err(|fault| fault.or_showing("another record").into_error(value))
}

/// Takes a record that is a row.
fn row(decoder: &mut ChangeDecoder, known: &Known, value: &[u8]) -> Result<Taken, Fault> {
    let index = decoder.home();
    let ready = decoder.prepare_by(index, known.fingerprint, 0, |_| Ok(known.layout(Vec::new())))?;
    if ready == Ready::HandOver {
        return Ok(Taken::Changes { again: true });
    }
    let end = push(decoder, known, index, value, (RowKind::Insert, FRAME, None))?;
    Bytes::new(value, end).end()?;
    Ok(decoder.settle(index, value.len()))
}

/// Appends the row that stands at a place, and tells where it ends.
fn push(
    decoder: &mut ChangeDecoder,
    known: &Known,
    index: usize,
    value: &[u8],
    (kind, at, field): (RowKind, usize, Option<&'static str>),
) -> Result<usize, Fault> {
    // Of what is gone only the key counts.
    let sparse = matches!(kind, RowKind::Delete | RowKind::UpdateBefore);
    let row = Row { schema: &known.schema, record: known.row, bytes: Bytes::new(value, at), field };
    match decoder.rows(index, value.len())?.push_avro(kind, known.fingerprint, &row, sparse) {
        Ok(end) => Ok(end),
        Err(error) => Err(refused(decoder, error)),
    }
}

/// Keeps an error that knows its text; the fault only ends the record.
#[cold]
fn refused(decoder: &mut ChangeDecoder, error: JsonError) -> Fault {
    decoder.halt = Some(Refusal::Record(error));
    Fault::syntax(0, "a record that was not refused")
}

/// Takes an event.
fn event(
    decoder: &mut ChangeDecoder,
    known: &Known,
    key: Option<&[u8]>,
    value: &[u8],
) -> Result<Taken, Fault> {
    let mut source = Vec::new();
    let event = scan(decoder, known, value, &mut source)?;
    let source = std::str::from_utf8(&source).unwrap_or_default();
    let prepare = |decoder: &mut ChangeDecoder, index| {
        decoder.prepare_by(index, known.fingerprint, event.payload, |decoder| {
            let key = key.map_or(Ok(Vec::new()), |key| key_names(decoder, key))?;
            Ok(known.layout(key))
        })
    };
    debezium::take(decoder, &event, source, value.len(), prepare, |decoder, index, op| {
        let before_images = decoder.format.has_before_images();
        let mut push = |row| push(decoder, known, index, value, row).map(drop);
        match (op, event.before, event.after) {
            (Op::Delete, Some(before), _) => push((RowKind::Delete, before, Some("before"))),
            (Op::Delete, None, _) => debezium::push_key(decoder, index, key, event.payload, value.len()),
            (_, _, None) => Err(debezium::missing(event.payload, "after")),
            (Op::Update, before, Some(after)) => {
                if let Some(before) = before.filter(|_| before_images) {
                    push((RowKind::UpdateBefore, before, Some("before")))?;
                }
                push((RowKind::UpdateAfter, after, Some("after")))
            }
            (_, _, Some(after)) => push((RowKind::Insert, after, Some("after"))),
        }
    })
}

/// Finds the parts of an event, and writes its source as JSON, where that is needed.
fn scan(decoder: &ChangeDecoder, known: &Known, value: &[u8], source: &mut Vec<u8>) -> Result<Event, Fault> {
    let (mut bytes, schema, mut event) = (Bytes::new(value, FRAME), &*known.schema, Event::default());
    let fields = schema.record(schema.root()).unwrap_or_default();
    for (field, part) in fields.iter().zip(&known.parts) {
        scan_part(decoder, schema, (field.node, *part), &mut bytes, source, &mut event)
            .map_err(|fault| fault.in_field(&field.name))?;
    }
    bytes.end()?;
    Ok(event)
}

fn scan_part(
    decoder: &ChangeDecoder,
    schema: &AvroSchema,
    (node, part): (NodeId, Part),
    bytes: &mut Bytes<'_>,
    source: &mut Vec<u8>,
    event: &mut Event,
) -> Result<(), Fault> {
    let node = bytes.branch(schema, node)?;
    let is_null = matches!(schema.node(node).shape, Shape::Null);
    let place = Some(bytes.at()).filter(|_| !is_null);
    match part {
        Part::Before => event.before = place,
        Part::After => event.after = place,
        Part::Source if decoder.needs_name() && !is_null => {
            event.source = Some(0);
            return Writer::new(source, bytes.len()).value(schema, node, bytes);
        }
        Part::Op if matches!(schema.node(node).shape, Shape::String) => {
            let at = bytes.at();
            event.op = Some(
                Op::named(bytes.string()?.as_bytes()).ok_or_else(|| Op::unknown(at).showing("another"))?,
            );
            return Ok(());
        }
        _ => {}
    }
    skip(schema, node, bytes, 1)
}

/// Takes a message that is no event: one about a statement. They are few, so they are read in comfort.
#[cold]
fn statement(
    decoder: &mut ChangeDecoder,
    known: &Known,
    key: Option<&[u8]>,
    value: &[u8],
) -> Result<Taken, Fault> {
    let (mut bytes, mut text) = (Bytes::new(value, FRAME), Vec::new());
    Writer::new(&mut text, value.len()).value(&known.schema, known.schema.root(), &mut bytes)?;
    bytes.end()?;
    let text = String::from_utf8(text).map_err(|_| Fault::syntax(0, "text in UTF-8"))?;
    debezium::decode(decoder, key, &text).map_err(|fault| refused(decoder, fault.into_error(text.as_bytes())))
}

/// The schema of a number, from the record before, from those that were met, or from the registry.
#[inline]
fn known(decoder: &mut ChangeDecoder, number: u32) -> Result<Arc<Known>, Fault> {
    match decoder.schemas.as_ref().and_then(|schemas| schemas.last.as_ref()) {
        Some(last) if last.number == number => Ok(Arc::clone(last)),
        _ => find(decoder, number),
    }
}

#[cold]
fn find(decoder: &mut ChangeDecoder, number: u32) -> Result<Arc<Known>, Fault> {
    let met = decoder.schemas.as_ref().and_then(|schemas| schemas.known.get(&number)).cloned();
    let known = match met {
        Some(known) => known,
        None => {
            let schema = registered(decoder, number)?;
            Arc::new(understand(decoder, number, schema)?)
        }
    };
    if let Some(schemas) = &mut decoder.schemas {
        schemas.known.insert(number, Arc::clone(&known));
        schemas.last = Some(Arc::clone(&known));
    }
    Ok(known)
}

/// Asks the registry. Where it has no answer the decoder is told to halt.
fn registered(decoder: &mut ChangeDecoder, number: u32) -> Result<Arc<AvroSchema>, Fault> {
    const EXPECTED: &str = "a record whose schema is known";
    let Some(schemas) = &decoder.schemas else { return Err(Fault::syntax(0, EXPECTED)) };
    schemas.registry.schema(number).map_err(|missing| {
        let halt = match missing {
            NoSchema::Record(reason) => {
                let expected = format!("{EXPECTED}, and not {reason}");
                return Fault::new(JsonErrorKind::Unexpected, 0, expected).showing("its number");
            }
            NoSchema::Later(error) => Refusal::Later(error),
            NoSchema::Never(error) => Refusal::Fatal(error),
        };
        decoder.halt = Some(halt);
        Fault::syntax(0, EXPECTED)
    })
}

fn understand(decoder: &ChangeDecoder, number: u32, schema: Arc<AvroSchema>) -> Result<Known, Fault> {
    let whole = schema.record(schema.root()).unwrap_or_default();
    if whole.is_empty() {
        let expected = "a record whose schema is a record with fields";
        return Err(Fault::new(JsonErrorKind::Unexpected, 0, expected).showing("another type"));
    }
    let part = |name: &str| whole.iter().find(|field| field.name == name);
    let is_event = decoder.format.dialect == Dialect::DebeziumAvro && part("op").is_some();
    let (row, reading) =
        if is_event { (row_of(&schema)?, Reading::Connect) } else { (schema.root(), Reading::Plain) };
    let fields = columns(&schema, row, reading, decoder.fold());
    let parts = whole.iter().filter(|_| is_event).map(|field| match field.name.as_str() {
        "before" => Part::Before,
        "after" => Part::After,
        "op" => Part::Op,
        "source" => Part::Source,
        _ => Part::Other,
    });
    let parts = parts.collect();
    let fingerprint = fingerprint(&fields);
    Ok(Known { number, row, fields, fingerprint, parts, schema })
}

/// The record that the rows of an event are.
fn row_of(schema: &AvroSchema) -> Result<NodeId, Fault> {
    let expected = "an event whose `before` and `after` are records of one type";
    let fault = || Fault::new(JsonErrorKind::Unexpected, 0, expected).showing("another schema");
    let images = schema.record(schema.root()).unwrap_or_default().iter();
    let mut images = images
        .filter(|field| field.name == "before" || field.name == "after")
        .map(|field| schema.without_null(field.node).0);
    let row = images.next().ok_or_else(fault)?;
    if images.any(|other| other != row) { Err(fault()) } else { Ok(row) }
}

impl Known {
    fn layout(&self, key: Vec<String>) -> Layout {
        Layout { fingerprint: self.fingerprint, fields: self.fields.clone(), key }
    }
}

/// The columns of the key, by the schema of the record's key.
fn key_names(decoder: &mut ChangeDecoder, key: &[u8]) -> Result<Vec<String>, Fault> {
    let fold = decoder.fold();
    // The key may be written in another way than the value.
    let Ok(number) = schema_number(key) else { return Ok(debezium::key_names(key, fold)) };
    let schema = registered(decoder, number)?;
    let fields = schema.record(schema.root()).unwrap_or_default();
    Ok(fields.iter().map(|field| folded(&field.name, fold)).collect())
}

/// A record's key as text.
pub(super) fn key_text(decoder: &mut ChangeDecoder, key: &[u8]) -> Result<String, Fault> {
    let number = schema_number(key)?;
    let schema = registered(decoder, number)?;
    let (mut bytes, mut text) = (Bytes::new(key, FRAME), Vec::new());
    Writer::new(&mut text, key.len()).value(&schema, schema.root(), &mut bytes)?;
    bytes.end()?;
    String::from_utf8(text).map_err(|_| Fault::syntax(0, "text in UTF-8"))
}
