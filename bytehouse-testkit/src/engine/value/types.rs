//! The types of constants, and the type that several types share.

use connector_bytehouse_common::native::ChType;
use connector_core::arrow::datatypes::i256;

use super::Value;
use crate::{
    exception::{Result, exception},
    sql::ast::Literal,
};

/// The type without `Nullable` and `LowCardinality` around it.
pub(crate) fn plain(ty: &ChType) -> &ChType {
    match ty {
        ChType::Nullable(inner) | ChType::LowCardinality(inner) => plain(inner),
        other => other,
    }
}

/// A constant with the smallest type that holds it, as servers type it.
pub(crate) fn literal_value(literal: &Literal) -> Result<(Value, ChType)> {
    Ok(match literal {
        Literal::Null => (Value::Null, ChType::Nullable(Box::new(ChType::Nothing))),
        Literal::Bool(value) => (Value::int(u8::from(*value)), ChType::Bool),
        Literal::Text(bytes) => (Value::Text(bytes.clone()), ChType::String),
        Literal::Number(text) => number(text)?,
    })
}

fn number(text: &str) -> Result<(Value, ChType)> {
    let unreadable = || exception!(SYNTAX_ERROR, "cannot read the number {text}");
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        let value = u64::from_str_radix(digits, 16).map_err(|_| unreadable())?;
        return Ok((Value::int(value), integer_type(i256::from_i128(i128::from(value)))));
    }
    if text.bytes().all(|b| b.is_ascii_digit() || b == b'-')
        && let Some(value) = i256::from_string(text)
    {
        return Ok((Value::Int(value), integer_type(value)));
    }
    let value: f64 = text.parse().map_err(|_| unreadable())?;
    Ok((Value::Float(value), ChType::Float64))
}

fn integer_type(value: i256) -> ChType {
    let fits = |low: i128, high: i128| value >= i256::from_i128(low) && value <= i256::from_i128(high);
    let unsigned = [
        (i128::from(u8::MAX), ChType::UInt8),
        (i128::from(u16::MAX), ChType::UInt16),
        (i128::from(u32::MAX), ChType::UInt32),
        (i128::from(u64::MAX), ChType::UInt64),
    ];
    let signed = [
        (i128::from(i8::MIN), ChType::Int8),
        (i128::from(i16::MIN), ChType::Int16),
        (i128::from(i32::MIN), ChType::Int32),
        (i128::from(i64::MIN), ChType::Int64),
    ];
    let found = if value >= i256::ZERO {
        unsigned.into_iter().find(|(high, _)| fits(0, *high))
    } else {
        signed.into_iter().find(|(low, _)| fits(*low, 0))
    };
    found.map_or(ChType::Int256, |(_, ty)| ty)
}

/// Width in bits and sign of an integer type.
pub(crate) fn integer(ty: &ChType) -> Option<(u32, bool)> {
    Some(match ty {
        ChType::UInt8 | ChType::Bool => (8, false),
        ChType::UInt16 => (16, false),
        ChType::UInt32 => (32, false),
        ChType::UInt64 => (64, false),
        ChType::UInt128 => (128, false),
        ChType::UInt256 => (256, false),
        ChType::Int8 => (8, true),
        ChType::Int16 => (16, true),
        ChType::Int32 => (32, true),
        ChType::Int64 => (64, true),
        ChType::Int128 => (128, true),
        ChType::Int256 => (256, true),
        _ => return None,
    })
}

/// The narrowest integer type of at least so many bits.
pub(crate) fn integer_of(bits: u32, signed: bool) -> ChType {
    match (bits, signed) {
        (..=8, false) => ChType::UInt8,
        (..=16, false) => ChType::UInt16,
        (..=32, false) => ChType::UInt32,
        (..=64, false) => ChType::UInt64,
        (..=128, false) => ChType::UInt128,
        (_, false) => ChType::UInt256,
        (..=8, true) => ChType::Int8,
        (..=16, true) => ChType::Int16,
        (..=32, true) => ChType::Int32,
        (..=64, true) => ChType::Int64,
        (..=128, true) => ChType::Int128,
        (_, true) => ChType::Int256,
    }
}

/// The smallest type that holds the values of both.
pub(crate) fn common_type(left: &ChType, right: &ChType) -> Result<ChType> {
    let nullable = left.is_nullable() || right.is_nullable();
    let inner = common_plain(plain(left), plain(right))?;
    Ok(if nullable { inner.into_nullable() } else { inner })
}

