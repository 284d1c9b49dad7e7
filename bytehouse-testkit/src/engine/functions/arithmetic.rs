//! Numbers.

use connector_bytehouse_common::native::ChType;
use connector_core::arrow::datatypes::i256;

use super::{Evaluated, Plan, expect, illegal};
use crate::{
    engine::{
        eval::Scope,
        value::{Value, convert, integer, integer_of, plain, rescale},
    },
    exception::{Result, exception},
};

pub(super) fn plan<'a>(
    name: &'a str,
    args: &'a [Evaluated],
    scope: &'a Scope<'_>,
) -> Result<Option<Plan<'a>>> {
    match name {
        "negate" | "abs" => {
            expect(name, args, 1..=1)?;
            one(name, plain(&args[0].ty)).map(Some)
        }
        "plus" | "minus" | "multiply" | "divide" | "modulo" | "intDiv" => {
            expect(name, args, 2..=2)?;
            two(name, plain(&args[0].ty), plain(&args[1].ty), scope).map(Some)
        }
        _ => Ok(None),
    }
}

fn one<'a>(name: &'a str, ty: &ChType) -> Result<Plan<'a>> {
    let negate = name == "negate";
    let result = match (integer(ty), negate) {
        (Some((bits, signed)), true) => integer_of(if signed { bits } else { bits * 2 }.min(64), true),
        (Some((bits, _)), false) => integer_of(bits, false),
        (None, _) if is_number(ty) => ty.clone(),
        (None, _) => return Err(illegal(name, ty)),
    };
    Ok(Plan::new(result, move |row| match &row[0] {
        Value::Int(value) => Ok(Value::Int(if negate { value.wrapping_neg() } else { value.wrapping_abs() })),
        Value::Float(value) => Ok(Value::Float(if negate { -value } else { value.abs() })),
        Value::Decimal(digits, scale) => {
            Ok(Value::Decimal(if negate { digits.wrapping_neg() } else { digits.wrapping_abs() }, *scale))
        }
        _ => Err(illegal(name, &ChType::Nothing)),
    }))
}

fn is_number(ty: &ChType) -> bool {
    integer(ty).is_some()
        || matches!(ty, ChType::Float32 | ChType::Float64 | ChType::BFloat16 | ChType::Decimal { .. })
}

fn two<'a>(name: &'a str, left: &ChType, right: &ChType, scope: &'a Scope<'_>) -> Result<Plan<'a>> {
    if let Some(plan) = with_time(name, left, right, scope)? {
        return Ok(plan);
    }
    for ty in [left, right] {
        if !is_number(ty) && *ty != ChType::Nothing {
            return Err(illegal(name, ty));
        }
    }
    let result = result_type(name, left, right);
    let zone = &scope.context.zone;
    Ok(Plan::new(result.clone(), move |row| {
        let value = match (&row[0], &row[1]) {
            (Value::Int(a), Value::Int(b)) if name != "divide" => Value::Int(whole(name, *a, *b)?),
            (a, b) if matches!(result, ChType::Decimal { .. }) => decimal(name, a, b)?,
            (a, b) => {
                let (Some(a), Some(b)) = (a.to_f64(), b.to_f64()) else {
                    return Err(illegal(name, &result));
                };
                Value::Float(match name {
                    "plus" => a + b,
                    "minus" => a - b,
                    "multiply" => a * b,
                    "modulo" => a % b,
                    "intDiv" => (a / b).trunc(),
                    _ => a / b,
                })
            }
        };
        convert(&value, &result, &result, zone)
    }))
}

fn result_type(name: &str, left: &ChType, right: &ChType) -> ChType {
    let nothing = ChType::Nothing;
    if *left == nothing || *right == nothing {
        return nothing;
    }
    match (integer(left), integer(right)) {
        (Some((a, signed_a)), Some((b, signed_b))) => match name {
            "divide" => ChType::Float64,
            "intDiv" => integer_of(a, signed_a || signed_b),
            "modulo" => integer_of(b, signed_a),
            // One step wider than the wider side, so that small numbers do not overflow.
            _ => integer_of((a.max(b) * 2).min(64).max(a.max(b)), signed_a || signed_b || name == "minus"),
        },
        _ => {
            let scale =
                |ty: &ChType| if let ChType::Decimal { scale, .. } = ty { Some(*scale) } else { None };
            let float = |ty: &ChType| matches!(ty, ChType::Float32 | ChType::Float64 | ChType::BFloat16);
            if float(left) || float(right) || matches!(name, "divide" | "modulo" | "intDiv") {
                return ChType::Float64;
            }
            let (a, b) = (scale(left).unwrap_or(0), scale(right).unwrap_or(0));
            let scale = if name == "multiply" { a.saturating_add(b).min(76) } else { a.max(b) };
            ChType::Decimal { precision: if scale > 38 { 76 } else { 38 }, scale }
        }
    }
}

