//! Functions of single rows.

mod arithmetic;
mod condition;
mod conversion;
mod text;
mod time;

pub(super) use self::text::like;

use connector_bytehouse_common::native::{ChType, TupleElement};

use super::{
    eval::{Data, Evaluated, Scope},
    value::{Value, common_type, convert},
};
use crate::exception::{Result, exception};

/// Makes a row's result of its arguments.
type Run<'a> = Box<dyn Fn(&[Value]) -> Result<Value> + 'a>;

/// What a function does once its arguments' types are known.
struct Plan<'a> {
    ty: ChType,
    run: Run<'a>,
    /// Gets nulls too; without, one null among the arguments makes the result null.
    sees_nulls: bool,
}

impl<'a> Plan<'a> {
    fn new(ty: ChType, run: impl Fn(&[Value]) -> Result<Value> + 'a) -> Self {
        Self { ty, run: Box::new(run), sees_nulls: false }
    }

    fn seeing_nulls(ty: ChType, run: impl Fn(&[Value]) -> Result<Value> + 'a) -> Self {
        Self { ty, run: Box::new(run), sees_nulls: true }
    }
}

/// The functions whose case does not matter.
const ANY_CASE: [&str; 17] = [
    "now",
    "lower",
    "upper",
    "length",
    "concat",
    "version",
    "coalesce",
    "if",
    "ifnull",
    "nullif",
    "substring",
    "abs",
    "today",
    "database",
    "user",
    "greatest",
    "least",
];

fn canonical(name: &str) -> std::borrow::Cow<'_, str> {
    let lower = name.to_ascii_lowercase();
    match lower.as_str() {
        "ifnull" => "ifNull".into(),
        "nullif" => "nullIf".into(),
        "cast" => "CAST".into(),
        "database" => "currentDatabase".into(),
        "user" => "currentUser".into(),
        other if ANY_CASE.contains(&other) => lower.into(),
        _ => name.into(),
    }
}

/// Calls `name` over all rows of the scope.
pub(super) fn call(name: &str, args: &[Evaluated], scope: &Scope<'_>) -> Result<Evaluated> {
    let name = canonical(name);
    if name == "generateUUIDv4" {
        let values = (0..scope.rows).map(|_| Value::Uuid(uuid::Uuid::new_v4().into_bytes())).collect();
        return Ok(Evaluated { ty: ChType::Uuid, data: Data::Values(values) });
    }
    if let Some(constant) = surroundings(&name, args, scope)? {
        return Ok(constant);
    }
    let args = align(&name, args, scope)?;
    let plan = plan(&name, &args, scope)?;
    run(plan, &args, scope.rows)
}

fn run(plan: Plan<'_>, args: &[Evaluated], rows: usize) -> Result<Evaluated> {
    let nullable = !plan.sees_nulls && args.iter().any(|arg| arg.ty.is_nullable());
    let ty = if nullable { plan.ty.clone().into_nullable() } else { plan.ty.clone() };
    let one = |row: &[Value]| {
        if !plan.sees_nulls && row.iter().any(Value::is_null) {
            return Ok(if nullable { Value::Null } else { super::value::default_value(&plan.ty) });
        }
        (plan.run)(row)
    };
    let columns: Result<Vec<_>> = args.iter().map(Evaluated::values).collect();
    let columns = columns?;
    let mut row = Vec::with_capacity(args.len());
    if args.iter().all(Evaluated::is_const) {
        row.extend(columns.iter().filter_map(|column| column.first().cloned()));
        return Ok(Evaluated::constant(one(&row)?, ty));
    }
    let mut values = Vec::with_capacity(rows);
    for i in 0..rows {
        row.clear();
        for (column, arg) in columns.iter().zip(args) {
            let at = if arg.is_const() { 0 } else { i };
            row.push(column.get(at).cloned().unwrap_or(Value::Null));
        }
        values.push(one(&row)?);
    }
    Ok(Evaluated { ty, data: Data::Values(values) })
}

