//! Texts.

use connector_bytehouse_common::native::ChType;

use super::{Evaluated, Plan, expect, illegal};
use crate::{
    engine::{
        eval::Scope,
        value::{Value, format_value, plain},
    },
    exception::{Result, exception},
};

pub(super) fn plan<'a>(
    name: &'a str,
    args: &'a [Evaluated],
    scope: &'a Scope<'_>,
) -> Result<Option<Plan<'a>>> {
    let count = match name {
        "lower" | "upper" | "lengthUTF8" | "hex" => 1..=1,
        "length" | "empty" | "notEmpty" => {
            expect(name, args, 1..=1)?;
            return size(name, args).map(Some);
        }
        "concat" => {
            let zone = &scope.context.zone;
            return Ok(Some(Plan::new(ChType::String, move |row| {
                let parts = row.iter().zip(args).map(|(value, arg)| format_value(value, &arg.ty, zone));
                Ok(Value::Text(parts.flatten().collect()))
            })));
        }
        "substring" => 2..=3,
        "like" | "notLike" | "ilike" | "notILike" | "startsWith" | "endsWith" => 2..=2,
        _ => return Ok(None),
    };
    expect(name, args, count)?;
    if !is_text(&args[0].ty) {
        return Err(illegal(name, &args[0].ty));
    }
    let flag = |value: bool| Ok(Value::int(u8::from(value)));
    Ok(Some(match name {
        "lower" => Plan::new(ChType::String, |row| Ok(Value::Text(bytes(&row[0])?.to_ascii_lowercase()))),
        "upper" => Plan::new(ChType::String, |row| Ok(Value::Text(bytes(&row[0])?.to_ascii_uppercase()))),
        "lengthUTF8" => Plan::new(ChType::UInt64, |row| {
            Ok(Value::int(String::from_utf8_lossy(bytes(&row[0])?).chars().count() as u64))
        }),
        "hex" => Plan::new(ChType::String, |row| {
            Ok(Value::text(bytes(&row[0])?.iter().map(|byte| format!("{byte:02X}")).collect::<String>()))
        }),
        "substring" => Plan::new(ChType::String, substring),
        "startsWith" => {
            Plan::new(ChType::UInt8, move |row| flag(bytes(&row[0])?.starts_with(bytes(&row[1])?)))
        }
        "endsWith" => Plan::new(ChType::UInt8, move |row| flag(bytes(&row[0])?.ends_with(bytes(&row[1])?))),
        _ => {
            let any_case = matches!(name, "ilike" | "notILike");
            let wanted = !name.starts_with("not");
            Plan::new(ChType::UInt8, move |row| {
                let fold = |value: &Value| {
                    let text = bytes(value)?;
                    Ok(if any_case { text.to_ascii_lowercase() } else { text.to_vec() })
                };
                flag(like(&fold(&row[0])?, &fold(&row[1])?) == wanted)
            })
        }
    }))
}

fn is_text(ty: &ChType) -> bool {
    matches!(
        plain(ty),
        ChType::String
            | ChType::FixedString(_)
            | ChType::Enum8(_)
            | ChType::Enum16(_)
            | ChType::Json
            | ChType::Object
            | ChType::Nothing
    )
}

fn bytes(value: &Value) -> Result<&[u8]> {
    match value {
        Value::Text(bytes) => Ok(bytes),
        _ => Err(exception!(ILLEGAL_TYPE_OF_ARGUMENT, "a string is needed here")),
    }
}

fn size<'a>(name: &'a str, args: &[Evaluated]) -> Result<Plan<'a>> {
    if !is_text(&args[0].ty) && !matches!(args[0].ty, ChType::Array(_) | ChType::Map(..)) {
        return Err(illegal(name, &args[0].ty));
    }
    let ty = if name == "length" { ChType::UInt64 } else { ChType::UInt8 };
    Ok(Plan::new(ty, move |row| {
        let size = match &row[0] {
            Value::Text(bytes) => bytes.len(),
            Value::Array(items) => items.len(),
            Value::Map(pairs) => pairs.len(),
            _ => 0,
        };
        Ok(match name {
            "length" => Value::int(size as u64),
            "empty" => Value::int(u8::from(size == 0)),
            _ => Value::int(u8::from(size > 0)),
        })
    }))
}

/// `substring(s, offset[, length])`, in bytes, the first one at 1.
fn substring(row: &[Value]) -> Result<Value> {
    let number = |value: &Value| match value {
        Value::Int(number) => number.to_i128().and_then(|n| isize::try_from(n).ok()),
        _ => None,
    };
    let text = bytes(&row[0])?;
    let offset =
        number(&row[1]).ok_or_else(|| exception!(ILLEGAL_TYPE_OF_ARGUMENT, "substring needs a number"))?;
    let start = match offset {
        0 => text.len(),
        1.. => usize::try_from(offset - 1).unwrap_or(text.len()),
        _ => text.len().saturating_sub(offset.unsigned_abs()),
    };
    let rest = text.get(start..).unwrap_or(&[]);
    let length = match row.get(2) {
        Some(length) => usize::try_from(number(length).unwrap_or(0)).unwrap_or(0),
        None => rest.len(),
    };
    Ok(Value::Text(rest[..length.min(rest.len())].to_vec()))
}

/// `%` for any bytes, `_` for one character, a backslash before what is meant literally.
/// True when the whole text fits the pattern.
pub(crate) fn like(text: &[u8], pattern: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'%', rest @ ..] => (0..=text.len()).any(|start| like(&text[start..], rest)),
        [b'_', rest @ ..] => {
            let width =
                String::from_utf8_lossy(text).chars().next().map_or(0, |c| c.len_utf8().min(text.len()));
            width > 0 && like(&text[width..], rest)
        }
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => {
            text.first() == Some(literal) && like(&text[1..], rest)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::like;

    #[test]
    fn patterns() {
        assert!(like(b"orders_1", b"orders%") && like("订单".as_bytes(), "_单".as_bytes()));
        assert!(like(b"a%b", b"a\\%b") && !like(b"axb", b"a\\%b"));
        assert!(!like(b"", b"_") && like(b"", b"%"));
    }
}
