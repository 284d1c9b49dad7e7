//! Values from one type to another.

use connector_bytehouse_common::native::ChType;
use connector_core::arrow::datatypes::i256;
use jiff::{
    Timestamp,
    civil::{Date, DateTime, Time},
    tz::TimeZone,
};

use super::{Value, format_value, plain, power_of_ten, rescale, types::integer};
use crate::exception::{Exception, Result, exception};

/// The zone in which texts are times.
#[derive(Debug, Clone)]
pub(crate) struct Zone(TimeZone);

impl Zone {
    #[cfg(test)]
    pub(crate) fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// The zone of an IANA name.
    pub(crate) fn named(name: &str) -> Result<Self> {
        TimeZone::get(name).map(Self).map_err(|_| exception!(BAD_ARGUMENTS, "Cannot load time zone {name}"))
    }

    /// The zone that the type names, or this one.
    pub(crate) fn of(&self, ty: &ChType) -> Self {
        match ty {
            ChType::DateTime(Some(name)) | ChType::DateTime64(_, Some(name)) => {
                Self::named(name).unwrap_or_else(|_| self.clone())
            }
            _ => self.clone(),
        }
    }

    /// Midnight of a day.
    pub(crate) fn civil(&self, days: i32) -> Option<DateTime> {
        date_of(days).map(|date| date.to_datetime(Time::midnight()))
    }

    pub(super) fn date_text(&self, days: i32) -> String {
        date_of(days).map_or_else(|| days.to_string(), |date| date.to_string())
    }

    /// The local time of an instant.
    pub(crate) fn local(&self, ticks: i64, scale: u8) -> Option<DateTime> {
        let unit = 10i64.checked_pow(u32::from(scale))?;
        let nanos = ticks.rem_euclid(unit) * (1_000_000_000 / unit);
        let stamp = Timestamp::new(ticks.div_euclid(unit), i32::try_from(nanos).ok()?).ok()?;
        Some(self.0.to_datetime(stamp))
    }

    pub(super) fn instant_text(&self, ticks: i64, scale: u8) -> String {
        let Some(local) = self.local(ticks, scale) else { return ticks.to_string() };
        let text =
            format!("{} {:02}:{:02}:{:02}", local.date(), local.hour(), local.minute(), local.second());
        if scale == 0 {
            return text;
        }
        let nanos = format!("{:09}", local.subsec_nanosecond());
        format!("{text}.{}", &nanos[..usize::from(scale).min(9)])
    }

    /// The instant of a local time.
    pub(crate) fn instant(&self, local: DateTime, scale: u8) -> Option<i64> {
        let stamp = self.0.to_timestamp(local).ok()?;
        let unit = 10i128.checked_pow(9 - u32::from(scale.min(9)))?;
        i64::try_from(stamp.as_nanosecond().div_euclid(unit)).ok()
    }
}

fn date_of(days: i32) -> Option<Date> {
    Date::constant(1970, 1, 1).checked_add(jiff::Span::new().try_days(days).ok()?).ok()
}

/// Days since 1970-01-01.
pub(crate) fn days_of(date: Date) -> i32 {
    let epoch = Date::constant(1970, 1, 1);
    date.since(epoch).map_or(0, |span| span.get_days())
}

/// What a column of the type holds when nothing is given.
pub(crate) fn default_value(ty: &ChType) -> Value {
    match ty {
        ChType::Nullable(_) | ChType::Nothing => Value::Null,
        ChType::LowCardinality(inner) => default_value(inner),
        ChType::Float32 | ChType::Float64 | ChType::BFloat16 => Value::Float(0.0),
        ChType::Decimal { scale, .. } => Value::Decimal(i256::ZERO, *scale),
        ChType::String => Value::Text(Vec::new()),
        ChType::Json | ChType::Object => Value::text("{}"),
        ChType::FixedString(width) => Value::Text(vec![0; *width]),
        ChType::Enum8(values) | ChType::Enum16(values) => {
            values.iter().next().map_or(Value::Null, |(name, _)| Value::text(name))
        }
        ChType::Uuid => Value::Uuid([0; 16]),
        ChType::IPv4 => Value::Ipv4(0),
        ChType::IPv6 => Value::Ipv6([0; 16]),
        ChType::Date | ChType::Date32 => Value::Date(0),
        ChType::DateTime(_) => Value::Instant(0, 0),
        ChType::DateTime64(scale, _) => Value::Instant(0, *scale),
        ChType::Time => Value::Time(0, 0),
        ChType::Time64 { scale, .. } => Value::Time(0, *scale),
        ChType::Array(_) => Value::Array(Vec::new()),
        ChType::Map(..) => Value::Map(Vec::new()),
        ChType::Tuple(elements) => Value::Tuple(elements.iter().map(|e| default_value(&e.ty)).collect()),
        _ => Value::int(0),
    }
}

