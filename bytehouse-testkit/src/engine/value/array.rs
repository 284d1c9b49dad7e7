//! Values to and from Arrow arrays.
//!
//! Arrays have the types that the native block reader gives them, with `String` as `Binary`: a
//! column may hold any bytes.

use std::sync::Arc;

use connector_bytehouse_common::native::{ChType, ColumnDef, TupleElement, arrow_field};
use connector_core::arrow::{
    array::{
        Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray, BooleanArray, FixedSizeBinaryBuilder,
        ListArray, MapArray, NullArray, PrimitiveArray, StringArray, StructArray,
    },
    buffer::{NullBuffer, OffsetBuffer},
    datatypes::{
        DataType, Date32Type, Decimal128Type, Decimal256Type, Field, Fields, Float32Type, Float64Type,
        Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType,
        Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
        TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
        UInt32Type, UInt64Type, i256,
    },
};

use super::{Value, plain, rescale};
use crate::{
    engine::eval::internal,
    exception::{Exception, Result, exception},
};

/// The Arrow type of a column's values.
pub(crate) fn arrow_type(ty: &ChType) -> Result<DataType> {
    let field = arrow_field(&ColumnDef::new("", ty.clone())).map_err(|e| {
        exception!(UNKNOWN_TYPE, "the double cannot hold values of type {ty}: {}", e.message())
    })?;
    Ok(with_binary(ty, field.data_type()))
}

/// The type with `Binary` in place of `Utf8` for every `String` in it.
fn with_binary(ty: &ChType, data_type: &DataType) -> DataType {
    let inner = |ty: &ChType, field: &Field| {
        Arc::new(field.clone().with_data_type(with_binary(ty, field.data_type())))
    };
    match (plain(ty), data_type) {
        (ChType::String, _) => DataType::Binary,
        (ChType::Array(element), DataType::List(field)) => DataType::List(inner(element, field)),
        (ChType::Tuple(elements), DataType::Struct(fields)) => DataType::Struct(
            elements.iter().zip(fields).map(|(element, field)| inner(&element.ty, field)).collect(),
        ),
        (ChType::Map(key, value), DataType::Map(entries, sorted)) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => {
                let fields: Fields = vec![inner(key, &fields[0]), inner(value, &fields[1])].into();
                DataType::Map(
                    Arc::new(entries.as_ref().clone().with_data_type(DataType::Struct(fields))),
                    *sorted,
                )
            }
            _ => data_type.clone(),
        },
        _ => data_type.clone(),
    }
}

