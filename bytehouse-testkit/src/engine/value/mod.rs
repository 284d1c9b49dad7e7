//! Single values: what expressions compute with.
//!
//! Rows on their way into a table never become values; only constants, defaults, key expressions
//! that are more than columns, and the results of small queries do.

mod array;
mod convert;
mod text;
mod types;

use std::cmp::Ordering;

use connector_core::arrow::datatypes::i256;

pub(crate) use array::{arrow_type, build_array, values_of};
pub(crate) use convert::{Zone, convert, days_of, default_value};
pub(crate) use text::format_value;
pub(crate) use types::{common_type, integer, integer_of, literal_value, plain};

/// One value. Which type it has is known beside it, as a `ChType`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    /// All integers, and `Bool` as 0 and 1.
    Int(i256),
    Float(f64),
    /// Unscaled digits and scale.
    Decimal(i256, u8),
    /// `String`, `FixedString`, enum names, JSON.
    Text(Vec<u8>),
    /// Days since 1970-01-01.
    Date(i32),
    /// Ticks of `10^-scale` seconds since 1970-01-01 00:00:00 UTC.
    Instant(i64, u8),
    /// Ticks of `10^-scale` seconds of a day.
    Time(i64, u8),
    Uuid([u8; 16]),
    Ipv4(u32),
    Ipv6([u8; 16]),
    Array(Vec<Value>),
    Map(Vec<(Value, Value)>),
    Tuple(Vec<Value>),
}

impl Value {
    pub(crate) fn int(value: impl Into<i128>) -> Self {
        Self::Int(i256::from_i128(value.into()))
    }

    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into().into_bytes())
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// True for what a condition takes as true: any number but 0.
    pub(crate) fn is_true(&self) -> bool {
        match self {
            Self::Int(value) => *value != i256::ZERO,
            Self::Float(value) => *value != 0.0,
            Self::Decimal(value, _) => *value != i256::ZERO,
            _ => false,
        }
    }

    /// The value as a number with fractions, where it is a number.
    pub(crate) fn to_f64(&self) -> Option<f64> {
        match self {
            Self::Int(value) => Some(wide_to_f64(*value)),
            Self::Float(value) => Some(*value),
            Self::Decimal(value, scale) => Some(wide_to_f64(*value) / 10f64.powi(i32::from(*scale))),
            _ => None,
        }
    }
}

/// The nearest floating-point number.
pub(crate) fn wide_to_f64(value: i256) -> f64 {
    match value.to_i128() {
        #[allow(clippy::cast_precision_loss, reason = "rounding to the nearest number is what is asked for")]
        Some(small) => small as f64,
        // The decimal text of a number is always a number.
        None => value.to_string().parse().unwrap_or(f64::NAN),
    }
}

/// `10^exponent`, if it fits.
pub(crate) fn power_of_ten(exponent: u32) -> Option<i256> {
    i256::from_i128(10).checked_pow(exponent)
}

/// Unscaled digits brought from one scale to another; digits that have no room are cut off, as servers do.
pub(crate) fn rescale(value: i256, from: u8, to: u8) -> Option<i256> {
    match to.cmp(&from) {
        Ordering::Equal => Some(value),
        Ordering::Greater => value.checked_mul(power_of_ten(u32::from(to - from))?),
        Ordering::Less => value.checked_div(power_of_ten(u32::from(from - to))?),
    }
}

/// Orders two values of comparable kinds; `None` when one is null or they cannot be compared.
pub(crate) fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    use Value::{Array, Date, Decimal, Float, Instant, Int, Ipv4, Ipv6, Map, Text, Time, Tuple, Uuid};
    match (left, right) {
        (Int(a), Int(b)) => Some(a.cmp(b)),
        (Decimal(..) | Int(_), Decimal(..) | Int(_)) => {
            let (a, b) = (unscaled(left)?, unscaled(right)?);
            let scale = a.1.max(b.1);
            Some(rescale(a.0, a.1, scale)?.cmp(&rescale(b.0, b.1, scale)?))
        }
        (Float(_) | Int(_) | Decimal(..), Float(_) | Int(_) | Decimal(..)) => {
            left.to_f64()?.partial_cmp(&right.to_f64()?)
        }
        (Text(a), Text(b)) => Some(a.cmp(b)),
        (Date(a), Date(b)) => Some(a.cmp(b)),
        (Instant(a, sa), Instant(b, sb)) | (Time(a, sa), Time(b, sb)) => compare_ticks(*a, *sa, *b, *sb),
        (Date(days), Instant(ticks, scale)) => compare_ticks(i64::from(*days) * 86_400, 0, *ticks, *scale),
        (Instant(ticks, scale), Date(days)) => compare_ticks(*ticks, *scale, i64::from(*days) * 86_400, 0),
        (Uuid(a), Uuid(b)) | (Ipv6(a), Ipv6(b)) => Some(a.cmp(b)),
        (Ipv4(a), Ipv4(b)) => Some(a.cmp(b)),
        (Array(a), Array(b)) | (Tuple(a), Tuple(b)) => compare_lists(a, b),
        (Map(a), Map(b)) => {
            let flat = |map: &[(Value, Value)]| {
                map.iter().flat_map(|(k, v)| [k.clone(), v.clone()]).collect::<Vec<_>>()
            };
            compare_lists(&flat(a), &flat(b))
        }
        _ => None,
    }
}

fn unscaled(value: &Value) -> Option<(i256, u8)> {
    match value {
        Value::Int(value) => Some((*value, 0)),
        Value::Decimal(value, scale) => Some((*value, *scale)),
        _ => None,
    }
}

fn compare_ticks(a: i64, scale_a: u8, b: i64, scale_b: u8) -> Option<Ordering> {
    let scale = scale_a.max(scale_b);
    let wide = |ticks: i64, from: u8| rescale(i256::from_i128(i128::from(ticks)), from, scale);
    Some(wide(a, scale_a)?.cmp(&wide(b, scale_b)?))
}

fn compare_lists(a: &[Value], b: &[Value]) -> Option<Ordering> {
    for (x, y) in a.iter().zip(b) {
        match compare(x, y)? {
            Ordering::Equal => {}
            other => return Some(other),
        }
    }
    Some(a.len().cmp(&b.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_compare_by_value_across_kinds() {
        let decimal = |digits: i128, scale| Value::Decimal(i256::from_i128(digits), scale);
        assert_eq!(compare(&Value::int(2), &decimal(150, 2)), Some(Ordering::Greater));
        assert_eq!(compare(&decimal(1500, 3), &decimal(150, 2)), Some(Ordering::Equal));
        assert_eq!(compare(&Value::Float(0.5), &Value::int(1)), Some(Ordering::Less));
        assert_eq!(compare(&Value::Null, &Value::int(1)), None);
        assert_eq!(compare(&Value::Float(f64::NAN), &Value::int(1)), None);
        assert_eq!(compare(&Value::text("a"), &Value::int(1)), None);
        assert_eq!(compare(&Value::Instant(1_000, 3), &Value::Instant(1, 0)), Some(Ordering::Equal));
        assert_eq!(compare(&Value::Date(1), &Value::Instant(86_401, 0)), Some(Ordering::Less));
    }
}
