//! Values as JSON, in the spelling of each format.

use std::{
    fmt::{Display, LowerExp, Write as _},
    io::Write as _,
    sync::{Arc, Mutex, PoisonError},
};

use arrow_json::{
    EncoderFactory, EncoderOptions,
    writer::{Encoder, NullableEncoder},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use connector_core::{
    Error, ErrorKind, Result,
    arrow::{
        array::{
            Array, ArrowPrimitiveType, AsArray, BinaryViewArray, BooleanArray, FixedSizeBinaryArray,
            GenericBinaryArray, OffsetSizeTrait, PrimitiveArray,
        },
        datatypes::{
            DataType, Date32Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Field,
            FieldRef, Float32Type, Float64Type, Time32MillisecondType, Time32SecondType,
            Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
            TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt64Type, i256,
        },
        error::ArrowError,
    },
};
use jiff::{Timestamp, civil, tz::Offset};

/// How values are spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// As our JSON reader has it, which is arrow-json's spelling but for bytes and times.
    Json,
    /// The same with names for what is no number.
    Csv,
    /// As Debezium's events have it: days, and units since midnight or 1970. Decimals are base64 where the schema part
    /// tells their scale (`precise`), else texts of their digits.
    Debezium { precise: bool },
    /// As MySQL prints values, bytes as base64 or (`latin1`) a character each.
    Mysql { latin1: bool },
}

impl Style {
    /// Whether floats that JSON has no number for are texts.
    fn names_nan(self) -> bool {
        self != Self::Json
    }
}

/// Makes encoders for what arrow-json writes in another way than a style has it, or not at all.
#[derive(Debug)]
pub(super) struct Factory {
    style: Style,
    problem: Problem,
}

/// The first value that could not be written.
#[derive(Debug, Clone, Default)]
struct Problem(Arc<Mutex<Option<String>>>);

impl Problem {
    fn note(&self, text: impl FnOnce() -> String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(text);
    }
}

impl Factory {
    pub(super) fn new(style: Style) -> Self {
        Self { style, problem: Problem::default() }
    }

