//! Values to text.

use std::fmt::Write;

use connector_bytehouse_common::native::ChType;
use connector_core::arrow::datatypes::i256;

use super::{Value, convert::Zone, plain, power_of_ten};
use crate::sql::quote_text;

/// The value as `toString` writes it.
pub(crate) fn format_value(value: &Value, ty: &ChType, zone: &Zone) -> Vec<u8> {
    let ty = plain(ty);
    let text = match (value, ty) {
        (Value::Text(bytes), _) => return bytes.clone(),
        (Value::Null, _) => "NULL".to_owned(),
        (Value::Int(value), ChType::Bool) => (*value != i256::ZERO).to_string(),
        (Value::Int(value), _) => value.to_string(),
        (Value::Float(value), _) => float(*value),
        (Value::Decimal(digits, scale), _) => decimal(*digits, *scale),
        (Value::Date(days), _) => zone.date_text(*days),
        (Value::Instant(ticks, scale), ty) => zone.of(ty).instant_text(*ticks, *scale),
        (Value::Time(ticks, scale), _) => time(*ticks, *scale),
        (Value::Uuid(bytes), _) => uuid(bytes),
        (Value::Ipv4(address), _) => std::net::Ipv4Addr::from_bits(*address).to_string(),
        (Value::Ipv6(bytes), _) => std::net::Ipv6Addr::from(*bytes).to_string(),
        (Value::Array(items), ty) => {
            let element = if let ChType::Array(element) = ty { element } else { &ChType::String };
            format!("[{}]", join(items.iter().map(|item| nested(item, element, zone))))
        }
        (Value::Tuple(items), ty) => {
            let types = if let ChType::Tuple(elements) = ty { elements.as_slice() } else { &[] };
            let text = |(i, item): (usize, &Value)| {
                nested(item, types.get(i).map_or(&ChType::String, |e| &e.ty), zone)
            };
            format!("({})", join(items.iter().enumerate().map(text)))
        }
        (Value::Map(pairs), ty) => {
            let (key, value) =
                if let ChType::Map(k, v) = ty { (&**k, &**v) } else { (&ChType::String, &ChType::String) };
            let text =
                |(k, v): &(Value, Value)| format!("{}:{}", nested(k, key, zone), nested(v, value, zone));
            format!("{{{}}}", join(pairs.iter().map(text)))
        }
    };
    text.into_bytes()
}

fn join(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(",")
}

/// A value inside an array, map or tuple: texts and times stand in quotes.
fn nested(value: &Value, ty: &ChType, zone: &Zone) -> String {
    let text = format_value(value, ty, zone);
    let quoted = matches!(
        value,
        Value::Text(_)
            | Value::Date(_)
            | Value::Instant(..)
            | Value::Time(..)
            | Value::Uuid(_)
            | Value::Ipv4(_)
            | Value::Ipv6(_)
    );
    if quoted { quote_text(&text) } else { String::from_utf8_lossy(&text).into_owned() }
}

fn float(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-7..1e21).contains(&magnitude) {
        format!("{value:e}")
    } else {
        value.to_string()
    }
}

/// A decimal without the zeros at its end.
fn decimal(digits: i256, scale: u8) -> String {
    let Some(unit) = power_of_ten(u32::from(scale)).filter(|_| scale > 0) else {
        return digits.to_string();
    };
    let sign = if digits.is_negative() { "-" } else { "" };
    let whole = digits.wrapping_div(unit).to_string();
    let fraction = digits.wrapping_rem(unit).to_string();
    let (whole, fraction) = (whole.trim_start_matches('-'), fraction.trim_start_matches('-'));
    let fraction = format!("{fraction:0>width$}", width = usize::from(scale));
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

fn time(ticks: i64, scale: u8) -> String {
    let unit = 10i64.saturating_pow(u32::from(scale));
    let sign = if ticks < 0 { "-" } else { "" };
    let (seconds, fraction) = ((ticks / unit).abs(), (ticks % unit).abs());
    let mut text = format!("{sign}{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if scale > 0 {
        let _infallible = write!(text, ".{fraction:0>width$}", width = usize::from(scale));
    }
    text
}

fn uuid(bytes: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _infallible = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: Value, ty: &str) -> String {
        String::from_utf8(format_value(&value, &ty.parse().unwrap(), &Zone::utc())).unwrap()
    }

    #[test]
    fn as_a_server_writes_them() {
        let digits = |value: i128| i256::from_i128(value);
        assert_eq!(text(Value::Decimal(digits(-5), 2), "Decimal(9, 2)"), "-0.05");
        assert_eq!(text(Value::Decimal(digits(15000), 4), "Decimal(9, 4)"), "1.5");
        assert_eq!(text(Value::Decimal(digits(70), 0), "Decimal(9, 0)"), "70");
        assert_eq!(text(Value::Float(0.1), "Float64"), "0.1");
        assert_eq!(text(Value::Float(1e300), "Float64"), "1e300");
        assert_eq!(text(Value::Float(3.0), "Float64"), "3");
        assert_eq!(text(Value::Date(19_000), "Date"), "2022-01-08");
        assert_eq!(text(Value::Instant(1_500, 3), "DateTime64(3)"), "1970-01-01 00:00:01.500");
        assert_eq!(text(Value::Instant(0, 0), "DateTime('Asia/Shanghai')"), "1970-01-01 08:00:00");
        assert_eq!(text(Value::Instant(-1, 3), "DateTime64(3)"), "1969-12-31 23:59:59.999");
        assert_eq!(text(Value::Time(3_661_500, 3), "Time(3)"), "01:01:01.500");
        let array = Value::Array(vec![Value::text("a'b"), Value::Null]);
        assert_eq!(text(array, "Array(Nullable(String))"), "['a\\'b',NULL]");
        let map = Value::Map(vec![(Value::text("k"), Value::int(1))]);
        assert_eq!(text(map, "Map(String, UInt8)"), "{'k':1}");
        assert_eq!(text(Value::Ipv4(0x7f00_0001), "IPv4"), "127.0.0.1");
    }
}
