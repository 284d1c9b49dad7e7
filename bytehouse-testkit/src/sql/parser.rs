//! Statements, and the walk over the tokens that the other parser files share.

#[cfg(test)]
use super::ast::Expr;
use super::ast::{Insert, InsertSource, Literal, Statement, TableName};
use super::lexer::{Token, TokenKind, tokenize};
use crate::exception::{Exception, Result, exception};

/// How deep expressions and queries may nest.
const MAX_DEPTH: usize = 100;

/// Parses one statement; a semicolon may follow it.
pub(crate) fn parse_statement(sql: &str) -> Result<Statement> {
    let mut parser = Parser::new(sql)?;
    let statement = parser.statement()?;
    parser.symbol(";");
    parser.end()?;
    Ok(statement)
}

/// Parses `[db.]table`.
pub(crate) fn parse_table_name(text: &str) -> Result<TableName> {
    let mut parser = Parser::new(text)?;
    let name = parser.table_name()?;
    parser.end()?;
    Ok(name)
}

/// Parses an expression alone.
#[cfg(test)]
pub(crate) fn parse_expression(text: &str) -> Result<Expr> {
    let mut parser = Parser::new(text)?;
    let expr = parser.expression()?;
    parser.end()?;
    Ok(expr)
}

pub(super) struct Parser<'a> {
    sql: &'a str,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn new(sql: &'a str) -> Result<Self> {
        Ok(Self { sql, tokens: tokenize(sql)?, at: 0, depth: 0 })
    }

    pub(super) fn peek(&self) -> &TokenKind {
        self.peek_at(0)
    }

    pub(super) fn peek_at(&self, ahead: usize) -> &TokenKind {
        // The last token is End, and nothing lies behind it.
        self.tokens.get(self.at + ahead).map_or(&TokenKind::End, |token| &token.kind)
    }

    pub(super) fn advance(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len().saturating_sub(1));
    }

    /// Where the walk stands, for [`text_since`](Self::text_since).
    pub(super) fn mark(&self) -> usize {
        self.at
    }

    /// The text from the token at `mark` up to the current one, without the blanks around it.
    pub(super) fn text_since(&self, mark: usize) -> &'a str {
        let start = self.tokens.get(mark).map_or(0, |token| token.start);
        let end = if self.at > mark {
            self.tokens.get(self.at - 1).map_or(start, |token| token.end)
        } else {
            start
        };
        self.sql.get(start..end).unwrap_or("")
    }

    pub(super) fn is_keyword(&self, ahead: usize, word: &str) -> bool {
        matches!(self.peek_at(ahead), TokenKind::Ident { text, quoted: false } if text.eq_ignore_ascii_case(word))
    }

    /// Takes the words when they all stand here, else nothing.
    pub(super) fn keywords(&mut self, words: &str) -> bool {
        let count = words.split(' ').count();
        let all = words.split(' ').enumerate().all(|(i, word)| self.is_keyword(i, word));
        if all {
            for _ in 0..count {
                self.advance();
            }
        }
        all
    }

    pub(super) fn expect_keywords(&mut self, words: &str) -> Result<()> {
        if self.keywords(words) { Ok(()) } else { Err(self.unexpected(words)) }
    }

    pub(super) fn is_symbol(&self, ahead: usize, symbol: &str) -> bool {
        matches!(self.peek_at(ahead), TokenKind::Symbol(s) if *s == symbol)
    }

    pub(super) fn symbol(&mut self, symbol: &str) -> bool {
        let here = self.is_symbol(0, symbol);
        if here {
            self.advance();
        }
        here
    }

    pub(super) fn expect_symbol(&mut self, symbol: &str) -> Result<()> {
        if self.symbol(symbol) { Ok(()) } else { Err(self.unexpected(symbol)) }
    }

    pub(super) fn identifier(&mut self) -> Result<String> {
        match self.peek() {
            TokenKind::Ident { text, .. } => {
                let text = text.clone();
                self.advance();
                Ok(text)
            }
            _ => Err(self.unexpected("a name")),
        }
    }

    pub(super) fn text_literal(&mut self) -> Result<String> {
        match self.peek() {
            TokenKind::Text(bytes) => {
                let text = String::from_utf8_lossy(bytes).into_owned();
                self.advance();
                Ok(text)
            }
            _ => Err(self.unexpected("a string")),
        }
    }

    pub(super) fn unsigned(&mut self) -> Result<u64> {
        match self.peek() {
            TokenKind::Number(text) => {
                let value = text.parse().map_err(|_| self.unexpected("a whole number"))?;
                self.advance();
                Ok(value)
            }
            _ => Err(self.unexpected("a whole number")),
        }
    }

    /// A syntax error at the current token.
    pub(super) fn unexpected(&self, wanted: &str) -> Exception {
        let token = self.tokens.get(self.at);
        let (start, end) = token.map_or((0, 0), |token| (token.start, token.end));
        let found = if start == end { "end of query" } else { self.sql.get(start..end).unwrap_or("") };
        exception!(
            SYNTAX_ERROR,
            "Syntax error: failed at position {} ('{found}'). Expected {wanted}",
            start + 1
        )
    }

    fn end(&self) -> Result<()> {
        if *self.peek() == TokenKind::End { Ok(()) } else { Err(self.unexpected("end of query")) }
    }

    /// Runs `parse` one level deeper, so that no input can exhaust the stack.
    pub(super) fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == MAX_DEPTH {
            return Err(exception!(TOO_DEEP_RECURSION, "Maximum parse depth ({MAX_DEPTH}) exceeded"));
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    /// One or more of `parse`, with commas between.
    pub(super) fn list<T>(&mut self, mut parse: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![parse(self)?];
        while self.symbol(",") {
            items.push(parse(self)?);
        }
        Ok(items)
    }

    pub(super) fn table_name(&mut self) -> Result<TableName> {
        let first = self.identifier()?;
        if self.symbol(".") {
            return Ok(TableName { database: Some(first), table: self.identifier()? });
        }
        Ok(TableName { database: None, table: first })
    }

    pub(super) fn literal(&mut self) -> Result<Literal> {
        let negative = self.symbol("-");
        let literal = match self.peek().clone() {
            TokenKind::Number(text) => Literal::Number(if negative { format!("-{text}") } else { text }),
            TokenKind::Text(bytes) if !negative => Literal::Text(bytes),
            TokenKind::Ident { text, quoted: false } if !negative => match text.to_ascii_lowercase().as_str()
            {
                "null" => Literal::Null,
                "true" => Literal::Bool(true),
                "false" => Literal::Bool(false),
                _ => return Err(self.unexpected("a constant")),
            },
            _ => return Err(self.unexpected("a constant")),
        };
        self.advance();
        Ok(literal)
    }

    /// `name = value, …`.
    pub(super) fn settings(&mut self) -> Result<Vec<(String, Literal)>> {
        self.list(|p| {
            let name = p.identifier()?;
            p.expect_symbol("=")?;
            Ok((name, p.literal()?))
        })
    }

    fn statement(&mut self) -> Result<Statement> {
        let TokenKind::Ident { text, quoted: false } = self.peek().clone() else {
            if self.is_symbol(0, "(") {
                return Ok(Statement::Select(Box::new(self.select()?)));
            }
            return Err(self.unexpected("a statement"));
        };
        match text.to_ascii_uppercase().as_str() {
            "SELECT" => Ok(Statement::Select(Box::new(self.select()?))),
            "INSERT" => self.insert(),
            "CREATE" => self.create(),
            "DROP" => self.drop(),
            "TRUNCATE" => self.truncate(),
            "RENAME" => self.rename(),
            "ALTER" => self.alter(),
            "OPTIMIZE" => {
                self.expect_keywords("OPTIMIZE TABLE")?;
                let name = self.table_name()?;
                self.keywords("FINAL");
                Ok(Statement::OptimizeTable { name })
            }
            "DELETE" => {
                self.expect_keywords("DELETE FROM")?;
                let name = self.table_name()?;
                self.expect_keywords("WHERE")?;
                Ok(Statement::DeleteFrom { name, filter: self.expression()? })
            }
            "SHOW" => self.show(),
            "DESCRIBE" | "DESC" => {
                self.advance();
                self.keywords("TABLE");
                Ok(Statement::Describe(self.table_name()?))
            }
            "EXISTS" => {
                self.advance();
                if self.keywords("DATABASE") {
                    return Ok(Statement::ExistsDatabase(self.identifier()?));
                }
                self.keywords("TABLE");
                Ok(Statement::ExistsTable(self.table_name()?))
            }
            "USE" => {
                self.advance();
                Ok(Statement::Use(self.identifier()?))
            }
            "SET" if self.is_keyword(1, "WAREHOUSE") => {
                self.expect_keywords("SET WAREHOUSE")?;
                Ok(Statement::SetWarehouse(self.warehouse_name()?))
            }
            "SET" => {
                self.advance();
                Ok(Statement::Set(self.settings()?))
            }
            "KILL" => {
                self.expect_keywords("KILL QUERY WHERE query_id")?;
                self.expect_symbol("=")?;
                let query_id = self.text_literal()?;
                let _how = self.keywords("ASYNC") || self.keywords("SYNC");
                Ok(Statement::KillQuery(query_id))
            }
            "RESUME" => {
                self.expect_keywords("RESUME WAREHOUSE")?;
                Ok(Statement::ResumeWarehouse(self.warehouse_name()?))
            }
            "WITH" | "EXPLAIN" | "SYSTEM" | "GRANT" | "REVOKE" | "ATTACH" | "DETACH" | "CHECK" | "UPDATE"
            | "EXCHANGE" | "WATCH" | "REPLACE" | "BEGIN" | "COMMIT" | "ROLLBACK" => {
                Err(exception!(NOT_IMPLEMENTED, "the double does not know the statement {text}"))
            }
            _ => Err(self.unexpected("a statement")),
        }
    }

    /// Warehouse names hold dashes (`vw-123-load`) and drivers send them bare.
    fn warehouse_name(&mut self) -> Result<String> {
        if matches!(self.peek(), TokenKind::Text(_)) {
            return self.text_literal();
        }
        let mark = self.mark();
        if let TokenKind::Ident { quoted: true, .. } = self.peek() {
            return self.identifier();
        }
        self.identifier()?;
        while self.symbol("-") {
            if matches!(self.peek(), TokenKind::Number(_)) {
                self.advance();
                // A number runs into letters without a blank: `vw-1a` is one name.
                if matches!(self.peek(), TokenKind::Ident { .. }) && !self.text_since(mark).ends_with(' ') {
                    self.advance();
                }
            } else {
                self.identifier()?;
            }
        }
        Ok(self.text_since(mark).to_owned())
    }

    fn insert(&mut self) -> Result<Statement> {
        self.expect_keywords("INSERT INTO")?;
        self.keywords("TABLE");
        if self.is_keyword(0, "FUNCTION")
            && !self.is_symbol(1, ".")
            && matches!(self.peek_at(1), TokenKind::Ident { .. })
        {
            return Err(exception!(NOT_IMPLEMENTED, "INSERT INTO FUNCTION is not known to the double"));
        }
        let table = self.table_name()?;
        let mut columns = Vec::new();
        if self.is_symbol(0, "(")
            && !(self.is_keyword(1, "SELECT") && !self.is_symbol(2, ",") && !self.is_symbol(2, ")"))
        {
            self.expect_symbol("(")?;
            columns = self.list(Self::identifier)?;
            self.expect_symbol(")")?;
        }
        let mut settings = if self.keywords("SETTINGS") { self.settings()? } else { Vec::new() };
        let source = if self.keywords("VALUES") {
            let mut rows = Vec::new();
            while self.symbol("(") {
                rows.push(self.list(Self::expression)?);
                self.expect_symbol(")")?;
                self.symbol(",");
            }
            if rows.is_empty() { InsertSource::Wire } else { InsertSource::Rows(rows) }
        } else if self.keywords("FORMAT") {
            let format = self.identifier()?;
            if !matches!(self.peek(), TokenKind::End) && !self.is_symbol(0, ";") {
                return Err(exception!(
                    NOT_IMPLEMENTED,
                    "data of format {format} inside a statement is not known to the double"
                ));
            }
            InsertSource::Wire
        } else if self.is_keyword(0, "SELECT") || self.is_symbol(0, "(") {
            let mut select = self.select()?;
            settings.append(&mut select.settings);
            InsertSource::Select(Box::new(select))
        } else {
            return Err(self.unexpected("VALUES, FORMAT or SELECT"));
        };
        Ok(Statement::Insert(Box::new(Insert { table, columns, settings, source })))
    }

    fn show(&mut self) -> Result<Statement> {
        self.advance();
        if self.keywords("CREATE") {
            self.keywords("TABLE");
            return Ok(Statement::ShowCreateTable(self.table_name()?));
        }
        if self.keywords("DATABASES") {
            let like = if self.keywords("LIKE") { Some(self.text_literal()?) } else { None };
            return Ok(Statement::ShowDatabases { like });
        }
        if self.keywords("TABLES") {
            let database =
                if self.keywords("FROM") || self.keywords("IN") { Some(self.identifier()?) } else { None };
            let like = if self.keywords("LIKE") { Some(self.text_literal()?) } else { None };
            return Ok(Statement::ShowTables { database, like });
        }
        if self.keywords("WAREHOUSES") {
            return Ok(Statement::ShowWarehouses);
        }
        if self.keywords("DEFAULT SETTINGS") {
            return Ok(Statement::ShowDefaultSettings);
        }
        Err(self.unexpected("CREATE TABLE, TABLES, DATABASES, WAREHOUSES or DEFAULT SETTINGS"))
    }
}
