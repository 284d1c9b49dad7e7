//! Avro records straight into columns.
//!
//! A value whose column takes it as it is goes there without a detour; every other one becomes JSON, and is read by the rules
//! of those.

use connector_core::arrow::datatypes::Fields;
use hashbrown::HashMap;

use super::{
    schema::{AvroSchema, NodeId, RecordField, Shape},
    text::{Bytes, Writer, skip},
};
use crate::format::{
    change::types::folded,
    json::{
        JsonError, JsonErrorKind,
        column::{Column, Context, Given},
        cursor::Cursor,
        error::Fault,
        object::ObjectColumn,
    },
};

/// Which column each field of a record belongs to.
#[derive(Debug)]
pub(in crate::format) struct Plan {
    columns: Vec<Option<usize>>,
    /// Columns without a field, with their names.
    absent: Vec<(usize, String)>,
}

impl Plan {
    pub(in crate::format) fn new(record: &[RecordField], columns: &Fields, fold: bool) -> Self {
        let mut by_name: HashMap<String, usize> =
            columns.iter().enumerate().map(|(at, field)| (folded(field.name(), fold), at)).collect();
        // Of two fields whose names differ in case only the first counts.
        let places = record.iter().map(|field| by_name.remove(&folded(&field.name, fold))).collect();
        let absent = by_name.into_values().map(|at| (at, columns[at].name().clone())).collect();
        Self { columns: places, absent }
    }
}

/// A record that stands in some bytes.
#[derive(Debug)]
pub(in crate::format) struct Row<'a> {
    pub(in crate::format) schema: &'a AvroSchema,
    pub(in crate::format) record: NodeId,
    /// The record's bytes, and all around them.
    pub(in crate::format) bytes: Bytes<'a>,
    /// The field that it is the value of.
    pub(in crate::format) field: Option<&'static str>,
}

/// Where a row goes.
#[derive(Debug)]
pub(in crate::format) struct Into<'i> {
    pub(in crate::format) columns: &'i mut ObjectColumn,
    /// Holds texts for as long as they are read.
    pub(in crate::format) text: &'i mut Vec<u8>,
    pub(in crate::format) context: &'i mut Context,
    /// The most bytes of text that the row may take.
    pub(in crate::format) room: usize,
}

/// A value of a record.
enum Value<'a> {
    Null,
    Given(Given<'a>),
    /// One that is read as JSON.
    Other,
}

impl<'a> Row<'a> {
    /// Appends the row; where only its key counts (`sparse`), columns that cannot be null take nulls all the same. Tells where the
    /// record ends, and how many bytes of text its values took.
    ///
    /// # Errors
    /// The row is refused, and parts of it may stand in the columns.
    pub(in crate::format) fn append(
        &self,
        plan: &Plan,
        sparse: bool,
        mut into: Into<'_>,
    ) -> Result<(usize, usize), JsonError> {
        if sparse {
            into.columns.columns_mut().iter_mut().for_each(|column| column.set_sparse(true));
        }
        let filled = self.fill(plan, &mut into);
        if sparse {
            into.columns.columns_mut().iter_mut().for_each(|column| column.set_sparse(false));
        }
        let told = filled?;
        into.columns.end_row_of_columns();
        Ok(told)
    }

    fn fill(&self, plan: &Plan, into: &mut Into<'_>) -> Result<(usize, usize), JsonError> {
        let (mut bytes, mut texts) = (self.bytes.clone(), 0);
        let fields = self.schema.record(self.record).unwrap_or_default();
        let columns = into.columns.columns_mut();
        for (field, place) in fields.iter().zip(&plan.columns) {
            let column = place.and_then(|place| columns.get_mut(place));
            let appended = match column {
                Some(column) => self.value(field.node, column, &mut bytes, into.context),
                None => skip(self.schema, field.node, &mut bytes, 1).map(|()| None),
            };
            let start = match appended {
                Ok(None) => continue,
                Ok(Some(start)) => start,
                Err(fault) => return Err(self.refuse(fault, &field.name, &[])),
            };
            // Through its text.
            bytes = start.clone();
            into.text.clear();
            let written = Writer::new(into.text, start.len()).value(self.schema, field.node, &mut bytes);
            written.map_err(|fault| self.refuse(fault, &field.name, &[]))?;
            texts += into.text.len();
            let Some(column) = place.and_then(|place| columns.get_mut(place)) else { continue };
            let decoded = match simdutf8::basic::from_utf8(into.text) {
                Ok(_) if texts > into.room => Err(Fault::batch_full()),
                Ok(json) => column.decode(&mut Cursor::new(json), into.context),
                Err(_) => Err(Fault::syntax(0, "text in UTF-8")),
            };
            decoded.map_err(|fault| self.refuse(fault, &field.name, into.text).at(start.at()))?;
        }
        for (place, name) in &plan.absent {
            let taken = columns.get_mut(*place).map_or(Ok(()), Column::append_absent);
            taken.map_err(|()| self.refuse(Fault::absent(bytes.at()), name, &[]))?;
        }
        Ok((bytes.at(), texts))
    }

    /// Appends one value; where its text has to be read, none, and tells where it begins.
    #[inline]
    fn value(
        &self,
        node: NodeId,
        column: &mut Column,
        bytes: &mut Bytes<'a>,
        context: &Context,
    ) -> Result<Option<Bytes<'a>>, Fault> {
        let start = bytes.clone();
        match given(self.schema, node, bytes)? {
            Value::Null => column.append_absent().map(|()| None).map_err(|()| {
                let expected = "a value, as the column is not nullable";
                Fault::new(JsonErrorKind::MissingValue, start.at(), expected).showing("null")
            }),
            Value::Given(given) if column.take(given, context) => Ok(None),
            Value::Given(_) | Value::Other => Ok(Some(start)),
        }
    }

    /// The error for a value, of whose text the fault tells a place.
    #[cold]
    fn refuse(&self, fault: Fault, field: &str, text: &[u8]) -> JsonError {
        let fault = fault.in_field(field);
        match self.field {
            Some(outer) => fault.in_field(outer).into_error(text),
            None => fault.into_error(text),
        }
    }
}

/// Reads the value that stands next; where it is read as JSON, the place is anywhere in it.
#[inline]
fn given<'a>(schema: &'a AvroSchema, id: NodeId, bytes: &mut Bytes<'a>) -> Result<Value<'a>, Fault> {
    let node = schema.node(id);
    Ok(Value::Given(match &node.shape {
        Shape::Null => return Ok(Value::Null),
        Shape::Union(_) => {
            let branch = bytes.branch(schema, id)?;
            return given(schema, branch, bytes);
        }
        Shape::Boolean => Given::Boolean(bytes.boolean()?),
        Shape::Int => Given::Integer(bytes.int()?.into()),
        Shape::Long => Given::Integer(bytes.long()?),
        Shape::Float => Given::Float(bytes.float()?.into()),
        Shape::Double => Given::Float(bytes.double()?),
        Shape::String => Given::Text(bytes.string()?),
        Shape::Enum(symbols) => Given::Text(bytes.symbol(symbols)?),
        Shape::Bytes => Given::Bytes(bytes.bytes()?),
        Shape::Fixed(size) if !node.is_uuid() => Given::Bytes(bytes.take(*size)?),
        Shape::Fixed(_) | Shape::Array(_) | Shape::Map(_) | Shape::Record(_) => return Ok(Value::Other),
    }))
}
