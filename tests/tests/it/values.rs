//! Random values of a column type, as Arrow and as the text that a server prints for them. The text is made here from
//! the value itself: nothing of it comes from the code under test.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use connector_bytehouse_common::native::{ChType, ColumnDef, arrow_field};
use connector_core::arrow::{
    array::{
        Array, ArrayRef, BooleanArray, FixedSizeBinaryArray, Float32Array, Float64Array, Int64Array,
        ListArray, MapArray, PrimitiveArray, StringArray, StructArray, UInt64Array, make_array,
    },
    buffer::{Buffer, NullBuffer, OffsetBuffer},
    compute::{cast, nullif},
    datatypes::{DataType, Decimal128Type, Decimal256Type, Fields, i256},
};
use connector_tests::{clickhouse::NULL, mix, services::Version};
use jiff::{Timestamp, civil::Date, tz::TimeZone};

/// Numbers that follow from a seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = mix(self.0);
        self.0
    }

    /// Another one, whose numbers do not depend on how many are taken here.
    pub(crate) fn split(&mut self) -> Self {
        Self::new(self.next())
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).unwrap()).unwrap()
    }

    /// A number within both ends, which come more often than others.
    fn between(&mut self, min: i128, max: i128) -> i128 {
        match self.below(8) {
            0 => min,
            1 => max,
            _ => {
                let wide = u128::from(self.next()) << 64 | u128::from(self.next());
                match max.checked_sub(min).and_then(|span| u128::try_from(span).ok()) {
                    Some(span) => min + i128::try_from(wide % (span + 1)).unwrap(),
                    // All 128 bits.
                    None => i128::from_le_bytes(wide.to_le_bytes()),
                }
            }
        }
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
        bytes
    }

    /// Mostly random, now and then one of the edges.
    fn or_edge<T: Copy>(&mut self, edges: &[T], random: impl FnOnce(&mut Self) -> T) -> T {
        if self.below(3) == 0 { edges[self.below(edges.len())] } else { random(self) }
    }

    fn text(&mut self) -> String {
        let parts = [
            "", "a", "订单", "🎁", "\t", "\n", "\r\n", "\\", "'", "\"", "`", "\0", " ", "é", "NULL", "\\N",
            "0", "}",
        ];
        let count = if self.below(40) == 0 { 3000 } else { self.below(5) };
        (0..count).map(|_| parts[self.below(parts.len())]).collect()
    }
}

/// A column of values.
pub(crate) struct Column {
    pub(crate) array: ArrayRef,
    /// How each value is printed by itself.
    pub(crate) texts: Vec<String>,
    /// How each value is printed within an array, a map or a tuple.
    inner: Vec<String>,
}

impl Column {
    /// Values of a column's type, in the Arrow type that it is read into.
    pub(crate) fn random(column: &ColumnDef, rows: usize, version: Version, dice: &mut Dice) -> Self {
        let field = arrow_field(column).unwrap();
        Maker { version, dice }.column(&column.ty, field.data_type(), rows)
    }

    /// These texts.
    pub(crate) fn of_texts(texts: &[&str]) -> Self {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        Self::new(StringArray::from(texts.clone()), texts, true)
    }

    fn new(array: impl Array + 'static, texts: Vec<String>, quoted: bool) -> Self {
        // Escapes of both levels are taken away where rows are read.
        let inner =
            if quoted { texts.iter().map(|text| format!("'{text}'")).collect() } else { texts.clone() };
        Self { array: Arc::new(array), texts, inner }
    }

    fn same(array: ArrayRef, texts: Vec<String>) -> Self {
        Self { array, inner: texts.clone(), texts }
    }
}

struct Maker<'a> {
    version: Version,
    dice: &'a mut Dice,
}