/// Functions without arguments that tell about the session.
fn surroundings(name: &str, args: &[Evaluated], scope: &Scope<'_>) -> Result<Option<Evaluated>> {
    let context = scope.context;
    let text = |text: &str| Evaluated::constant(Value::text(text), ChType::String);
    let days = |offset: i32| {
        let today = context.zone.local(context.now.as_second(), 0);
        today.map(|local| super::value::days_of(local.date()) - offset)
    };
    let result = match name {
        "version" => text(&context.version),
        "timezone" | "timeZone" | "serverTimezone" => text(&context.zone_name),
        "currentDatabase" => text(&context.database),
        "currentUser" => text(&context.user),
        "hostName" | "hostname" => text("double"),
        "uptime" => Evaluated::constant(Value::int(1), ChType::UInt32),
        "now" => Evaluated::constant(Value::Instant(context.now.as_second(), 0), ChType::DateTime(None)),
        "now64" if args.is_empty() => {
            Evaluated::constant(Value::Instant(context.now.as_millisecond(), 3), ChType::DateTime64(3, None))
        }
        "today" => Evaluated::constant(Value::Date(days(0).unwrap_or(0)), ChType::Date),
        "yesterday" => Evaluated::constant(Value::Date(days(1).unwrap_or(0)), ChType::Date),
        _ => return Ok(None),
    };
    expect(name, args, 0..=0)?;
    Ok(Some(result))
}

/// Refuses a wrong number of arguments.
fn expect(name: &str, args: &[Evaluated], count: std::ops::RangeInclusive<usize>) -> Result<()> {
    if count.contains(&args.len()) {
        return Ok(());
    }
    Err(exception!(
        WRONG_ARGUMENT_COUNT,
        "Number of arguments for function {name} doesn't match: passed {}, should be {} to {}",
        args.len(),
        count.start(),
        count.end()
    ))
}

fn illegal(name: &str, ty: &ChType) -> crate::Exception {
    exception!(ILLEGAL_TYPE_OF_ARGUMENT, "Illegal type {ty} of argument of function {name}")
}

/// Brings constants to the type that they are compared with: `d = '2024-01-01'` compares dates.
fn align(name: &str, args: &[Evaluated], scope: &Scope<'_>) -> Result<Vec<Evaluated>> {
    let mut args = args.to_vec();
    let compares =
        matches!(name, "equals" | "notEquals" | "less" | "lessOrEquals" | "greater" | "greaterOrEquals");
    if !compares || args.len() != 2 {
        return Ok(args);
    }
    for (i, other) in [(0, 1), (1, 0)] {
        let target = super::value::plain(&args[other].ty).clone();
        let text = matches!(super::value::plain(&args[i].ty), ChType::String);
        let foreign = !matches!(target, ChType::String | ChType::FixedString(_) | ChType::Nothing);
        if let (true, true, Some(value)) = (text, foreign, args[i].const_value())
            && !value.is_null()
        {
            let value = convert(value, &ChType::String, &target, &scope.context.zone)?;
            args[i] = Evaluated::constant(value, target);
        }
    }
    Ok(args)
}

fn plan<'a>(name: &'a str, args: &'a [Evaluated], scope: &'a Scope<'_>) -> Result<Plan<'a>> {
    let planners = [arithmetic::plan, condition::plan, conversion::plan, text::plan, time::plan, build];
    for planner in planners {
        if let Some(plan) = planner(name, args, scope)? {
            return Ok(plan);
        }
    }
    Err(exception!(UNKNOWN_FUNCTION, "Unknown function {name}"))
}