/// The value as one of type `to`.
///
/// Null stays null where `to` is nullable and is refused with 349 elsewhere. What does not fit is refused,
/// but for digits of a decimal behind its scale, which are cut off as servers do.
pub(crate) fn convert(value: &Value, from: &ChType, to: &ChType, zone: &Zone) -> Result<Value> {
    match (value, to) {
        (Value::Null, _) if to.is_nullable() => return Ok(Value::Null),
        (Value::Null, _) => {
            return Err(exception!(
                NULL_IN_ORDINARY_COLUMN,
                "Cannot convert NULL value to non-Nullable type {to}"
            ));
        }
        (_, ChType::Nullable(inner) | ChType::LowCardinality(inner)) => {
            return convert(value, from, inner, zone);
        }
        _ => {}
    }
    let from = plain(from);
    if let Some((bits, signed)) = integer(to) {
        return to_integer(value, to, bits, signed);
    }
    match to {
        ChType::Float32 | ChType::Float64 | ChType::BFloat16 => to_float(value, to),
        ChType::Decimal { precision, scale } => to_decimal(value, to, *precision, *scale),
        ChType::String | ChType::Json | ChType::Object => Ok(Value::Text(format_value(value, from, zone))),
        ChType::FixedString(width) => fixed(format_value(value, from, zone), *width),
        ChType::Enum8(values) | ChType::Enum16(values) => match value {
            Value::Text(name) => {
                let name = String::from_utf8_lossy(name);
                values
                    .number(&name)
                    .map(|_| value.clone())
                    .ok_or_else(|| exception!(BAD_ARGUMENTS, "Unknown element '{name}' for type {to}"))
            }
            Value::Int(number) => number
                .to_i128()
                .and_then(|n| i16::try_from(n).ok())
                .and_then(|n| values.name(n))
                .map(Value::text)
                .ok_or_else(|| exception!(BAD_ARGUMENTS, "Unexpected value {number} for type {to}")),
            _ => Err(mismatch(value, to)),
        },
        ChType::Date | ChType::Date32 => to_date(value, from, to, zone),
        ChType::DateTime(_) => to_instant(value, to, 0, &zone.of(to)),
        ChType::DateTime64(scale, _) => to_instant(value, to, *scale, &zone.of(to)),
        ChType::Time => to_time(value, to, 0),
        ChType::Time64 { scale, .. } => to_time(value, to, *scale),
        ChType::Interval(_) => to_integer(value, to, 64, true),
        ChType::Uuid | ChType::IPv4 | ChType::IPv6 => to_address(value, to),
        ChType::Array(_) | ChType::Map(..) | ChType::Tuple(_) => to_nested(value, from, to, zone),
        _ => Err(mismatch(value, to)),
    }
}

fn mismatch(value: &Value, to: &ChType) -> Exception {
    let kind = match value {
        Value::Null => "NULL",
        Value::Int(_) => "an integer",
        Value::Float(_) => "a floating-point number",
        Value::Decimal(..) => "a decimal",
        Value::Text(_) => "a string",
        Value::Date(_) => "a date",
        Value::Instant(..) => "a time stamp",
        Value::Time(..) => "a time of day",
        Value::Uuid(_) => "a UUID",
        Value::Ipv4(_) | Value::Ipv6(_) => "an address",
        Value::Array(_) => "an array",
        Value::Map(_) => "a map",
        Value::Tuple(_) => "a tuple",
    };
    exception!(TYPE_MISMATCH, "cannot convert {kind} to {to}")
}

