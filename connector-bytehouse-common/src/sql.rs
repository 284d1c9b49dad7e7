//! SQL quoting: one rule for every name and value that goes into a statement.
//!
//! Names stand in backticks, values in single quotes; inside both, the quote, the backslash and the zero
//! character are escaped by a backslash. ClickHouse 18.16, current servers and ByteHouse read it so.

use connector_core::{Error, ErrorKind, Result, TableId};

/// Quotes a name: database, table, column, partition, cluster.
///
/// ```
/// assert_eq!(connector_bytehouse_common::sql::quote_ident("my-key"), "`my-key`");
/// ```
pub fn quote_ident(name: &str) -> String {
    quoted(name, '`')
}

/// Quotes a text value.
///
/// ```
/// assert_eq!(connector_bytehouse_common::sql::quote_literal("it's"), r"'it\'s'");
/// ```
pub fn quote_literal(value: &str) -> String {
    quoted(value, '\'')
}

/// Quotes a table's name; without a database the session's own is meant.
///
/// ```
/// use connector_core::TableId;
///
/// assert_eq!(connector_bytehouse_common::sql::quote_table(&TableId::new("app", "orders")), "`app`.`orders`");
/// ```
pub fn quote_table(table: &TableId) -> String {
    if table.database.is_empty() {
        quote_ident(&table.table)
    } else {
        format!("{}.{}", quote_ident(&table.database), quote_ident(&table.table))
    }
}

/// Quotes names and puts commas between them.
pub fn quote_idents<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(quote_ident).collect::<Vec<_>>().join(", ")
}

/// `name = value` for a `SETTINGS` clause or a `SET` statement. Numbers stand as they are, `true` and `false` as
/// 1 and 0 (old servers know no others), everything else is quoted.
///
/// # Errors
/// `OptionInvalid` when the name is not made of letters, digits, underscores and dots: a setting's name cannot
/// be quoted, so anything else would be SQL of its own.
pub fn setting_assignment(name: &str, value: &str) -> Result<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') || !name.chars().all(plain) {
        return Err(Error::new(
            ErrorKind::OptionInvalid,
            format!(
                "`{}` is no name of a setting: letters, digits and underscores make one",
                name.escape_debug()
            ),
        ));
    }
    Ok(format!("{name} = {}", setting_value(value)))
}

fn setting_value(value: &str) -> String {
    match value {
        "true" => "1".into(),
        "false" => "0".into(),
        _ if is_number(value) => value.into(),
        _ => quote_literal(value),
    }
}

/// A decimal number as every server reads it.
fn is_number(value: &str) -> bool {
    let digits = value.strip_prefix('-').unwrap_or(value);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    [whole, fraction].iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

fn quoted(text: &str, quote: char) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        match c {
            '\0' => out.push_str("\\0"),
            '\\' => out.push_str("\\\\"),
            _ if c == quote => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out.push(quote);
    out
}

/// Takes a quoted name or value apart: backticks, single or double quotes, backslash escapes and doubled
/// quotes. `None` when it is not quoted from its first to its last character.
pub fn unquote(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|c| matches!(c, '`' | '\'' | '"'))?;
    let inner = text.get(1..text.len().checked_sub(1)?)?;
    if !text.ends_with(quote) {
        return None;
    }
    let mut out = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        if c == quote {
            // Only a doubled quote stands for itself.
            chars.next().filter(|next| *next == quote)?;
        }
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next()? {
            'n' => out.push('\n'),
            't' => out.push('\t'),
            'r' => out.push('\r'),
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            'a' => out.push('\u{7}'),
            'v' => out.push('\u{b}'),
            '0' => out.push('\0'),
            'x' => {
                let code = [chars.next()?, chars.next()?]
                    .iter()
                    .try_fold(0, |code, c| Some(code * 16 + c.to_digit(16)?))?;
                out.push(char::from_u32(code).filter(char::is_ascii)?);
            }
            other => out.push(other),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_break_sql_elsewhere() {
        for (name, quoted) in [
            ("order", "`order`"),
            ("table", "`table`"),
            ("my-key", "`my-key`"),
            ("from", "`from`"),
            ("a.b", "`a.b`"),
            ("test id", "`test id`"),
            ("订单", "`订单`"),
            ("😀", "`😀`"),
            ("back`tick", "`back\\`tick`"),
            ("it's", "`it's`"),
            ("say \"hi\"", "`say \"hi\"`"),
            ("back\\slash", "`back\\\\slash`"),
            ("end\\", "`end\\\\`"),
            ("`; DROP TABLE x; --", "`\\`; DROP TABLE x; --`"),
            ("nul\0", "`nul\\0`"),
            ("", "``"),
        ] {
            assert_eq!(quote_ident(name), quoted);
            assert_eq!(unquote(quoted).as_deref(), Some(name));
        }
        assert_eq!(quote_literal("it's a \\ `x`\n"), "'it\\'s a \\\\ `x`\n'");
        assert_eq!(quote_table(&TableId::new("order", "a.b")), "`order`.`a.b`");
        assert_eq!(quote_table(&TableId::new("", "t")), "`t`");
        assert_eq!(quote_idents(["a", "b`"]), "`a`, `b\\``");
    }

    #[test]
    fn settings_cannot_carry_sql() {
        for (value, sql) in [
            ("4", "s = 4"),
            ("-1.5", "s = -1.5"),
            ("true", "s = 1"),
            ("4 OR 1", "s = '4 OR 1'"),
            ("x', y = '1", "s = 'x\\', y = \\'1'"),
            ("1e3", "s = '1e3'"),
            ("", "s = ''"),
            (".", "s = '.'"),
            ("1.", "s = '1.'"),
        ] {
            assert_eq!(setting_assignment("s", value).unwrap(), sql);
        }
        for name in ["", "a b", "a=1,b", "a;", "a`", "1a", "ключ"] {
            assert_eq!(setting_assignment(name, "1").unwrap_err().kind(), ErrorKind::OptionInvalid, "{name}");
        }
    }

    #[test]
    fn unquotes_every_spelling() {
        for (text, inner) in [
            (r"'a\'b\\c\n\x41\q'", Some("a'b\\c\nAq")),
            ("'it''s'", Some("it's")),
            ("\"x\"", Some("x")),
            ("``", Some("")),
            ("'a'b'", None),
            ("'a\\'", None),
            ("'", None),
            ("a", None),
            ("", None),
            ("'\\x4'", None),
        ] {
            assert_eq!(unquote(text).as_deref(), inner, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_comes_back(text in "\\PC*|[`'\"\\\\\0\n]{0,8}") {
            prop_assert_eq!(unquote(&quote_ident(&text)), Some(text.clone()));
            prop_assert_eq!(unquote(&quote_literal(&text)), Some(text.clone()));
        }
    }
}
