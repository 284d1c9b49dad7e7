//! The decoder against serde_json, jiff and plain arithmetic, on random schemas, records and bytes.

use std::fmt::Write;

use connector_core::arrow::{
    array::{Array, AsArray},
    datatypes::{Decimal128Type, Float64Type, Int64Type, TimeUnit, TimestampNanosecondType, UInt64Type},
};
use jiff::{Timestamp, tz::Offset};
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::Value;

use super::*;

/// A type of the tests, from which the Arrow type, random values and the way back follow.
#[derive(Debug, Clone)]
enum Kind {
    Bool,
    Int,
    UInt,
    Float,
    Text,
    View,
    List(Box<Kind>),
    Object(Vec<(String, Kind)>),
    Map(Box<Kind>),
}

impl Kind {
    fn data_type(&self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Int => DataType::Int64,
            Self::UInt => DataType::UInt64,
            Self::Float => DataType::Float64,
            Self::Text => DataType::Utf8,
            Self::View => DataType::Utf8View,
            Self::List(item) => DataType::LargeList(Arc::new(Field::new("item", item.data_type(), true))),
            Self::Object(fields) => DataType::Struct(arrow_fields(fields).into()),
            Self::Map(value) => {
                let key = Field::new("keys", DataType::Utf8, false);
                let entries =
                    DataType::Struct(vec![key, Field::new("values", value.data_type(), true)].into());
                DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
            }
        }
    }

    /// The value in a row, as serde_json has it.
    fn value(&self, array: &ArrayRef, row: usize) -> Value {
        if array.is_null(row) {
            return Value::Null;
        }
        match self {
            Self::Bool => array.as_boolean().value(row).into(),
            Self::Int => array.as_primitive::<Int64Type>().value(row).into(),
            Self::UInt => array.as_primitive::<UInt64Type>().value(row).into(),
            Self::Float => array.as_primitive::<Float64Type>().value(row).into(),
            Self::Text => array.as_string::<i32>().value(row).into(),
            Self::View => array.as_string_view().value(row).into(),
            Self::List(item) => {
                let items = array.as_list::<i64>().value(row);
                (0..items.len()).map(|i| item.value(&items, i)).collect()
            }
            Self::Object(fields) => object_value(fields, array.as_struct().columns(), row),
            Self::Map(value) => {
                let entries = array.as_map().value(row);
                let (keys, values) = (entries.column(0).as_string::<i32>(), entries.column(1));
                (0..entries.len()).map(|i| (keys.value(i).to_owned(), value.value(values, i))).collect()
            }
        }
    }

    fn random(&self, random: &mut Random) -> Value {
        if random.below(8) == 0 {
            return Value::Null;
        }
        match self {
            Self::Bool => (random.below(2) == 0).into(),
            Self::Int => random.integer().cast_signed().into(),
            Self::UInt => random.integer().into(),
            // Few enough digits that serde_json, which does not always round right, does.
            Self::Float => (f64::from(i32::from_ne_bytes(random.bytes())) / 16.0).into(),
            Self::Text | Self::View => random.text().into(),
            Self::List(item) => (0..random.below(4)).map(|_| item.random(random)).collect(),
            Self::Object(fields) => random_object(fields, random),
            Self::Map(value) => (0..random.below(4))
                .map(|i| (format!("{i}{}", random.text()), value.random(random)))
                .collect(),
        }
    }
}

fn arrow_fields(fields: &[(String, Kind)]) -> Vec<Field> {
    fields.iter().map(|(name, kind)| Field::new(name, kind.data_type(), true)).collect()
}

fn object_value(fields: &[(String, Kind)], columns: &[ArrayRef], row: usize) -> Value {
    fields.iter().zip(columns).map(|((name, kind), column)| (name.clone(), kind.value(column, row))).collect()
}

fn random_object(fields: &[(String, Kind)], random: &mut Random) -> Value {
    fields.iter().map(|(name, kind)| (name.clone(), kind.random(random))).collect()
}

