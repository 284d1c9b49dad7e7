//! Random types, and random values of a type.

use std::sync::Arc;

use connector_core::arrow::{
    array::{
        ArrayRef, BooleanArray, Decimal128Array, Decimal256Array, FixedSizeBinaryArray, ListArray, MapArray,
        NullArray, PrimitiveArray, StringArray, StructArray, make_array,
    },
    buffer::{NullBuffer, OffsetBuffer},
    datatypes::{DataType, Field, TimeUnit, i256},
};
use proptest::prelude::*;

use super::super::{
    arrow_types::{arrow_type, element_fields, entry_fields, list_item},
    types::{ChType, EnumValues, IntervalUnit, TupleElement},
};

/// A small generator; the same seed gives the same values.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).unwrap()).unwrap()
    }

    fn between(&mut self, min: i64, max: i64) -> i64 {
        let span = i128::from(max) - i128::from(min) + 1;
        // Ends are worth more than what lies between.
        match self.below(8) {
            0 => min,
            1 => max,
            _ => i64::try_from(i128::from(min) + i128::from(self.next()) % span).unwrap(),
        }
    }

    fn wide(&mut self) -> i128 {
        i128::from_le_bytes(
            [self.next().to_le_bytes(), self.next().to_le_bytes()].concat().try_into().unwrap(),
        )
    }

    fn text(&mut self) -> String {
        let length = if self.below(20) == 0 { 200 } else { self.below(12) };
        (0..length).map(|_| ['a', '0', ' ', 'é', '订', '😀', '\0'][self.below(7)]).collect()
    }

    /// Nulls, more often in the first and last row than elsewhere; sometimes none.
    pub(super) fn nulls(&mut self, len: usize) -> Option<NullBuffer> {
        let odds = [2, 5, 1000][self.below(3)];
        let valid = (0..len).map(|row| self.below(if row == 0 || row + 1 == len { 3 } else { odds }) != 0);
        Some(NullBuffer::from_iter(valid))
    }
}

fn zone() -> impl Strategy<Value = Option<Arc<str>>> {
    prop::sample::select(vec![
        None,
        Some("UTC".into()),
        Some("Asia/Shanghai".into()),
        Some("America/New_York".into()),
    ])
}

fn enum_values(min: i16, max: i16) -> impl Strategy<Value = EnumValues> {
    prop::collection::btree_map(min..=max, "[a-c'`\\\\é]{0,6}", 1..6).prop_map(|numbers| {
        let values =
            numbers.into_iter().enumerate().map(|(i, (number, name))| (format!("{name}{i}"), number));
        EnumValues::new(values).unwrap()
    })
}

fn leaf() -> impl Strategy<Value = ChType> {
    use ChType as T;
    let simple = prop::sample::select(vec![
        T::Bool,
        T::Int8,
        T::Int16,
        T::Int32,
        T::Int64,
        T::Int128,
        T::Int256,
        T::UInt8,
        T::UInt16,
        T::UInt32,
        T::UInt64,
        T::UInt128,
        T::UInt256,
        T::BFloat16,
        T::Float32,
        T::Float64,
        T::String,
        T::Uuid,
        T::IPv4,
        T::IPv6,
        T::Date,
        T::Date32,
        T::Time,
        T::Interval(IntervalUnit::Day),
        T::Interval(IntervalUnit::Nanosecond),
    ]);
    let decimal = (1u8..=76).prop_flat_map(|p| (Just(p), 0..=p));
    prop_oneof![
        6 => simple,
        1 => (1usize..20).prop_map(T::FixedString),
        1 => zone().prop_map(T::DateTime),
        2 => (0u8..=9, zone()).prop_map(|(digits, zone)| T::DateTime64(digits, zone)),
        1 => (0u8..=9, any::<bool>()).prop_map(|(scale, bytehouse)| T::Time64 { scale, bytehouse }),
        2 => decimal.prop_map(|(precision, scale)| T::Decimal { precision, scale }),
        1 => enum_values(-128, 127).prop_map(T::Enum8),
        1 => enum_values(-32768, 32767).prop_map(T::Enum16),
    ]
}

