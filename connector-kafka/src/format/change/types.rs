//! Types of columns: MySQL's by their names, Kafka Connect's by their schemas.

use std::{collections::HashMap, sync::Arc};

use connector_core::{
    arrow::datatypes::{DataType, Field, Fields, TimeUnit},
    schema::metadata::SOURCE_TYPE,
};
use serde_json::Value;

use crate::format::json::{SCALE, fold_case};

/// The most digits of each decimal type of Arrow.
const DECIMAL128: u8 = 38;
pub(in crate::format) const DECIMAL256: u8 = 76;
/// Kafka Connect's name of decimals.
pub(in crate::format) const DECIMAL: &str = "org.apache.kafka.connect.data.Decimal";

/// A decimal of so many digits; text where no decimal has so many.
pub(in crate::format) fn decimal(precision: u32, scale: i32) -> DataType {
    match (u8::try_from(precision), i8::try_from(scale)) {
        (Ok(p @ 1..=DECIMAL128), Ok(s)) if s.unsigned_abs() <= p => DataType::Decimal128(p, s),
        (Ok(p @ 1..=DECIMAL256), Ok(s)) if s.unsigned_abs() <= p => DataType::Decimal256(p, s),
        _ => DataType::Utf8,
    }
}

fn timestamp(precision: u32, zoned: bool) -> DataType {
    let unit = if precision <= 3 { TimeUnit::Millisecond } else { TimeUnit::Microsecond };
    DataType::Timestamp(unit, zoned.then(|| "UTC".into()))
}

/// The type that a type of MySQL's has here, such as `int(11) unsigned` or `decimal(10,2)`.
pub(crate) fn mysql_type(text: &str) -> DataType {
    let lower = text.trim().to_ascii_lowercase();
    let name: String = lower.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    let arguments: Vec<u32> = lower
        .split_once('(')
        .and_then(|(_, rest)| rest.split_once(')'))
        .map(|(inner, _)| inner.split(',').filter_map(|number| number.trim().parse().ok()).collect())
        .unwrap_or_default();
    let first = arguments.first().copied();
    let unsigned = lower.contains("unsigned") || lower.contains("zerofill") || name == "serial";
    match (name.as_str(), unsigned) {
        ("bool" | "boolean", _) => DataType::Boolean,
        ("bit", _) if first.unwrap_or(1) == 1 => DataType::Boolean,
        ("bit", _) => DataType::UInt64,
        ("tinyint", false) => DataType::Int8,
        ("tinyint", true) => DataType::UInt8,
        ("smallint", false) => DataType::Int16,
        ("smallint", true) => DataType::UInt16,
        ("int" | "integer" | "mediumint", false) => DataType::Int32,
        ("int" | "integer" | "mediumint", true) => DataType::UInt32,
        ("bigint", false) => DataType::Int64,
        ("bigint" | "serial", true) => DataType::UInt64,
        ("year", _) => DataType::Int32,
        ("float", _) if first.unwrap_or(0) <= 24 => DataType::Float32,
        ("float" | "double" | "real", _) => DataType::Float64,
        ("decimal" | "numeric" | "dec" | "fixed", _) => {
            let scale = arguments.get(1).copied().unwrap_or(0);
            decimal(first.unwrap_or(10), i32::try_from(scale).unwrap_or(i32::MAX))
        }
        ("date", _) => DataType::Date32,
        ("time", _) => DataType::Time64(TimeUnit::Microsecond),
        ("datetime", _) => timestamp(first.unwrap_or(0), false),
        ("timestamp", _) => timestamp(first.unwrap_or(0), true),
        ("binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob", _) => DataType::Binary,
        // Text holds what no other type does, as it was written.
        _ => DataType::Utf8,
    }
}

/// A column with its type in the system that it comes from.
pub(super) fn column(name: &str, data_type: DataType, nullable: bool, source_type: Option<&str>) -> Field {
    let field = Field::new(name, data_type, nullable);
    match source_type {
        Some(text) => field.with_metadata(HashMap::from([(SOURCE_TYPE.to_owned(), text.to_owned())])),
        None => field,
    }
}

/// The name of a column, in lower case where case does not matter.
pub(in crate::format) fn folded(name: &str, fold: bool) -> String {
    if fold { fold_case(name).into_owned() } else { name.to_owned() }
}

/// The fields of a Connect struct; `None` where the schema is not one.
pub(super) fn connect_fields(schema: &Value, fold: bool) -> Option<Fields> {
    let fields = schema.get("fields")?.as_array()?;
    fields
        .iter()
        .map(|field| connect_field(field.get("field")?.as_str()?, field, fold))
        .collect::<Option<Vec<Field>>>()
        .map(Fields::from)
}

/// A field of a Connect schema. A type that is not known makes it text.
fn connect_field(name: &str, schema: &Value, fold: bool) -> Option<Field> {
    let optional = schema.get("optional").and_then(Value::as_bool).unwrap_or(false);
    let source_type = schema.get("name").and_then(Value::as_str);
    let parameters = schema.get("parameters");
    let parameter = |key: &str| parameters.and_then(|parameters| parameters.get(key)).and_then(Value::as_str);
    let scale = parameter("scale").and_then(|scale| scale.parse::<i32>().ok()).unwrap_or(0);
    let data_type = match source_type.and_then(named) {
        Some(data_type) => data_type,
        None if source_type == Some(DECIMAL) => {
            let precision = parameter("connect.decimal.precision").and_then(|digits| digits.parse().ok());
            // Without a precision only the widest type is sure to hold every value.
            decimal(precision.unwrap_or(u32::from(DECIMAL256)), scale)
        }
        None if source_type == Some("io.debezium.data.Bits") => DataType::Binary,
        None => connect_type(schema, fold)?,
    };
    let mut field = column(&folded(name, fold), data_type, optional, source_type);
    if source_type == Some(DECIMAL) {
        let mut metadata = field.metadata().clone();
        metadata.insert(SCALE.to_owned(), scale.to_string());
        field = field.with_metadata(metadata);
    }
    Some(field)
}

