//! Columns' types as change events tell them: Kafka Connect's schemas, MySQL's names and JDBC's numbers.

use connector_core::{
    Error, ErrorKind, Result,
    arrow::datatypes::{DataType, Field, Fields, TimeUnit},
    schema::metadata::SOURCE_TYPE,
};
use serde_json::{Map, Value, json};

use crate::format::change::mysql_type;

/// The schema part of Debezium's events of a table with these columns.
///
/// # Errors
/// `Unsupported` for a type that Connect has nothing for.
pub(super) fn envelope(fields: &Fields, topic: &str) -> Result<Value> {
    let row = |name: &str| -> Result<Value> {
        let mut row = structure(fields)?;
        row.insert("optional".to_owned(), true.into());
        row.insert("name".to_owned(), format!("{topic}.Value").into());
        row.insert("field".to_owned(), name.into());
        Ok(Value::Object(row))
    };
    let plain =
        |kind: &str, optional: bool, name: &str| json!({"type": kind, "optional": optional, "field": name});
    let source = json!({
        "type": "struct",
        "fields": [
            plain("string", false, "version"),
            plain("string", false, "connector"),
            plain("string", false, "name"),
            plain("int64", false, "ts_ms"),
            plain("string", true, "snapshot"),
            plain("string", false, "db"),
            plain("string", true, "schema"),
            plain("string", false, "table"),
        ],
        "optional": false,
        "name": "connector.kafka.Source",
        "field": "source",
    });
    Ok(json!({
        "type": "struct",
        "fields": [
            row("before")?,
            row("after")?,
            source,
            plain("string", false, "op"),
            plain("int64", true, "ts_ms"),
        ],
        "optional": false,
        "name": format!("{topic}.Envelope"),
    }))
}

fn structure(fields: &Fields) -> Result<Map<String, Value>> {
    let fields = fields.iter().map(|field| {
        let mut schema = connect(field)?;
        schema.insert("field".to_owned(), field.name().as_str().into());
        Ok(Value::Object(schema))
    });
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "struct".into());
    schema.insert("fields".to_owned(), Value::Array(fields.collect::<Result<_>>()?));
    Ok(schema)
}

fn connect(field: &Field) -> Result<Map<String, Value>> {
    use TimeUnit::{Microsecond, Nanosecond};
    let named = |kind: &str, name: &str| json!({"type": kind, "name": name, "version": 1});
    let decimal = |precision: u8, scale: i8| {
        json!({
            "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "version": 1,
            "parameters": {"scale": scale.to_string(), "connect.decimal.precision": precision.to_string()},
        })
    };
    let schema = match field.data_type() {
        DataType::Boolean => json!({"type": "boolean"}),
        DataType::Int8 => json!({"type": "int8"}),
        DataType::Int16 | DataType::UInt8 => json!({"type": "int16"}),
        DataType::Int32 | DataType::UInt16 => json!({"type": "int32"}),
        DataType::Int64 | DataType::UInt32 => json!({"type": "int64"}),
        DataType::UInt64 => decimal(20, 0),
        DataType::Float16 | DataType::Float32 => json!({"type": "float"}),
        DataType::Float64 => json!({"type": "double"}),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => json!({"type": "string"}),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            json!({"type": "bytes"})
        }
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => decimal(*precision, *scale),
        DataType::Date32 => named("int32", "io.debezium.time.Date"),
        DataType::Time32(_) => named("int32", "io.debezium.time.Time"),
        DataType::Time64(Nanosecond) => named("int64", "io.debezium.time.NanoTime"),
        DataType::Time64(_) => named("int64", "io.debezium.time.MicroTime"),
        DataType::Timestamp(_, Some(_)) => named("string", "io.debezium.time.ZonedTimestamp"),
        DataType::Timestamp(Nanosecond, None) => named("int64", "io.debezium.time.NanoTimestamp"),
        DataType::Timestamp(Microsecond, None) => named("int64", "io.debezium.time.MicroTimestamp"),
        DataType::Timestamp(_, None) => named("int64", "io.debezium.time.Timestamp"),
        DataType::List(item) | DataType::LargeList(item) => {
            json!({"type": "array", "items": Value::Object(connect(item)?)})
        }
        DataType::Struct(fields) => Value::Object(structure(fields)?),
        DataType::Map(entries, _) => map(entries).transpose()?.ok_or_else(|| unsupported(field))?,
        _ => return Err(unsupported(field)),
    };
    let Value::Object(mut schema) = schema else { return Err(unsupported(field)) };
    schema.insert("optional".to_owned(), field.is_nullable().into());
    Ok(schema)
}

fn map(entries: &Field) -> Option<Result<Value>> {
    let DataType::Struct(fields) = entries.data_type() else { return None };
    let [key, value] = &**fields else { return None };
    let texts = matches!(key.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    texts.then(|| {
        let keys = json!({"type": "string", "optional": false});
        Ok(json!({"type": "map", "keys": keys, "values": Value::Object(connect(value)?)}))
    })
}

fn unsupported(field: &Field) -> Error {
    let text = format!("`{}` is {}, which Kafka Connect has no type for", field.name(), field.data_type());
    Error::new(ErrorKind::Unsupported, text)
}

/// The type of MySQL's that a column would have, and its number among JDBC's types. A column that came from MySQL keeps the
/// name it had there.
pub(super) fn mysql(field: &Field) -> (String, i32) {
    let (name, number) = mysql_of(field.data_type());
    match field.metadata().get(SOURCE_TYPE) {
        Some(told) if mysql_type(told) == *field.data_type() && mysql_type(told) == mysql_type(&name) => {
            (told.clone(), number)
        }
        _ => (name, number),
    }
}

fn mysql_of(data_type: &DataType) -> (String, i32) {
    let (name, number) = match data_type {
        DataType::Boolean => ("bit(1)", -7),
        DataType::Int8 => ("tinyint", -6),
        DataType::UInt8 => ("tinyint unsigned", -6),
        DataType::Int16 => ("smallint", 5),
        DataType::UInt16 => ("smallint unsigned", 5),
        DataType::Int32 => ("int", 4),
        DataType::UInt32 => ("int unsigned", 4),
        DataType::Int64 => ("bigint", -5),
        DataType::UInt64 => ("bigint unsigned", -5),
        DataType::Float16 | DataType::Float32 => ("float", 7),
        DataType::Float64 => ("double", 8),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            // MySQL has no scale below nothing: such numbers are longer.
            let digits = i16::from(*precision) + i16::from((*scale).min(0).unsigned_abs());
            return (format!("decimal({digits},{})", (*scale).max(0)), 3);
        }
        DataType::Date32 => ("date", 91),
        DataType::Time32(TimeUnit::Second) => ("time", 92),
        DataType::Time32(_) => ("time(3)", 92),
        DataType::Time64(_) => ("time(6)", 92),
        DataType::Timestamp(TimeUnit::Second, None) => ("datetime", 93),
        DataType::Timestamp(TimeUnit::Millisecond, None) => ("datetime(3)", 93),
        DataType::Timestamp(_, None) => ("datetime(6)", 93),
        DataType::Timestamp(TimeUnit::Second, Some(_)) => ("timestamp", 93),
        DataType::Timestamp(TimeUnit::Millisecond, Some(_)) => ("timestamp(3)", 93),
        DataType::Timestamp(_, Some(_)) => ("timestamp(6)", 93),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            ("longblob", 2004)
        }
        nested if nested.is_nested() => ("json", 12),
        _ => ("longtext", 2005),
    };
    (name.to_owned(), number)
}