/// Types with a dictionary: their inside must not be a `Bool`, which Arrow packs into bits.
fn low_cardinality() -> impl Strategy<Value = ChType> {
    (leaf(), any::<bool>()).prop_map(|(inner, nullable)| {
        let inner = if nullable { ChType::Nullable(Box::new(inner)) } else { inner };
        ChType::LowCardinality(Box::new(inner))
    })
}

/// Any type that is known, nested up to three deep.
pub(super) fn any_type() -> impl Strategy<Value = ChType> {
    let flat = prop_oneof![
        4 => leaf(),
        3 => leaf().prop_map(|inner| ChType::Nullable(Box::new(inner))),
        2 => low_cardinality(),
        1 => Just(ChType::Json),
        1 => Just(ChType::Object),
        1 => Just(ChType::Nullable(Box::new(ChType::Nothing))),
    ];
    let key = prop_oneof![leaf(), leaf().prop_map(|inner| ChType::LowCardinality(Box::new(inner)))];
    flat.prop_recursive(3, 12, 4, move |inner| {
        let elements = prop::collection::vec(("[a-z`' é]{1,5}", inner.clone()), 1..4);
        let tuple = (elements, any::<bool>()).prop_map(|(elements, names)| {
            let element = |(i, (name, ty)): (usize, (String, ChType))| TupleElement {
                name: names.then(|| format!("{name}{i}")),
                ty,
            };
            ChType::Tuple(elements.into_iter().enumerate().map(element).collect())
        });
        prop_oneof![
            3 => inner.clone().prop_map(|element| ChType::Array(Box::new(element))),
            1 => (key.clone(), inner).prop_map(|(key, value)| ChType::Map(Box::new(key), Box::new(value))),
            2 => tuple.clone(),
            1 => tuple.prop_map(|tuple| ChType::Nullable(Box::new(tuple))),
        ]
    })
}

