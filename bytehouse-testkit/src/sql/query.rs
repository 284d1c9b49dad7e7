//! `SELECT`.

use super::ast::{Expr, From, OrderBy, Select};
use super::expression::is_reserved;
use super::lexer::TokenKind;
use super::parser::Parser;
use crate::exception::{Result, exception};

impl Parser<'_> {
    pub(super) fn select(&mut self) -> Result<Select> {
        self.nested(Self::select_body)
    }

    fn select_body(&mut self) -> Result<Select> {
        if self.symbol("(") {
            let select = self.select()?;
            self.expect_symbol(")")?;
            return Ok(select);
        }
        self.expect_keywords("SELECT")?;
        let mut select = Select { distinct: self.keywords("DISTINCT"), ..Select::default() };
        select.projection = self.list(Self::projection)?;
        if self.keywords("FROM") {
            select.from = Some(self.from()?);
        }
        self.refuse_what_nobody_needs()?;
        if self.keywords("PREWHERE") || self.keywords("WHERE") {
            select.filter = Some(self.expression()?);
        }
        if self.keywords("GROUP BY") {
            select.group_by = self.list(Self::expression)?;
            if self.keywords("WITH") {
                return Err(exception!(NOT_IMPLEMENTED, "GROUP BY … WITH is not known to the double"));
            }
        }
        if self.keywords("HAVING") {
            select.having = Some(self.expression()?);
        }
        if self.keywords("ORDER BY") {
            select.order_by = self.list(Self::order_by)?;
        }
        self.limit(&mut select)?;
        if self.keywords("SETTINGS") {
            select.settings = self.settings()?;
        }
        if self.keywords("UNION") || self.keywords("INTERSECT") || self.keywords("EXCEPT") {
            return Err(exception!(
                NOT_IMPLEMENTED,
                "UNION, INTERSECT and EXCEPT are not known to the double"
            ));
        }
        if self.keywords("INTO OUTFILE") {
            return Err(exception!(NOT_IMPLEMENTED, "INTO OUTFILE is not known to the double"));
        }
        // The client formats what it gets; over TCP a server ignores the name too.
        if self.keywords("FORMAT") {
            self.identifier()?;
        }
        Ok(select)
    }

    fn projection(&mut self) -> Result<(Expr, Option<String>)> {
        let expr = self.expression()?;
        if self.keywords("AS") {
            return Ok((expr, Some(self.identifier()?)));
        }
        let alias = match self.peek() {
            TokenKind::Ident { quoted: true, .. } => true,
            TokenKind::Ident { text, .. } => !is_reserved(text) && !text.eq_ignore_ascii_case("INTO"),
            _ => false,
        };
        Ok((expr, if alias { Some(self.identifier()?) } else { None }))
    }

    fn from(&mut self) -> Result<From> {
        let from = if self.is_symbol(0, "(") {
            self.expect_symbol("(")?;
            let select = self.select()?;
            self.expect_symbol(")")?;
            From::Query(Box::new(select))
        } else if self.is_symbol(1, "(") {
            self.numbers()?
        } else {
            let name = self.table_name()?;
            From::Table { name, last: self.keywords("FINAL") }
        };
        if self.keywords("AS") {
            self.identifier()?;
        } else if let TokenKind::Ident { text, quoted } = self.peek() {
            let join = [
                "CROSS",
                "RIGHT",
                "FULL",
                "ANY",
                "ALL",
                "ASOF",
                "GLOBAL",
                "ARRAY",
                "INTO",
                "INTERSECT",
                "EXCEPT",
            ];
            if *quoted || !(is_reserved(text) || join.iter().any(|word| text.eq_ignore_ascii_case(word))) {
                self.identifier()?;
            }
        }
        match from {
            From::Table { name, last: false } => Ok(From::Table { name, last: self.keywords("FINAL") }),
            other => Ok(other),
        }
    }

    fn numbers(&mut self) -> Result<From> {
        let function = self.identifier()?;
        if !function.eq_ignore_ascii_case("numbers") {
            return Err(exception!(
                NOT_IMPLEMENTED,
                "the table function {function} is not known to the double"
            ));
        }
        self.expect_symbol("(")?;
        let first = self.unsigned()?;
        let (start, count) = if self.symbol(",") { (first, self.unsigned()?) } else { (0, first) };
        self.expect_symbol(")")?;
        Ok(From::Numbers { start, count })
    }

    fn refuse_what_nobody_needs(&self) -> Result<()> {
        let words = [
            "JOIN", "LEFT", "RIGHT", "INNER", "FULL", "CROSS", "ANY", "ALL", "ASOF", "GLOBAL", "ARRAY",
            "SAMPLE",
        ];
        if self.is_symbol(0, ",") || words.iter().any(|word| self.is_keyword(0, word)) {
            return Err(exception!(
                NOT_IMPLEMENTED,
                "joins, ARRAY JOIN and SAMPLE are not known to the double"
            ));
        }
        Ok(())
    }

    fn order_by(&mut self) -> Result<OrderBy> {
        let expr = self.expression()?;
        let descending = if self.keywords("DESC") || self.keywords("DESCENDING") {
            true
        } else {
            let _ascending_is_the_default = self.keywords("ASC") || self.keywords("ASCENDING");
            false
        };
        let nulls_first = if self.keywords("NULLS FIRST") {
            Some(true)
        } else if self.keywords("NULLS LAST") {
            Some(false)
        } else {
            None
        };
        Ok(OrderBy { expr, descending, nulls_first })
    }

    fn limit(&mut self, select: &mut Select) -> Result<()> {
        if self.keywords("LIMIT") {
            let first = self.unsigned()?;
            if self.symbol(",") {
                select.offset = first;
                select.limit = Some(self.unsigned()?);
            } else {
                select.limit = Some(first);
                if self.keywords("OFFSET") {
                    select.offset = self.unsigned()?;
                }
            }
            if self.keywords("BY") || self.keywords("WITH TIES") {
                return Err(exception!(
                    NOT_IMPLEMENTED,
                    "LIMIT BY and WITH TIES are not known to the double"
                ));
            }
        } else if self.keywords("OFFSET") {
            select.offset = self.unsigned()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::sql::ast::{From, Statement};
    use crate::sql::parse_statement;

    #[test]
    fn a_whole_query() {
        let sql = "SELECT DISTINCT a, count() AS n, `b c` FROM db.t FINAL WHERE a > 1 GROUP BY a, `b c` HAVING n > 2 \
                   ORDER BY n DESC NULLS LAST, a LIMIT 5, 10 SETTINGS max_threads = 1 FORMAT Native;";
        let Statement::Select(select) = parse_statement(sql).unwrap() else { panic!("not a query") };
        assert!(select.distinct && matches!(&select.from, Some(From::Table { last: true, .. })));
        assert_eq!(select.projection.len(), 3);
        assert_eq!(select.projection[1].1.as_deref(), Some("n"));
        assert_eq!((select.offset, select.limit), (5, Some(10)));
        assert_eq!(select.order_by[0].nulls_first, Some(false));
        assert_eq!(select.settings.len(), 1);
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for (sql, code) in [
            ("SELECT 1 FROM a JOIN b ON 1", 48),
            ("SELECT 1 FROM a, b", 48),
            ("SELECT 1 FROM a ANY LEFT JOIN b USING x", 48),
            ("SELECT 1 UNION ALL SELECT 2", 48),
            ("SELECT 1 FROM url('x')", 48),
            ("SELECT a FROM t LIMIT 1 BY a", 48),
            ("WITH 1 AS x SELECT x", 48),
            ("SELECT 1 FROM t WHERE", 62),
            ("SELECT", 62),
            ("SELECT 1 garbage more", 62),
            ("FLY TO THE MOON", 62),
            ("EXPLAIN SELECT 1", 48),
            ("", 62),
        ] {
            assert_eq!(parse_statement(sql).unwrap_err().code(), code, "{sql}");
        }
    }
}