fn unreadable(bytes: &[u8], to: &ChType) -> Exception {
    exception!(CANNOT_PARSE_TEXT, "Cannot parse '{}' as {to}", String::from_utf8_lossy(bytes))
}

fn to_integer(value: &Value, to: &ChType, bits: u32, signed: bool) -> Result<Value> {
    let number = match value {
        Value::Int(number) => *number,
        Value::Decimal(digits, scale)
            if rescale(*digits, *scale, 0).and_then(|w| rescale(w, 0, *scale)) == Some(*digits) =>
        {
            rescale(*digits, *scale, 0).ok_or_else(|| mismatch(value, to))?
        }
        Value::Float(number) if number.fract() == 0.0 && number.is_finite() => {
            i256::from_string(&format!("{number:.0}")).ok_or_else(|| mismatch(value, to))?
        }
        Value::Text(bytes) => {
            let text = String::from_utf8_lossy(bytes);
            match (to, text.to_ascii_lowercase().as_str()) {
                (ChType::Bool, "true") => i256::ONE,
                (ChType::Bool, "false") => i256::ZERO,
                _ => Some(text.as_ref())
                    .filter(|t| {
                        !t.is_empty() && t.trim_start_matches(['-', '+']).bytes().all(|b| b.is_ascii_digit())
                    })
                    .and_then(i256::from_string)
                    .ok_or_else(|| unreadable(bytes, to))?,
            }
        }
        Value::Date(days) => i256::from_i128(i128::from(*days)),
        Value::Instant(ticks, scale) => {
            i256::from_i128(i128::from(ticks.div_euclid(10i64.saturating_pow(u32::from(*scale)))))
        }
        Value::Time(ticks, scale) => {
            i256::from_i128(i128::from(ticks / 10i64.saturating_pow(u32::from(*scale))))
        }
        Value::Ipv4(address) => i256::from_i128(i128::from(*address)),
        _ => return Err(mismatch(value, to)),
    };
    let two = i256::from_i128(2);
    let (low, high) = match (bits, signed) {
        (256, true) => (i256::MIN, i256::MAX),
        // Numbers above the signed range are out of reach of the double's arithmetic.
        (256, false) => (i256::ZERO, i256::MAX),
        (bits, true) => {
            let half = two.wrapping_pow(bits - 1);
            (half.wrapping_neg(), half.wrapping_sub(i256::ONE))
        }
        (bits, false) => (i256::ZERO, two.wrapping_pow(bits).wrapping_sub(i256::ONE)),
    };
    let high = if *to == ChType::Bool { i256::ONE } else { high };
    if number < low || number > high {
        return Err(exception!(ARGUMENT_OUT_OF_BOUND, "{number} is out of the range of {to}"));
    }
    Ok(Value::Int(number))
}

fn to_float(value: &Value, to: &ChType) -> Result<Value> {
    if let Value::Text(bytes) = value {
        let text = String::from_utf8_lossy(bytes);
        return text.parse().map(Value::Float).map_err(|_| unreadable(bytes, to));
    }
    let number = value.to_f64().ok_or_else(|| mismatch(value, to))?;
    #[allow(clippy::cast_possible_truncation, reason = "the column holds the nearest 32-bit number")]
    Ok(Value::Float(if *to == ChType::Float64 { number } else { f64::from(number as f32) }))
}

fn to_decimal(value: &Value, to: &ChType, precision: u8, scale: u8) -> Result<Value> {
    let overflow = || exception!(DECIMAL_OVERFLOW, "Decimal value is too big for {to}");
    let digits = match value {
        Value::Int(number) => rescale(*number, 0, scale),
        Value::Decimal(digits, from) => rescale(*digits, *from, scale),
        Value::Float(number) if number.is_finite() => parse_decimal(&format!("{number}"), scale)
            .ok_or_else(|| unreadable(number.to_string().as_bytes(), to))?,
        Value::Text(bytes) => {
            parse_decimal(&String::from_utf8_lossy(bytes), scale).ok_or_else(|| unreadable(bytes, to))?
        }
        _ => return Err(mismatch(value, to)),
    };
    let limit = power_of_ten(u32::from(precision)).ok_or_else(overflow)?;
    let digits = digits.filter(|d| *d < limit && *d > limit.wrapping_neg()).ok_or_else(overflow)?;
    Ok(Value::Decimal(digits, scale))
}

