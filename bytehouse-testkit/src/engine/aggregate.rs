//! Aggregate functions.

use std::{cmp::Ordering, collections::HashSet};

use connector_bytehouse_common::native::ChType;
use connector_core::arrow::datatypes::i256;

use super::{
    eval::{Data, Evaluated, Scope},
    value::{Value, compare, convert, default_value, format_value, integer, plain},
};
use crate::{
    exception::{Result, exception},
    sql::ast::Expr,
};

const NAMES: [&str; 12] = [
    "count",
    "sum",
    "min",
    "max",
    "avg",
    "any",
    "anyLast",
    "uniqExact",
    "uniq",
    "groupArray",
    "argMin",
    "argMax",
];
const ANY_CASE: [&str; 5] = ["count", "sum", "min", "max", "avg"];

/// The function's own name, and whether `If` stands behind it.
fn canonical(name: &str) -> Option<(&'static str, bool)> {
    let find = |name: &str| {
        NAMES
            .into_iter()
            .find(|known| *known == name)
            .or_else(|| ANY_CASE.into_iter().find(|known| known.eq_ignore_ascii_case(name)))
    };
    find(name)
        .map(|known| (known, false))
        .or_else(|| find(name.strip_suffix("If")?).map(|known| (known, true)))
}

pub(crate) fn is_aggregate(name: &str) -> bool {
    canonical(name).is_some()
}

/// Collects the aggregate calls of an expression, each once.
pub(crate) fn collect<'e>(expr: &'e Expr, calls: &mut Vec<&'e Expr>) {
    if let Expr::Call { name, args, .. } = expr {
        if is_aggregate(name) {
            if !calls.contains(&expr) {
                calls.push(expr);
            }
        } else {
            args.iter().for_each(|arg| collect(arg, calls));
        }
    }
}

/// Which group each row belongs to.
#[derive(Debug)]
pub(crate) struct Groups {
    pub(crate) count: usize,
    pub(crate) of_row: Vec<u32>,
}

/// Runs one aggregate call over all groups.
pub(crate) fn run(call: &Expr, scope: &Scope<'_>, groups: &Groups) -> Result<Evaluated> {
    let Expr::Call { name, args, distinct } = call else {
        return Err(exception!(LOGICAL_ERROR, "an aggregate is no call"));
    };
    let (function, conditional) =
        canonical(name).ok_or_else(|| exception!(UNKNOWN_FUNCTION, "Unknown aggregate function {name}"))?;
    let function = match (function, *distinct) {
        ("count", true) => "uniqExact",
        (other, false) => other,
        (other, true) => {
            return Err(exception!(NOT_IMPLEMENTED, "{other}(DISTINCT …) is not known to the double"));
        }
    };
    let args: Vec<&Expr> = args.iter().filter(|arg| **arg != Expr::Star).collect();
    let mut values: Vec<Evaluated> = args.iter().map(|arg| scope.eval(arg)).collect::<Result<_>>()?;
    let condition = if conditional { values.pop() } else { None };
    let wanted = match function {
        "count" => 0..=1,
        "argMin" | "argMax" => 2..=2,
        "uniqExact" | "uniq" => 1..=usize::MAX,
        _ => 1..=1,
    };
    if !wanted.contains(&values.len()) || (conditional && condition.is_none()) {
        return Err(exception!(
            WRONG_ARGUMENT_COUNT,
            "Aggregate function {name} got {} arguments",
            args.len()
        ));
    }
    let columns: Vec<_> = values.iter().map(Evaluated::values).collect::<Result<_>>()?;
    let condition = condition.as_ref().map(Evaluated::values).transpose()?;
    let cell = |column: &[Value], row: usize| {
        column.get(if column.len() == 1 { 0 } else { row }).cloned().unwrap_or(Value::Null)
    };
    let first = values.first().map_or(ChType::Nothing, |value| value.ty.clone());
    let ty = result_type(function, &first)?;
    let mut states: Vec<State> = (0..groups.count).map(|_| State::default()).collect();
    for row in 0..scope.rows {
        if condition.as_ref().is_some_and(|column| !cell(column, row).is_true()) {
            continue;
        }
        let cells: Vec<Value> = columns.iter().map(|column| cell(column, row)).collect();
        if cells.iter().any(Value::is_null) {
            continue;
        }
        let group = groups.of_row.get(row).copied().unwrap_or(0) as usize;
        if let Some(state) = states.get_mut(group) {
            state.add(function, cells, &values, scope)?;
        }
    }
    let zone = &scope.context.zone;
    let results: Result<Vec<Value>> =
        states.into_iter().map(|state| state.finish(function, &first, &ty, zone)).collect();
    Ok(Evaluated { ty, data: Data::Values(results?) })
}