/// Arrays, tuples and maps.
fn build<'a>(name: &'a str, args: &'a [Evaluated], scope: &'a Scope<'_>) -> Result<Option<Plan<'a>>> {
    let zone = &scope.context.zone;
    Ok(Some(match name {
        "tuple" => {
            let elements = args.iter().map(|arg| TupleElement { name: None, ty: arg.ty.clone() }).collect();
            Plan::seeing_nulls(ChType::Tuple(elements), |row| Ok(Value::Tuple(row.to_vec())))
        }
        "array" => {
            let element = shared_type(args.iter())?;
            let ty = ChType::Array(Box::new(element.clone()));
            Plan::seeing_nulls(ty, move |row| {
                let items = row.iter().zip(args).map(|(value, arg)| convert(value, &arg.ty, &element, zone));
                Ok(Value::Array(items.collect::<Result<_>>()?))
            })
        }
        "map" => {
            if !args.len().is_multiple_of(2) {
                return Err(exception!(
                    WRONG_ARGUMENT_COUNT,
                    "Function map requires even number of arguments"
                ));
            }
            let key = shared_type(args.iter().step_by(2))?;
            let value = shared_type(args.iter().skip(1).step_by(2))?;
            let ty = ChType::Map(Box::new(key.clone()), Box::new(value.clone()));
            Plan::seeing_nulls(ty, move |row| {
                let pairs = row.chunks(2).zip(args.chunks(2)).map(|(pair, types)| match (pair, types) {
                    ([k, v], [kt, vt]) => {
                        Ok((convert(k, &kt.ty, &key, zone)?, convert(v, &vt.ty, &value, zone)?))
                    }
                    _ => Err(exception!(LOGICAL_ERROR, "a map has a key without a value")),
                });
                Ok(Value::Map(pairs.collect::<Result<_>>()?))
            })
        }
        "tupleElement" | "arrayElement" => {
            expect(name, args, 2..=2)?;
            element_plan(name, args)?
        }
        "has" => {
            expect(name, args, 2..=2)?;
            Plan::new(ChType::UInt8, |row| match row {
                [Value::Array(items), wanted] => {
                    let found = items
                        .iter()
                        .any(|item| super::value::compare(item, wanted).is_some_and(|o| o.is_eq()));
                    Ok(Value::int(u8::from(found)))
                }
                _ => Err(exception!(ILLEGAL_TYPE_OF_ARGUMENT, "function has needs an array")),
            })
        }
        _ => return Ok(None),
    }))
}

fn shared_type<'a>(mut items: impl Iterator<Item = &'a Evaluated>) -> Result<ChType> {
    items.try_fold(ChType::Nothing, |ty, arg| common_type(&ty, &arg.ty))
}

fn element_plan<'a>(name: &str, args: &[Evaluated]) -> Result<Plan<'a>> {
    let index = |value: &Value| match value {
        Value::Int(index) => index.to_i128().and_then(|i| isize::try_from(i).ok()),
        _ => None,
    };
    match &args[0].ty {
        ChType::Tuple(elements) => {
            let position = match args[1].const_value() {
                Some(Value::Text(wanted)) => elements
                    .iter()
                    .position(|e| e.name.as_deref().is_some_and(|n| n.as_bytes() == wanted.as_slice())),
                Some(value) => {
                    index(value).and_then(|i| usize::try_from(i - 1).ok()).filter(|i| *i < elements.len())
                }
                None => None,
            };
            let position = position
                .ok_or_else(|| exception!(ILLEGAL_TYPE_OF_ARGUMENT, "the tuple has no such element"))?;
            let ty = elements.get(position).map_or(ChType::Nothing, |element| element.ty.clone());
            Ok(Plan::new(ty, move |row| match &row[0] {
                Value::Tuple(items) => Ok(items.get(position).cloned().unwrap_or(Value::Null)),
                _ => Err(exception!(LOGICAL_ERROR, "a tuple is no tuple")),
            }))
        }
        ChType::Array(element) => {
            let default = super::value::default_value(element);
            Ok(Plan::new((**element).clone(), move |row| match row {
                [Value::Array(items), at] => {
                    let at = index(at).unwrap_or(0);
                    let position = if at < 0 {
                        items.len().checked_add_signed(at)
                    } else {
                        usize::try_from(at - 1).ok()
                    };
                    Ok(position.and_then(|p| items.get(p)).cloned().unwrap_or_else(|| default.clone()))
                }
                _ => Err(exception!(LOGICAL_ERROR, "an array is no array")),
            }))
        }
        ChType::Map(_, value) => {
            let default = super::value::default_value(value);
            Ok(Plan::new((**value).clone(), move |row| match row {
                [Value::Map(pairs), key] => {
                    let found =
                        pairs.iter().find(|(k, _)| super::value::compare(k, key).is_some_and(|o| o.is_eq()));
                    Ok(found.map_or_else(|| default.clone(), |(_, v)| v.clone()))
                }
                _ => Err(exception!(LOGICAL_ERROR, "a map is no map")),
            }))
        }
        other => Err(illegal(name, other)),
    }
}