    /// # Errors
    /// `DataInvalid` when a value could not be written.
    pub(super) fn problem(&self) -> Result<()> {
        match self.problem.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(text) => Err(Error::new(ErrorKind::DataInvalid, text)),
            None => Ok(()),
        }
    }

    /// Encoders of numbers, which only some styles spell in their own way.
    fn number<'a>(&self, array: &'a dyn Array) -> Option<Box<dyn Encoder + 'a>> {
        let precise = self.style == Style::Debezium { precise: true };
        let texts = self.style == Style::Debezium { precise: false };
        Some(match array.data_type() {
            DataType::Float32 if self.style.names_nan() => float::<Float32Type>(array),
            DataType::Float64 if self.style.names_nan() => float::<Float64Type>(array),
            // Connect has no unsigned numbers; a decimal without a scale holds them all.
            DataType::UInt64 if precise => unscaled::<UInt64Type, 16>(array, |n| i128::from(n).to_be_bytes()),
            DataType::Decimal32(..) if precise => unscaled::<Decimal32Type, 4>(array, i32::to_be_bytes),
            DataType::Decimal64(..) if precise => unscaled::<Decimal64Type, 8>(array, i64::to_be_bytes),
            DataType::Decimal128(..) if precise => unscaled::<Decimal128Type, 16>(array, i128::to_be_bytes),
            DataType::Decimal256(..) if precise => unscaled::<Decimal256Type, 32>(array, i256::to_be_bytes),
            DataType::Decimal32(_, scale) if texts => digits::<Decimal32Type>(array, *scale),
            DataType::Decimal64(_, scale) if texts => digits::<Decimal64Type>(array, *scale),
            DataType::Decimal128(_, scale) if texts => digits::<Decimal128Type>(array, *scale),
            DataType::Decimal256(_, scale) if texts => digits::<Decimal256Type>(array, *scale),
            DataType::Boolean if matches!(self.style, Style::Mysql { .. }) => bits(array.as_boolean()),
            _ => return None,
        })
    }

    fn bytes<'a>(&self, array: &'a dyn Array) -> Option<Box<dyn Encoder + 'a>> {
        let latin1 = self.style == Style::Mysql { latin1: true };
        Some(match array.data_type() {
            DataType::Binary => bytes(array.as_binary::<i32>(), latin1),
            DataType::LargeBinary => bytes(array.as_binary::<i64>(), latin1),
            DataType::BinaryView => bytes(array.as_binary_view(), latin1),
            DataType::FixedSizeBinary(_) => bytes(array.as_fixed_size_binary(), latin1),
            _ => return None,
        })
    }

    fn time<'a>(&self, name: &'a str, array: &'a dyn Array) -> Option<Box<dyn Encoder + 'a>> {
        use DataType::{Date32, Time32, Time64, Timestamp};
        use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
        Some(match array.data_type() {
            Date32 => self.dates(name, array.as_primitive()),
            Time32(Second) => self.times_of_day::<Time32SecondType>(name, array, Second),
            Time32(Millisecond) => self.times_of_day::<Time32MillisecondType>(name, array, Millisecond),
            Time64(Microsecond) => self.times_of_day::<Time64MicrosecondType>(name, array, Microsecond),
            Time64(Nanosecond) => self.times_of_day::<Time64NanosecondType>(name, array, Nanosecond),
            Timestamp(Second, zone) => self.times::<TimestampSecondType>(name, array, zone.is_some()),
            Timestamp(Millisecond, zone) => {
                self.times::<TimestampMillisecondType>(name, array, zone.is_some())
            }
            Timestamp(Microsecond, zone) => {
                self.times::<TimestampMicrosecondType>(name, array, zone.is_some())
            }
            Timestamp(Nanosecond, zone) => self.times::<TimestampNanosecondType>(name, array, zone.is_some()),
            _ => return None,
        })
    }

    fn dates<'a>(&self, name: &'a str, array: &'a PrimitiveArray<Date32Type>) -> Box<dyn Encoder + 'a> {
        if matches!(self.style, Style::Debezium { .. }) {
            return each(move |row, out| put(out, array.value(row)));
        }
        let problem = self.problem.clone();
        each(move |row, out| {
            let days = array.value(row);
            let day = Timestamp::from_second(i64::from(days) * 86_400).ok().map(wall).filter(is_shown);
            match day {
                Some(day) => put(out, format_args!("\"{}\"", day.date())),
                None => beyond(&problem, out, name, row, &format!("the date {days} days from 1970")),
            }
        })
    }

    fn times_of_day<'a, T: ArrowPrimitiveType<Native: Into<i64>>>(
        &self,
        name: &'a str,
        array: &'a dyn Array,
        unit: TimeUnit,
    ) -> Box<dyn Encoder + 'a> {
        let array = array.as_primitive::<T>();
        let (per_second, digits) = scale(unit);
        if matches!(self.style, Style::Debezium { .. }) {
            // Debezium counts no unit above the millisecond.
            let factor = if unit == TimeUnit::Second { 1000 } else { 1 };
            return each(move |row, out| put(out, array.value(row).into() * factor));
        }
        let problem = self.problem.clone();
        each(move |row, out| {
            let value: i64 = array.value(row).into();
            let (seconds, rest) = (value.div_euclid(per_second), value.rem_euclid(per_second));
            if !(0..86_400).contains(&seconds) {
                beyond(&problem, out, name, row, &format!("the time of day {value} ({unit:?})"));
                return;
            }
            put(out, format_args!("\"{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60));
            if digits > 0 {
                put(out, format_args!(".{rest:0digits$}"));
            }
            out.push(b'"');
        })
    }

    fn times<'a, T: ArrowPrimitiveType<Native = i64>>(
        &self,
        name: &'a str,
        array: &'a dyn Array,
        zoned: bool,
    ) -> Box<dyn Encoder + 'a> {
        let array = array.as_primitive::<T>();
        let unit = match T::DATA_TYPE {
            DataType::Timestamp(unit, _) => unit,
            _ => TimeUnit::Second,
        };
        let problem = self.problem.clone();
        if matches!(self.style, Style::Debezium { .. }) && !zoned {
            let factor = if unit == TimeUnit::Second { 1000 } else { 1 };
            return each(move |row, out| match array.value(row).checked_mul(factor) {
                Some(value) => put(out, value),
                None => beyond(&problem, out, name, row, "a time in milliseconds"),
            });
        }
        let mysql = matches!(self.style, Style::Mysql { .. });
        let (_, digits) = scale(unit);
        each(move |row, out| {
            let value = array.value(row);
            let time = match unit {
                TimeUnit::Second => Timestamp::from_second(value),
                TimeUnit::Millisecond => Timestamp::from_millisecond(value),
                TimeUnit::Microsecond => Timestamp::from_microsecond(value),
                TimeUnit::Nanosecond => Timestamp::from_nanosecond(i128::from(value)),
            };
            match time.ok().map(|time| (time, wall(time))).filter(|(_, wall)| is_shown(wall)) {
                Some((_, wall)) if mysql => {
                    put(out, format_args!("\"{} {:.digits$}\"", wall.date(), wall.time()));
                }
                Some((time, _)) if zoned => put(out, format_args!("\"{time}\"")),
                Some((_, wall)) => put(out, format_args!("\"{wall}\"")),
                None => beyond(&problem, out, name, row, &format!("the time {value} ({unit:?})")),
            }
        })
    }
}

