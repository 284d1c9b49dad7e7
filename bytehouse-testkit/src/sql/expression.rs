//! Expressions, by precedence.

use super::ast::{Expr, Literal};
use super::lexer::TokenKind;
use super::parser::Parser;
use crate::exception::{Result, exception};

/// Words that end an expression, so that they are never taken for an alias or a column.
const RESERVED: [&str; 30] = [
    "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "SETTINGS", "FORMAT", "UNION", "FINAL",
    "PREWHERE", "SAMPLE", "JOIN", "LEFT", "INNER", "ON", "AS", "AND", "OR", "NOT", "IN", "LIKE", "ILIKE",
    "IS", "BETWEEN", "THEN", "WHEN", "ELSE", "END",
];

pub(super) fn is_reserved(word: &str) -> bool {
    RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(word))
}

impl Parser<'_> {
    pub(super) fn expression(&mut self) -> Result<Expr> {
        self.nested(Self::or_expression)
    }

    fn or_expression(&mut self) -> Result<Expr> {
        let mut left = self.and_expression()?;
        while self.keywords("OR") {
            left = Expr::call("or", vec![left, self.and_expression()?]);
        }
        Ok(left)
    }

    fn and_expression(&mut self) -> Result<Expr> {
        let mut left = self.not_expression()?;
        while self.keywords("AND") {
            left = Expr::call("and", vec![left, self.not_expression()?]);
        }
        Ok(left)
    }

    fn not_expression(&mut self) -> Result<Expr> {
        if self.is_keyword(0, "NOT") && !self.is_symbol(1, "(") && self.keywords("NOT") {
            return Ok(Expr::call("not", vec![self.nested(Self::not_expression)?]));
        }
        if self.keywords("NOT") {
            return Ok(Expr::call("not", vec![self.nested(Self::comparison)?]));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Result<Expr> {
        let mut left = self.concatenation()?;
        loop {
            let symbol = match self.peek() {
                TokenKind::Symbol(symbol) => *symbol,
                _ => "",
            };
            let name = match symbol {
                "=" | "==" => "equals",
                "!=" | "<>" => "notEquals",
                "<" => "less",
                "<=" => "lessOrEquals",
                ">" => "greater",
                ">=" => "greaterOrEquals",
                _ => "",
            };
            if !name.is_empty() {
                self.advance();
                left = Expr::call(name, vec![left, self.concatenation()?]);
                continue;
            }
            left = match self.word_operator(left)? {
                (expr, true) => expr,
                (expr, false) => return Ok(expr),
            };
        }
    }

    /// `IS NULL`, `IN`, `LIKE`, `BETWEEN`; the flag says whether one stood here.
    fn word_operator(&mut self, left: Expr) -> Result<(Expr, bool)> {
        if self.keywords("IS NOT NULL") {
            return Ok((Expr::call("isNotNull", vec![left]), true));
        }
        if self.keywords("IS NULL") {
            return Ok((Expr::call("isNull", vec![left]), true));
        }
        let negated = self.is_keyword(0, "NOT");
        let word = usize::from(negated);
        let known = ["IN", "LIKE", "ILIKE", "BETWEEN"].into_iter().find(|name| self.is_keyword(word, name));
        let Some(known) = known else {
            return Ok((left, false));
        };
        for _ in 0..=word {
            self.advance();
        }
        let expr = match known {
            "IN" => {
                let right = self.concatenation()?;
                Expr::call(if negated { "notIn" } else { "in" }, vec![left, right])
            }
            "BETWEEN" => {
                let low = self.concatenation()?;
                self.expect_keywords("AND")?;
                let high = self.concatenation()?;
                let inside = Expr::call(
                    "and",
                    vec![
                        Expr::call("greaterOrEquals", vec![left.clone(), low]),
                        Expr::call("lessOrEquals", vec![left, high]),
                    ],
                );
                if negated { Expr::call("not", vec![inside]) } else { inside }
            }
            like => {
                let name = match (like, negated) {
                    ("LIKE", false) => "like",
                    ("LIKE", true) => "notLike",
                    (_, false) => "ilike",
                    (_, true) => "notILike",
                };
                let pattern = self.concatenation()?;
                Expr::call(name, vec![left, pattern])
            }
        };
        Ok((expr, true))
    }

    fn concatenation(&mut self) -> Result<Expr> {
        let mut left = self.sum()?;
        while self.symbol("||") {
            left = Expr::call("concat", vec![left, self.sum()?]);
        }
        Ok(left)
    }

    fn sum(&mut self) -> Result<Expr> {
        let mut left = self.product()?;
        loop {
            let name = if self.symbol("+") {
                "plus"
            } else if self.symbol("-") {
                "minus"
            } else {
                return Ok(left);
            };
            left = Expr::call(name, vec![left, self.product()?]);
        }
    }

    fn product(&mut self) -> Result<Expr> {
        let mut left = self.unary()?;
        loop {
            let name = if self.symbol("*") {
                "multiply"
            } else if self.symbol("/") {
                "divide"
            } else if self.symbol("%") || self.keywords("MOD") {
                "modulo"
            } else if self.keywords("DIV") {
                "intDiv"
            } else {
                return Ok(left);
            };
            left = Expr::call(name, vec![left, self.unary()?]);
        }
    }

    fn unary(&mut self) -> Result<Expr> {
        if self.symbol("-") {
            return Ok(match self.nested(Self::unary)? {
                Expr::Literal(Literal::Number(text)) => {
                    Expr::Literal(Literal::Number(match text.strip_prefix('-') {
                        Some(positive) => positive.to_owned(),
                        None => format!("-{text}"),
                    }))
                }
                other => Expr::call("negate", vec![other]),
            });
        }
        if self.symbol("+") {
            return self.nested(Self::unary);
        }
        self.postfix()
    }

    fn postfix(&mut self) -> Result<Expr> {
        let mut left = self.primary()?;
        loop {
            if self.symbol("[") {
                let index = self.expression()?;
                self.expect_symbol("]")?;
                left = Expr::call("arrayElement", vec![left, index]);
            } else if self.is_symbol(0, ".") && matches!(self.peek_at(1), TokenKind::Number(_)) {
                self.advance();
                left = Expr::call("tupleElement", vec![left, Expr::Literal(self.literal()?)]);
            } else if self.symbol("::") {
                let target = self.type_text()?;
                left = Expr::call("CAST", vec![left, Expr::text(&target)]);
            } else {
                return Ok(left);
            }
        }
    }

    fn primary(&mut self) -> Result<Expr> {
        match self.peek().clone() {
            TokenKind::Number(_) | TokenKind::Text(_) => Ok(Expr::Literal(self.literal()?)),
            TokenKind::Symbol("*") => {
                self.advance();
                Ok(Expr::Star)
            }
            TokenKind::Symbol("(") => self.parenthesis(),
            TokenKind::Symbol("[") => {
                self.advance();
                let args = self.arguments("]")?;
                Ok(Expr::call("array", args))
            }
            TokenKind::Symbol("{") => self.map_literal(),
            TokenKind::Ident { text, quoted: false } => self.word(&text),
            TokenKind::Ident { .. } => self.name(),
            _ => Err(self.unexpected("an expression")),
        }
    }

    fn parenthesis(&mut self) -> Result<Expr> {
        self.expect_symbol("(")?;
        if self.is_keyword(0, "SELECT") {
            return Err(exception!(
                NOT_IMPLEMENTED,
                "a subquery in an expression is not known to the double"
            ));
        }
        if self.symbol(")") {
            return Ok(Expr::call("tuple", Vec::new()));
        }
        let first = self.expression()?;
        if self.symbol(")") {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.symbol(",") {
            if self.is_symbol(0, ")") {
                break;
            }
            items.push(self.expression()?);
        }
        self.expect_symbol(")")?;
        Ok(Expr::call("tuple", items))
    }

    fn map_literal(&mut self) -> Result<Expr> {
        self.expect_symbol("{")?;
        let mut args = Vec::new();
        while !self.symbol("}") {
            if !args.is_empty() {
                self.expect_symbol(",")?;
            }
            args.push(self.expression()?);
            self.expect_symbol(":")?;
            args.push(self.expression()?);
        }
        Ok(Expr::call("map", args))
    }

    fn arguments(&mut self, close: &str) -> Result<Vec<Expr>> {
        if self.symbol(close) {
            return Ok(Vec::new());
        }
        let args = self.list(Self::expression)?;
        self.expect_symbol(close)?;
        Ok(args)
    }

    /// An unquoted word: a constant, `CASE`, `CAST`, a call or a column.
    fn word(&mut self, text: &str) -> Result<Expr> {
        if !self.is_symbol(1, "(") {
            match text.to_ascii_lowercase().as_str() {
                "null" | "true" | "false" => return Ok(Expr::Literal(self.literal()?)),
                "case" => return self.case(),
                "date" | "timestamp" if matches!(self.peek_at(1), TokenKind::Text(_)) => {
                    self.advance();
                    let name = if text.eq_ignore_ascii_case("date") { "toDate" } else { "toDateTime" };
                    return Ok(Expr::call(name, vec![Expr::Literal(self.literal()?)]));
                }
                "interval" if !matches!(self.peek_at(1), TokenKind::Symbol(_) | TokenKind::End) => {
                    return Err(exception!(NOT_IMPLEMENTED, "INTERVAL is not known to the double"));
                }
                _ if is_reserved(text) => return Err(self.unexpected("an expression")),
                _ => return self.name(),
            }
        }
        self.advance();
        self.expect_symbol("(")?;
        if text.eq_ignore_ascii_case("cast") {
            let value = self.expression()?;
            let target = if self.keywords("AS") {
                Expr::text(&self.type_text()?)
            } else {
                self.expect_symbol(",")?;
                self.expression()?
            };
            self.expect_symbol(")")?;
            return Ok(Expr::call("CAST", vec![value, target]));
        }
        let distinct = self.keywords("DISTINCT");
        let args = self.arguments(")")?;
        if self.is_symbol(0, "(") || self.is_keyword(0, "OVER") {
            return Err(exception!(
                NOT_IMPLEMENTED,
                "parameters and windows of {text} are not known to the double"
            ));
        }
        Ok(Expr::Call { name: text.to_owned(), args, distinct })
    }

    fn case(&mut self) -> Result<Expr> {
        self.expect_keywords("CASE")?;
        let subject = if self.is_keyword(0, "WHEN") { None } else { Some(self.expression()?) };
        let mut args = Vec::new();
        while self.keywords("WHEN") {
            let condition = self.expression()?;
            args.push(match &subject {
                Some(subject) => Expr::call("equals", vec![subject.clone(), condition]),
                None => condition,
            });
            self.expect_keywords("THEN")?;
            args.push(self.expression()?);
        }
        args.push(if self.keywords("ELSE") { self.expression()? } else { Expr::Literal(Literal::Null) });
        self.expect_keywords("END")?;
        Ok(Expr::call("multiIf", args))
    }

    /// A column, whose table or nested part may stand before it: the last word names it.
    fn name(&mut self) -> Result<Expr> {
        let mut name = self.identifier()?;
        while self.is_symbol(0, ".") && !matches!(self.peek_at(1), TokenKind::Number(_)) {
            self.advance();
            if self.symbol("*") {
                return Ok(Expr::Star);
            }
            name = format!("{name}.{}", self.identifier()?);
        }
        Ok(Expr::Column(name))
    }

    /// A type as text: a name, its arguments in parentheses, and the words that MySQL puts behind.
    pub(super) fn type_text(&mut self) -> Result<String> {
        let mark = self.mark();
        self.identifier()?;
        if self.is_symbol(0, "(") {
            let mut depth = 0usize;
            loop {
                if self.is_symbol(0, "(") {
                    depth += 1;
                } else if self.is_symbol(0, ")") {
                    depth -= 1;
                } else if *self.peek() == TokenKind::End {
                    return Err(self.unexpected(")"));
                }
                self.advance();
                if depth == 0 {
                    break;
                }
            }
        }
        for word in ["UNSIGNED", "SIGNED", "PRECISION", "VARYING"] {
            self.keywords(word);
        }
        Ok(self.text_since(mark).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use crate::sql::parse_expression;

    fn round(sql: &str) -> String {
        parse_expression(sql).unwrap().column_name()
    }

    #[test]
    fn precedence() {
        assert_eq!(
            round("a = 1 or not b > -2 and c in (1, 'x')"),
            "or(equals(a, 1), and(not(greater(b, -2)), in(c, tuple(1, 'x'))))"
        );
        assert_eq!(round("1 + 2 * 3 - -x"), "minus(plus(1, multiply(2, 3)), negate(x))");
        assert_eq!(round("x is not null and y not like 'a%'"), "and(isNotNull(x), notLike(y, 'a%'))");
        assert_eq!(round("case when a then 1 else 2 end"), "multiIf(a, 1, 2)");
        assert_eq!(round("x between 1 and 2"), "and(greaterOrEquals(x, 1), lessOrEquals(x, 2))");
        assert_eq!(round("cast(x as Decimal(18, 4))"), "CAST(x, 'Decimal(18, 4)')");
        assert_eq!(
            round("t.1 + arr[2]::Int8"),
            "plus(tupleElement(t, 1), CAST(arrayElement(arr, 2), 'Int8'))"
        );
    }

    #[test]
    fn refusals() {
        for (sql, code) in [
            ("a +", 62),
            ("(select 1)", 48),
            ("f(1)(2)", 48),
            ("x in", 62),
            ("now() - interval 1 day", 48),
            ("from", 62),
        ] {
            assert_eq!(parse_expression(sql).unwrap_err().code(), code, "{sql}");
        }
        let deep = format!("{}1{}", "(".repeat(500), ")".repeat(500));
        assert_eq!(parse_expression(&deep).unwrap_err().code(), 306);
    }
}