/// Digits after the second of an Arrow unit.
fn digits(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

fn wrong(value: &Value, data_type: &DataType) -> Exception {
    internal(format!("{value:?} does not fit {data_type}"))
}

/// An array of the type's Arrow type.
pub(crate) fn build_array(ty: &ChType, values: &[Value]) -> Result<ArrayRef> {
    build(&arrow_type(ty)?, &values.iter().collect::<Vec<_>>())
}

fn primitive<T: ArrowPrimitiveType>(
    data_type: &DataType,
    values: &[&Value],
    convert: impl Fn(&Value) -> Option<T::Native>,
) -> Result<ArrayRef> {
    let mut out: Vec<Option<T::Native>> = Vec::with_capacity(values.len());
    for value in values {
        out.push(if value.is_null() {
            None
        } else {
            Some(convert(value).ok_or_else(|| wrong(value, data_type))?)
        });
    }
    Ok(Arc::new(PrimitiveArray::<T>::from_iter(out).with_data_type(data_type.clone())))
}

fn small<T: TryFrom<i128>>(value: &Value) -> Option<T> {
    match value {
        Value::Int(number) => number.to_i128().and_then(|n| T::try_from(n).ok()),
        Value::Ipv4(address) => T::try_from(i128::from(*address)).ok(),
        _ => None,
    }
}

fn wide(value: &Value) -> Option<i256> {
    match value {
        Value::Int(number) => Some(*number),
        Value::Decimal(digits, _) => Some(*digits),
        _ => None,
    }
}

fn ticks(value: &Value, unit: TimeUnit) -> Option<i64> {
    let (Value::Instant(ticks, scale) | Value::Time(ticks, scale)) = value else { return None };
    let wide = rescale(i256::from_i128(i128::from(*ticks)), *scale, digits(unit))?;
    wide.to_i128().and_then(|n| i64::try_from(n).ok())
}

fn build(data_type: &DataType, values: &[&Value]) -> Result<ArrayRef> {
    #[allow(clippy::cast_possible_truncation, reason = "Float32 columns hold the nearest 32-bit number")]
    let single = |value: &Value| value.to_f64().map(|n| n as f32);
    let time32 = |unit: TimeUnit| move |value: &Value| ticks(value, unit).and_then(|n| i32::try_from(n).ok());
    match data_type {
        DataType::Null => Ok(Arc::new(NullArray::new(values.len()))),
        DataType::Boolean => {
            let flags = values.iter().map(|value| if value.is_null() { None } else { Some(value.is_true()) });
            Ok(Arc::new(flags.collect::<BooleanArray>()))
        }
        DataType::Int8 => primitive::<Int8Type>(data_type, values, small),
        DataType::Int16 => primitive::<Int16Type>(data_type, values, small),
        DataType::Int32 => primitive::<Int32Type>(data_type, values, small),
        DataType::Int64 => primitive::<Int64Type>(data_type, values, small),
        DataType::UInt8 => primitive::<UInt8Type>(data_type, values, small),
        DataType::UInt16 => primitive::<UInt16Type>(data_type, values, small),
        DataType::UInt32 => primitive::<UInt32Type>(data_type, values, small),
        DataType::UInt64 => primitive::<UInt64Type>(data_type, values, small),
        DataType::Float32 => primitive::<Float32Type>(data_type, values, single),
        DataType::Float64 => primitive::<Float64Type>(data_type, values, Value::to_f64),
        DataType::Decimal128(..) => {
            primitive::<Decimal128Type>(data_type, values, |value| wide(value).and_then(i256::to_i128))
        }
        DataType::Decimal256(..) => primitive::<Decimal256Type>(data_type, values, wide),
        DataType::Date32 => primitive::<Date32Type>(data_type, values, |value| {
            if let Value::Date(days) = value { Some(*days) } else { None }
        }),
        DataType::Timestamp(unit, _) => {
            let convert = |value: &Value| ticks(value, *unit);
            match unit {
                TimeUnit::Second => primitive::<TimestampSecondType>(data_type, values, convert),
                TimeUnit::Millisecond => primitive::<TimestampMillisecondType>(data_type, values, convert),
                TimeUnit::Microsecond => primitive::<TimestampMicrosecondType>(data_type, values, convert),
                TimeUnit::Nanosecond => primitive::<TimestampNanosecondType>(data_type, values, convert),
            }
        }
        DataType::Time32(TimeUnit::Second) => {
            primitive::<Time32SecondType>(data_type, values, time32(TimeUnit::Second))
        }
        DataType::Time32(unit) => primitive::<Time32MillisecondType>(data_type, values, time32(*unit)),
        DataType::Time64(TimeUnit::Nanosecond) => {
            primitive::<Time64NanosecondType>(data_type, values, |value| ticks(value, TimeUnit::Nanosecond))
        }
        DataType::Time64(unit) => {
            primitive::<Time64MicrosecondType>(data_type, values, |value| ticks(value, *unit))
        }
        DataType::Utf8 | DataType::Binary => texts(data_type, values),
        DataType::FixedSizeBinary(width) => fixed(data_type, *width, values),
        DataType::List(_) | DataType::Map(..) | DataType::Struct(_) => nested(data_type, values),
        other => Err(internal(format!("no values of {other} can be made"))),
    }
}

fn texts(data_type: &DataType, values: &[&Value]) -> Result<ArrayRef> {
    let mut out: Vec<Option<&[u8]>> = Vec::with_capacity(values.len());
    for value in values {
        out.push(match value {
            Value::Null => None,
            Value::Text(bytes) => Some(bytes),
            other => return Err(wrong(other, data_type)),
        });
    }
    if *data_type == DataType::Binary {
        return Ok(Arc::new(BinaryArray::from(out)));
    }
    let texts = out.into_iter().map(|bytes| bytes.map(|bytes| String::from_utf8_lossy(bytes)));
    Ok(Arc::new(StringArray::from_iter(texts)))
}

fn fixed(data_type: &DataType, width: i32, values: &[&Value]) -> Result<ArrayRef> {
    let mut builder = FixedSizeBinaryBuilder::with_capacity(values.len(), width);
    for value in values {
        match value {
            Value::Null => builder.append_null(),
            Value::Text(bytes) => builder.append_value(bytes).map_err(internal)?,
            Value::Uuid(bytes) | Value::Ipv6(bytes) => builder.append_value(bytes).map_err(internal)?,
            Value::Int(number) => builder.append_value(number.to_le_bytes()).map_err(internal)?,
            other => return Err(wrong(other, data_type)),
        }
    }
    Ok(Arc::new(builder.finish()))
}

fn nested(data_type: &DataType, values: &[&Value]) -> Result<ArrayRef> {
    let nulls = NullBuffer::from_iter(values.iter().map(|value| !value.is_null()));
    let nulls = Some(nulls).filter(|nulls| nulls.null_count() > 0);
    match data_type {
        DataType::List(field) => {
            let mut lengths = Vec::with_capacity(values.len());
            let mut items: Vec<&Value> = Vec::new();
            for value in values {
                let row: &[Value] = if let Value::Array(row) = value { row } else { &[] };
                lengths.push(row.len());
                items.extend(row);
            }
            let items = build(field.data_type(), &items)?;
            let offsets = OffsetBuffer::from_lengths(lengths);
            Ok(Arc::new(ListArray::try_new(Arc::clone(field), offsets, items, nulls).map_err(internal)?))
        }
        DataType::Map(entries, sorted) => {
            let DataType::Struct(fields) = entries.data_type() else {
                return Err(internal("a map without entries"));
            };
            let mut lengths = Vec::with_capacity(values.len());
            let (mut keys, mut items): (Vec<&Value>, Vec<&Value>) = (Vec::new(), Vec::new());
            for value in values {
                let row: &[(Value, Value)] = if let Value::Map(row) = value { row } else { &[] };
                lengths.push(row.len());
                keys.extend(row.iter().map(|(key, _)| key));
                items.extend(row.iter().map(|(_, item)| item));
            }
            let columns = vec![build(fields[0].data_type(), &keys)?, build(fields[1].data_type(), &items)?];
            let structs = StructArray::try_new(fields.clone(), columns, None).map_err(internal)?;
            let offsets = OffsetBuffer::from_lengths(lengths);
            let map = MapArray::try_new(Arc::clone(entries), offsets, structs, nulls, *sorted);
            Ok(Arc::new(map.map_err(internal)?))
        }
        DataType::Struct(fields) => {
            let null = Value::Null;
            let mut columns = Vec::with_capacity(fields.len());
            for (i, field) in fields.iter().enumerate() {
                let column: Vec<&Value> =
                    values
                        .iter()
                        .map(|value| {
                            if let Value::Tuple(items) = value {
                                items.get(i).unwrap_or(&null)
                            } else {
                                &null
                            }
                        })
                        .collect();
                columns.push(build(field.data_type(), &column)?);
            }
            if fields.is_empty() {
                return Ok(Arc::new(StructArray::new_empty_fields(values.len(), nulls)));
            }
            Ok(Arc::new(StructArray::try_new(fields.clone(), columns, nulls).map_err(internal)?))
        }
        other => Err(internal(format!("no values of {other} can be made"))),
    }
}

/// The values of an array whose Arrow type is that of `ty`.
pub(crate) fn values_of(array: &ArrayRef, ty: &ChType) -> Result<Vec<Value>> {
    let mut out = Vec::with_capacity(array.len());
    read(array, plain(ty), &mut out)?;
    if let Some(nulls) = array.logical_nulls() {
        for (value, valid) in out.iter_mut().zip(&nulls) {
            if !valid {
                *value = Value::Null;
            }
        }
    }
    Ok(out)
}

fn numbers<T: ArrowPrimitiveType>(array: &ArrayRef, out: &mut Vec<Value>, make: impl Fn(T::Native) -> Value) {
    out.extend(array.as_primitive::<T>().values().iter().map(|value| make(*value)));
}

fn read(array: &ArrayRef, ty: &ChType, out: &mut Vec<Value>) -> Result<()> {
    let scale = match ty {
        ChType::Decimal { scale, .. } | ChType::DateTime64(scale, _) | ChType::Time64 { scale, .. } => *scale,
        _ => 0,
    };
    let instant = |unit: TimeUnit| {
        move |value: i64| {
            let ticks =
                rescale(i256::from_i128(i128::from(value)), digits(unit), scale).and_then(i256::to_i128);
            ticks.and_then(|n| i64::try_from(n).ok()).unwrap_or(value)
        }
    };
    match array.data_type() {
        DataType::Null => out.extend(std::iter::repeat_n(Value::Null, array.len())),
        DataType::Boolean => {
            out.extend(array.as_boolean().values().iter().map(|flag| Value::int(u8::from(flag))))
        }
        DataType::Int8 => numbers::<Int8Type>(array, out, Value::int),
        DataType::Int16 => numbers::<Int16Type>(array, out, Value::int),
        DataType::Int32 => numbers::<Int32Type>(array, out, Value::int),
        DataType::Int64 => numbers::<Int64Type>(array, out, Value::int),
        DataType::UInt8 => numbers::<UInt8Type>(array, out, Value::int),
        DataType::UInt16 => numbers::<UInt16Type>(array, out, Value::int),
        DataType::UInt32 if *ty == ChType::IPv4 => numbers::<UInt32Type>(array, out, Value::Ipv4),
        DataType::UInt32 => numbers::<UInt32Type>(array, out, Value::int),
        DataType::UInt64 => numbers::<UInt64Type>(array, out, Value::int),
        DataType::Float32 => numbers::<Float32Type>(array, out, |value| Value::Float(f64::from(value))),
        DataType::Float64 => numbers::<Float64Type>(array, out, Value::Float),
        DataType::Decimal128(..) => {
            numbers::<Decimal128Type>(array, out, |value| Value::Decimal(i256::from_i128(value), scale));
        }
        DataType::Decimal256(..) if matches!(ty, ChType::Decimal { .. }) => {
            numbers::<Decimal256Type>(array, out, |value| Value::Decimal(value, scale));
        }
        DataType::Decimal256(..) => numbers::<Decimal256Type>(array, out, Value::Int),
        DataType::Date32 => numbers::<Date32Type>(array, out, Value::Date),
        DataType::Timestamp(unit, _) => {
            let make = instant(*unit);
            match unit {
                TimeUnit::Second => {
                    numbers::<TimestampSecondType>(array, out, |v| Value::Instant(make(v), scale))
                }
                TimeUnit::Millisecond => {
                    numbers::<TimestampMillisecondType>(array, out, |v| Value::Instant(make(v), scale));
                }
                TimeUnit::Microsecond => {
                    numbers::<TimestampMicrosecondType>(array, out, |v| Value::Instant(make(v), scale));
                }
                TimeUnit::Nanosecond => {
                    numbers::<TimestampNanosecondType>(array, out, |v| Value::Instant(make(v), scale));
                }
            }
        }
        DataType::Time32(unit) | DataType::Time64(unit) => {
            let make = instant(*unit);
            match array.data_type() {
                DataType::Time32(TimeUnit::Second) => {
                    numbers::<Time32SecondType>(array, out, |v| Value::Time(make(i64::from(v)), scale));
                }
                DataType::Time32(_) => {
                    numbers::<Time32MillisecondType>(array, out, |v| Value::Time(make(i64::from(v)), scale));
                }
                DataType::Time64(TimeUnit::Nanosecond) => {
                    numbers::<Time64NanosecondType>(array, out, |v| Value::Time(make(v), scale));
                }
                _ => numbers::<Time64MicrosecondType>(array, out, |v| Value::Time(make(v), scale)),
            }
        }
        DataType::Utf8 => {
            let texts = array.as_string::<i32>();
            out.extend((0..texts.len()).map(|i| Value::text(texts.value(i))));
        }
        DataType::Binary => {
            let texts = array.as_binary::<i32>();
            out.extend((0..texts.len()).map(|i| Value::Text(texts.value(i).to_vec())));
        }
        DataType::FixedSizeBinary(_) => read_fixed(array, ty, out)?,
        _ => read_nested(array, ty, out)?,
    }
    Ok(())
}

fn read_fixed(array: &ArrayRef, ty: &ChType, out: &mut Vec<Value>) -> Result<()> {
    let array = array.as_fixed_size_binary();
    for i in 0..array.len() {
        let bytes = array.value(i);
        out.push(match ty {
            ChType::Uuid => Value::Uuid(bytes.try_into().map_err(internal)?),
            ChType::IPv6 => Value::Ipv6(bytes.try_into().map_err(internal)?),
            ChType::Int256 => Value::Int(i256::from_le_bytes(bytes.try_into().map_err(internal)?)),
            ChType::UInt256 => {
                let number = i256::from_le_bytes(bytes.try_into().map_err(internal)?);
                if number.is_negative() {
                    return Err(exception!(
                        NOT_IMPLEMENTED,
                        "the double cannot compute with UInt256 above 2^255"
                    ));
                }
                Value::Int(number)
            }
            _ => Value::Text(bytes.to_vec()),
        });
    }
    Ok(())
}

fn read_nested(array: &ArrayRef, ty: &ChType, out: &mut Vec<Value>) -> Result<()> {
    match ty {
        ChType::Array(element) => {
            let lists = array.as_list_opt::<i32>().ok_or_else(|| internal("an array that is no list"))?;
            let items = values_of(lists.values(), element)?;
            for range in lists.offsets().windows(2) {
                out.push(Value::Array(slice(&items, range)?.to_vec()));
            }
        }
        ChType::Map(key, value) => {
            let maps = array.as_map_opt().ok_or_else(|| internal("a map that is none"))?;
            let keys = values_of(maps.keys(), key)?;
            let items = values_of(maps.values(), value)?;
            for range in maps.offsets().windows(2) {
                let pairs = slice(&keys, range)?.iter().cloned().zip(slice(&items, range)?.iter().cloned());
                out.push(Value::Map(pairs.collect()));
            }
        }
        ChType::Tuple(elements) => {
            let structs = array.as_struct_opt().ok_or_else(|| internal("a tuple that is no struct"))?;
            let columns: Result<Vec<Vec<Value>>> = elements
                .iter()
                .zip(structs.columns())
                .map(|(element, column): (&TupleElement, _)| values_of(column, &element.ty))
                .collect();
            let columns = columns?;
            for row in 0..structs.len() {
                out.push(Value::Tuple(
                    columns.iter().filter_map(|column| column.get(row).cloned()).collect(),
                ));
            }
        }
        other => return Err(internal(format!("values of {other} in an array of {}", array.data_type()))),
    }
    Ok(())
}

fn slice<'v>(items: &'v [Value], range: &[i32]) -> Result<&'v [Value]> {
    match range {
        [start, end] => {
            let range =
                usize::try_from(*start).map_err(internal)?..usize::try_from(*end).map_err(internal)?;
            items.get(range).ok_or_else(|| internal("offsets beyond the items"))
        }
        _ => Err(internal("offsets come in pairs")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let int = |n: i128| Value::int(n);
        let cases: Vec<(&str, Vec<Value>)> = vec![
            ("UInt64", vec![int(i128::from(u64::MAX)), int(0)]),
            ("Nullable(Int8)", vec![int(-128), Value::Null]),
            ("UInt128", vec![int(i128::MAX)]),
            ("Int256", vec![Value::Int(i256::MIN), int(-1)]),
            ("Bool", vec![int(1), int(0)]),
            ("Decimal(18, 4)", vec![Value::Decimal(i256::from_i128(-12345), 4)]),
            ("Decimal(76, 10)", vec![Value::Decimal(i256::from_i128(1), 10)]),
            ("String", vec![Value::Text(vec![0xff, 0]), Value::text("订单")]),
            ("LowCardinality(Nullable(String))", vec![Value::text("a"), Value::Null]),
            ("FixedString(2)", vec![Value::text("ab")]),
            ("Enum8('a' = 1)", vec![Value::text("a")]),
            ("Date32", vec![Value::Date(-1)]),
            ("DateTime('Asia/Shanghai')", vec![Value::Instant(7, 0)]),
            ("DateTime64(5)", vec![Value::Instant(-12_345, 5)]),
            ("Time(3)", vec![Value::Time(1_500, 3)]),
            ("UUID", vec![Value::Uuid([7; 16])]),
            ("IPv4", vec![Value::Ipv4(1)]),
            ("IPv6", vec![Value::Ipv6([9; 16])]),
            (
                "Array(Array(Nullable(UInt8)))",
                vec![Value::Array(vec![Value::Array(vec![int(1), Value::Null])]), Value::Array(vec![])],
            ),
            ("Map(String, UInt8)", vec![Value::Map(vec![(Value::text("k"), int(1))]), Value::Map(vec![])]),
            ("Tuple(a UInt8, b String)", vec![Value::Tuple(vec![int(1), Value::text("x")])]),
        ];
        for (ty, values) in cases {
            let ty: ChType = ty.parse().unwrap();
            let array = build_array(&ty, &values).unwrap();
            assert_eq!(*array.data_type(), arrow_type(&ty).unwrap());
            assert_eq!(values_of(&array, &ty).unwrap(), values, "{ty}");
        }
    }
}