impl Maker<'_> {
    fn column(&mut self, ty: &ChType, arrow: &DataType, rows: usize) -> Column {
        match ty {
            ChType::Nullable(inner) => self.nullable(inner, arrow, rows),
            ChType::LowCardinality(inner) => self.repeated(inner, arrow, rows),
            ChType::Array(inner) => self.list(inner, arrow, rows),
            ChType::Map(key, value) => self.map(key, value, arrow, rows),
            ChType::Tuple(elements) => {
                let DataType::Struct(fields) = arrow else { panic!("{ty}: {arrow}") };
                let types: Vec<&ChType> = elements.iter().map(|element| &element.ty).collect();
                self.tuple(&types, fields, rows)
            }
            ChType::Bool => {
                let values: Vec<bool> = (0..rows).map(|_| self.dice.below(2) == 1).collect();
                let texts = values.iter().map(ToString::to_string).collect();
                Column::new(BooleanArray::from(values), texts, false)
            }
            ChType::String => {
                let texts: Vec<String> = (0..rows).map(|_| self.dice.text()).collect();
                Column::new(StringArray::from(texts.clone()), texts, true)
            }
            ChType::Enum8(values) | ChType::Enum16(values) => {
                let names: Vec<&str> = values.iter().map(|(name, _)| name).collect();
                let texts: Vec<String> =
                    (0..rows).map(|_| names[self.dice.below(names.len())].to_owned()).collect();
                Column::new(StringArray::from(texts.clone()), texts, true)
            }
            ChType::BFloat16 | ChType::Float32 | ChType::Float64 => self.floats(ty, rows),
            ChType::Decimal { precision, scale } => self.decimals(*precision, *scale, arrow, rows),
            ChType::Int128 | ChType::UInt128 | ChType::Int256 | ChType::UInt256 => self.wide(ty, arrow, rows),
            ChType::FixedString(_) | ChType::Uuid | ChType::IPv6 => self.bytes(ty, rows),
            ChType::IPv4 => {
                let values: Vec<u32> = (0..rows)
                    .map(|_| u32::try_from(self.dice.between(0, u32::MAX.into())).unwrap())
                    .collect();
                let texts = values.iter().map(|value| Ipv4Addr::from(*value).to_string()).collect();
                Column::new(connector_core::arrow::array::UInt32Array::from(values), texts, true)
            }
            _ if integer_limits(ty).is_some() => self.integers(ty, arrow, rows),
            _ => self.times(ty, arrow, rows),
        }
    }

    fn nullable(&mut self, inner: &ChType, arrow: &DataType, rows: usize) -> Column {
        let column = self.column(inner, arrow, rows);
        let odds = [2, 5, 1000][self.dice.below(3)];
        // The first and the last row of a block more often than others.
        let null =
            |row: usize, dice: &mut Dice| dice.below(if row == 0 || row + 1 == rows { 2 } else { odds }) == 0;
        let nulls: Vec<bool> = (0..rows).map(|row| null(row, self.dice)).collect();
        let mark = |texts: Vec<String>, mark: &str| -> Vec<String> {
            let marked = texts.into_iter().zip(&nulls);
            marked.map(|(text, null)| if *null { mark.to_owned() } else { text }).collect()
        };
        Column {
            array: nullif(&column.array, &BooleanArray::from(nulls.clone())).unwrap(),
            texts: mark(column.texts, NULL),
            inner: mark(column.inner, "NULL"),
        }
    }

    /// A few values, each many times.
    fn repeated(&mut self, inner: &ChType, arrow: &DataType, rows: usize) -> Column {
        let few = self.column(inner, arrow, 1 + rows / 5);
        let places: Vec<usize> = (0..rows).map(|_| self.dice.below(few.array.len())).collect();
        let indices: UInt64Array = places.iter().map(|place| *place as u64).collect();
        let pick = |texts: &[String]| places.iter().map(|place| texts[*place].clone()).collect();
        Column {
            array: connector_core::arrow::compute::take(&few.array, &indices, None).unwrap(),
            texts: pick(&few.texts),
            inner: pick(&few.inner),
        }
    }

    /// How many parts each row has.
    fn lengths(&mut self, rows: usize) -> Vec<usize> {
        (0..rows).map(|_| if self.dice.below(3) == 0 { 0 } else { self.dice.below(4) }).collect()
    }

    fn list(&mut self, inner: &ChType, arrow: &DataType, rows: usize) -> Column {
        let DataType::List(field) = arrow else { panic!("{arrow}") };
        let lengths = self.lengths(rows);
        let parts = self.column(inner, field.data_type(), lengths.iter().sum());
        let texts = grouped(&parts.inner, &lengths, "[", "]");
        let offsets = OffsetBuffer::from_lengths(lengths);
        Column::same(Arc::new(ListArray::new(Arc::clone(field), offsets, parts.array, None)), texts)
    }

    fn map(&mut self, key: &ChType, value: &ChType, arrow: &DataType, rows: usize) -> Column {
        let DataType::Map(entries, _) = arrow else { panic!("{arrow}") };
        let DataType::Struct(fields) = entries.data_type() else { panic!("{entries}") };
        let lengths = self.lengths(rows);
        let total = lengths.iter().sum();
        let keys = self.column(key, fields[0].data_type(), total);
        let values = self.column(value, fields[1].data_type(), total);
        let pairs: Vec<String> =
            keys.inner.iter().zip(&values.inner).map(|(key, value)| format!("{key}:{value}")).collect();
        let texts = grouped(&pairs, &lengths, "{", "}");
        let parts = StructArray::new(fields.clone(), vec![keys.array, values.array], None);
        let offsets = OffsetBuffer::from_lengths(lengths);
        Column::same(Arc::new(MapArray::new(Arc::clone(entries), offsets, parts, None, false)), texts)
    }

    fn tuple(&mut self, types: &[&ChType], fields: &Fields, rows: usize) -> Column {
        let parts: Vec<Column> =
            types.iter().zip(fields).map(|(ty, field)| self.column(ty, field.data_type(), rows)).collect();
        let text = |row: usize| {
            let cells: Vec<&str> = parts.iter().map(|part| part.inner[row].as_str()).collect();
            format!("({})", cells.join(","))
        };
        let texts = (0..rows).map(text).collect();
        let arrays = parts.iter().map(|part| Arc::clone(&part.array)).collect();
        Column::same(Arc::new(StructArray::new(fields.clone(), arrays, None)), texts)
    }

    fn integers(&mut self, ty: &ChType, arrow: &DataType, rows: usize) -> Column {
        let (min, max) = integer_limits(ty).unwrap();
        let values: Vec<i128> =
            (0..rows).map(|_| self.dice.or_edge(&[min, max, 0, 1], |dice| dice.between(min, max))).collect();
        let texts = values.iter().map(ToString::to_string).collect();
        let array: ArrayRef = if min == 0 {
            let values = values.iter().map(|value| u64::try_from(*value).unwrap());
            Arc::new(UInt64Array::from_iter_values(values))
        } else {
            let values = values.iter().map(|value| i64::try_from(*value).unwrap());
            Arc::new(Int64Array::from_iter_values(values))
        };
        Column::same(cast(&array, arrow).unwrap(), texts)
    }

    fn floats(&mut self, ty: &ChType, rows: usize) -> Column {
        // What 16 bits hold too.
        let simple =
            [0.0f32, -0.0, 1.0, -2.5, 0.007_812_5, 65_536.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
        if *ty == ChType::Float64 {
            let edges = [f64::MIN, f64::MAX, f64::MIN_POSITIVE, 5e-324, 0.1, 9_007_199_254_740_993.0, 1e21];
            let value = |dice: &mut Dice| {
                let random = f64::from_bits(dice.next());
                match dice.below(3) {
                    0 => edges[dice.below(edges.len())],
                    1 => f64::from(simple[dice.below(simple.len())]),
                    _ if random.is_finite() => random,
                    _ => 1.5,
                }
            };
            let values: Vec<f64> = (0..rows).map(|_| value(self.dice)).collect();
            let texts = values.iter().map(|value| float_text(*value, &format!("{value:e}"))).collect();
            return Column::new(Float64Array::from(values), texts, false);
        }
        let edges = [f32::MIN, f32::MAX, f32::MIN_POSITIVE, f32::EPSILON, 1e-45, 0.1, 16_777_217.0];
        let value = |dice: &mut Dice| {
            let random = f32::from_bits(u32::from_le_bytes(dice.bytes()));
            match if *ty == ChType::BFloat16 { 1 } else { dice.below(3) } {
                0 => edges[dice.below(edges.len())],
                1 => simple[dice.below(simple.len())],
                _ if random.is_finite() => random,
                _ => 1.5,
            }
        };
        let values: Vec<f32> = (0..rows).map(|_| value(self.dice)).collect();
        let texts = values.iter().map(|value| float_text(f64::from(*value), &format!("{value:e}"))).collect();
        Column::new(Float32Array::from(values), texts, false)
    }

    fn decimals(&mut self, precision: u8, scale: u8, arrow: &DataType, rows: usize) -> Column {
        let end = i256::from_i128(10).checked_pow(precision.into()).unwrap();
        let last = end.wrapping_sub(i256::ONE);
        let edges = [last, last.wrapping_neg(), i256::ZERO, i256::ONE, i256::MINUS_ONE];
        let random = |dice: &mut Dice| i256::from_le_bytes(dice.bytes()).wrapping_rem(end);
        let values: Vec<i256> = (0..rows).map(|_| self.dice.or_edge(&edges, random)).collect();
        let texts =
            values.iter().map(|value| decimal_text(&value.to_string(), scale, self.version)).collect();
        let array: ArrayRef = if let DataType::Decimal128(..) = arrow {
            let values = values.iter().map(|value| value.to_i128().unwrap());
            Arc::new(PrimitiveArray::<Decimal128Type>::from_iter_values(values).with_data_type(arrow.clone()))
        } else {
            Arc::new(PrimitiveArray::<Decimal256Type>::from_iter_values(values).with_data_type(arrow.clone()))
        };
        Column::same(array, texts)
    }

    fn wide(&mut self, ty: &ChType, arrow: &DataType, rows: usize) -> Column {
        let mut bytes = |edges: &[[u8; 32]], random: fn(&mut Dice) -> [u8; 32]| -> Vec<[u8; 32]> {
            (0..rows).map(|_| self.dice.or_edge(edges, random)).collect()
        };
        let signed = |value: i128| i256::from_i128(value).to_le_bytes();
        let unsigned = |value: u128| i256::from_parts(value, 0).to_le_bytes();
        let values = match ty {
            ChType::Int128 => bytes(&[i128::MIN, i128::MAX, -1, 0].map(signed), |dice| {
                i256::from_i128(i128::from_le_bytes(dice.bytes())).to_le_bytes()
            }),
            ChType::UInt128 => bytes(&[u128::MAX, 0, 1 << 127].map(unsigned), |dice| {
                i256::from_parts(u128::from_le_bytes(dice.bytes()), 0).to_le_bytes()
            }),
            _ => {
                let edges = [i256::MIN, i256::MAX, i256::MINUS_ONE, i256::ZERO, i256::ONE];
                bytes(&edges.map(i256::to_le_bytes), Dice::bytes)
            }
        };
        let is_signed = matches!(ty, ChType::Int128 | ChType::Int256);
        let texts = values.iter().map(|bytes| integer_text(bytes, is_signed)).collect();
        let array: ArrayRef = if let DataType::Decimal256(..) = arrow {
            let values = values.iter().map(|bytes| i256::from_le_bytes(*bytes));
            Arc::new(PrimitiveArray::<Decimal256Type>::from_iter_values(values).with_data_type(arrow.clone()))
        } else {
            Arc::new(fixed(32, values.as_flattened()))
        };
        Column::same(array, texts)
    }

    fn bytes(&mut self, ty: &ChType, rows: usize) -> Column {
        let mut all = Vec::new();
        let mut texts = Vec::new();
        let width = if let ChType::FixedString(width) = ty { *width } else { 16 };
        for _ in 0..rows {
            let value: [u8; 16] = self.dice.bytes();
            match ty {
                ChType::FixedString(_) => {
                    // Short ones are padded with zero bytes.
                    let length = self.dice.below(width + 1);
                    let mut text: Vec<u8> =
                        value.iter().cycle().take(length).map(|b| b'!' + b % 90).collect();
                    text.resize(width, 0);
                    all.extend(&text);
                    texts.push(String::from_utf8(text).unwrap());
                }
                ChType::Uuid => {
                    let value = self.dice.or_edge(&[[0; 16], [0xff; 16]], |_| value);
                    all.extend(value);
                    texts.push(uuid_text(value));
                }
                _ => {
                    let mapped = Ipv4Addr::new(192, 0, 2, 33).to_ipv6_mapped().octets();
                    let edges = [[0; 16], [0xff; 16], Ipv6Addr::LOCALHOST.octets(), mapped];
                    let value = self.dice.or_edge(&edges, |_| value);
                    all.extend(value);
                    texts.push(Ipv6Addr::from(value).to_string());
                }
            }
        }
        Column::new(fixed(width, &all), texts, true)
    }

    fn times(&mut self, ty: &ChType, arrow: &DataType, rows: usize) -> Column {
        let (min, max) = self.time_limits(ty);
        let digits = match ty {
            ChType::DateTime64(digits, _) => *digits,
            ChType::Time64 { scale, .. } => *scale,
            _ => 0,
        };
        let edges = [min, max, 0.max(min), 1.max(min)];
        let values: Vec<i128> =
            (0..rows).map(|_| self.dice.or_edge(&edges, |dice| dice.between(min, max))).collect();
        let texts: Vec<String> = values.iter().map(|value| time_text(ty, *value, digits)).collect();
        // The Arrow unit is the next finer one.
        let finer = 10i128.pow(u32::from(digits.div_ceil(3) * 3 - digits));
        let values: Vec<i64> = values.iter().map(|value| i64::try_from(value * finer).unwrap()).collect();
        let array = match arrow {
            DataType::Date32 | DataType::Time32(_) => {
                let values: Vec<i32> = values.iter().map(|value| i32::try_from(*value).unwrap()).collect();
                plain(Buffer::from_vec(values), rows, arrow)
            }
            _ => plain(Buffer::from_vec(values), rows, arrow),
        };
        let quoted = !matches!(ty, ChType::Interval(_));
        let inner = texts_in(&texts, quoted);
        Column { array, texts, inner }
    }

    /// In units of the type.
    fn time_limits(&self, ty: &ChType) -> (i128, i128) {
        let day = 86_400;
        match ty {
            // The old server prints day 0 as 0000-00-00, its calendar ends with 2105, and it knows a zone's rules to 2037.
            ChType::Date if self.version == Version::V18 => (1, 49_670),
            ChType::Date => (0, 65_535),
            ChType::Date32 => (-25_567, 120_529),
            ChType::DateTime(_) if self.version == Version::V18 => (2 * day, i32::MAX.into()),
            ChType::DateTime(_) => (0, u32::MAX.into()),
            ChType::DateTime64(9, zone) if zone.as_deref() == Some("UTC") => {
                (-25_567 * day * 1_000_000_000, i64::MAX.into())
            }
            // Zones before they were made uniform are no matter of ours.
            ChType::DateTime64(digits, zone) => {
                let ticks = 10i128.pow((*digits).into());
                let first = if zone.as_deref() == Some("UTC") { -25_567 * day * ticks } else { 0 };
                // From seven digits on Arrow counts nanoseconds, which end in 2262.
                let last = if *digits > 6 {
                    i128::from(i64::MAX) / 10i128.pow(9 - u32::from(*digits))
                } else {
                    120_530 * day * ticks - 1
                };
                (first, last)
            }
            // What Arrow's time of day holds; the server's goes from -999:59:59 to 999:59:59.
            ChType::Time => (0, day - 1),
            ChType::Time64 { scale, .. } => (0, day * 10i128.pow((*scale).into()) - 1),
            ChType::Interval(_) => (i64::MIN.into(), i64::MAX.into()),
            _ => panic!("no values for {ty}"),
        }
    }
}