/// `-12.345` at a scale; the outer `None` for what is no number, the inner one for what is too big.
#[allow(clippy::option_option, reason = "the two failures are different errors")]
fn parse_decimal(text: &str, scale: u8) -> Option<Option<i256>> {
    if text.contains(['e', 'E']) {
        // Exponents are rare; going by the nearest float is what servers do with such literals.
        let number: f64 = text.parse().ok()?;
        return if number.is_finite() { parse_decimal(&format!("{number}"), scale) } else { None };
    }
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits_only = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !digits_only(whole) || !digits_only(fraction) {
        return None;
    }
    let kept = fraction.len().min(usize::from(scale));
    let padding = "0".repeat(usize::from(scale) - kept);
    let joined = format!("0{whole}{}{padding}", &fraction[..kept]);
    let value = i256::from_string(&joined);
    Some(value.map(|v| if negative { v.wrapping_neg() } else { v }))
}

fn fixed(mut bytes: Vec<u8>, width: usize) -> Result<Value> {
    if bytes.len() > width {
        let length = bytes.len();
        return Err(exception!(
            TOO_LARGE_STRING_SIZE,
            "String of {length} bytes is too long for FixedString({width})"
        ));
    }
    bytes.resize(width, 0);
    Ok(Value::Text(bytes))
}

fn to_date(value: &Value, from: &ChType, to: &ChType, zone: &Zone) -> Result<Value> {
    let days = match value {
        Value::Date(days) => *days,
        Value::Instant(ticks, scale) => {
            let local = zone.of(from).local(*ticks, *scale).ok_or_else(|| mismatch(value, to))?;
            days_of(local.date())
        }
        Value::Int(days) => {
            days.to_i128().and_then(|d| i32::try_from(d).ok()).ok_or_else(|| mismatch(value, to))?
        }
        Value::Text(bytes) => {
            let text = String::from_utf8_lossy(bytes);
            days_of(parse_date(&text).ok_or_else(|| unreadable(bytes, to))?)
        }
        _ => return Err(mismatch(value, to)),
    };
    // Date: 16 bits from 1970; Date32: 1900-01-01 to 2299-12-31.
    let range = if *to == ChType::Date { 0..=65_535 } else { -25_567..=120_529 };
    if range.contains(&days) {
        return Ok(Value::Date(days));
    }
    Err(exception!(ARGUMENT_OUT_OF_BOUND, "{} is out of the range of {to}", zone.date_text(days)))
}

fn parse_date(text: &str) -> Option<Date> {
    let mut parts = text.splitn(3, '-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if year.len() != 4 {
        return None;
    }
    Date::new(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?).ok()
}

fn to_instant(value: &Value, to: &ChType, scale: u8, zone: &Zone) -> Result<Value> {
    let unit = 10i64.saturating_pow(u32::from(scale));
    let ticks = match value {
        Value::Instant(ticks, from) => rescale_ticks(*ticks, *from, scale),
        Value::Date(days) => {
            let midnight = date_of(*days).map(|date| date.to_datetime(Time::midnight()));
            midnight.and_then(|local| zone.instant(local, scale))
        }
        Value::Int(seconds) => {
            seconds.to_i128().and_then(|s| i64::try_from(s).ok()).and_then(|s| s.checked_mul(unit))
        }
        Value::Decimal(digits, from) => {
            rescale(*digits, *from, scale).and_then(i256::to_i128).and_then(|t| i64::try_from(t).ok())
        }
        Value::Text(bytes) => {
            let text = String::from_utf8_lossy(bytes);
            Some(parse_instant(&text, scale, zone).ok_or_else(|| unreadable(bytes, to))?)
        }
        _ => return Err(mismatch(value, to)),
    };
    let ticks =
        ticks.ok_or_else(|| exception!(ARGUMENT_OUT_OF_BOUND, "a time stamp is out of the range of {to}"))?;
    if matches!(to, ChType::DateTime(_)) && u32::try_from(ticks).is_err() {
        return Err(exception!(
            ARGUMENT_OUT_OF_BOUND,
            "{} is out of the range of {to}",
            zone.instant_text(ticks, 0)
        ));
    }
    Ok(Value::Instant(ticks, scale))
}