/// Random choices that follow from a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let bits = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn bytes(&mut self) -> [u8; 4] {
        let [a, b, c, d, ..] = self.next().to_ne_bytes();
        [a, b, c, d]
    }

    /// Of any length, and often at a limit.
    fn integer(&mut self) -> u64 {
        match self.below(8) {
            0 => u64::MAX - self.below(2),
            1 => i64::MAX.cast_unsigned() + self.below(2),
            _ => self.next() >> self.below(64),
        }
    }

    fn text(&mut self) -> String {
        let pieces = [
            "",
            "a",
            "bc",
            "\"",
            "\\",
            "/",
            "\n",
            "\u{0}",
            "\u{1f}",
            "é",
            "订单",
            "🎁",
            "0123456789",
            "\u{7f}",
            "\u{ffff}",
            "\u{10ffff}",
        ];
        (0..self.below(6)).map(|_| pieces[usize::try_from(self.below(16)).unwrap()]).collect()
    }

    fn space(&mut self, out: &mut String) {
        if self.below(4) == 0 {
            out.push_str([" ", "\n", "\t\r", "   "][usize::try_from(self.below(4)).unwrap()]);
        }
    }

    /// Writes a value in one of the many ways that JSON has for it.
    fn write(&mut self, value: &Value, top: bool, out: &mut String) {
        self.space(out);
        match value {
            Value::Array(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    out.push_str(if i == 0 { "" } else { "," });
                    self.write(item, false, out);
                }
                self.space(out);
                out.push(']');
            }
            Value::Object(fields) => {
                let mut fields: Vec<_> = fields.iter().collect();
                if top {
                    // Keys move, and those whose value is null may go.
                    let by = usize::try_from(self.below(8)).unwrap() % fields.len().max(1);
                    fields.rotate_left(by);
                    if self.below(2) == 0 {
                        fields.retain(|(_, value)| !value.is_null());
                    }
                }
                let extra = Value::from(vec![Value::from(1), self.text().into()]);
                let name = "extra".to_owned();
                if top && self.below(3) == 0 {
                    fields.insert(0, (&name, &extra));
                }
                out.push('{');
                for (i, (key, value)) in fields.into_iter().enumerate() {
                    out.push_str(if i == 0 { "" } else { "," });
                    self.space(out);
                    self.write_text(key, out);
                    self.space(out);
                    out.push(':');
                    self.write(value, false, out);
                }
                self.space(out);
                out.push('}');
            }
            Value::String(text) => self.write_text(text, out),
            other => write!(out, "{other}").unwrap(),
        }
        self.space(out);
    }

    fn write_text(&mut self, text: &str, out: &mut String) {
        if self.below(4) > 0 {
            out.push_str(&serde_json::to_string(text).unwrap());
            return;
        }
        out.push('"');
        for unit in text.encode_utf16() {
            write!(out, "\\u{unit:04x}").unwrap();
        }
        out.push('"');
    }
}

fn kind() -> impl Strategy<Value = Kind> {
    let leaf = prop_oneof![
        Just(Kind::Bool),
        Just(Kind::Int),
        Just(Kind::UInt),
        Just(Kind::Float),
        Just(Kind::Text),
        Just(Kind::View)
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|kind| Kind::List(Box::new(kind))),
            inner.clone().prop_map(|kind| Kind::Map(Box::new(kind))),
            fields_of(inner).prop_map(Kind::Object),
        ]
    })
}

fn fields_of(kind: impl Strategy<Value = Kind>) -> impl Strategy<Value = Vec<(String, Kind)>> {
    let names = ["a", "b", "id", "Id", "订单", "with \"quotes\"", "back\\slash", ""];
    vec(kind, 0..names.len())
        .prop_map(move |kinds| names.iter().map(ToString::to_string).zip(kinds).collect())
}

fn schema_of(fields: &[(String, Kind)]) -> SchemaRef {
    Arc::new(Schema::new(arrow_fields(fields)))
}

fn record(fields: &[(String, Kind)], random: &mut Random) -> String {
    let mut out = String::new();
    let value = random_object(fields, random);
    random.write(&value, true, &mut out);
    out
}

/// What serde_json makes of a record, without the keys that have no column and with nulls for those absent.
fn oracle(fields: &[(String, Kind)], record: &str) -> Value {
    let value: Value = serde_json::from_str(record).unwrap();
    with_columns(fields, &value)
}

fn with_columns(fields: &[(String, Kind)], value: &Value) -> Value {
    fields.iter().map(|(name, _)| (name.clone(), value.get(name).cloned().unwrap_or(Value::Null))).collect()
}

