//! Comparisons, logic and choices.

use std::cmp::Ordering;

use connector_bytehouse_common::native::ChType;

use super::{Evaluated, Plan, expect};
use crate::{
    engine::{
        eval::Scope,
        value::{Value, common_type, compare, convert, plain},
    },
    exception::{Result, exception},
};

pub(super) fn plan<'a>(
    name: &'a str,
    args: &'a [Evaluated],
    scope: &'a Scope<'_>,
) -> Result<Option<Plan<'a>>> {
    let bool_of = |value: bool| Value::int(u8::from(value));
    let zone = &scope.context.zone;
    Ok(Some(match name {
        "equals" | "notEquals" | "less" | "lessOrEquals" | "greater" | "greaterOrEquals" => {
            expect(name, args, 2..=2)?;
            comparable(&args[0].ty, &args[1].ty)?;
            Plan::new(ChType::UInt8, move |row| {
                let order = compare(&row[0], &row[1]);
                Ok(bool_of(match name {
                    "equals" => order == Some(Ordering::Equal),
                    "notEquals" => order != Some(Ordering::Equal),
                    "less" => order == Some(Ordering::Less),
                    "lessOrEquals" => matches!(order, Some(Ordering::Less | Ordering::Equal)),
                    "greater" => order == Some(Ordering::Greater),
                    _ => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
                }))
            })
        }
        "in" | "notIn" => {
            expect(name, args, 2..=2)?;
            membership(name, args, scope)?
        }
        "and" | "or" => {
            // Three values: a null only counts where the others do not decide.
            let decides = name == "or";
            let nullable = args.iter().any(|arg| arg.ty.is_nullable());
            let ty = if nullable { ChType::UInt8.into_nullable() } else { ChType::UInt8 };
            Plan::seeing_nulls(ty, move |row| {
                if row.iter().any(|value| !value.is_null() && value.is_true() == decides) {
                    return Ok(bool_of(decides));
                }
                Ok(if row.iter().any(Value::is_null) { Value::Null } else { bool_of(!decides) })
            })
        }
        "not" => {
            expect(name, args, 1..=1)?;
            Plan::new(ChType::UInt8, move |row| Ok(bool_of(!row[0].is_true())))
        }
        "isNull" | "isNotNull" => {
            expect(name, args, 1..=1)?;
            Plan::seeing_nulls(ChType::UInt8, move |row| Ok(bool_of(row[0].is_null() == (name == "isNull"))))
        }
        "if" | "multiIf" => choice(name, args, scope)?,
        "coalesce" | "ifNull" => {
            let last =
                args.last().ok_or_else(|| exception!(WRONG_ARGUMENT_COUNT, "{name} needs an argument"))?;
            let ty = args.iter().try_fold(ChType::Nothing, |ty, arg| common_type(&ty, &arg.ty))?;
            let ty = if last.ty.is_nullable() { ty } else { plain(&ty).clone() };
            Plan::seeing_nulls(ty.clone(), move |row| {
                match row.iter().zip(args).find(|(value, _)| !value.is_null()) {
                    Some((value, arg)) => convert(value, &arg.ty, &ty, zone),
                    None => Ok(Value::Null),
                }
            })
        }
        "nullIf" => {
            expect(name, args, 2..=2)?;
            Plan::seeing_nulls(args[0].ty.clone().into_nullable(), |row| {
                let same = compare(&row[0], &row[1]) == Some(Ordering::Equal);
                Ok(if same { Value::Null } else { row[0].clone() })
            })
        }
        "greatest" | "least" => {
            let ty = args.iter().try_fold(ChType::Nothing, |ty, arg| common_type(&ty, &arg.ty))?;
            let wanted = if name == "greatest" { Ordering::Greater } else { Ordering::Less };
            let result = plain(&ty).clone();
            Plan::new(result.clone(), move |row| {
                let mut best: Option<(&Value, &ChType)> = None;
                for (value, arg) in row.iter().zip(args) {
                    if best.is_none_or(|(known, _)| compare(value, known) == Some(wanted)) {
                        best = Some((value, &arg.ty));
                    }
                }
                let (value, from) =
                    best.ok_or_else(|| exception!(WRONG_ARGUMENT_COUNT, "{name} needs an argument"))?;
                convert(value, from, &result, zone)
            })
        }
        _ => return Ok(None),
    }))
}

fn comparable(left: &ChType, right: &ChType) -> Result<()> {
    let enum_and_text = |a: &ChType, b: &ChType| {
        matches!(a, ChType::Enum8(_) | ChType::Enum16(_))
            && matches!(b, ChType::String | ChType::FixedString(_))
    };
    let (a, b) = (plain(left), plain(right));
    if enum_and_text(a, b) || enum_and_text(b, a) {
        return Ok(());
    }
    common_type(left, right)
        .map(|_| ())
        .map_err(|_| exception!(TYPE_MISMATCH, "Types {left} and {right} cannot be compared"))
}

fn membership<'a>(name: &'a str, args: &'a [Evaluated], scope: &Scope<'_>) -> Result<Plan<'a>> {
    let wanted = name == "in";
    let set = args[1].const_value().ok_or_else(|| {
        exception!(NOT_IMPLEMENTED, "the right side of IN must be a list of constants for the double")
    })?;
    let (items, types): (Vec<Value>, Vec<ChType>) = match (set, &args[1].ty) {
        (Value::Tuple(items), ChType::Tuple(elements))
            if !matches!(args[0].ty, ChType::Tuple(_))
                || items.iter().any(|i| matches!(i, Value::Tuple(_))) =>
        {
            (items.clone(), elements.iter().map(|element| element.ty.clone()).collect())
        }
        (Value::Array(items), ChType::Array(element)) => {
            (items.clone(), vec![(**element).clone(); items.len()])
        }
        (one, ty) => (vec![one.clone()], vec![ty.clone()]),
    };
    let target = plain(&args[0].ty);
    // What is no value of the left side's type equals none of its values.
    let set: Vec<Value> = items
        .iter()
        .zip(&types)
        .filter(|(item, _)| !item.is_null())
        .filter_map(|(item, ty)| convert(item, ty, target, &scope.context.zone).ok())
        .collect();
    Ok(Plan::new(ChType::UInt8, move |row| {
        let found = set.iter().any(|item| compare(item, &row[0]) == Some(Ordering::Equal));
        Ok(Value::int(u8::from(found == wanted)))
    }))
}

/// `if(c, a, b)` and `multiIf(c1, a1, c2, a2, …, b)`.
fn choice<'a>(name: &str, args: &'a [Evaluated], scope: &'a Scope<'_>) -> Result<Plan<'a>> {
    if args.len() < 3 || args.len().is_multiple_of(2) || (name == "if" && args.len() != 3) {
        return Err(exception!(WRONG_ARGUMENT_COUNT, "Invalid number of arguments for function {name}"));
    }
    let zone = &scope.context.zone;
    let last = args.len() - 1;
    let branches = (0..args.len()).filter(|i| i % 2 == 1 || *i == last);
    let ty = branches.clone().try_fold(ChType::Nothing, |ty, i| common_type(&ty, &args[i].ty))?;
    let ty = if ty == ChType::Nothing { ty.into_nullable() } else { ty };
    Ok(Plan::seeing_nulls(ty.clone(), move |row| {
        let chosen = (0..last).step_by(2).find(|i| row[*i].is_true()).map_or(last, |i| i + 1);
        convert(&row[chosen], &args[chosen].ty, &ty, zone)
    }))
}