fn common_plain(left: &ChType, right: &ChType) -> Result<ChType> {
    if left == right || *right == ChType::Nothing {
        return Ok(left.clone());
    }
    if *left == ChType::Nothing {
        return Ok(right.clone());
    }
    let none = || exception!(TYPE_MISMATCH, "There is no supertype for types {left}, {right}");
    if let (Some((a, signed_a)), Some((b, signed_b))) = (integer(left), integer(right)) {
        if signed_a == signed_b {
            return Ok(integer_of(a.max(b), signed_a));
        }
        // One bit more than the unsigned side has: the sign.
        let unsigned = if signed_a { b } else { a };
        return Ok(integer_of((unsigned + 1).max(a).max(b), true));
    }
    let float = |ty: &ChType| matches!(ty, ChType::Float32 | ChType::Float64 | ChType::BFloat16);
    let number = |ty: &ChType| float(ty) || integer(ty).is_some() || matches!(ty, ChType::Decimal { .. });
    Ok(match (left, right) {
        (a, b) if (float(a) && number(b)) || (float(b) && number(a)) => ChType::Float64,
        (ChType::Decimal { precision, scale }, other) | (other, ChType::Decimal { precision, scale })
            if integer(other).is_some() =>
        {
            ChType::Decimal { precision: (*precision).max(18), scale: *scale }
        }
        (ChType::Decimal { precision: a, scale: x }, ChType::Decimal { precision: b, scale: y }) => {
            let scale = *x.max(y);
            let whole = a.saturating_sub(*x).max(b.saturating_sub(*y));
            ChType::Decimal { precision: whole.saturating_add(scale).min(76), scale }
        }
        (ChType::String | ChType::FixedString(_), ChType::String | ChType::FixedString(_)) => ChType::String,
        (ChType::Date, ChType::Date32) | (ChType::Date32, ChType::Date) => ChType::Date32,
        (ChType::Date | ChType::Date32, other @ (ChType::DateTime(_) | ChType::DateTime64(..)))
        | (other @ (ChType::DateTime(_) | ChType::DateTime64(..)), ChType::Date | ChType::Date32)
        | (ChType::DateTime(_), other @ (ChType::DateTime64(..) | ChType::DateTime(_)))
        | (other @ ChType::DateTime64(..), ChType::DateTime(_)) => other.clone(),
        (ChType::DateTime64(a, zone), ChType::DateTime64(b, _)) => {
            ChType::DateTime64(*a.max(b), zone.clone())
        }
        (ChType::Array(a), ChType::Array(b)) => ChType::Array(Box::new(common_type(a, b)?)),
        (ChType::Map(ka, va), ChType::Map(kb, vb)) => {
            ChType::Map(Box::new(common_type(ka, kb)?), Box::new(common_type(va, vb)?))
        }
        (ChType::Tuple(a), ChType::Tuple(b)) if a.len() == b.len() => {
            let mut elements = a.clone();
            for (element, other) in elements.iter_mut().zip(b) {
                element.ty = common_type(&element.ty, &other.ty)?;
            }
            ChType::Tuple(elements)
        }
        _ => return Err(none()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_get_the_smallest_type() {
        for (text, ty) in [
            ("1", "UInt8"),
            ("256", "UInt16"),
            ("-1", "Int8"),
            ("-129", "Int16"),
            ("18446744073709551615", "UInt64"),
            ("18446744073709551616", "Int256"),
            ("0x10", "UInt8"),
            ("1.5", "Float64"),
            ("1e3", "Float64"),
        ] {
            let (_, found) = literal_value(&Literal::Number(text.into())).unwrap();
            assert_eq!(found.to_string(), ty, "{text}");
        }
        assert!(literal_value(&Literal::Number("0x".into())).is_err());
        assert!(literal_value(&Literal::Number("1-2".into())).is_err());
    }

    #[test]
    fn shared_types() {
        for (a, b, both) in [
            ("UInt8", "Int8", "Int16"),
            ("UInt8", "Nullable(Nothing)", "Nullable(UInt8)"),
            ("Int64", "UInt32", "Int64"),
            ("Decimal(10, 2)", "Decimal(10, 4)", "Decimal(12, 4)"),
            ("Date", "DateTime", "DateTime"),
            ("Array(UInt8)", "Array(Nullable(UInt16))", "Array(Nullable(UInt16))"),
            ("LowCardinality(String)", "FixedString(3)", "String"),
        ] {
            let found = common_type(&a.parse().unwrap(), &b.parse().unwrap()).unwrap();
            assert_eq!(found.to_string(), both, "{a} {b}");
        }
        assert_eq!(common_type(&ChType::String, &ChType::UInt8).unwrap_err().code(), 53);
    }
}
