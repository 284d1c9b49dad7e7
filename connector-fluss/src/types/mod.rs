//! Fluss's types and Arrow's: which is which, and rows in the exact types of a table.

mod exact;
mod partition;

use std::{collections::HashMap, sync::Arc};

use connector_core::{
    Error, ErrorKind, Result,
    arrow::datatypes::{DataType as ArrowType, Field, Schema as ArrowSchema, SchemaRef, TimeUnit},
    schema::metadata,
};
use fluss::metadata::{
    ArrayType, BigIntType, BinaryType, BooleanType, BytesType, CharType, DataField, DataType, DateType,
    DecimalType, DoubleType, FloatType, IntType, MapType, RowType, SmallIntType, StringType, TimeType,
    TimestampLTzType, TimestampType, TinyIntType,
};

pub(crate) use self::{
    exact::{Missing, Target},
    partition::{Partitioner, Values as PartitionValues},
};
use crate::error::from_client;

/// The Arrow columns of a table, with what Arrow's types cannot say in the fields' metadata.
pub(crate) fn arrow_schema(row: &RowType, comments: &HashMap<&str, &str>) -> Result<SchemaRef> {
    let plain = fluss::record::to_arrow_schema(row).map_err(|e| from_client(&e))?;
    let fields = plain.fields().iter().zip(row.fields()).map(|(field, column)| {
        let mut facts = HashMap::from([(metadata::SOURCE_TYPE.to_owned(), type_name(column.data_type()))]);
        if let Some((key, value)) = length_or_precision(column.data_type()) {
            facts.insert(key.to_owned(), value.to_string());
        }
        if let Some(comment) = comments.get(column.name()) {
            facts.insert(metadata::COMMENT.to_owned(), (*comment).to_owned());
        }
        field.as_ref().clone().with_metadata(facts)
    });
    Ok(Arc::new(ArrowSchema::new(fields.collect::<Vec<_>>())))
}

/// The type without `NOT NULL`, which the field says by itself.
fn type_name(data_type: &DataType) -> String {
    let text = data_type.to_string();
    text.strip_suffix(" NOT NULL").unwrap_or(&text).to_owned()
}

fn length_or_precision(data_type: &DataType) -> Option<(&'static str, usize)> {
    let size = |value: u32| usize::try_from(value).unwrap_or(usize::MAX);
    Some(match data_type {
        DataType::Char(char) => (metadata::LENGTH, size(char.length())),
        DataType::Binary(binary) => (metadata::LENGTH, binary.length()),
        DataType::Time(time) => (metadata::PRECISION, size(time.precision())),
        DataType::Timestamp(time) => (metadata::PRECISION, size(time.precision())),
        DataType::TimestampLTz(time) => (metadata::PRECISION, size(time.precision())),
        _ => return None,
    })
}

/// The Fluss type that holds every value of an Arrow column exactly.
///
/// # Errors
/// `SchemaMismatch` naming the column, where Fluss has no such type.
pub(crate) fn fluss_type(field: &Field) -> Result<DataType> {
    let nullable = field.is_nullable();
    let cannot = |what: String| {
        Error::new(ErrorKind::SchemaMismatch, format!("Fluss has no type for {what}"))
            .with_context("column", field.name())
    };
    let client = |error: fluss::error::Error| from_client(&error).with_context("column", field.name());
    let precision = |of_unit: u32| {
        let told = field.metadata().get(metadata::PRECISION).and_then(|text| text.parse::<u32>().ok());
        told.filter(|told| unit_of(*told) == unit_of(of_unit)).unwrap_or(of_unit)
    };
    Ok(match field.data_type() {
        ArrowType::Boolean => DataType::Boolean(BooleanType::with_nullable(nullable)),
        ArrowType::Int8 => DataType::TinyInt(TinyIntType::with_nullable(nullable)),
        ArrowType::Int16 | ArrowType::UInt8 => DataType::SmallInt(SmallIntType::with_nullable(nullable)),
        ArrowType::Int32 | ArrowType::UInt16 => DataType::Int(IntType::with_nullable(nullable)),
        ArrowType::Int64 | ArrowType::UInt32 => DataType::BigInt(BigIntType::with_nullable(nullable)),
        ArrowType::UInt64 => DataType::Decimal(DecimalType::with_nullable(nullable, 20, 0).map_err(client)?),
        ArrowType::Float16 | ArrowType::Float32 => DataType::Float(FloatType::with_nullable(nullable)),
        ArrowType::Float64 => DataType::Double(DoubleType::with_nullable(nullable)),
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => text_type(field),
        ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView => {
            DataType::Bytes(BytesType::with_nullable(nullable))
        }
        ArrowType::FixedSizeBinary(length) => {
            let length =
                usize::try_from(*length).map_err(|_| cannot("bytes of a negative length".to_owned()))?;
            DataType::Binary(BinaryType::with_nullable(nullable, length))
        }
        ArrowType::Decimal32(p, s)
        | ArrowType::Decimal64(p, s)
        | ArrowType::Decimal128(p, s)
        | ArrowType::Decimal256(p, s) => {
            let scale = u32::try_from(*s).map_err(|_| cannot("decimals of a negative scale".to_owned()))?;
            DataType::Decimal(DecimalType::with_nullable(nullable, u32::from(*p), scale).map_err(client)?)
        }
        ArrowType::Date32 | ArrowType::Date64 => DataType::Date(DateType::with_nullable(nullable)),
        ArrowType::Time32(unit) | ArrowType::Time64(unit) => {
            DataType::Time(TimeType::with_nullable(nullable, precision(digits(*unit))).map_err(client)?)
        }
        ArrowType::Timestamp(unit, None) => DataType::Timestamp(
            TimestampType::with_nullable(nullable, precision(digits(*unit))).map_err(client)?,
        ),
        ArrowType::Timestamp(unit, Some(_)) => DataType::TimestampLTz(
            TimestampLTzType::with_nullable(nullable, precision(digits(*unit))).map_err(client)?,
        ),
        ArrowType::List(item) | ArrowType::LargeList(item) | ArrowType::FixedSizeList(item, _) => {
            DataType::Array(ArrayType::with_nullable(nullable, fluss_type(item)?))
        }
        ArrowType::Map(entries, _) => match entries.data_type() {
            ArrowType::Struct(fields) if fields.len() == 2 => {
                let key = fluss_type(&fields[0].as_ref().clone().with_nullable(false))?;
                DataType::Map(MapType::with_nullable(nullable, key, fluss_type(&fields[1])?))
            }
            other => return Err(cannot(format!("a map of {other}"))),
        },
        ArrowType::Struct(fields) => {
            let fields = fields
                .iter()
                .map(|inner| Ok(DataField::new(inner.name(), fluss_type(inner)?, None)))
                .collect::<Result<Vec<_>>>()?;
            DataType::Row(RowType::with_nullable(nullable, fields))
        }
        ArrowType::Dictionary(_, value) => fluss_type(&field.clone().with_data_type(value.as_ref().clone()))?,
        other => return Err(cannot(other.to_string())),
    })
}