/// Random values of the Arrow type that a column is read into. What lies under a null is random as well.
pub(super) fn values(ty: &ChType, len: usize, nullable: bool, dice: &mut Dice) -> ArrayRef {
    let data_type = arrow_type(ty, false).unwrap();
    match ty {
        ChType::Nullable(inner) => return values(inner, len, true, dice),
        ChType::LowCardinality(inner) => {
            // Few different values, each of them often.
            let few = values(inner, 5, inner.is_nullable(), dice);
            let places: Vec<Option<u32>> =
                (0..len).map(|_| Some(u32::try_from(dice.below(5)).unwrap())).collect();
            let places = connector_core::arrow::array::UInt32Array::from(places);
            return connector_core::arrow::compute::take(&few, &places, None).unwrap();
        }
        _ => {}
    }
    let nulls = if nullable { dice.nulls(len) } else { None };
    let bits = |dice: &mut Dice, width: usize| -> Vec<u8> {
        (0..len * width).map(|_| dice.next().to_le_bytes()[3]).collect()
    };
    let number = |dice: &mut Dice, min: i64, max: i64| -> Vec<i64> {
        // Under a null, numbers that the type cannot hold.
        let cell = |row: usize| match &nulls {
            Some(nulls) if nulls.is_null(row) => {
                dice.wide().to_le_bytes()[..8].try_into().map(i64::from_le_bytes).unwrap()
            }
            _ => dice.between(min, max),
        };
        (0..len).map(cell).collect()
    };
    let day = 86_400;
    match ty {
        ChType::Nothing => Arc::new(NullArray::new(len)),
        ChType::Bool => Arc::new(BooleanArray::new((0..len).map(|_| dice.below(2) == 0).collect(), nulls)),
        ChType::BFloat16 => {
            let floats = bits(dice, 2)
                .chunks(2)
                .map(|b| f32::from_le_bytes([0, 0, b[0], b[1]]))
                .map(not_nan)
                .collect();
            Arc::new(connector_core::arrow::array::Float32Array::new(floats, nulls))
        }
        ChType::Float32 => {
            let floats =
                bits(dice, 4).as_chunks().0.iter().map(|b| not_nan(f32::from_le_bytes(*b))).collect();
            Arc::new(connector_core::arrow::array::Float32Array::new(floats, nulls))
        }
        ChType::Float64 => {
            let bits = bits(dice, 8);
            let floats = bits.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b));
            let floats = floats.map(|f| if f.is_nan() { 0.5 } else { f }).collect();
            Arc::new(connector_core::arrow::array::Float64Array::new(floats, nulls))
        }
        ChType::Date => small(&number(dice, 0, 65_535), nulls, &data_type),
        ChType::Date32 => small(&number(dice, -25_567, 120_529), nulls, &data_type),
        ChType::DateTime(_) => long(number(dice, 0, i64::from(u32::MAX)), nulls, &data_type),
        ChType::DateTime64(digits, _) => {
            let (per_second, step) = ticks(*digits);
            let min = (-25_567 * day * per_second).max(i64::MIN / step);
            let max =
                ((120_530 * i128::from(day) * i128::from(per_second)) - 1).min(i128::from(i64::MAX / step));
            let ticks = number(dice, min, i64::try_from(max).unwrap())
                .iter()
                .map(|tick| tick.wrapping_mul(step))
                .collect();
            long(ticks, nulls, &data_type)
        }
        ChType::Time => small(&number(dice, 0, day - 1), nulls, &data_type),
        ChType::Time64 { scale, .. } => {
            let (per_second, step) = ticks(*scale);
            let ticks: Vec<i64> =
                number(dice, 0, day * per_second - 1).iter().map(|tick| tick.wrapping_mul(step)).collect();
            match data_type {
                DataType::Time32(_) => small(&ticks, nulls, &data_type),
                _ => long(ticks, nulls, &data_type),
            }
        }
        ChType::Int128 => Arc::new(
            Decimal256Array::new((0..len).map(|_| i256::from_i128(dice.wide())).collect(), nulls)
                .with_data_type(data_type),
        ),
        ChType::UInt128 => {
            let values = (0..len)
                .map(|_| i256::from_parts(u128::from_le_bytes(dice.wide().to_le_bytes()), 0))
                .collect();
            Arc::new(Decimal256Array::new(values, nulls).with_data_type(data_type))
        }
        ChType::Decimal { precision, .. } => decimals(*precision, len, nulls, &data_type, dice),
        ChType::Enum8(names) | ChType::Enum16(names) => {
            let names: Vec<&str> = names.iter().map(|(name, _)| name).collect();
            let cell = |row: usize| match &nulls {
                Some(nulls) if nulls.is_null(row) => None,
                _ => Some(names[dice.below(names.len())]),
            };
            Arc::new((0..len).map(cell).collect::<StringArray>())
        }
        ChType::String | ChType::Json | ChType::Object => {
            let text = |_| match ty {
                ChType::String => dice.text(),
                _ => serde_json::json!({ "t": dice.text() }).to_string(),
            };
            let texts: Vec<String> = (0..len).map(text).collect();
            let (offsets, data, _) = StringArray::from(texts).into_parts();
            Arc::new(StringArray::new(offsets, data, nulls))
        }
        ChType::Array(inner) => {
            let (offsets, count) = offsets(len, dice);
            let field = list_item(inner, false).unwrap();
            Arc::new(ListArray::new(field.into(), offsets, values(inner, count, false, dice), None))
        }
        ChType::Map(key, value) => {
            let (offsets, count) = offsets(len, dice);
            let fields = entry_fields(key, value, false).unwrap();
            let columns = vec![values(key, count, false, dice), values(value, count, false, dice)];
            let entries = StructArray::new(fields.clone(), columns, None);
            let field = Field::new("entries", DataType::Struct(fields), false);
            Arc::new(MapArray::new(field.into(), offsets, entries, None, false))
        }
        ChType::Tuple(elements) => {
            let fields = element_fields(elements, false).unwrap();
            let columns = elements.iter().map(|element| values(&element.ty, len, false, dice)).collect();
            Arc::new(StructArray::new(fields, columns, nulls))
        }
        _ => match &data_type {
            DataType::FixedSizeBinary(width) => {
                let data = bits(dice, usize::try_from(*width).unwrap());
                Arc::new(FixedSizeBinaryArray::new(*width, data.into(), nulls))
            }
            _ => {
                let data = bits(dice, data_type.primitive_width().unwrap());
                let mut buffer = connector_core::arrow::buffer::MutableBuffer::new(data.len());
                buffer.extend_from_slice(&data);
                let builder =
                    connector_core::arrow::array::ArrayData::builder(data_type).len(len).nulls(nulls);
                make_array(builder.add_buffer(buffer.into()).build().unwrap())
            }
        },
    }
}