fn texts_in(texts: &[String], quoted: bool) -> Vec<String> {
    texts.iter().map(|text| if quoted { format!("'{text}'") } else { text.clone() }).collect()
}

fn plain(values: Buffer, rows: usize, arrow: &DataType) -> ArrayRef {
    let data = connector_core::arrow::array::ArrayData::builder(arrow.clone());
    make_array(data.len(rows).add_buffer(values).build().unwrap())
}

fn fixed(width: usize, bytes: &[u8]) -> FixedSizeBinaryArray {
    let width = i32::try_from(width).unwrap();
    FixedSizeBinaryArray::new(width, Buffer::from(bytes), None::<NullBuffer>)
}

fn integer_limits(ty: &ChType) -> Option<(i128, i128)> {
    Some(match ty {
        ChType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        ChType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        ChType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        ChType::Int64 => (i64::MIN.into(), i64::MAX.into()),
        ChType::UInt8 => (0, u8::MAX.into()),
        ChType::UInt16 => (0, u16::MAX.into()),
        ChType::UInt32 => (0, u32::MAX.into()),
        ChType::UInt64 => (0, u64::MAX.into()),
        _ => return None,
    })
}

/// Rows of `lengths` parts each.
fn grouped(parts: &[String], lengths: &[usize], open: &str, close: &str) -> Vec<String> {
    let mut rest = parts;
    let mut group = |length: &usize| {
        let (row, others) = rest.split_at(*length);
        rest = others;
        format!("{open}{}{close}", row.join(","))
    };
    lengths.iter().map(&mut group).collect()
}