/// The types that a name tells and the plain type does not.
pub(in crate::format) fn named(name: &str) -> Option<DataType> {
    use TimeUnit::{Microsecond, Millisecond, Nanosecond};
    Some(match name {
        "io.debezium.time.Date" | "org.apache.kafka.connect.data.Date" => DataType::Date32,
        "io.debezium.time.Time" | "org.apache.kafka.connect.data.Time" => DataType::Time32(Millisecond),
        "io.debezium.time.MicroTime" => DataType::Time64(Microsecond),
        "io.debezium.time.NanoTime" => DataType::Time64(Nanosecond),
        "io.debezium.time.Timestamp" | "org.apache.kafka.connect.data.Timestamp" => {
            DataType::Timestamp(Millisecond, None)
        }
        "io.debezium.time.MicroTimestamp" => DataType::Timestamp(Microsecond, None),
        "io.debezium.time.NanoTimestamp" => DataType::Timestamp(Nanosecond, None),
        // Texts with a zone: the instant counts. Postgres and MySQL have microseconds.
        "io.debezium.time.ZonedTimestamp" => DataType::Timestamp(Microsecond, Some("UTC".into())),
        "io.debezium.data.VariableScaleDecimal" => DataType::Utf8,
        _ => return None,
    })
}

fn connect_type(schema: &Value, fold: bool) -> Option<DataType> {
    Some(match schema.get("type")?.as_str()? {
        "boolean" => DataType::Boolean,
        "int8" => DataType::Int8,
        "int16" => DataType::Int16,
        "int32" => DataType::Int32,
        "int64" => DataType::Int64,
        "float" | "float32" => DataType::Float32,
        "double" | "float64" => DataType::Float64,
        "bytes" => DataType::Binary,
        "array" => DataType::List(Arc::new(connect_field("item", schema.get("items")?, false)?)),
        "struct" => DataType::Struct(connect_fields(schema, fold)?),
        "map" if schema.pointer("/keys/type").and_then(Value::as_str) == Some("string") => {
            let value = connect_field("value", schema.get("values")?, false)?;
            let entries =
                Field::new_struct("entries", vec![Field::new("key", DataType::Utf8, false), value], false);
            DataType::Map(Arc::new(entries), false)
        }
        _ => DataType::Utf8,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn types_of_mysql() {
        let cases = [
            ("int(11)", DataType::Int32),
            ("INT UNSIGNED", DataType::UInt32),
            ("mediumint(8) unsigned zerofill", DataType::UInt32),
            ("bigint(20) unsigned", DataType::UInt64),
            ("tinyint(1)", DataType::Int8),
            ("decimal(10,2)", DataType::Decimal128(10, 2)),
            ("decimal(65,30)", DataType::Decimal256(65, 30)),
            ("numeric", DataType::Decimal128(10, 0)),
            ("datetime", DataType::Timestamp(TimeUnit::Millisecond, None)),
            ("datetime(6)", DataType::Timestamp(TimeUnit::Microsecond, None)),
            ("timestamp(3)", DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()))),
            ("bit(1)", DataType::Boolean),
            ("bit(8)", DataType::UInt64),
            ("float", DataType::Float32),
            ("double unsigned", DataType::Float64),
            ("varchar(255)", DataType::Utf8),
            ("enum('a(1)','b')", DataType::Utf8),
            ("json", DataType::Utf8),
            ("longblob", DataType::Binary),
            ("geometry", DataType::Utf8),
        ];
        for (text, expected) in cases {
            assert_eq!(mysql_type(text), expected, "{text}");
        }
    }

    #[test]
    fn fields_of_a_connect_schema() {
        let schema = json!({"type": "struct", "fields": [
            {"type": "int32", "optional": false, "field": "ID"},
            {"type": "bytes", "optional": true, "name": "org.apache.kafka.connect.data.Decimal",
             "parameters": {"scale": "2", "connect.decimal.precision": "10"}, "field": "amount"},
            {"type": "int64", "optional": true, "name": "io.debezium.time.MicroTimestamp", "field": "at"},
            {"type": "array", "items": {"type": "string", "optional": true}, "optional": true, "field": "tags"},
            {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal", "optional": true,
             "fields": [{"type": "int32", "field": "scale"}, {"type": "bytes", "field": "value"}], "field": "n"},
        ]});
        let fields = connect_fields(&schema, true).unwrap();
        let types: Vec<(&str, &DataType, bool)> =
            fields.iter().map(|f| (f.name().as_str(), f.data_type(), f.is_nullable())).collect();
        let tags = DataType::List(Arc::new(Field::new("item", DataType::Utf8, true)));
        assert_eq!(
            types,
            [
                ("id", &DataType::Int32, false),
                ("amount", &DataType::Decimal128(10, 2), true),
                ("at", &DataType::Timestamp(TimeUnit::Microsecond, None), true),
                ("tags", &tags, true),
                ("n", &DataType::Utf8, true),
            ]
        );
        assert_eq!(fields[1].metadata()[SCALE], "2");
    }
}