fn result_type(function: &str, ty: &ChType) -> Result<ChType> {
    let keep_null = |result: ChType| if ty.is_nullable() { result.into_nullable() } else { result };
    let illegal = || {
        exception!(
            ILLEGAL_TYPE_OF_ARGUMENT,
            "Illegal type {ty} of argument for aggregate function {function}"
        )
    };
    Ok(match function {
        "count" | "uniqExact" | "uniq" => ChType::UInt64,
        "sum" | "avg" => {
            let inner = plain(ty);
            let sum = match (inner, integer(inner)) {
                (_, Some((bits, false))) if bits <= 64 => ChType::UInt64,
                (_, Some((bits, true))) if bits <= 64 => ChType::Int64,
                (ChType::Float32 | ChType::Float64 | ChType::BFloat16, _) => ChType::Float64,
                (ChType::Decimal { precision, scale }, _) => {
                    ChType::Decimal { precision: if *precision > 38 { 76 } else { 38 }, scale: *scale }
                }
                (wide, Some(_)) => wide.clone(),
                _ => return Err(illegal()),
            };
            keep_null(if function == "avg" { ChType::Float64 } else { sum })
        }
        "groupArray" => ChType::Array(Box::new(plain(ty).clone())),
        _ => ty.clone(),
    })
}

#[derive(Default)]
struct State {
    count: u64,
    total: Option<Value>,
    best: Option<Vec<Value>>,
    seen: HashSet<Vec<u8>>,
    list: Vec<Value>,
}

impl State {
    fn add(
        &mut self,
        function: &str,
        cells: Vec<Value>,
        types: &[Evaluated],
        scope: &Scope<'_>,
    ) -> Result<()> {
        self.count += 1;
        match function {
            "sum" | "avg" => {
                let value = &cells[0];
                self.total = Some(match self.total.take() {
                    None => value.clone(),
                    Some(total) => add(&total, value)?,
                });
            }
            "min" | "argMin" => self.keep(cells, Ordering::Less),
            "max" | "argMax" => self.keep(cells, Ordering::Greater),
            "any" => {
                self.best.get_or_insert(cells);
            }
            "anyLast" => self.best = Some(cells),
            "uniqExact" | "uniq" => {
                let mut bytes = Vec::new();
                for (cell, ty) in cells.iter().zip(types) {
                    let text = format_value(cell, &ty.ty, &scope.context.zone);
                    bytes.extend_from_slice(&text.len().to_le_bytes());
                    bytes.extend_from_slice(&text);
                }
                self.seen.insert(bytes);
            }
            "groupArray" => self.list.extend(cells),
            _ => {}
        }
        Ok(())
    }

    /// Keeps the row whose last cell comes first in the wanted order.
    fn keep(&mut self, cells: Vec<Value>, wanted: Ordering) {
        let better = match (&self.best, cells.last()) {
            (Some(best), Some(new)) => best.last().is_none_or(|known| compare(new, known) == Some(wanted)),
            _ => true,
        };
        if better {
            self.best = Some(cells);
        }
    }

    fn finish(self, function: &str, from: &ChType, ty: &ChType, zone: &super::value::Zone) -> Result<Value> {
        Ok(match function {
            "count" => Value::int(self.count),
            "uniqExact" | "uniq" => Value::int(self.seen.len() as u64),
            "sum" => match self.total {
                Some(total) => convert(&total, plain(ty), ty, zone)?,
                None => default_value(ty),
            },
            "avg" => match self.total.as_ref().and_then(Value::to_f64) {
                #[allow(clippy::cast_precision_loss, reason = "the mean is a nearest number anyway")]
                Some(total) => Value::Float(total / self.count as f64),
                None if ty.is_nullable() => Value::Null,
                None => Value::Float(f64::NAN),
            },
            "groupArray" => Value::Array(self.list),
            _ => match self.best.and_then(|cells| cells.into_iter().next()) {
                Some(value) => convert(&value, from, ty, zone)?,
                None => default_value(ty),
            },
        })
    }
}

fn add(total: &Value, value: &Value) -> Result<Value> {
    let overflow = || exception!(DECIMAL_OVERFLOW, "a sum is too big");
    let sum = |a: i256, b: i256| a.checked_add(b).ok_or_else(overflow);
    match (total, value) {
        (Value::Int(a), Value::Int(b)) => Ok(Value::Int(sum(*a, *b)?)),
        (Value::Decimal(a, scale), Value::Decimal(b, _)) => Ok(Value::Decimal(sum(*a, *b)?, *scale)),
        (a, b) => a.to_f64().zip(b.to_f64()).map(|(a, b)| Value::Float(a + b)).ok_or_else(overflow),
    }
}