/// A record with a few bytes changed, mostly to ones that mean something in JSON.
fn damage(record: &str, random: &mut Random) -> Vec<u8> {
    let pieces: [&[u8]; 24] = [
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"\"",
        b"\\",
        b"\\u",
        b"\\ud83d",
        b"null",
        b"true",
        b"-",
        b"0",
        b"1e5",
        b".",
        b" ",
        b"e999",
        b"\"a\":1,",
        b"\x00",
        b"\x1f",
        b"\xff",
        b"\xc3",
        b"\xe8\xae",
    ];
    let mut bytes = record.as_bytes().to_vec();
    for _ in 0..=random.below(2) {
        let at = usize::try_from(random.below(bytes.len() as u64 + 1)).unwrap();
        let end = (at + usize::try_from(random.below(4)).unwrap()).min(bytes.len());
        let piece = pieces[usize::try_from(random.below(24)).unwrap()];
        match random.below(4) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => drop(bytes.splice(at..end, piece.iter().copied())),
            _ => drop(bytes.splice(at..at, piece.iter().copied())),
        }
    }
    bytes
}

/// Whether serde_json takes the bytes as one object. What it refuses for the size of a number alone is fine
/// with us where no column reads it.
fn is_json_object(bytes: &[u8]) -> bool {
    match serde_json::from_slice::<Value>(bytes) {
        Ok(value) => value.is_object(),
        Err(error) => error.to_string().starts_with("number out of range"),
    }
}