/// NaN is not equal to itself, which is all that these tests ask.
fn not_nan(float: f32) -> f32 {
    if float.is_nan() { 0.5 } else { float }
}

fn offsets(len: usize, dice: &mut Dice) -> (OffsetBuffer<i32>, usize) {
    let lengths: Vec<usize> = (0..len).map(|_| if dice.below(3) == 0 { 0 } else { dice.below(4) }).collect();
    let count = lengths.iter().sum();
    (OffsetBuffer::from_lengths(lengths), count)
}

/// Ticks per second of a precision, and how many ticks of the Arrow unit each of them is.
fn ticks(digits: u8) -> (i64, i64) {
    let of_unit = u32::from(digits.div_ceil(3) * 3);
    (10i64.pow(digits.into()), 10i64.pow(of_unit - u32::from(digits)))
}

fn small(values: &[i64], nulls: Option<NullBuffer>, data_type: &DataType) -> ArrayRef {
    use connector_core::arrow::datatypes::{Date32Type, Time32MillisecondType, Time32SecondType};
    let values = values
        .iter()
        .map(|v| v.to_le_bytes())
        .map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .collect();
    match data_type {
        DataType::Date32 => Arc::new(PrimitiveArray::<Date32Type>::new(values, nulls)),
        DataType::Time32(TimeUnit::Second) => {
            Arc::new(PrimitiveArray::<Time32SecondType>::new(values, nulls))
        }
        _ => Arc::new(PrimitiveArray::<Time32MillisecondType>::new(values, nulls)),
    }
}

fn long(values: Vec<i64>, nulls: Option<NullBuffer>, data_type: &DataType) -> ArrayRef {
    let data =
        connector_core::arrow::array::ArrayData::builder(data_type.clone()).len(values.len()).nulls(nulls);
    make_array(data.add_buffer(connector_core::arrow::buffer::Buffer::from_vec(values)).build().unwrap())
}

fn decimals(
    precision: u8,
    len: usize,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
    dice: &mut Dice,
) -> ArrayRef {
    let end = i256::from_i128(10).checked_pow(precision.into()).unwrap();
    let mut value = |row: usize| {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            // More digits than the type has.
            return end;
        }
        let value =
            i256::from_parts(u128::from_le_bytes(dice.wide().to_le_bytes()), dice.wide()).wrapping_rem(end);
        if dice.below(6) == 0 { end.wrapping_sub(i256::ONE) } else { value }
    };
    if precision <= 38 {
        let values = (0..len).map(|row| value(row).to_i128().unwrap()).collect();
        Arc::new(Decimal128Array::new(values, nulls).with_data_type(data_type.clone()))
    } else {
        let values = (0..len).map(value).collect::<Vec<_>>().into();
        Arc::new(Decimal256Array::new(values, nulls.clone()).with_data_type(data_type.clone()))
    }
}
