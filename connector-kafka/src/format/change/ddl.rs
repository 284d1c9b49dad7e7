//! The statements of MySQL that change tables, as far as their text is all that a message has.

use connector_core::{SchemaChange, TableId, schema::ColumnPosition};
use std::sync::Arc;

use super::types::{column, folded, mysql_type};

/// A piece of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// A word, or a name in backticks (then `true`).
    Word(String, bool),
    /// A string, without its quotes.
    Text(String),
    Symbol(char),
}

fn tokens(sql: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        if first.is_whitespace() {
            rest = rest.trim_start();
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/").map_or("", |(_, after)| after);
        } else if first == '#' || rest.starts_with("-- ") {
            rest = rest.split_once('\n').map_or("", |(_, after)| after);
        } else if matches!(first, '`' | '\'' | '"') {
            let (text, after) = quoted(&rest[1..], first);
            found.push(if first == '`' { Token::Word(text, true) } else { Token::Text(text) });
            rest = after;
        } else if is_word(first) {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            found.push(Token::Word(rest[..end].to_owned(), false));
            rest = &rest[end..];
        } else {
            found.push(Token::Symbol(first));
            rest = &rest[first.len_utf8()..];
        }
    }
    found
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$') || !c.is_ascii()
}

/// The text up to the closing quote, and what follows it.
fn quoted(text: &str, quote: char) -> (String, &str) {
    let mut out = String::new();
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if c == '\\' && quote != '`' {
            out.extend(chars.next().map(|(_, escaped)| escaped));
        } else if c != quote {
            out.push(c);
        } else if chars.peek().is_some_and(|(_, next)| *next == quote) {
            out.push(quote);
            chars.next();
        } else {
            return (out, &text[at + c.len_utf8()..]);
        }
    }
    (out, "")
}

struct Reader<'t> {
    tokens: &'t [Token],
    fold: bool,
}

impl Reader<'_> {
    fn peek(&self, word: &str) -> bool {
        matches!(self.tokens.first(), Some(Token::Word(text, false)) if text.eq_ignore_ascii_case(word))
    }

    fn word(&mut self, word: &str) -> bool {
        let found = self.peek(word);
        if found {
            self.tokens = &self.tokens[1..];
        }
        found
    }

    fn words(&mut self, words: &[&str]) -> bool {
        let before = self.tokens;
        let found = words.iter().all(|word| self.word(word));
        if !found {
            self.tokens = before;
        }
        found
    }

    fn symbol(&mut self, symbol: char) -> bool {
        let found = self.tokens.first() == Some(&Token::Symbol(symbol));
        if found {
            self.tokens = &self.tokens[1..];
        }
        found
    }

    fn name(&mut self) -> Option<String> {
        let (Token::Word(name, _) | Token::Text(name)) = self.tokens.first()? else { return None };
        let name = folded(name, self.fold);
        self.tokens = &self.tokens[1..];
        Some(name)
    }

    /// `table` or `database.table`: the table.
    fn table(&mut self) -> Option<String> {
        let name = self.name()?;
        if self.symbol('.') { self.name() } else { Some(name) }
    }

    /// A column's definition behind its name, up to a comma or a closing bracket outside of brackets.
    fn definition(&mut self) -> (String, bool, ColumnPosition) {
        let mut text = String::new();
        let (mut depth, mut nullable, mut position) = (0, true, ColumnPosition::Last);
        // The type ends where the first word stands that is none of it.
        let mut in_type = true;
        while let Some(token) = self.tokens.first() {
            match token {
                Token::Symbol(',' | ')') if depth == 0 => break,
                Token::Symbol('(') => depth += 1,
                Token::Symbol(')') => depth -= 1,
                Token::Word(..) if depth == 0 && self.words(&["not", "null"]) => {
                    (in_type, nullable) = (false, false);
                    continue;
                }
                Token::Word(..) if depth == 0 && self.words(&["primary", "key"]) => {
                    (in_type, nullable) = (false, false);
                    continue;
                }
                Token::Word(..) if depth == 0 && self.word("first") => {
                    (in_type, position) = (false, ColumnPosition::First);
                    continue;
                }
                Token::Word(..) if depth == 0 && self.peek("after") => {
                    self.word("after");
                    in_type = false;
                    if let Some(name) = self.name() {
                        position = ColumnPosition::After(name);
                    }
                    continue;
                }
                _ => {}
            }
            if in_type {
                match token {
                    Token::Word(word, false) => {
                        let goes_on = text.is_empty()
                            || depth > 0
                            || ["unsigned", "zerofill", "precision", "varying"]
                                .iter()
                                .any(|known| word.eq_ignore_ascii_case(known));
                        in_type = goes_on;
                        if goes_on {
                            if !text.is_empty() && depth == 0 {
                                text.push(' ');
                            }
                            text.push_str(word);
                        }
                    }
                    Token::Word(word, true) | Token::Text(word) if depth > 0 => {
                        text.push('\'');
                        text.push_str(word);
                        text.push('\'');
                    }
                    Token::Word(..) | Token::Text(_) => in_type = false,
                    Token::Symbol(symbol) => text.push(*symbol),
                }
            }
            self.tokens = &self.tokens[1..];
        }
        (text, nullable, position)
    }

    /// To the next comma outside of brackets, or the end.
    fn skip_clause(&mut self) {
        let mut depth = 0;
        while let Some(token) = self.tokens.first() {
            match token {
                Token::Symbol('(') => depth += 1,
                Token::Symbol(')') => depth -= 1,
                Token::Symbol(',') if depth == 0 => break,
                _ => {}
            }
            self.tokens = &self.tokens[1..];
        }
    }
}

