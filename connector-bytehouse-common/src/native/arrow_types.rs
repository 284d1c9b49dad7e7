//! Which Arrow type holds a column, and which column type holds an Arrow field.

use std::sync::Arc;

use connector_core::{
    Error, ErrorKind, Result,
    arrow::datatypes::{DataType, Field, Fields, TimeUnit},
    schema::metadata,
};

use super::types::{ChType, ColumnDef, TupleElement};

/// The digits of the largest 128-bit number.
pub(super) const INT128_DIGITS: u8 = 39;

/// The Arrow field that a column is read into.
///
/// | Column | Arrow |
/// | --- | --- |
/// | integers to 64 bits, floats, `Bool`, `Date`, `Date32` | their like; `BFloat16` as `Float32` |
/// | `Int128`, `UInt128` | `Decimal256(39, 0)` |
/// | `Int256`, `UInt256` | `FixedSizeBinary(32)`, low byte first: Arrow has no number that holds them all |
/// | `Decimal(p, s)` | `Decimal128(p, s)` to 38 digits, then `Decimal256(p, s)` |
/// | `String`, `JSON`, `Object('json')`, enums | `Utf8` |
/// | `FixedString(n)` | `FixedSizeBinary(n)` |
/// | `UUID`, `IPv6` | `FixedSizeBinary(16)`, in the order in which they are written |
/// | `IPv4` | `UInt32` |
/// | `DateTime` | `Timestamp(Second, zone)`; the zone is UTC where the column names none |
/// | `DateTime64(p)` | `Timestamp` in the next finer Arrow unit, zone as above |
/// | `Time`, `Time(s)`, `Time64(s)` | `Time32` or `Time64` in the next finer Arrow unit |
/// | `Interval…` | `Int64` |
/// | `Nothing` | `Null` |
/// | `LowCardinality(T)` | as `T` |
/// | `Array`, `Map`, `Tuple` | `List`, `Map`, `Struct`; elements without a name are called `1`, `2`, … |
///
/// The metadata key `connector.source_type` holds the type as the server wrote it.
///
/// # Errors
/// `Unsupported` for a type that this crate cannot read.
pub fn arrow_field(column: &ColumnDef) -> Result<Field> {
    column_field(column, false)
}

pub(super) fn column_field(column: &ColumnDef, strings_as_binary: bool) -> Result<Field> {
    let data_type =
        arrow_type(&column.ty, strings_as_binary).map_err(|e| e.with_context("column", &column.name))?;
    let nullable = holds_null(&column.ty);
    let source_type = (metadata::SOURCE_TYPE.to_owned(), column.type_text().to_owned());
    Ok(Field::new(&column.name, data_type, nullable).with_metadata([source_type].into()))
}

/// Whether the Arrow field of a type may hold null.
fn holds_null(ty: &ChType) -> bool {
    ty.is_nullable() || *ty == ChType::Nothing
}

fn inner_field(name: &str, ty: &ChType, strings_as_binary: bool) -> Result<Field> {
    Ok(Field::new(name, arrow_type(ty, strings_as_binary)?, holds_null(ty)))
}

pub(super) fn list_item(ty: &ChType, strings_as_binary: bool) -> Result<Field> {
    inner_field(Field::LIST_FIELD_DEFAULT_NAME, ty, strings_as_binary)
}