impl EncoderFactory for Factory {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        _options: &'a EncoderOptions,
    ) -> std::result::Result<Option<NullableEncoder<'a>>, ArrowError> {
        let encoder =
            self.number(array).or_else(|| self.bytes(array)).or_else(|| self.time(field.name(), array));
        if encoder.is_none() {
            refuse_unreadable(field, array)?;
        }
        Ok(encoder.map(|encoder| NullableEncoder::new(encoder, array.nulls().cloned())))
    }
}

/// arrow-json has spellings for these that no reader of ours, nor any of the formats, takes.
fn refuse_unreadable(field: &Field, array: &dyn Array) -> std::result::Result<(), ArrowError> {
    match array.data_type() {
        DataType::Duration(_) | DataType::Interval(_) => Err(ArrowError::InvalidArgumentError(format!(
            "`{}` is {}, which the formats have no text for",
            field.name(),
            array.data_type()
        ))),
        _ => Ok(()),
    }
}

/// An encoder that is a function of the row.
struct Each<F>(F);

impl<F: FnMut(usize, &mut Vec<u8>)> Encoder for Each<F> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        (self.0)(row, out);
    }
}

fn each<'a>(write: impl FnMut(usize, &mut Vec<u8>) + 'a) -> Box<dyn Encoder + 'a> {
    Box::new(Each(write))
}

fn put(out: &mut Vec<u8>, value: impl Display) {
    // Writing into memory does not fail.
    drop(write!(out, "{value}"));
}

/// What the clocks show in UTC.
fn wall(time: Timestamp) -> civil::DateTime {
    Offset::UTC.to_datetime(time)
}

/// Whether a year has four digits, as all readers expect it.
fn is_shown(time: &civil::DateTime) -> bool {
    time.year() >= 0
}

fn beyond(problem: &Problem, out: &mut Vec<u8>, name: &str, row: usize, what: &str) {
    out.extend_from_slice(b"null");
    problem.note(|| format!("row {row}: {what} in `{name}` is beyond what a text can say"));
}

/// Units a second, and the digits of a fraction.
fn scale(unit: TimeUnit) -> (i64, usize) {
    match unit {
        TimeUnit::Second => (1, 0),
        TimeUnit::Millisecond => (1000, 3),
        TimeUnit::Microsecond => (1_000_000, 6),
        TimeUnit::Nanosecond => (1_000_000_000, 9),
    }
}

fn float<'a, T: ArrowPrimitiveType<Native: Into<f64> + Display + LowerExp>>(
    array: &'a dyn Array,
) -> Box<dyn Encoder + 'a> {
    let array = array.as_primitive::<T>();
    each(move |row, out| {
        let value = array.value(row);
        let wide: f64 = value.into();
        // Of the type's own width: the shortest digits that read back as the same number.
        match wide {
            _ if wide.is_nan() => out.extend_from_slice(b"\"NaN\""),
            f64::INFINITY => out.extend_from_slice(b"\"Infinity\""),
            f64::NEG_INFINITY => out.extend_from_slice(b"\"-Infinity\""),
            _ if wide != 0.0 && !(1e-5..1e16).contains(&wide.abs()) => put(out, format_args!("{value:e}")),
            _ => put(out, value),
        }
    })
}