/// What a statement does to the columns of a table; `None` where it is none that is known here.
pub(super) fn parse(sql: &str, table: &TableId, fold: bool) -> Option<Vec<SchemaChange>> {
    let tokens = tokens(sql);
    let mut reader = Reader { tokens: &tokens, fold };
    if !reader.word("alter") || !reader.word("table") {
        return None;
    }
    reader.words(&["if", "exists"]);
    reader.table()?;
    let mut changes = Vec::new();
    loop {
        clause(&mut reader, table, &mut changes)?;
        if !reader.symbol(',') {
            break;
        }
    }
    Some(changes)
}

/// Columns that a statement gives other names.
pub(super) fn renames(sql: &str, table: &TableId, fold: bool) -> Vec<(String, String)> {
    let changes = parse(sql, table, fold).unwrap_or_default();
    let renames = changes.into_iter().filter_map(|change| match change {
        SchemaChange::RenameColumn { from, to, .. } => Some((from, to)),
        _ => None,
    });
    renames.collect()
}

/// Words behind ADD and DROP that are about no column.
const NO_COLUMN: [&str; 11] = [
    "index",
    "key",
    "unique",
    "primary",
    "constraint",
    "foreign",
    "fulltext",
    "spatial",
    "check",
    "partition",
    "period",
];

fn clause(reader: &mut Reader<'_>, table: &TableId, changes: &mut Vec<SchemaChange>) -> Option<()> {
    if reader.word("add") {
        if NO_COLUMN.iter().any(|word| reader.peek(word)) {
            reader.skip_clause();
            return Some(());
        }
        reader.word("column");
        reader.words(&["if", "not", "exists"]);
        if reader.symbol('(') {
            loop {
                changes.push(added(reader, table)?);
                if !reader.symbol(',') {
                    break;
                }
            }
            reader.symbol(')');
        } else {
            changes.push(added(reader, table)?);
        }
    } else if reader.word("drop") {
        if NO_COLUMN.iter().any(|word| reader.peek(word)) {
            reader.skip_clause();
            return Some(());
        }
        reader.word("column");
        reader.words(&["if", "exists"]);
        changes.push(SchemaChange::DropColumn { table: table.clone(), column: reader.name()? });
        reader.skip_clause();
    } else if reader.word("modify") {
        reader.word("column");
        let name = reader.name()?;
        changes.push(altered(reader, table, name));
    } else if reader.word("change") {
        reader.word("column");
        let (from, to) = (reader.name()?, reader.name()?);
        if from != to {
            changes.push(SchemaChange::RenameColumn { table: table.clone(), from, to: to.clone() });
        }
        changes.push(altered(reader, table, to));
    } else if reader.words(&["rename", "column"]) {
        let from = reader.name()?;
        let to = if reader.word("to") { reader.name()? } else { return None };
        changes.push(SchemaChange::RenameColumn { table: table.clone(), from, to });
    } else if reader.peek("rename")
        && !reader.words(&["rename", "index"])
        && !reader.words(&["rename", "key"])
    {
        // The table itself gets another name: its rows go on under that one.
        return None;
    } else {
        reader.skip_clause();
    }
    Some(())
}