fn rescale_ticks(ticks: i64, from: u8, to: u8) -> Option<i64> {
    if to >= from {
        return ticks.checked_mul(10i64.checked_pow(u32::from(to - from))?);
    }
    Some(ticks.div_euclid(10i64.checked_pow(u32::from(from - to))?))
}

/// `YYYY-MM-DD[ hh:mm:ss[.fff]]`, with `T` and `Z` allowed, or seconds since 1970.
fn parse_instant(text: &str, scale: u8, zone: &Zone) -> Option<i64> {
    if text.len() != 4 && !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse::<i64>().ok()?.checked_mul(10i64.checked_pow(u32::from(scale))?);
    }
    let (text, zone) = match text.strip_suffix('Z') {
        Some(rest) => (rest, &Zone(TimeZone::UTC)),
        None => (text, zone),
    };
    let (date, time) = text.split_once([' ', 'T']).unwrap_or((text, "00:00:00"));
    let date = parse_date(date)?;
    let (clock, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut parts = clock.split(':');
    let (hour, minute) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let second = parts.next().map_or(Some(0), |s| s.parse().ok())?;
    if parts.next().is_some() || fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let nanos: i32 = format!("{fraction:0<9}").parse().ok()?;
    let time = Time::new(hour, minute, second, nanos).ok()?;
    zone.instant(date.to_datetime(time), scale)
}

fn to_time(value: &Value, to: &ChType, scale: u8) -> Result<Value> {
    let unit = 10i64.saturating_pow(u32::from(scale));
    let ticks = match value {
        Value::Time(ticks, from) => rescale_ticks(*ticks, *from, scale),
        Value::Int(seconds) => {
            seconds.to_i128().and_then(|s| i64::try_from(s).ok()).and_then(|s| s.checked_mul(unit))
        }
        Value::Text(bytes) => {
            let text = String::from_utf8_lossy(bytes);
            let parsed = parse_instant(&format!("1970-01-01 {text}"), scale, &Zone(TimeZone::UTC));
            Some(parsed.ok_or_else(|| unreadable(bytes, to))?)
        }
        _ => return Err(mismatch(value, to)),
    };
    let ticks = ticks
        .ok_or_else(|| exception!(ARGUMENT_OUT_OF_BOUND, "a time of day is out of the range of {to}"))?;
    Ok(Value::Time(ticks, scale))
}

fn to_address(value: &Value, to: &ChType) -> Result<Value> {
    match (value, to) {
        (Value::Uuid(_), ChType::Uuid) | (Value::Ipv4(_), ChType::IPv4) | (Value::Ipv6(_), ChType::IPv6) => {
            Ok(value.clone())
        }
        (Value::Ipv4(address), ChType::IPv6) => {
            Ok(Value::Ipv6(std::net::Ipv4Addr::from_bits(*address).to_ipv6_mapped().octets()))
        }
        (Value::Int(number), ChType::IPv4) => number
            .to_i128()
            .and_then(|n| u32::try_from(n).ok())
            .map(Value::Ipv4)
            .ok_or_else(|| mismatch(value, to)),
        (Value::Text(bytes), _) => {
            let text = String::from_utf8_lossy(bytes);
            let parsed = match to {
                ChType::Uuid => parse_uuid(&text).map(Value::Uuid),
                ChType::IPv4 => text.parse::<std::net::Ipv4Addr>().ok().map(|a| Value::Ipv4(a.to_bits())),
                _ => text.parse::<std::net::IpAddr>().ok().map(|a| match a {
                    std::net::IpAddr::V4(a) => Value::Ipv6(a.to_ipv6_mapped().octets()),
                    std::net::IpAddr::V6(a) => Value::Ipv6(a.octets()),
                }),
            };
            parsed.ok_or_else(|| unreadable(bytes, to))
        }
        _ => Err(mismatch(value, to)),
    }
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    if digits.len() != 32 || !matches!(text.len(), 32 | 36) {
        return None;
    }
    Some(u128::from_str_radix(&digits, 16).ok()?.to_be_bytes())
}

