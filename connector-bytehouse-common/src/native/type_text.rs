//! Reads the text of a type.

use std::str::FromStr;

use connector_core::{Error, ErrorKind, Result};

use super::types::{ChType, EnumValues, IntervalUnit, TupleElement};

/// Types nest at most this deep; a deeper text is refused rather than followed.
const MAX_DEPTH: usize = 48;
/// The longest fixed string that servers allow, in bytes.
const MAX_FIXED_STRING: u64 = 0xff_ffff;

impl FromStr for ChType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut parser = Parser { text, at: 0 };
        let ty = parser.ty(0)?;
        parser.skip_space();
        if parser.at < text.len() {
            return Err(parser.fail("something stands behind it"));
        }
        Ok(ty)
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn fail(&self, why: &str) -> Error {
        let mut shown: String = self.text.chars().take(200).collect();
        if shown.len() < self.text.len() {
            shown.push('…');
        }
        Error::new(ErrorKind::Unexpected, format!("cannot read the type `{shown}`: {why} (byte {})", self.at))
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|b| b.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Takes one punctuation mark if it comes next.
    fn take(&mut self, mark: u8) -> bool {
        self.skip_space();
        let here = self.peek() == Some(mark);
        self.at += usize::from(here);
        here
    }

    fn need(&mut self, mark: u8) -> Result<()> {
        if self.take(mark) { Ok(()) } else { Err(self.fail(&format!("`{}` is missing", char::from(mark)))) }
    }

    fn word(&mut self) -> Option<&'a str> {
        self.skip_space();
        let start = self.at;
        if !self.peek().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_') {
            return None;
        }
        while self.peek().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_') {
            self.at += 1;
        }
        self.text.get(start..self.at)
    }

    /// Takes a word if it comes next, in any case.
    fn take_word(&mut self, wanted: &str) -> bool {
        let start = self.at;
        if self.word().is_some_and(|word| word.eq_ignore_ascii_case(wanted)) {
            return true;
        }
        self.at = start;
        false
    }

    fn number(&mut self) -> Result<u64> {
        self.skip_space();
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        self.text
            .get(start..self.at)
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(|| self.fail("a number is missing or too large"))
    }

    fn small(&mut self, max: u8) -> Result<u8> {
        let number = self.number()?;
        u8::try_from(number)
            .ok()
            .filter(|n| *n <= max)
            .ok_or_else(|| self.fail(&format!("{number} is above {max}, the largest number here")))
    }

    /// A text in `quote`s, with escapes by a backslash or by writing the quote twice.
    fn quoted(&mut self, quote: u8) -> Result<String> {
        self.need(quote)?;
        let mut bytes = Vec::new();
        loop {
            let byte = self.peek().ok_or_else(|| self.fail("a quote is not closed"))?;
            self.at += 1;
            if byte == b'\\' {
                let escaped = self.peek().ok_or_else(|| self.fail("a quote is not closed"))?;
                self.at += 1;
                bytes.push(match escaped {
                    b'b' => 0x08,
                    b'f' => 0x0c,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'0' => 0,
                    other => other,
                });
            } else if byte != quote {
                bytes.push(byte);
            } else if self.peek() == Some(quote) {
                self.at += 1;
                bytes.push(quote);
            } else {
                return String::from_utf8(bytes).map_err(|_| self.fail("a quoted text is not UTF-8"));
            }
        }
    }

    /// Skips what stands in parentheses, if they come next, without looking at it.
    fn skip_arguments(&mut self) -> Result<()> {
        if !self.take(b'(') {
            return Ok(());
        }
        let mut open = 1usize;
        while open > 0 {
            match self.peek() {
                None => return Err(self.fail("a parenthesis is not closed")),
                Some(quote @ (b'\'' | b'`' | b'"')) => {
                    self.quoted(quote)?;
                    continue;
                }
                Some(b'(') => open += 1,
                Some(b')') => open -= 1,
                Some(_) => {}
            }
            self.at += 1;
        }
        Ok(())
    }

    /// A type with what may stand behind it in SQL: `UNSIGNED`, `NULL`, `NOT NULL`.
    fn ty(&mut self, depth: usize) -> Result<ChType> {
        if depth > MAX_DEPTH {
            return Err(self.fail(&format!("types nest more than {MAX_DEPTH} deep")));
        }
        let mut ty = self.bare_type(depth)?;
        loop {
            if self.take_word("UNSIGNED") {
                ty = match ty {
                    ChType::Int8 => ChType::UInt8,
                    ChType::Int16 => ChType::UInt16,
                    ChType::Int32 => ChType::UInt32,
                    ChType::Int64 => ChType::UInt64,
                    _ => return Err(self.fail("UNSIGNED belongs behind a signed integer type")),
                };
            } else if self.take_word("NOT") {
                if !self.take_word("NULL") {
                    return Err(self.fail("NULL is missing behind NOT"));
                }
            } else if self.take_word("NULL") {
                ty = self.nullable(ty)?;
            } else if !self.take_word("SIGNED") {
                return Ok(ty);
            }
        }
    }

    fn bare_type(&mut self, depth: usize) -> Result<ChType> {
        self.skip_space();
        let start = self.at;
        let name = self.word().ok_or_else(|| self.fail("the name of a type is missing"))?;
        let lower = name.to_ascii_lowercase();
        if matches!(lower.as_str(), "null" | "not" | "unsigned" | "signed") {
            return Err(self.fail("the name of a type is missing"));
        }
        if let Some(ty) = plain_type(&lower) {
            if lower == "double" {
                self.take_word("PRECISION");
            } else if ty == ChType::String {
                self.take_word("VARYING");
            }
            // Lengths and widths of SQL aliases, as in VARCHAR(50) and INT(11), bound nothing here.
            self.skip_arguments()?;
            return Ok(ty);
        }
        if let Some(ty) = self.scalar_type(&lower)? {
            return Ok(ty);
        }
        if let Some(ty) = self.compound_type(&lower, depth)? {
            return Ok(ty);
        }
        self.skip_arguments()?;
        Ok(ChType::Unknown(self.text.get(start..self.at).unwrap_or(name).to_owned()))
    }

    /// Types with arguments that are not types.
    fn scalar_type(&mut self, name: &str) -> Result<Option<ChType>> {
        Ok(Some(match name {
            "fixedstring" | "binary" => {
                self.need(b'(')?;
                let width = self.number()?;
                if !(1..=MAX_FIXED_STRING).contains(&width) {
                    return Err(self.fail(&format!("a fixed string has 1 to {MAX_FIXED_STRING} bytes")));
                }
                self.need(b')')?;
                ChType::FixedString(usize::try_from(width).map_err(|_| self.fail("too long"))?)
            }
            "decimal" | "dec" | "numeric" | "fixed" => self.decimal()?,
            "decimal32" => self.decimal_of(9)?,
            "decimal64" => self.decimal_of(18)?,
            "decimal128" => self.decimal_of(38)?,
            "decimal256" => self.decimal_of(76)?,
            "datetime" | "timestamp" => self.date_time()?,
            "datetime64" => self.date_time64()?,
            "time" => match self.scale()? {
                None => ChType::Time,
                Some(scale) => ChType::Time64 { scale, bytehouse: true },
            },
            "time64" => ChType::Time64 { scale: self.scale()?.unwrap_or(3), bytehouse: false },
            "enum" | "enum8" | "enum16" => self.enumeration(name)?,
            "json" => {
                self.skip_arguments()?;
                ChType::Json
            }
            "object" => {
                self.need(b'(')?;
                let nullable = self.take_word("Nullable");
                if nullable {
                    self.need(b'(')?;
                }
                self.skip_space();
                let kind = self.quoted(b'\'')?;
                if !kind.eq_ignore_ascii_case("json") {
                    return Err(self.fail("the only object type is Object('json')"));
                }
                if nullable {
                    self.need(b')')?;
                }
                self.need(b')')?;
                ChType::Object
            }
            _ => {
                let unit = name.strip_prefix("interval").and_then(|unit| {
                    IntervalUnit::ALL.into_iter().find(|u| u.as_str().eq_ignore_ascii_case(unit))
                });
                return Ok(unit.map(ChType::Interval));
            }
        }))
    }

    /// `(s)` with a scale up to 9, if it comes next.
    fn scale(&mut self) -> Result<Option<u8>> {
        if !self.take(b'(') {
            return Ok(None);
        }
        let scale = self.small(9)?;
        self.need(b')')?;
        Ok(Some(scale))
    }

    fn decimal(&mut self) -> Result<ChType> {
        let (mut precision, mut scale) = (10, 0);
        if self.take(b'(') {
            precision = self.small(76)?;
            if self.take(b',') {
                scale = self.small(precision)?;
            }
            self.need(b')')?;
        }
        if precision == 0 {
            return Err(self.fail("a decimal has 1 to 76 digits"));
        }
        Ok(ChType::Decimal { precision, scale })
    }

    fn decimal_of(&mut self, precision: u8) -> Result<ChType> {
        let mut scale = 0;
        if self.take(b'(') {
            scale = self.small(precision)?;
            self.need(b')')?;
        }
        Ok(ChType::Decimal { precision, scale })
    }

    fn date_time(&mut self) -> Result<ChType> {
        if !self.take(b'(') {
            return Ok(ChType::DateTime(None));
        }
        self.skip_space();
        if self.peek() == Some(b'\'') {
            let zone = self.quoted(b'\'')?;
            self.need(b')')?;
            return Ok(ChType::DateTime(Some(zone.into())));
        }
        self.date_time64_arguments()
    }

    fn date_time64(&mut self) -> Result<ChType> {
        if self.take(b'(') { self.date_time64_arguments() } else { Ok(ChType::DateTime64(3, None)) }
    }

    fn date_time64_arguments(&mut self) -> Result<ChType> {
        let precision = self.small(9)?;
        let mut zone = None;
        if self.take(b',') {
            self.skip_space();
            zone = Some(self.quoted(b'\'')?.into());
        }
        self.need(b')')?;
        Ok(ChType::DateTime64(precision, zone))
    }

    fn enumeration(&mut self, name: &str) -> Result<ChType> {
        self.need(b'(')?;
        let mut values = Vec::new();
        let mut next = 1i16;
        loop {
            self.skip_space();
            let value = self.quoted(b'\'')?;
            let mut number = next;
            if self.take(b'=') {
                self.skip_space();
                let negative = self.take(b'-');
                let digits = i64::try_from(self.number()?).unwrap_or(i64::MAX);
                number = i16::try_from(if negative { -digits } else { digits })
                    .map_err(|_| self.fail("an enum's number does not fit into 16 bits"))?;
            }
            values.push((value, number));
            next = number.saturating_add(1);
            if !self.take(b',') {
                break;
            }
        }
        self.need(b')')?;
        let fits8 = values.iter().all(|(_, number)| i8::try_from(*number).is_ok());
        if name == "enum8" && !fits8 {
            return Err(self.fail("an enum's number does not fit into 8 bits"));
        }
        let values = EnumValues::new(values).map_err(|e| self.fail(e.message()))?;
        Ok(if name == "enum8" || (name == "enum" && fits8) {
            ChType::Enum8(values)
        } else {
            ChType::Enum16(values)
        })
    }

    /// Types made of other types.
    fn compound_type(&mut self, name: &str, depth: usize) -> Result<Option<ChType>> {
        let point = || tuple([ChType::Float64, ChType::Float64]);
        let array = |inner| ChType::Array(Box::new(inner));
        Ok(Some(match name {
            "nullable" => {
                let inner = self.only_argument(depth)?;
                self.nullable(inner)?
            }
            "lowcardinality" => {
                let inner = self.only_argument(depth)?;
                self.low_cardinality(inner)?
            }
            "array" => array(self.only_argument(depth)?),
            "map" => {
                self.need(b'(')?;
                let key = self.ty(depth + 1)?;
                self.need(b',')?;
                let value = self.ty(depth + 1)?;
                self.need(b')')?;
                ChType::Map(Box::new(key), Box::new(value))
            }
            "tuple" => {
                let start = self.at;
                if self.take(b'(') && self.take(b')') {
                    // Its wire form differs between servers.
                    return Ok(Some(ChType::Unknown("Tuple()".to_owned())));
                }
                self.at = start;
                ChType::Tuple(self.elements(depth)?)
            }
            "nested" => {
                let elements = self.elements(depth + 1)?;
                if elements.iter().any(|element| element.name.is_none()) {
                    return Err(self.fail("the columns of Nested need names"));
                }
                array(ChType::Tuple(elements))
            }
            "simpleaggregatefunction" => {
                self.need(b'(')?;
                self.word().ok_or_else(|| self.fail("the name of a function is missing"))?;
                self.skip_arguments()?;
                self.need(b',')?;
                let ty = self.ty(depth + 1)?;
                self.need(b')')?;
                ty
            }
            "point" => point(),
            "ring" | "linestring" => array(point()),
            "polygon" | "multilinestring" => array(array(point())),
            "multipolygon" => array(array(array(point()))),
            _ => return Ok(None),
        }))
    }

    fn only_argument(&mut self, depth: usize) -> Result<ChType> {
        self.need(b'(')?;
        let ty = self.ty(depth + 1)?;
        self.need(b')')?;
        Ok(ty)
    }

    fn nullable(&self, inner: ChType) -> Result<ChType> {
        match inner {
            ChType::Nullable(_) | ChType::LowCardinality(_) | ChType::Array(_) | ChType::Map(..) => {
                Err(self.fail(&format!("{inner} cannot be nullable")))
            }
            _ => Ok(ChType::Nullable(Box::new(inner))),
        }
    }

    fn low_cardinality(&self, inner: ChType) -> Result<ChType> {
        let plain = match &inner {
            ChType::Nullable(inner) => inner,
            inner => inner,
        };
        match plain {
            ChType::LowCardinality(_) | ChType::Array(_) | ChType::Map(..) | ChType::Tuple(_) => {}
            ChType::Json | ChType::Object | ChType::Nothing => {}
            _ => return Ok(ChType::LowCardinality(Box::new(inner))),
        }
        Err(self.fail(&format!("{plain} has no low-cardinality form")))
    }

    fn elements(&mut self, depth: usize) -> Result<Vec<TupleElement>> {
        self.need(b'(')?;
        let mut elements = Vec::new();
        loop {
            let name = self.element_name()?;
            elements.push(TupleElement { name, ty: self.ty(depth + 1)? });
            if !self.take(b',') {
                break;
            }
        }
        self.need(b')')?;
        Ok(elements)
    }

    /// The name before an element's type, if there is one: a word is a name when another word follows it.
    fn element_name(&mut self) -> Result<Option<String>> {
        self.skip_space();
        if let Some(quote @ (b'`' | b'"')) = self.peek() {
            return self.quoted(quote).map(Some);
        }
        let start = self.at;
        let name = self.word();
        let after_name = self.at;
        let second = self.word();
        self.at = start;
        let modifier = |word: &str| {
            ["UNSIGNED", "SIGNED", "NULL", "NOT", "PRECISION", "VARYING"]
                .iter()
                .any(|m| word.eq_ignore_ascii_case(m))
        };
        match (name, second) {
            (Some(name), Some(second)) if !modifier(second) => {
                self.at = after_name;
                Ok(Some(name.to_owned()))
            }
            _ => Ok(None),
        }
    }
}

