//! Expressions and names back to text.

use std::fmt::Write;

use super::ast::{Expr, Literal};

/// A name as it can stand in a statement: bare where that is unambiguous, else in backticks.
pub(crate) fn quote_identifier(name: &str) -> String {
    let bare = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !super::expression::is_reserved(name)
        && !["null", "true", "false", "case", "select", "distinct", "interval"]
            .contains(&name.to_lowercase().as_str());
    if bare { name.to_owned() } else { backquote(name) }
}

/// A name in backticks, always.
pub(crate) fn backquote(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 2);
    out.push('`');
    for c in name.chars() {
        if matches!(c, '`' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('`');
    out
}

/// A string constant with its quotes. Bytes that are not UTF-8 are written as `\xNN`.
pub(crate) fn quote_text(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('\'');
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\'' => out.push_str("\\'"),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                '\r' => out.push_str("\\r"),
                '\0' => out.push_str("\\0"),
                c => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            let _infallible = write!(out, "\\x{byte:02X}");
        }
    }
    out.push('\'');
    out
}

impl Literal {
    pub(crate) fn to_sql(&self) -> String {
        match self {
            Self::Null => "NULL".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Number(text) => text.clone(),
            Self::Text(bytes) => quote_text(bytes),
        }
    }

    /// The value as a setting carries it: texts without quotes.
    pub(crate) fn setting_text(&self) -> String {
        match self {
            Self::Null => String::new(),
            Self::Bool(value) => u8::from(*value).to_string(),
            Self::Number(text) => text.clone(),
            Self::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        }
    }
}

/// The sign of a two-argument operator, where there is one.
fn operator(name: &str) -> Option<&'static str> {
    Some(match name {
        "plus" => "+",
        "minus" => "-",
        "multiply" => "*",
        "divide" => "/",
        "modulo" => "%",
        "equals" => "=",
        "notEquals" => "!=",
        "less" => "<",
        "lessOrEquals" => "<=",
        "greater" => ">",
        "greaterOrEquals" => ">=",
        "and" => "AND",
        "or" => "OR",
        "in" => "IN",
        "notIn" => "NOT IN",
        "like" => "LIKE",
        "notLike" => "NOT LIKE",
        _ => return None,
    })
}

impl Expr {
    /// The name of a result column that has no alias: operators by their functions, as a server names them.
    pub(crate) fn column_name(&self) -> String {
        match self {
            Self::Literal(literal) => literal.to_sql(),
            Self::Column(name) => name.clone(),
            Self::Star => "*".to_owned(),
            Self::Call { name, args, distinct } => {
                let args: Vec<String> = args.iter().map(Self::column_name).collect();
                format!("{name}({}{})", if *distinct { "DISTINCT " } else { "" }, args.join(", "))
            }
        }
    }

    /// The expression as a statement spells it.
    pub(crate) fn to_sql(&self) -> String {
        match self {
            Self::Literal(literal) => literal.to_sql(),
            Self::Column(name) => quote_identifier(name),
            Self::Star => "*".to_owned(),
            Self::Call { name, args, distinct } => {
                let parts: Vec<String> = args
                    .iter()
                    .map(|arg| match arg {
                        Self::Call { name: inner, args, .. } if operator(name).is_some() => {
                            if operator(inner).is_some() && args.len() == 2 {
                                format!("({})", arg.to_sql())
                            } else {
                                arg.to_sql()
                            }
                        }
                        _ => arg.to_sql(),
                    })
                    .collect();
                match (operator(name), parts.as_slice()) {
                    (Some(sign), [left, right]) => format!("{left} {sign} {right}"),
                    _ if name == "tuple" && parts.len() > 1 => format!("({})", parts.join(", ")),
                    _ if name == "array" => format!("[{}]", parts.join(", ")),
                    _ => format!("{name}({}{})", if *distinct { "DISTINCT " } else { "" }, parts.join(", ")),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::parse_expression;

    #[test]
    fn text_form_parses_back() {
        for sql in [
            "(a + 1) * 2",
            "toYYYYMM(d)",
            "(a, `b c`)",
            "a IN (1, 2)",
            "[1, 2]",
            "(a = 'it\\'s \\\\') AND (b != NULL)",
            "count(DISTINCT a)",
            "`from` % 16",
        ] {
            let expr = parse_expression(sql).unwrap();
            assert_eq!(expr.to_sql(), sql);
            assert_eq!(parse_expression(&expr.to_sql()).unwrap(), expr);
        }
    }

    #[test]
    fn quoting() {
        assert_eq!(quote_identifier("a_1"), "a_1");
        for name in ["my-key", "from", "a.b", "订单", "`", "'", "\\", "😀", "1a", ""] {
            let quoted = quote_identifier(name);
            assert!(quoted.starts_with('`'), "{quoted}");
        }
        assert_eq!(quote_text(b"a'\xff\n"), "'a\\'\\xFF\\n'");
    }
}