/// `scientific` are the fewest digits that tell the number from its neighbours, as `1.5e-7`.
fn float_text(value: f64, scientific: &str) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific.to_owned() };
    let exponent: i32 = exponent.parse().unwrap();
    if !(-6..21).contains(&exponent) && value != 0.0 {
        return scientific.to_owned();
    }
    // Written out.
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", digits),
    };
    let bare: String = digits.chars().filter(|c| *c != '.').collect();
    let whole = usize::try_from(exponent + 1).unwrap_or(0);
    let text = if exponent < 0 {
        format!("0.{}{bare}", "0".repeat(usize::try_from(-exponent - 1).unwrap()))
    } else if bare.len() <= whole {
        format!("{bare}{}", "0".repeat(whole - bare.len()))
    } else {
        format!("{}.{}", &bare[..whole], &bare[whole..])
    };
    format!("{sign}{text}")
}

/// Current servers leave zeros at the end out, the old one prints them.
fn decimal_text(units: &str, scale: u8, version: Version) -> String {
    let scale = usize::from(scale);
    let (sign, units) = match units.strip_prefix('-') {
        Some(units) => ("-", units),
        None => ("", units),
    };
    let units = format!("{units:0>width$}", width = scale + 1);
    let (whole, part) = units.split_at(units.len() - scale);
    let part = if version == Version::Current { part.trim_end_matches('0') } else { part };
    let point = if part.is_empty() { "" } else { "." };
    format!("{sign}{whole}{point}{part}")
}