fn whole(name: &str, a: i256, b: i256) -> Result<i256> {
    let result = match name {
        "plus" => a.checked_add(b),
        "minus" => a.checked_sub(b),
        "multiply" => a.checked_mul(b),
        _ if b == i256::ZERO => return Err(exception!(ILLEGAL_DIVISION, "Division by zero")),
        "modulo" => a.checked_rem(b),
        _ => a.checked_div(b),
    };
    result.ok_or_else(|| exception!(DECIMAL_OVERFLOW, "the result of {name} is too big"))
}

fn decimal(name: &str, a: &Value, b: &Value) -> Result<Value> {
    let parts = |value: &Value| match value {
        Value::Int(digits) => Some((*digits, 0)),
        Value::Decimal(digits, scale) => Some((*digits, *scale)),
        _ => None,
    };
    let overflow = || exception!(DECIMAL_OVERFLOW, "Decimal math overflow");
    let ((a, scale_a), (b, scale_b)) = parts(a).zip(parts(b)).ok_or_else(overflow)?;
    if name == "multiply" {
        let product = a.checked_mul(b).ok_or_else(overflow)?;
        return Ok(Value::Decimal(product, scale_a.saturating_add(scale_b)));
    }
    let scale = scale_a.max(scale_b);
    let (a, b) = rescale(a, scale_a, scale).zip(rescale(b, scale_b, scale)).ok_or_else(overflow)?;
    let result = if name == "plus" { a.checked_add(b) } else { a.checked_sub(b) };
    Ok(Value::Decimal(result.ok_or_else(overflow)?, scale))
}

/// A date plus days, a time stamp plus seconds, and the difference of two of a kind.
fn with_time<'a>(
    name: &'a str,
    left: &ChType,
    right: &ChType,
    scope: &'a Scope<'_>,
) -> Result<Option<Plan<'a>>> {
    let is_date = |ty: &ChType| matches!(ty, ChType::Date | ChType::Date32);
    let is_instant = |ty: &ChType| matches!(ty, ChType::DateTime(_) | ChType::DateTime64(..));
    if !matches!(name, "plus" | "minus") || !(is_date(left) || is_instant(left)) {
        return Ok(None);
    }
    let zone = &scope.context.zone;
    if integer(right).is_some() {
        let sign: i64 = if name == "minus" { -1 } else { 1 };
        let ty = left.clone();
        return Ok(Some(Plan::new(left.clone(), move |row| {
            let overflow = || exception!(ARGUMENT_OUT_OF_BOUND, "the result is out of the range of {ty}");
            let Value::Int(step) = &row[1] else { return Err(overflow()) };
            let step = step
                .to_i128()
                .and_then(|s| i64::try_from(s).ok())
                .and_then(|s| s.checked_mul(sign))
                .ok_or_else(overflow)?;
            let moved = match &row[0] {
                Value::Date(days) => Value::Date(
                    i32::try_from(step).ok().and_then(|s| days.checked_add(s)).ok_or_else(overflow)?,
                ),
                Value::Instant(ticks, scale) => {
                    let unit = 10i64.saturating_pow(u32::from(*scale));
                    let ticks =
                        step.checked_mul(unit).and_then(|s| ticks.checked_add(s)).ok_or_else(overflow)?;
                    Value::Instant(ticks, *scale)
                }
                _ => return Err(overflow()),
            };
            convert(&moved, &ty, &ty, zone)
        })));
    }
    if name == "minus" && is_date(left) == is_date(right) && is_instant(left) == is_instant(right) {
        return Ok(Some(Plan::new(ChType::Int32, |row| {
            let difference = match (&row[0], &row[1]) {
                (Value::Date(a), Value::Date(b)) => i64::from(*a) - i64::from(*b),
                (Value::Instant(a, x), Value::Instant(b, y)) => {
                    let seconds =
                        |ticks: &i64, scale: &u8| ticks.div_euclid(10i64.saturating_pow(u32::from(*scale)));
                    seconds(a, x).saturating_sub(seconds(b, y))
                }
                _ => 0,
            };
            Ok(Value::int(difference))
        })));
    }
    Err(illegal(name, right))
}
