//! From one type to another by name: `toInt32(x)`, `CAST(x, 'T')` and the like.

use std::sync::Arc;

use connector_bytehouse_common::native::ChType;

use super::{Evaluated, Plan, expect};
use crate::{
    engine::{
        eval::Scope,
        value::{Value, convert, integer, plain},
    },
    exception::{Result, exception},
};

pub(super) fn plan<'a>(
    name: &'a str,
    args: &'a [Evaluated],
    scope: &'a Scope<'_>,
) -> Result<Option<Plan<'a>>> {
    match name {
        "toTypeName" => {
            expect(name, args, 1..=1)?;
            let ty = args[0].ty.to_string();
            return Ok(Some(Plan::seeing_nulls(ChType::String, move |_| Ok(Value::text(ty.clone())))));
        }
        "assumeNotNull" => {
            expect(name, args, 1..=1)?;
            let ty = plain(&args[0].ty).clone();
            let default = crate::engine::value::default_value(&ty);
            return Ok(Some(Plan::seeing_nulls(ty, move |row| {
                Ok(if row[0].is_null() { default.clone() } else { row[0].clone() })
            })));
        }
        "toNullable" => {
            expect(name, args, 1..=1)?;
            let ty = args[0].ty.clone().into_nullable();
            return Ok(Some(Plan::seeing_nulls(ty, |row| Ok(row[0].clone()))));
        }
        _ => {}
    }
    let Some(target) = target(name, args)? else { return Ok(None) };
    let zone = &scope.context.zone;
    let from = &args[0].ty;
    let cast = name == "CAST";
    let run = move |row: &[Value]| {
        // Conversions by name cut fractions off; values that go into columns never lose them unseen.
        let value = match &row[0] {
            Value::Float(number) if integer(plain(&target)).is_some() => Value::Float(number.trunc()),
            Value::Decimal(digits, scale) if integer(plain(&target)).is_some() => {
                Value::Int(crate::engine::value::rescale(*digits, *scale, 0).unwrap_or(*digits))
            }
            other => other.clone(),
        };
        convert(&value, from, &target, zone)
    };
    let ty = self::target(name, args)?.unwrap_or(ChType::Nothing);
    Ok(Some(if cast { Plan::seeing_nulls(ty, run) } else { Plan::new(ty, run) }))
}

fn constant_text(name: &str, arg: &Evaluated) -> Result<String> {
    match arg.const_value() {
        Some(Value::Text(bytes)) => Ok(String::from_utf8_lossy(bytes).into_owned()),
        _ => Err(exception!(ILLEGAL_COLUMN, "{name} needs a constant string here")),
    }
}

fn constant_number(name: &str, arg: &Evaluated) -> Result<u64> {
    match arg.const_value() {
        Some(Value::Int(number)) => number.to_i128().and_then(|n| u64::try_from(n).ok()),
        _ => None,
    }
    .ok_or_else(|| exception!(ILLEGAL_COLUMN, "{name} needs a constant number here"))
}

fn target(name: &str, args: &[Evaluated]) -> Result<Option<ChType>> {
    let scale = |args: &[Evaluated]| {
        expect(name, args, 2..=3)?;
        let scale = constant_number(name, &args[1])?;
        u8::try_from(scale).map_err(|_| exception!(ARGUMENT_OUT_OF_BOUND, "the scale {scale} is too large"))
    };
    let zone = |args: &[Evaluated], at: usize| {
        args.get(at).map(|arg| constant_text(name, arg).map(Arc::from)).transpose()
    };
    let ty = match name {
        "CAST" => {
            expect(name, args, 2..=2)?;
            let text = constant_text(name, &args[1])?;
            let ty: ChType =
                text.parse().map_err(|_| exception!(UNKNOWN_TYPE, "Unknown data type {text}"))?;
            if let Some(unknown) = ty.unknown() {
                return Err(exception!(UNKNOWN_TYPE, "Unknown data type family: {unknown}"));
            }
            return Ok(Some(ty));
        }
        "toFixedString" => {
            expect(name, args, 2..=2)?;
            let width = constant_number(name, &args[1])?;
            let width = usize::try_from(width).ok().filter(|w| (1..=0xff_ffff).contains(w));
            ChType::FixedString(
                width.ok_or_else(|| exception!(ARGUMENT_OUT_OF_BOUND, "no such FixedString"))?,
            )
        }
        "toDecimal32" => ChType::Decimal { precision: 9, scale: scale(args)? },
        "toDecimal64" => ChType::Decimal { precision: 18, scale: scale(args)? },
        "toDecimal128" => ChType::Decimal { precision: 38, scale: scale(args)? },
        "toDecimal256" => ChType::Decimal { precision: 76, scale: scale(args)? },
        "toDateTime64" => ChType::DateTime64(scale(args)?, zone(args, 2)?),
        "toDateTime" => {
            expect(name, args, 1..=2)?;
            ChType::DateTime(zone(args, 1)?)
        }
        "toInt8" | "toInt16" | "toInt32" | "toInt64" | "toInt128" | "toInt256" | "toUInt8" | "toUInt16"
        | "toUInt32" | "toUInt64" | "toUInt128" | "toUInt256" | "toFloat32" | "toFloat64" | "toString"
        | "toDate" | "toDate32" | "toUUID" | "toIPv4" | "toIPv6" => {
            expect(name, args, 1..=1)?;
            name[2..].parse().map_err(|_| exception!(UNKNOWN_FUNCTION, "Unknown function {name}"))?
        }
        _ => return Ok(None),
    };
    let (scale, limit) = match &ty {
        ChType::Decimal { precision, scale } => (*scale, *precision),
        ChType::DateTime64(scale, _) => (*scale, 9),
        _ => return Ok(Some(ty)),
    };
    if scale > limit {
        return Err(exception!(ARGUMENT_OUT_OF_BOUND, "the scale {scale} is too large for {name}"));
    }
    Ok(Some(ty))
}
