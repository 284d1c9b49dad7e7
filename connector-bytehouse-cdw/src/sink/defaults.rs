//! Column defaults of a source as defaults of the target.

use connector_bytehouse_common::{
    native::ChType,
    sql::{quote_literal, unquote},
};

/// The target's expression for a source's default; `None` where there is none that means the same.
///
/// Literals, `CURRENT_TIMESTAMP` and its other names, and `CURRENT_DATE` are taken over. A literal that the column
/// cannot hold (`0000-00-00`, a text for a number) is not.
pub(super) fn default_sql(text: &str, ty: &ChType) -> Option<String> {
    let ty = match ty {
        ChType::Nullable(inner) | ChType::LowCardinality(inner) => return default_sql(text, inner),
        other => other,
    };
    let text = without_cast(text.trim());
    if let Some(value) = unquote(text).filter(|_| !text.starts_with('`')) {
        return literal(&value, true, ty);
    }
    if is_now(text) {
        return match ty {
            ChType::DateTime(_) => Some("now()".to_owned()),
            ChType::DateTime64(precision, _) => Some(format!("now64({precision})")),
            ChType::Date | ChType::Date32 => Some("today()".to_owned()),
            _ => None,
        };
    }
    let date = ["current_date", "current_date()", "curdate()"];
    if date.iter().any(|name| text.eq_ignore_ascii_case(name)) {
        return matches!(ty, ChType::Date | ChType::Date32).then(|| "today()".to_owned());
    }
    literal(text, false, ty)
}

/// `'x'::character varying`, as PostgreSQL shows defaults.
fn without_cast(text: &str) -> &str {
    match text.rsplit_once("'::") {
        Some((value, ty)) if !ty.contains('\'') => &text[..value.len() + 1],
        _ => text,
    }
}