proptest! {
    #[test]
    fn values_are_those_of_serde_json(fields in fields_of(kind()), seed: u64, rows in 1..12_usize) {
        let mut random = Random(seed);
        let records: Vec<String> = (0..rows).map(|_| record(&fields, &mut random)).collect();
        let mut decoder = decoder(&schema_of(&fields), JsonOptions::default());
        for record in &records {
            decoder.decode(record.as_bytes()).map_err(|e| TestCaseError::fail(format!("{record}: {e}")))?;
        }
        let batch = decoder.finish().unwrap();
        batch.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
        for (row, record) in records.iter().enumerate() {
            prop_assert_eq!(object_value(&fields, batch.columns(), row), oracle(&fields, record), "{}", record);
        }
    }

    #[test]
    fn damaged_records_are_taken_only_if_serde_json_takes_them(fields in fields_of(kind()), seed: u64) {
        let mut random = Random(seed);
        let mut decoder = decoder(&schema_of(&fields), JsonOptions::default());
        let mut taken = Vec::new();
        for _ in 0..24 {
            let bytes = damage(&record(&fields, &mut random), &mut random);
            match decoder.decode(&bytes) {
                Ok(()) => {
                    prop_assert!(is_json_object(&bytes), "{}", String::from_utf8_lossy(&bytes));
                    taken.push(bytes);
                }
                Err(error) => {
                    prop_assert!(error.offset() <= bytes.len());
                    prop_assert!(error.value().len() <= 90);
                }
            }
        }
        // What was refused left nothing behind.
        let batch = decoder.finish().unwrap();
        let mut fresh = super::decoder(&schema_of(&fields), JsonOptions::default());
        for bytes in &taken {
            fresh.decode(bytes).unwrap();
        }
        prop_assert_eq!(batch, fresh.finish().unwrap());
    }

    #[test]
    fn without_columns_everything_is_taken_that_serde_json_takes(fields in fields_of(kind()), seed: u64) {
        let mut random = Random(seed);
        let mut decoder = decoder(&schema([]), JsonOptions::default());
        for _ in 0..24 {
            let bytes = damage(&record(&fields, &mut random), &mut random);
            let is_json = is_json_object(&bytes);
            match decoder.decode(&bytes) {
                Ok(()) => prop_assert!(is_json, "{}", String::from_utf8_lossy(&bytes)),
                Err(error) if error.kind() == JsonErrorKind::DuplicateKey => {}
                // Its own message for a number comes before it sees what follows.
                Err(error) => prop_assert!(
                    !is_json || serde_json::from_slice::<Value>(&bytes).is_err(),
                    "{}: {error}", String::from_utf8_lossy(&bytes)
                ),
            }
        }
    }

    #[test]
    fn no_bytes_make_it_panic(records in vec(vec(any::<u8>(), 0..64), 1..8), fields in fields_of(kind())) {
        let mut decoder = decoder(&schema_of(&fields), JsonOptions { coerce_to_text: true, ..JsonOptions::default() });
        let taken = records.iter().filter(|record| decoder.decode(record).is_ok()).count();
        prop_assert_eq!(decoder.finish().unwrap().num_rows(), taken);
    }

    #[test]
    fn texts_made_of_json_tokens(tokens in vec(select(vec![
        "{", "}", "[", "]", ",", ":", "\"a\"", "\"b\"", "1", "-0.5e3", "true", "null", " ", "\"\\u00e9\"", "\"",
    ]), 0..24)) {
        let text = format!("{{{}", tokens.concat());
        let schema = schema([("a", Kind::List(Box::new(Kind::Int)).data_type(), true), ("b", DataType::Utf8, true)]);
        let mut decoder = decoder(&schema, JsonOptions::default());
        if decoder.decode(text.as_bytes()).is_ok() {
            prop_assert!(is_json_object(text.as_bytes()), "{}", text);
        }
    }

    #[test]
    fn decimals_are_their_digits(
        integer in "[1-9][0-9]{0,20}|0",
        fraction in "[0-9]{0,12}",
        exponent in -6..6_i32,
        scale in 0..12_i8,
        negative: bool,
        quoted: bool,
    ) {
        let sign = if negative { "-" } else { "" };
        let point = if fraction.is_empty() { "" } else { "." };
        let text = format!("{sign}{integer}{point}{fraction}e{exponent}");
        // All digits with zeros behind them, so that the point can be set anywhere.
        let digits: i128 = format!("{integer}{fraction}").parse().unwrap();
        let shift = exponent + i32::from(scale) - i32::try_from(fraction.len()).unwrap();
        let power = 10_i128.pow(shift.unsigned_abs());
        let (magnitude, exact) = if shift >= 0 {
            (digits.checked_mul(power), true)
        } else {
            (Some(digits / power), digits % power == 0)
        };
        let fits = magnitude.filter(|value| *value < 10_i128.pow(30));
        let text = if quoted { format!("\"{text}\"") } else { text };
        let got = value(&DataType::Decimal128(30, scale), &text).map(|a| a.as_primitive::<Decimal128Type>().value(0));
        match (fits, got) {
            (Some(expected), Ok(got)) => {
                prop_assert!(exact, "{}", text);
                prop_assert_eq!(got, if negative { -expected } else { expected }, "{}", text);
            }
            (Some(_), Err(error)) => prop_assert!(!exact && error.kind() == JsonErrorKind::Inexact, "{}", error),
            (None, Err(error)) => prop_assert_eq!(error.kind(), JsonErrorKind::OutOfRange),
            (None, Ok(got)) => prop_assert!(false, "{} was taken as {}", text, got),
        }
    }

    #[test]
    fn integers_are_exact_or_refused(number in any::<i128>(), shift in 0..127_u32, quoted: bool) {
        let number = number >> shift;
        let text = if quoted { format!("\"{number}\"") } else { number.to_string() };
        let signed = value(&DataType::Int64, &text).ok().map(|a| a.as_primitive::<Int64Type>().value(0));
        prop_assert_eq!(signed, i64::try_from(number).ok());
        let unsigned = value(&DataType::UInt64, &text).ok().map(|a| a.as_primitive::<UInt64Type>().value(0));
        prop_assert_eq!(unsigned, u64::try_from(number).ok());
    }

    #[test]
    fn floats_come_back(bits in any::<u64>(), quoted: bool) {
        let float = f64::from_bits(bits);
        prop_assume!(float.is_finite());
        let text = if quoted { format!("\"{float:e}\"") } else { format!("{float:?}") };
        let got = value(&DataType::Float64, &text).unwrap().as_primitive::<Float64Type>().value(0);
        prop_assert_eq!(got.to_bits(), float.to_bits(), "{}", text);
    }

    #[test]
    fn times_are_those_of_jiff(nanos in any::<i64>(), offset in -50_400..50_400_i32, digits in 0..10_u8, space: bool) {
        let unit = 10_i64.pow(9 - u32::from(digits));
        let nanos = nanos.div_euclid(unit).saturating_mul(unit);
        let instant = Timestamp::from_nanosecond(nanos.into()).unwrap();
        let offset = Offset::from_seconds(offset - offset % 60).unwrap();
        let local = offset.to_datetime(instant);
        let mark = if space { ' ' } else { 'T' };
        let fraction = match digits {
            0 => String::new(),
            _ => format!(".{:09}", local.subsec_nanosecond())[..=usize::from(digits)].to_owned(),
        };
        let minutes = offset.seconds().abs() / 60;
        let sign = if offset.seconds() < 0 { '-' } else { '+' };
        let zone = format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60);
        let text = format!("\"{}{fraction}{zone}\"", local.strftime(&format!("%Y-%m-%d{mark}%H:%M:%S")));
        let array = value(&DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())), &text);
        let got = array.map(|array| array.as_primitive::<TimestampNanosecondType>().value(0));
        prop_assert_eq!(got, Ok(nanos), "{}", text);
    }
}