/// 256 bits, low byte first, as a decimal number.
fn integer_text(bytes: &[u8; 32], is_signed: bool) -> String {
    let negative = is_signed && bytes[31] >= 0x80;
    let mut bytes = *bytes;
    if negative {
        let mut carry = true;
        for byte in &mut bytes {
            (*byte, carry) = (!*byte).overflowing_add(u8::from(carry));
        }
    }
    let mut digits = Vec::new();
    while bytes.iter().any(|byte| *byte != 0) {
        let mut rest = 0u32;
        for byte in bytes.iter_mut().rev() {
            let value = rest << 8 | u32::from(*byte);
            *byte = u8::try_from(value / 10).unwrap();
            rest = value % 10;
        }
        digits.push(char::from(b'0' + u8::try_from(rest).unwrap()));
    }
    if digits.is_empty() {
        return "0".to_owned();
    }
    let sign = if negative { "-" } else { "" };
    format!("{sign}{}", digits.into_iter().rev().collect::<String>())
}

fn uuid_text(bytes: [u8; 16]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

fn time_text(ty: &ChType, value: i128, digits: u8) -> String {
    match ty {
        ChType::Date | ChType::Date32 => {
            let day = Date::constant(1970, 1, 1)
                .checked_add(jiff::Span::new().days(i64::try_from(value).unwrap()))
                .unwrap();
            day.to_string()
        }
        ChType::Interval(_) => value.to_string(),
        ChType::Time | ChType::Time64 { .. } => {
            let ticks = 10i128.pow(digits.into());
            let (seconds, part) = (value.abs() / ticks, value.abs() % ticks);
            let sign = if value < 0 { "-" } else { "" };
            let clock = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
            format!("{sign}{clock}{}", fraction(part, digits))
        }
        ChType::DateTime(zone) | ChType::DateTime64(_, zone) => {
            let ticks = 10i128.pow(digits.into());
            let zone = TimeZone::get(zone.as_deref().unwrap_or("UTC")).unwrap();
            let seconds = i64::try_from(value.div_euclid(ticks)).unwrap();
            let local = zone.to_datetime(Timestamp::from_second(seconds).unwrap());
            format!("{}{}", local.strftime("%Y-%m-%d %H:%M:%S"), fraction(value.rem_euclid(ticks), digits))
        }
        _ => panic!("no text for {ty}"),
    }
}

fn fraction(part: i128, digits: u8) -> String {
    if digits == 0 { String::new() } else { format!(".{part:0>width$}", width = usize::from(digits)) }
}
