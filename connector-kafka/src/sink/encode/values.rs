//! Values as JSON, in the spelling of each format.

use std::{
    fmt::{Display, LowerExp},
    io::Write as _,
    sync::{Arc, Mutex, PoisonError},
};

use arrow_json::{
    EncoderFactory, EncoderOptions,
    writer::{Encoder, NullableEncoder},
};
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
use jiff::{Span, civil};

use crate::format::json::put_base64;

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
#[derive(Debug, Clone)]
struct Problem {
    first: Arc<Mutex<Option<String>>>,
    /// Rows of the batch before those at hand.
    before: usize,
}

impl Problem {
    fn note(&self, row: usize, name: &str, what: &str) {
        let row = self.before + row;
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| format!("row {row}: {what} in `{name}` is beyond what a text can say"));
    }
}

impl Factory {
    /// For rows that stand behind `before` others of their batch.
    pub(super) fn new(style: Style, before: usize) -> Self {
        Self { style, problem: Problem { first: Arc::default(), before } }
    }

    /// # Errors
    /// `DataInvalid` when a value could not be written.
    pub(super) fn problem(&self) -> Result<()> {
        match self.problem.first.lock().unwrap_or_else(PoisonError::into_inner).take() {
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
            DataType::Decimal32(_, scale) => digits::<Decimal32Type>(array, *scale, texts),
            DataType::Decimal64(_, scale) => digits::<Decimal64Type>(array, *scale, texts),
            DataType::Decimal128(_, scale) => digits::<Decimal128Type>(array, *scale, texts),
            DataType::Decimal256(_, scale) => digits::<Decimal256Type>(array, *scale, texts),
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
        let mut day = Day::default();
        each(move |row, out| {
            let days = array.value(row);
            match day.of(days.into()) {
                Some(date) => put(out, format_args!("\"{date}\"")),
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
            if !(0..SECONDS_PER_DAY).contains(&seconds) {
                beyond(&problem, out, name, row, &format!("the time of day {value} ({unit:?})"));
                return;
            }
            out.push(b'"');
            put_time(out, seconds);
            put_fraction(out, rest, digits, true);
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
        let (per_second, digits) = scale(unit);
        // Rows near each other are mostly of one day.
        let mut day = Day::default();
        each(move |row, out| {
            let value = array.value(row);
            let (seconds, fraction) = (value.div_euclid(per_second), value.rem_euclid(per_second));
            let Some(date) = day.of(seconds.div_euclid(SECONDS_PER_DAY)) else {
                return beyond(&problem, out, name, row, &format!("the time {value} ({unit:?})"));
            };
            out.push(b'"');
            out.extend_from_slice(date.as_bytes());
            out.push(if mysql { b' ' } else { b'T' });
            put_time(out, seconds.rem_euclid(SECONDS_PER_DAY));
            put_fraction(out, fraction, digits, mysql);
            out.extend_from_slice(if zoned && !mysql { b"Z\"" } else { b"\"" });
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

const SECONDS_PER_DAY: i64 = 86_400;

/// The text of the day that was asked for last.
#[derive(Default)]
struct Day {
    /// Days from 1970-01-01.
    number: i64,
    text: Option<String>,
}

impl Day {
    /// A day as `YYYY-MM-DD`; `None` where its year does not have four digits, as all readers expect it.
    #[inline]
    fn of(&mut self, number: i64) -> Option<&str> {
        if self.text.is_none() || number != self.number {
            self.number = number;
            self.text = date(number);
        }
        self.text.as_deref()
    }
}

#[cold]
fn date(number: i64) -> Option<String> {
    let day = civil::date(1970, 1, 1).checked_add(Span::new().try_days(number).ok()?).ok()?;
    (day.year() >= 0).then(|| day.to_string())
}

/// A time of day as `HH:MM:SS`.
fn put_time(out: &mut Vec<u8>, seconds: i64) {
    for (at, part) in [seconds / 3600, seconds / 60 % 60, seconds % 60].into_iter().enumerate() {
        if at > 0 {
            out.push(b':');
        }
        out.extend([part / 10, part % 10].map(digit));
    }
}

/// A fraction of a second of so many digits; without zeros at its end, but where it is `whole`.
fn put_fraction(out: &mut Vec<u8>, mut fraction: i64, digits: usize, whole: bool) {
    if digits == 0 || fraction == 0 && !whole {
        return;
    }
    let mut text = [b'.'; 10];
    for place in (1..=digits).rev() {
        text[place] = digit(fraction % 10);
        fraction /= 10;
    }
    let mut text = &text[..=digits];
    while let (false, [rest @ .., b'0']) = (whole, text) {
        text = rest;
    }
    out.extend_from_slice(text);
}

/// A number below ten as its character.
fn digit(number: i64) -> u8 {
    b'0' + number.to_le_bytes()[0]
}

fn beyond(problem: &Problem, out: &mut Vec<u8>, name: &str, row: usize, what: &str) {
    out.extend_from_slice(b"null");
    problem.note(row, name, what);
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

/// Decimals with all their digits, as texts where they are `quoted`.
fn digits<'a, T: ArrowPrimitiveType<Native: Digits>>(
    array: &'a dyn Array,
    scale: i8,
    quoted: bool,
) -> Box<dyn Encoder + 'a> {
    let array = array.as_primitive::<T>();
    let quote: &[u8] = if quoted { b"\"" } else { b"" };
    each(move |row, out| {
        out.extend_from_slice(quote);
        array.value(row).with_digits(|digits| put_decimal(out, digits, scale));
        out.extend_from_slice(quote);
    })
}

/// Whole numbers that decimals are made of.
trait Digits: Copy {
    /// Hands the digits to `take`, behind a `-` where the number is negative.
    fn with_digits(self, take: impl FnOnce(&str));
}

macro_rules! digits {
    ($($native:ty),+) => {
        $(impl Digits for $native {
            fn with_digits(self, take: impl FnOnce(&str)) {
                take(itoa::Buffer::new().format(self));
            }
        })+
    };
}
digits!(i32, i64, i128);

impl Digits for i256 {
    fn with_digits(self, take: impl FnOnce(&str)) {
        match self.to_i128() {
            Some(small) => small.with_digits(take),
            None => take(&self.to_string()),
        }
    }
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