fn bits(array: &BooleanArray) -> Box<dyn Encoder + '_> {
    each(move |row, out| out.push(if array.value(row) { b'1' } else { b'0' }))
}

/// Unscaled numbers in base64, with no more bytes than they need.
fn unscaled<'a, T: ArrowPrimitiveType, const N: usize>(
    array: &'a dyn Array,
    to_bytes: impl Fn(T::Native) -> [u8; N] + 'a,
) -> Box<dyn Encoder + 'a> {
    let array = array.as_primitive::<T>();
    each(move |row, out| {
        let bytes = to_bytes(array.value(row));
        let sign = if bytes[0] >= 0x80 { 0xFF } else { 0 };
        // A byte that only repeats the sign of the one behind it says nothing.
        let needless = bytes.windows(2).take_while(|pair| pair[0] == sign && (pair[1] ^ sign) < 0x80).count();
        put_base64(out, &bytes[needless..]);
    })
}

/// Decimals as texts of all their digits.
fn digits<'a, T: ArrowPrimitiveType<Native: Display>>(
    array: &'a dyn Array,
    scale: i8,
) -> Box<dyn Encoder + 'a> {
    let array = array.as_primitive::<T>();
    let mut text = String::new();
    each(move |row, out| {
        text.clear();
        // Writing into memory does not fail.
        write!(text, "{}", array.value(row)).ok();
        out.push(b'"');
        put_decimal(out, &text, scale);
        out.push(b'"');
    })
}

/// Digits with their point.
fn put_decimal(out: &mut Vec<u8>, unscaled: &str, scale: i8) {
    let magnitude = unscaled.strip_prefix('-').unwrap_or(unscaled);
    if magnitude.len() < unscaled.len() {
        out.push(b'-');
    }
    let places = usize::from(scale.unsigned_abs());
    if scale <= 0 {
        out.extend_from_slice(magnitude.as_bytes());
        if magnitude != "0" {
            out.resize(out.len() + places, b'0');
        }
        return;
    }
    let whole = magnitude.len().saturating_sub(places);
    let (whole, fraction) = magnitude.split_at(whole);
    out.extend_from_slice(if whole.is_empty() { b"0" } else { whole.as_bytes() });
    out.push(b'.');
    out.resize(out.len() + places - fraction.len(), b'0');
    out.extend_from_slice(fraction.as_bytes());
}

/// Arrays of bytes.
trait Bytes {
    fn bytes(&self, row: usize) -> &[u8];
}

impl<O: OffsetSizeTrait> Bytes for GenericBinaryArray<O> {
    fn bytes(&self, row: usize) -> &[u8] {
        self.value(row)
    }
}

impl Bytes for BinaryViewArray {
    fn bytes(&self, row: usize) -> &[u8] {
        self.value(row)
    }
}

impl Bytes for FixedSizeBinaryArray {
    fn bytes(&self, row: usize) -> &[u8] {
        self.value(row)
    }
}

fn bytes<'a, A: Bytes>(array: &'a A, latin1: bool) -> Box<dyn Encoder + 'a> {
    if latin1 {
        return each(move |row, out| put_latin1(out, array.bytes(row)));
    }
    each(move |row, out| put_base64(out, array.bytes(row)))
}

fn put_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    let start = out.len();
    // Room for four characters for each three bytes begun.
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = STANDARD.encode_slice(bytes, &mut out[start..]).unwrap_or(0);
    out.truncate(start + written);
    out.push(b'"');
}

/// A character for each byte.
fn put_latin1(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    for byte in bytes {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            0..0x20 => put(out, format_args!("\\u{byte:04x}")),
            0x20..0x80 => out.push(*byte),
            0x80.. => out.extend_from_slice(char::from(*byte).encode_utf8(&mut [0; 2]).as_bytes()),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(unscaled: &str, scale: i8) -> String {
        let mut out = Vec::new();
        put_decimal(&mut out, unscaled, scale);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn decimals_have_all_their_digits() {
        assert_eq!(decimal("12345", 2), "123.45");
        assert_eq!(decimal("-5", 2), "-0.05");
        assert_eq!(decimal("0", 2), "0.00");
        assert_eq!(decimal("5", -3), "5000");
        assert_eq!(decimal("0", -3), "0");
        assert_eq!(decimal("-7", 0), "-7");
    }
}