fn is_now(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let (name, digits) = lower.split_once('(').unwrap_or((&lower, ")"));
    let digits = digits.strip_suffix(')').unwrap_or("x");
    matches!(name, "current_timestamp" | "now" | "localtimestamp" | "localtime")
        && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn literal(value: &str, quoted: bool, ty: &ChType) -> Option<String> {
    fn whole<T: std::str::FromStr + ToString>(value: &str) -> Option<String> {
        value.parse::<T>().ok().map(|number| number.to_string())
    }
    let flag = if value.eq_ignore_ascii_case("true") {
        "1"
    } else if value.eq_ignore_ascii_case("false") {
        "0"
    } else {
        value
    };
    match ty {
        ChType::String => (quoted || is_decimal(value)).then(|| quote_literal(value)),
        ChType::FixedString(width) => (quoted && value.len() <= *width).then(|| quote_literal(value)),
        ChType::Bool => matches!(flag, "0" | "1").then(|| flag.to_owned()),
        ChType::Int8 => whole::<i8>(flag),
        ChType::Int16 => whole::<i16>(flag),
        ChType::Int32 => whole::<i32>(flag),
        ChType::Int64 => whole::<i64>(flag),
        ChType::UInt8 => whole::<u8>(flag),
        ChType::UInt16 => whole::<u16>(flag),
        ChType::UInt32 => whole::<u32>(flag),
        ChType::UInt64 => whole::<u64>(flag),
        ChType::Float32 | ChType::Float64 => is_decimal(value).then(|| value.to_owned()),
        ChType::Decimal { precision, scale } => {
            fits_decimal(value, *precision, *scale).then(|| format!("CAST({}, '{ty}')", quote_literal(value)))
        }
        ChType::Date | ChType::Date32 | ChType::DateTime(_) | ChType::DateTime64(..) if quoted => {
            is_time(value, ty)
                .then(|| format!("CAST({}, {})", quote_literal(value), quote_literal(&ty.to_string())))
        }
        _ => None,
    }
}

fn is_decimal(value: &str) -> bool {
    let digits = value.strip_prefix('-').unwrap_or(value);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    [whole, fraction].iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

fn fits_decimal(value: &str, precision: u8, scale: u8) -> bool {
    let digits = value.strip_prefix('-').unwrap_or(value);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    is_decimal(value)
        && whole.trim_start_matches('0').len() <= usize::from(precision.saturating_sub(scale))
        && fraction.trim_end_matches('0').len() <= usize::from(scale)
}

/// `2020-01-31`, and for times of a day ` 12:34:56[.789]` behind it, within what every such column holds.
fn is_time(value: &str, ty: &ChType) -> bool {
    let (date, time) = value.split_once([' ', 'T']).unwrap_or((value, "00:00:00"));
    let Ok(date) = date.parse::<jiff::civil::Date>() else { return false };
    let years = match ty {
        ChType::Date32 | ChType::DateTime64(..) => 1900..=2261,
        _ => 1970..=2105,
    };
    let dates_only = matches!(ty, ChType::Date | ChType::Date32);
    let whole_seconds = matches!(ty, ChType::DateTime(_));
    years.contains(&date.year())
        && time.parse::<jiff::civil::Time>().is_ok()
        && !(dates_only && value.contains([' ', 'T']))
        && !(whole_seconds && time.contains('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, ty: &str) -> Option<String> {
        default_sql(text, &ty.parse().unwrap())
    }

    #[test]
    fn defaults_that_mean_the_same_are_taken_over() {
        for (text, ty, wanted) in [
            ("'yiii'", "String", "'yiii'"),
            ("''", "Nullable(String)", "''"),
            ("'it''s'", "String", r"'it\'s'"),
            ("'x'); DROP TABLE t; --'", "Int8", ""),
            ("'a\\\\b'", "LowCardinality(String)", r"'a\\b'"),
            ("'x'::character varying", "String", "'x'"),
            ("7", "String", "'7'"),
            ("0.0", "Decimal(18, 4)", "CAST('0.0', 'Decimal(18, 4)')"),
            ("'0.00'", "Nullable(Decimal(9, 2))", "CAST('0.00', 'Decimal(9, 2)')"),
            ("0.00", "Float64", "0.00"),
            ("'5'", "Int32", "5"),
            ("-128", "Int8", "-128"),
            ("true", "Bool", "1"),
            ("'0'", "Bool", "0"),
            ("CURRENT_TIMESTAMP", "DateTime", "now()"),
            ("current_timestamp(6)", "DateTime64(6)", "now64(6)"),
            ("now()", "Nullable(Date)", "today()"),
            ("CURRENT_DATE", "Date32", "today()"),
            ("'2020-01-31'", "Date", "CAST('2020-01-31', 'Date')"),
            ("'2020-01-31 01:02:03'", "DateTime('UTC')", r"CAST('2020-01-31 01:02:03', 'DateTime(\'UTC\')')"),
            ("'1950-01-31 01:02:03.5'", "DateTime64(3)", "CAST('1950-01-31 01:02:03.5', 'DateTime64(3)')"),
        ] {
            assert_eq!(of(text, ty), Some(wanted.to_owned()).filter(|w| !w.is_empty()), "{text} for {ty}");
        }
    }

    #[test]
    fn defaults_that_would_mean_something_else_are_left_out() {
        for (text, ty) in [
            ("'0000-00-00 00:00:00'", "DateTime"),
            ("'0000-00-00'", "Date32"),
            ("NULL", "Nullable(Int8)"),
            ("uuid()", "String"),
            ("nextval('seq'::regclass)", "Int64"),
            ("300", "UInt8"),
            ("-1", "UInt64"),
            ("'x'", "Int32"),
            ("1e3", "Int32"),
            ("1.23456", "Decimal(9, 2)"),
            ("'1960-01-01'", "Date"),
            ("'2020-01-01 25:00:00'", "DateTime"),
            ("'2020-01-01 00:00:00.5'", "DateTime"),
            ("CURRENT_TIMESTAMP", "String"),
            ("CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP", "DateTime"),
            ("[1]", "Array(UInt8)"),
        ] {
            assert_eq!(of(text, ty), None, "{text} for {ty}");
        }
    }
}