fn added(reader: &mut Reader<'_>, table: &TableId) -> Option<SchemaChange> {
    let name = reader.name()?;
    let (text, nullable, position) = reader.definition();
    let field = column(&name, mysql_type(&text), nullable, Some(&text));
    Some(SchemaChange::AddColumn { table: table.clone(), column: Arc::new(field), position })
}

fn altered(reader: &mut Reader<'_>, table: &TableId, column: String) -> SchemaChange {
    let (text, nullable, _) = reader.definition();
    SchemaChange::AlterColumnType { table: table.clone(), column, data_type: mysql_type(&text), nullable }
}

#[cfg(test)]
mod tests {
    use connector_core::arrow::datatypes::DataType;

    use super::*;

    fn changes(sql: &str) -> Vec<SchemaChange> {
        parse(sql, &TableId::new("d", "t"), true).unwrap_or_else(|| panic!("{sql}"))
    }

    #[test]
    fn columns_come_go_and_change() {
        let sql = "ALTER TABLE `shop`.`orders` ADD COLUMN `Note` VARCHAR(20) CHARACTER SET utf8 NOT NULL DEFAULT 'a,b' AFTER id, \
                   add (x int unsigned, y decimal(10, 2) null comment 'it''s'), DROP old_one, modify qty BIGINT, \
                   CHANGE COLUMN a b enum('x','y(') first, RENAME COLUMN c TO `d`, ADD UNIQUE KEY k (x, y), ENGINE=InnoDB";
        let shown: Vec<String> = changes(sql)
            .into_iter()
            .map(|change| match change {
                SchemaChange::AddColumn { column, position, .. } => {
                    format!("+{} {} {} {position:?}", column.name(), column.data_type(), column.is_nullable())
                }
                SchemaChange::DropColumn { column, .. } => format!("-{column}"),
                SchemaChange::AlterColumnType { column, data_type, .. } => format!("~{column} {data_type}"),
                SchemaChange::RenameColumn { from, to, .. } => format!("{from}>{to}"),
                other => format!("{other:?}"),
            })
            .collect();
        assert_eq!(
            shown,
            [
                "+note Utf8 false After(\"id\")",
                "+x UInt32 true Last",
                "+y Decimal128(10, 2) true Last",
                "-old_one",
                "~qty Int64",
                "a>b",
                "~b Utf8",
                "c>d"
            ]
        );
    }

    #[test]
    fn what_is_no_change_of_columns() {
        assert!(changes("alter table t add index i (a), drop primary key").is_empty());
        for sql in ["create table t (id int)", "alter table t rename to u", "drop table t", "", "alter"] {
            assert!(parse(sql, &TableId::new("", "t"), true).is_none(), "{sql}");
        }
    }

    #[test]
    fn comments_and_quotes_are_no_columns() {
        let one = changes("/* a, b */ alter table t -- more\n add column `we``ird, name` text # end");
        assert!(matches!(&one[..], [SchemaChange::AddColumn { column, .. }]
            if column.name() == "we`ird, name" && column.data_type() == &DataType::Utf8));
    }
}
