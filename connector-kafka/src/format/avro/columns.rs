//! The columns that Avro schemas tell.

use std::{collections::HashMap, sync::Arc};

use connector_core::{
    arrow::datatypes::{DataType, Field, Fields, TimeUnit},
    schema::metadata::SOURCE_TYPE,
};

use super::schema::{AvroSchema, Node, NodeId, RecordField, Shape};
use crate::format::{
    change::types::{DECIMAL, DECIMAL256, decimal, folded, named},
    json::SCALE,
};

/// Whose names of types count where a type has two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::format) enum Reading {
    /// Avro's logical types: a timestamp is an instant.
    Plain,
    /// Kafka Connect's, as Debezium means them: a timestamp without a zone is a time on a wall clock.
    Connect,
}

/// The columns of rows of a type, their names in lower case with `fold`; none where it is no record.
pub(in crate::format) fn columns(schema: &AvroSchema, row: NodeId, reading: Reading, fold: bool) -> Fields {
    let mut columns = Columns { schema, reading, open: vec![schema.without_null(row).0] };
    columns.of(schema.record(row).unwrap_or_default(), fold)
}

struct Columns<'s> {
    schema: &'s AvroSchema,
    reading: Reading,
    /// Records that the type stands in.
    open: Vec<NodeId>,
}

impl<'s> Columns<'s> {
    fn of(&mut self, fields: &[RecordField], fold: bool) -> Fields {
        fields.iter().map(|field| self.field(&folded(&field.name, fold), field.node)).collect()
    }

    fn field(&mut self, name: &str, id: NodeId) -> Field {
        let (id, nullable) = self.schema.without_null(id);
        let node = self.schema.node(id);
        let (data_type, source_type) = match self.logical(node) {
            Some((data_type, source_type)) => (data_type, Some(source_type)),
            None => (self.plain(id, node), None),
        };
        let mut metadata = HashMap::new();
        if source_type == Some(DECIMAL) {
            metadata.insert(SCALE.to_owned(), node.notes.scale.to_string());
        }
        if let Some(source_type) = source_type {
            metadata.insert(SOURCE_TYPE.to_owned(), source_type.to_owned());
        }
        let nullable = nullable || matches!(node.shape, Shape::Null);
        Field::new(name, data_type, nullable).with_metadata(metadata)
    }

    /// The type that the notes beside a type tell, with the name by which its values are read.
    fn logical(&self, node: &'s Node) -> Option<(DataType, &'s str)> {
        let by_connect = || node.notes.connect_name.as_deref().and_then(|name| connect(node, name));
        let by_avro = || node.notes.logical.as_deref().and_then(|name| avro(node, name));
        match self.reading {
            Reading::Plain => by_avro().or_else(by_connect),
            Reading::Connect => by_connect().or_else(by_avro),
        }
    }

    fn plain(&mut self, id: NodeId, node: &Node) -> DataType {
        match &node.shape {
            Shape::Null => DataType::Null,
            Shape::Boolean => DataType::Boolean,
            Shape::Int => match node.notes.connect_type.as_deref() {
                Some("int8") => DataType::Int8,
                Some("int16") => DataType::Int16,
                _ => DataType::Int32,
            },
            Shape::Long => DataType::Int64,
            Shape::Float => DataType::Float32,
            Shape::Double => DataType::Float64,
            Shape::Bytes => DataType::Binary,
            Shape::Fixed(_) if node.is_uuid() => DataType::Utf8,
            Shape::Fixed(size) => match i32::try_from(*size) {
                Ok(size @ 1..) => DataType::FixedSizeBinary(size),
                _ => DataType::Binary,
            },
            // Text holds what no other type does, as its JSON.
            Shape::String | Shape::Enum(_) | Shape::Union(_) => DataType::Utf8,
            Shape::Array(items) => DataType::List(Arc::new(self.field("item", *items))),
            Shape::Map(values) => {
                let key = Field::new("key", DataType::Utf8, false);
                let entries = vec![key, self.field("value", *values)];
                DataType::Map(Arc::new(Field::new_struct("entries", entries, false)), false)
            }
            // No column holds itself, and none is made of nothing.
            Shape::Record(_) if self.open.contains(&id) => DataType::Utf8,
            Shape::Record(fields) if fields.is_empty() => DataType::Utf8,
            Shape::Record(fields) => {
                self.open.push(id);
                let fields = self.of(fields, false);
                self.open.pop();
                DataType::Struct(fields)
            }
        }
    }
}

/// The type of Kafka Connect's or Debezium's with this name; `None` for one whose values are as they are.
fn connect<'n>(node: &Node, name: &'n str) -> Option<(DataType, &'n str)> {
    if name == DECIMAL {
        // Connect's own precision is the one of the source; the other one is 64 where nobody knows it.
        let digits = node.notes.connect_precision.or(node.notes.precision).unwrap_or(u32::from(DECIMAL256));
        return Some((decimal(digits, node.notes.scale), name));
    }
    let fits = match name {
        "io.debezium.time.ZonedTimestamp" => matches!(node.shape, Shape::String),
        "io.debezium.data.VariableScaleDecimal" => matches!(node.shape, Shape::Record(_)),
        _ => matches!(node.shape, Shape::Int | Shape::Long),
    };
    named(name).filter(|_| fits).map(|data_type| (data_type, name))
}

/// The logical type of Avro's with this name, where it stands on a type that it may stand on, and the name by which
/// values are read.
fn avro(node: &Node, name: &str) -> Option<(DataType, &'static str)> {
    use TimeUnit::{Microsecond, Millisecond, Nanosecond};
    let instant = |unit| DataType::Timestamp(unit, Some("UTC".into()));
    let wall = |unit| DataType::Timestamp(unit, None);
    Some(match (&node.shape, name) {
        (Shape::Bytes | Shape::Fixed(_), "decimal") => {
            (decimal(node.notes.precision.unwrap_or(u32::from(DECIMAL256)), node.notes.scale), DECIMAL)
        }
        (Shape::Int, "date") => (DataType::Date32, "org.apache.kafka.connect.data.Date"),
        (Shape::Int, "time-millis") => (DataType::Time32(Millisecond), "org.apache.kafka.connect.data.Time"),
        (Shape::Long, "time-micros") => (DataType::Time64(Microsecond), "io.debezium.time.MicroTime"),
        (Shape::Long, "timestamp-millis") => (instant(Millisecond), "avro.timestamp-millis"),
        (Shape::Long, "timestamp-micros") => (instant(Microsecond), "avro.timestamp-micros"),
        (Shape::Long, "timestamp-nanos") => (instant(Nanosecond), "avro.timestamp-nanos"),
        (Shape::Long, "local-timestamp-millis") => (wall(Millisecond), "io.debezium.time.Timestamp"),
        (Shape::Long, "local-timestamp-micros") => (wall(Microsecond), "io.debezium.time.MicroTimestamp"),
        (Shape::Long, "local-timestamp-nanos") => (wall(Nanosecond), "io.debezium.time.NanoTimestamp"),
        _ => return None,
    })
}
