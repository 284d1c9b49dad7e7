//! Rows and Debezium's events in Avro, by the schemas of a registry.

use std::sync::Arc;

use connector_core::{RowKind, arrow::datatypes::Fields};
use hashbrown::HashMap;

use super::{
    Dialect,
    debezium::{self, Event, Op, fingerprint},
    decoder::{ChangeDecoder, Layout, Ready, cursor_at},
    types::folded,
};
use crate::{
    format::{
        avro::{AvroSchema, Bytes, FRAME, Reading, RecordField, Writer, columns, schema_number, skip},
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
    /// The columns of the rows, and what tells them apart.
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
    /// The record that is being read, as text.
    text: Vec<u8>,
}

impl Schemas {
    pub(super) fn new(registry: SchemaRegistry) -> Self {
        Self { registry, known: HashMap::new(), last: None, text: Vec::new() }
    }
}

/// Takes one record.
pub(super) fn decode(
    decoder: &mut ChangeDecoder,
    key: Option<&[u8]>,
    value: &[u8],
) -> Result<Taken, JsonError> {
    let mut text =
        decoder.schemas.as_mut().map(|schemas| std::mem::take(&mut schemas.text)).unwrap_or_default();
    text.clear();
    let taken = read(decoder, value, &mut text).map_err(|fault| fault.into_error(value)).and_then(
        |(known, event)| {
            // From here on the record is its text.
            let bytes = text.as_slice();
            let taken = simdutf8::basic::from_utf8(bytes)
                .map_err(|_| Fault::syntax(0, "text in UTF-8"))
                .and_then(|text| take(decoder, &known, &event, key, text, value.len()));
            taken.map_err(|fault| fault.into_error(bytes))
        },
    );
    if let Some(schemas) = &mut decoder.schemas {
        schemas.text = text;
    }
    taken
}

/// Turns a record into text. With the places of its parts, where it is an event.
fn read(decoder: &mut ChangeDecoder, value: &[u8], text: &mut Vec<u8>) -> Result<(Arc<Known>, Event), Fault> {
    let number = schema_number(value)?;
    let known = known(decoder, number)?;
    let mut bytes = Bytes::new(value, FRAME);
    let mut writer = Writer::new(text, value.len());
    let mut event = Event::default();
    if known.parts.is_empty() {
        writer.value(&known.schema, known.schema.root(), &mut bytes)?;
    } else {
        let fields = known.schema.record(known.schema.root()).unwrap_or_default();
        for (field, part) in fields.iter().zip(&known.parts) {
            read_part(decoder, &known.schema, (field, *part), &mut bytes, &mut writer, &mut event)
                .map_err(|fault| fault.in_field(&field.name))?;
        }
    }
    bytes.end()?;
    Ok((known, event))
}

fn read_part(
    decoder: &ChangeDecoder,
    schema: &AvroSchema,
    (field, part): (&RecordField, Part),
    bytes: &mut Bytes<'_>,
    writer: &mut Writer<'_>,
    event: &mut Event,
) -> Result<(), Fault> {
    if part == Part::Other || part == Part::Source && !decoder.needs_name() {
        return skip(schema, field.node, bytes, 1);
    }
    let at = writer.len();
    writer.value(schema, field.node, bytes)?;
    let place = Some(at).filter(|_| writer.since(at) != b"null");
    match part {
        Part::Before => event.before = place,
        Part::After => event.after = place,
        Part::Source => event.source = place,
        Part::Op if place.is_some() => {
            let name = writer.since(at).strip_prefix(b"\"").and_then(|name| name.strip_suffix(b"\""));
            event.op = Some(Op::named(name.unwrap_or_default()).ok_or_else(|| Op::unknown(0))?);
        }
        Part::Op | Part::Other => {}
    }
    Ok(())
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
    let fields = if is_event {
        let row = part("after").or_else(|| part("before"));
        row.map_or_else(Fields::empty, |row| columns(&schema, row.node, Reading::Connect, decoder.fold()))
    } else {
        columns(&schema, schema.root(), Reading::Plain, decoder.fold())
    };
    let parts = whole.iter().filter(|_| is_event).map(|field| match field.name.as_str() {
        "before" => Part::Before,
        "after" => Part::After,
        "op" => Part::Op,
        "source" => Part::Source,
        _ => Part::Other,
    });
    let parts = parts.collect();
    let fingerprint = fingerprint(&fields);
    Ok(Known { number, fields, fingerprint, parts, schema })
}

fn take(
    decoder: &mut ChangeDecoder,
    known: &Known,
    event: &Event,
    key: Option<&[u8]>,
    text: &str,
    bytes: usize,
) -> Result<Taken, Fault> {
    match (decoder.format.dialect, event.op) {
        (Dialect::DebeziumAvro, None) if known.parts.is_empty() => debezium::decode(decoder, key, text),
        (Dialect::DebeziumAvro, _) => debezium::take(decoder, event, key, text, bytes, |decoder, index| {
            decoder.prepare_by(index, known.fingerprint, event.payload, |decoder| {
                let key = match key {
                    Some(key) => key_names(decoder, key)?,
                    None => Vec::new(),
                };
                Ok(Layout { fingerprint: known.fingerprint, fields: known.fields.clone(), key })
            })
        }),
        _ => {
            let index = decoder.home();
            let ready = decoder.prepare_by(index, known.fingerprint, 0, |_| {
                Ok(Layout { fingerprint: known.fingerprint, fields: known.fields.clone(), key: Vec::new() })
            })?;
            if ready == Ready::HandOver {
                return Ok(Taken::Changes { again: true });
            }
            decoder.rows(index, bytes)?.push(RowKind::Insert, &mut cursor_at(text, 0))?;
            Ok(decoder.settle(index, bytes))
        }
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