/// The key and value of a map's entries.
pub(super) fn entry_fields(key: &ChType, value: &ChType, strings_as_binary: bool) -> Result<Fields> {
    if holds_null(key) {
        let message = format!("a map with keys of type {key} cannot be read: Arrow's maps have no null keys");
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    Ok(Fields::from(vec![
        inner_field("key", key, strings_as_binary)?,
        inner_field("value", value, strings_as_binary)?,
    ]))
}

pub(super) fn element_fields(elements: &[TupleElement], strings_as_binary: bool) -> Result<Fields> {
    let field = |(i, element): (usize, &TupleElement)| {
        let name = element.name.clone().unwrap_or_else(|| (i + 1).to_string());
        inner_field(&name, &element.ty, strings_as_binary)
    };
    elements.iter().enumerate().map(field).collect::<Result<Vec<_>>>().map(Fields::from)
}

/// The Arrow unit that holds so many digits after the second.
pub(super) fn unit(digits: u8) -> TimeUnit {
    match digits {
        0 => TimeUnit::Second,
        1..=3 => TimeUnit::Millisecond,
        4..=6 => TimeUnit::Microsecond,
        _ => TimeUnit::Nanosecond,
    }
}

/// The type that holds the values of `ty`.
pub(super) fn arrow_type(ty: &ChType, strings_as_binary: bool) -> Result<DataType> {
    let zone = |zone: &Option<Arc<str>>| Some(zone.clone().unwrap_or_else(|| "UTC".into()));
    Ok(match ty {
        ChType::Nothing => DataType::Null,
        ChType::Bool => DataType::Boolean,
        ChType::Int8 => DataType::Int8,
        ChType::Int16 => DataType::Int16,
        ChType::Int32 => DataType::Int32,
        ChType::Int64 | ChType::Interval(_) => DataType::Int64,
        ChType::UInt8 => DataType::UInt8,
        ChType::UInt16 => DataType::UInt16,
        ChType::UInt32 | ChType::IPv4 => DataType::UInt32,
        ChType::UInt64 => DataType::UInt64,
        ChType::Int128 | ChType::UInt128 => DataType::Decimal256(INT128_DIGITS, 0),
        ChType::Int256 | ChType::UInt256 => DataType::FixedSizeBinary(32),
        ChType::BFloat16 | ChType::Float32 => DataType::Float32,
        ChType::Float64 => DataType::Float64,
        ChType::Decimal { precision, scale } => {
            let scale = i8::try_from(*scale).map_err(|_| unsupported(ty))?;
            if *precision <= 38 {
                DataType::Decimal128(*precision, scale)
            } else {
                DataType::Decimal256(*precision, scale)
            }
        }
        ChType::String if strings_as_binary => DataType::Binary,
        ChType::String | ChType::Json | ChType::Object | ChType::Enum8(_) | ChType::Enum16(_) => {
            DataType::Utf8
        }
        ChType::FixedString(width) => {
            DataType::FixedSizeBinary(i32::try_from(*width).map_err(|_| unsupported(ty))?)
        }
        ChType::Uuid | ChType::IPv6 => DataType::FixedSizeBinary(16),
        ChType::Date | ChType::Date32 => DataType::Date32,
        ChType::DateTime(name) => DataType::Timestamp(TimeUnit::Second, zone(name)),
        ChType::DateTime64(digits, name) => DataType::Timestamp(unit(*digits), zone(name)),
        ChType::Time => DataType::Time32(TimeUnit::Second),
        ChType::Time64 { scale: scale @ 0..=3, .. } => DataType::Time32(unit(*scale)),
        ChType::Time64 { scale, .. } => DataType::Time64(unit(*scale)),
        ChType::Nullable(inner) | ChType::LowCardinality(inner) => arrow_type(inner, strings_as_binary)?,
        ChType::Array(inner) => DataType::List(Arc::new(list_item(inner, strings_as_binary)?)),
        ChType::Map(key, value) => {
            let entries = DataType::Struct(entry_fields(key, value, strings_as_binary)?);
            DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
        }
        ChType::Tuple(elements) => DataType::Struct(element_fields(elements, strings_as_binary)?),
        ChType::Unknown(_) => return Err(unsupported(ty)),
    })
}

fn unsupported(ty: &ChType) -> Error {
    Error::new(ErrorKind::Unsupported, format!("columns of type {ty} can be neither read nor written here"))
}

/// The column type that holds an Arrow field, as ByteHouse would be told in a `CREATE TABLE`.
///
/// Nullable fields become `Nullable(…)`, except arrays, maps and tuples, which cannot be. A dictionary of
/// texts becomes `LowCardinality(…)`, a time of day `Time(s)` (an open-source ClickHouse calls it `Time64(s)`), a duration a plain
/// `Int64` in the field's unit. Timestamps in seconds become `DateTime`, finer ones `DateTime64`, with the precision
/// that the metadata key `connector.precision` gives if it gives one.
///
/// # Errors
/// `Unsupported` for unions, intervals and decimals of more than 76 digits.
pub fn ch_type_for(field: &Field) -> Result<ChType> {
    let precision = field.metadata().get(metadata::PRECISION).and_then(|digits| digits.parse().ok());
    let ty = plain_type_for(field.data_type(), precision.filter(|digits| *digits <= 9))
        .map_err(|e| e.with_context("column", field.name()))?;
    Ok(if field.is_nullable() { ty.into_nullable() } else { ty })
}

fn plain_type_for(data_type: &DataType, precision: Option<u8>) -> Result<ChType> {
    let digits = |unit: &TimeUnit| {
        precision.unwrap_or(match unit {
            TimeUnit::Second => 0,
            TimeUnit::Millisecond => 3,
            TimeUnit::Microsecond => 6,
            TimeUnit::Nanosecond => 9,
        })
    };
    Ok(match data_type {
        DataType::Null => ChType::Nothing.into_nullable(),
        DataType::Boolean => ChType::Bool,
        DataType::Int8 => ChType::Int8,
        DataType::Int16 => ChType::Int16,
        DataType::Int32 => ChType::Int32,
        DataType::Int64 | DataType::Duration(_) => ChType::Int64,
        DataType::UInt8 => ChType::UInt8,
        DataType::UInt16 => ChType::UInt16,
        DataType::UInt32 => ChType::UInt32,
        DataType::UInt64 => ChType::UInt64,
        DataType::Float16 | DataType::Float32 => ChType::Float32,
        DataType::Float64 => ChType::Float64,
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => decimal(*p, *s).ok_or_else(|| no_column_type(data_type))?,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => ChType::String,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => ChType::String,
        DataType::FixedSizeBinary(width) => match usize::try_from(*width) {
            Ok(width @ 1..) => ChType::FixedString(width),
            _ => return Err(no_column_type(data_type)),
        },
        DataType::Date32 | DataType::Date64 => ChType::Date32,
        DataType::Timestamp(unit, zone) => {
            // Offsets such as +08:00 are no zones to a server.
            let zone = zone.clone().filter(|zone| !zone.starts_with(['+', '-']));
            match digits(unit) {
                0 => ChType::DateTime(zone),
                digits => ChType::DateTime64(digits, zone),
            }
        }
        DataType::Time32(unit) | DataType::Time64(unit) => {
            ChType::Time64 { scale: digits(unit), bytehouse: true }
        }
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => ChType::Array(Box::new(ch_type_for(item)?)),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => {
                let key = plain_type_for(fields[0].data_type(), None)?;
                ChType::Map(Box::new(key), Box::new(ch_type_for(&fields[1])?))
            }
            _ => return Err(no_column_type(data_type)),
        },
        DataType::Struct(fields) if !fields.is_empty() => {
            let element = |field: &Arc<Field>| {
                Ok(TupleElement { name: Some(field.name().clone()), ty: ch_type_for(field)? })
            };
            ChType::Tuple(fields.iter().map(element).collect::<Result<_>>()?)
        }
        // Servers refuse most other types inside LowCardinality, or ask for a setting first.
        DataType::Dictionary(_, values) => match plain_type_for(values, precision)? {
            ty @ (ChType::String | ChType::FixedString(_)) => ChType::LowCardinality(Box::new(ty)),
            ty => ty,
        },
        DataType::RunEndEncoded(_, values) => plain_type_for(values.data_type(), precision)?,
        _ => return Err(no_column_type(data_type)),
    })
}

/// A scale below zero stands for zeros before the point.
fn decimal(precision: u8, scale: i8) -> Option<ChType> {
    let (precision, scale) = match u8::try_from(scale) {
        Ok(scale) => (precision.max(scale), scale),
        Err(_) => (precision.checked_add(scale.unsigned_abs())?, 0),
    };
    (1..=76).contains(&precision).then_some(ChType::Decimal { precision, scale })
}

fn no_column_type(data_type: &DataType) -> Error {
    Error::new(ErrorKind::Unsupported, format!("no column type holds values of the Arrow type {data_type}"))
}