fn tuple(types: impl IntoIterator<Item = ChType>) -> ChType {
    ChType::Tuple(types.into_iter().map(|ty| TupleElement { name: None, ty }).collect())
}

/// Types without arguments that mean something, by their lower-case names.
fn plain_type(name: &str) -> Option<ChType> {
    Some(match name {
        "nothing" => ChType::Nothing,
        "bool" | "boolean" => ChType::Bool,
        "int8" | "tinyint" | "int1" | "byte" => ChType::Int8,
        "int16" | "smallint" => ChType::Int16,
        "int32" | "int" | "integer" | "mediumint" => ChType::Int32,
        "int64" | "bigint" => ChType::Int64,
        "int128" => ChType::Int128,
        "int256" => ChType::Int256,
        "uint8" => ChType::UInt8,
        "uint16" => ChType::UInt16,
        "uint32" => ChType::UInt32,
        "uint64" => ChType::UInt64,
        "uint128" => ChType::UInt128,
        "uint256" => ChType::UInt256,
        "bfloat16" => ChType::BFloat16,
        "float32" | "float" | "real" | "single" => ChType::Float32,
        "float64" | "double" => ChType::Float64,
        "string" | "char" | "varchar" | "text" | "tinytext" | "mediumtext" | "longtext" | "blob"
        | "tinyblob" | "mediumblob" | "longblob" | "varbinary" | "character" | "nchar" | "nvarchar"
        | "varchar2" | "clob" | "bytea" => ChType::String,
        "uuid" => ChType::Uuid,
        "ipv4" | "inet4" => ChType::IPv4,
        "ipv6" | "inet6" => ChType::IPv6,
        "date" => ChType::Date,
        "date32" => ChType::Date32,
        _ => return None,
    })
}