fn to_nested(value: &Value, from: &ChType, to: &ChType, zone: &Zone) -> Result<Value> {
    match (value, from, to) {
        (Value::Array(items), ChType::Array(element), ChType::Array(target)) => {
            let items: Result<Vec<_>> =
                items.iter().map(|item| convert(item, element, target, zone)).collect();
            Ok(Value::Array(items?))
        }
        (Value::Map(pairs), ChType::Map(key, element), ChType::Map(key_to, element_to)) => {
            let pairs: Result<Vec<_>> = pairs
                .iter()
                .map(|(k, v)| Ok((convert(k, key, key_to, zone)?, convert(v, element, element_to, zone)?)))
                .collect();
            Ok(Value::Map(pairs?))
        }
        (Value::Tuple(items), ChType::Tuple(elements), ChType::Tuple(targets))
            if targets.len() == items.len() =>
        {
            let types = elements.iter().zip(targets);
            let items: Result<Vec<_>> = items
                .iter()
                .zip(types)
                .map(|(item, (from, to))| convert(item, &from.ty, &to.ty, zone))
                .collect();
            Ok(Value::Tuple(items?))
        }
        _ => Err(mismatch(value, to)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_text(text: &str, to: &str) -> Result<String> {
        let to: ChType = to.parse().unwrap();
        let value = convert(&Value::text(text), &ChType::String, &to, &Zone::utc())?;
        Ok(String::from_utf8(format_value(&value, &to, &Zone::utc())).unwrap())
    }

    #[test]
    fn texts_there_and_back() {
        for (text, to) in [
            ("-128", "Int8"),
            ("18446744073709551615", "UInt64"),
            ("true", "Bool"),
            ("-1.2345", "Decimal(18, 4)"),
            ("99999999999999999999999999999999999999", "Decimal(38, 0)"),
            ("1.5", "Float64"),
            ("2149-06-06", "Date"),
            ("1900-01-01", "Date32"),
            ("2299-12-31", "Date32"),
            ("2106-02-07 06:28:15", "DateTime"),
            ("1969-12-31 23:59:59.999", "DateTime64(3)"),
            ("2024-07-01 12:00:00", "DateTime('Asia/Shanghai')"),
            ("12:30:01.250", "Time(3)"),
            ("61f0c404-5cb3-11e7-907b-a6006ad3dba0", "UUID"),
            ("10.0.0.1", "IPv4"),
            ("::1", "IPv6"),
            ("b", "Enum8('a' = 1, 'b' = 2)"),
        ] {
            assert_eq!(from_text(text, to).unwrap(), text, "{to}");
        }
        assert_eq!(from_text("1.23456", "Decimal(9, 4)").unwrap(), "1.2345");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (text, to, code) in [
            ("128", "Int8", 69),
            ("-1", "UInt64", 69),
            ("1.0", "Int8", 6),
            ("", "Int8", 6),
            ("100000", "Decimal(5, 0)", 407),
            ("1..2", "Decimal(5, 1)", 6),
            ("2149-06-07", "Date", 69),
            ("1969-12-31", "Date", 69),
            ("2106-02-07 06:28:16", "DateTime", 69),
            ("yesterday", "DateTime", 6),
            ("2024-02-30", "Date", 6),
            ("abcd", "FixedString(3)", 131),
            ("c", "Enum8('a' = 1, 'b' = 2)", 36),
            ("x", "UUID", 6),
            ("[1]", "Array(UInt8)", 53),
        ] {
            assert_eq!(from_text(text, to).unwrap_err().code(), code, "{text} {to}");
        }
        let null = convert(&Value::Null, &ChType::Nothing, &ChType::Int8, &Zone::utc());
        assert_eq!(null.unwrap_err().code(), 349);
    }
}