fn text_type(field: &Field) -> DataType {
    let facts = field.metadata();
    let length = facts.get(metadata::LENGTH).and_then(|text| text.parse::<u32>().ok());
    match (facts.get(metadata::SOURCE_TYPE), length) {
        (Some(name), Some(length)) if name.starts_with("CHAR(") && length > 0 => {
            DataType::Char(CharType::with_nullable(length, field.is_nullable()))
        }
        _ => DataType::String(StringType::with_nullable(field.is_nullable())),
    }
}

fn digits(unit: TimeUnit) -> u32 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

/// Fluss keeps all precisions of one Arrow unit alike.
fn unit_of(precision: u32) -> u32 {
    precision.div_ceil(3)
}

#[cfg(test)]
mod tests {
    use fluss::metadata::DataTypes;

    use super::*;

    fn row() -> RowType {
        let columns = [
            ("a", DataTypes::boolean()),
            ("b", DataTypes::tinyint()),
            ("c", DataTypes::smallint()),
            ("d", DataTypes::int()),
            ("e", DataTypes::bigint().as_non_nullable()),
            ("f", DataTypes::float()),
            ("g", DataTypes::double()),
            ("h", DataTypes::char(3)),
            ("i", DataTypes::string()),
            ("j", DataTypes::decimal(38, 10)),
            ("k", DataTypes::date()),
            ("l", DataTypes::time_with_precision(0)),
            ("m", DataTypes::time_with_precision(2)),
            ("n", DataTypes::timestamp_with_precision(1)),
            ("o", DataTypes::timestamp_with_precision(9)),
            ("p", DataTypes::timestamp_ltz_with_precision(6)),
            ("q", DataTypes::bytes()),
            ("r", DataTypes::binary(4)),
            ("s", DataTypes::array(DataTypes::int().as_non_nullable())),
            ("t", DataTypes::map(DataTypes::string().as_non_nullable(), DataTypes::decimal(5, 2))),
            (
                "u",
                DataTypes::row(vec![DataField::new("x", DataTypes::timestamp_ltz_with_precision(3), None)]),
            ),
        ];
        RowType::new(columns.into_iter().map(|(name, kind)| DataField::new(name, kind, None)).collect())
    }

    #[test]
    fn every_type_comes_back_from_arrow_as_it_was() {
        let row = row();
        let schema = arrow_schema(&row, &HashMap::from([("e", "the key")])).unwrap();
        for (field, column) in schema.fields().iter().zip(row.fields()) {
            assert_eq!(fluss_type(field).unwrap().to_string(), column.data_type().to_string(), "{field}");
        }
        let key = schema.field(4);
        assert_eq!(key.metadata()[metadata::SOURCE_TYPE], "BIGINT");
        assert_eq!(key.metadata()[metadata::COMMENT], "the key");
        assert!(!key.is_nullable());
    }

    #[test]
    fn other_arrow_types_have_an_exact_home_or_none() {
        let field = |kind: ArrowType| Field::new("x", kind, true);
        let cases = [
            (ArrowType::UInt8, "SMALLINT"),
            (ArrowType::UInt16, "INT"),
            (ArrowType::UInt32, "BIGINT"),
            (ArrowType::UInt64, "DECIMAL(20, 0)"),
            (ArrowType::LargeUtf8, "STRING"),
            (ArrowType::Utf8View, "STRING"),
            (ArrowType::BinaryView, "BYTES"),
            (ArrowType::Date64, "DATE"),
            (ArrowType::Decimal256(38, 2), "DECIMAL(38, 2)"),
            (ArrowType::Timestamp(TimeUnit::Millisecond, Some("Asia/Shanghai".into())), "TIMESTAMP_LTZ(3)"),
            (ArrowType::Dictionary(Box::new(ArrowType::Int32), Box::new(ArrowType::Utf8)), "STRING"),
        ];
        for (kind, expected) in cases {
            assert_eq!(fluss_type(&field(kind.clone())).unwrap().to_string(), expected, "{kind}");
        }
        for kind in [
            ArrowType::Null,
            ArrowType::Duration(TimeUnit::Second),
            ArrowType::Decimal256(60, 2),
            ArrowType::Decimal128(5, -2),
        ] {
            let error = fluss_type(&field(kind.clone())).unwrap_err();
            assert_eq!(error.context_value("column"), Some("x"), "{kind}: {error}");
        }
    }
}
