//! What SHOW CREATE TABLE says of a table: engine, keys, settings.
//!
//! Every server of the family has the statement, while the system tables that say the same differ.

use std::collections::BTreeMap;

use connector_core::{Error, ErrorKind, Result};

use crate::sql::unquoted;

/// The parts of a CREATE TABLE statement that decide how rows are written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableDefinition {
    /// The engine's name, such as `CnchMergeTree`.
    pub engine: String,
    /// The engine's arguments as they stand there, quotes included.
    pub engine_args: Vec<String>,
    /// ORDER BY: names without quotes, expressions as they stand there; empty for `tuple()`.
    pub order_by: Vec<String>,
    /// PRIMARY KEY, as `order_by`.
    pub primary_key: Vec<String>,
    /// UNIQUE KEY, as `order_by`.
    pub unique_key: Vec<String>,
    /// PARTITION BY, as it stands there.
    pub partition_by: Option<String>,
    /// SETTINGS; texts without quotes.
    pub settings: BTreeMap<String, String>,
}

/// The clauses that can follow the columns, by their first words.
const CLAUSES: [&[&str]; 10] = [
    &["ENGINE"],
    &["ORDER", "BY"],
    &["PRIMARY", "KEY"],
    &["UNIQUE", "KEY"],
    &["PARTITION", "BY"],
    &["CLUSTER", "BY"],
    &["SAMPLE", "BY"],
    &["TTL"],
    &["SETTINGS"],
    &["COMMENT"],
];

impl TableDefinition {
    /// Reads a statement. Clauses that it does not know are left out.
    ///
    /// # Errors
    /// `Unexpected` when there is no ENGINE in it: a view, or no CREATE TABLE at all.
    pub fn parse(sql: &str) -> Result<Self> {
        let tokens = tokens(sql);
        let mut definition = Self::default();
        for (clause, body) in clauses(&tokens) {
            match clause {
                ["ENGINE"] => {
                    let body = body.strip_prefix(&["="]).unwrap_or(body);
                    definition.engine = body.first().map(|token| (*token).to_owned()).unwrap_or_default();
                    definition.engine_args = list(&body[1.min(body.len())..]);
                }
                ["ORDER", _] => definition.order_by = names(body),
                ["PRIMARY", _] => definition.primary_key = names(body),
                ["UNIQUE", _] => definition.unique_key = names(body),
                ["PARTITION", _] => definition.partition_by = Some(body.concat()),
                ["SETTINGS"] => definition.settings = settings(body),
                _ => {}
            }
        }
        if definition.engine.is_empty() {
            return Err(Error::new(
                ErrorKind::Unexpected,
                "the server's SHOW CREATE TABLE names no ENGINE; write to a table, not to a view",
            ));
        }
        Ok(definition)
    }
}

/// Words, quoted texts and single signs; white space and comments are left out.
fn tokens(sql: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = sql.trim_start();
    while let Some(first) = rest.chars().next() {
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.split_once('\n').map_or("", |(_, rest)| rest).trim_start();
            continue;
        }
        if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/").map_or("", |(_, rest)| rest).trim_start();
            continue;
        }
        let length = match first {
            '`' | '"' | '\'' => quoted_length(rest, first),
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after.trim_start();
    }
    tokens
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '.'
}

/// Length of the quoted text at the start of `text`, up to its end when the quote never closes.
fn quoted_length(text: &str, quote: char) -> usize {
    let mut escaped = false;
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            if chars.peek().is_some_and(|(_, next)| *next == quote) {
                chars.next();
            } else {
                return at + c.len_utf8();
            }
        }
    }
    text.len()
}

/// The clauses outside of all parentheses, each with the tokens up to the next one.
fn clauses<'a, 't>(tokens: &'a [&'t str]) -> Vec<(&'static [&'static str], &'a [&'t str])> {
    let mut starts: Vec<(&'static [&'static str], usize, usize)> = Vec::new();
    let mut depth = 0usize;
    // Columns come first: clause words inside them stand in the parentheses of the column list.
    for at in 0..tokens.len() {
        match tokens[at] {
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            _ if depth == 0 => {
                let found = CLAUSES.iter().find(|words| {
                    words.len() <= tokens.len() - at
                        && words.iter().zip(&tokens[at..]).all(|(word, token)| token.eq_ignore_ascii_case(word))
                });
                // Before the engine, a clause word can only be part of the table's own name or comment.
                if let Some(words) = found.filter(|words| !starts.is_empty() || words[0] == "ENGINE") {
                    starts.push((words, at, at + words.len()));
                }
            }
            _ => {}
        }
    }
    let ends: Vec<usize> = starts.iter().skip(1).map(|start| start.1).chain([tokens.len()]).collect();
    starts.into_iter().zip(ends).map(|((words, _, body), end)| (words, &tokens[body.min(end)..end])).collect()
}

/// The elements of a list in parentheses, or the whole as one element; none for `tuple()` and `()`.
fn list(body: &[&str]) -> Vec<String> {
    let body = match body {
        ["tuple", inner @ ..] | inner => inner,
    };
    let inner = match body {
        ["(", inner @ .., ")"] if closes_at_the_end(body) => inner,
        other => other,
    };
    let mut elements = vec![Vec::new()];
    let mut depth = 0usize;
    for token in inner {
        match *token {
            "," if depth == 0 => elements.push(Vec::new()),
            token => {
                depth = match token {
                    "(" => depth + 1,
                    ")" => depth.saturating_sub(1),
                    _ => depth,
                };
                if let Some(last) = elements.last_mut() {
                    last.push(token);
                }
            }
        }
    }
    elements.into_iter().filter(|element| !element.is_empty()).map(|element| element.concat()).collect()
}

/// True when the first parenthesis closes with the last token: `(a, b)`, not `(a) + (b)`.
fn closes_at_the_end(body: &[&str]) -> bool {
    let mut depth = 0usize;
    for (at, token) in body.iter().enumerate() {
        match *token {
            "(" => depth += 1,
            ")" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1 == body.len();
                }
            }
            _ => {}
        }
    }
    false
}

fn names(body: &[&str]) -> Vec<String> {
    list(body).iter().map(|name| if name.starts_with(['`', '"']) { unquoted(name) } else { name.clone() }).collect()
}

fn settings(body: &[&str]) -> BTreeMap<String, String> {
    let pair = |element: String| {
        let (name, value) = element.split_once('=')?;
        Some((name.to_owned(), unquoted(value)))
    };
    list(body).into_iter().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_unique_table_of_bytehouse() {
        let definition = TableDefinition::parse(
            "CREATE TABLE app.orders\n(\n `id` UInt64,\n `day` Date COMMENT 'ENGINE = no, ORDER BY no',\n \
             `ORDER` String\n)\nENGINE = CnchMergeTree(ver)\nPARTITION BY toYYYYMM(day)\nORDER BY (id, `ORDER`)\n\
             UNIQUE KEY (id, cityHash64(`ORDER`))\nCLUSTER BY (id) INTO 4 BUCKETS\nTTL day + INTERVAL 1 MONTH\n\
             SETTINGS index_granularity = 8192, storage_dialect_type = 'MYSQL' -- the end",
        )
        .unwrap();
        assert_eq!((definition.engine.as_str(), definition.engine_args), ("CnchMergeTree", vec!["ver".to_owned()]));
        assert_eq!(definition.order_by, ["id", "ORDER"]);
        assert_eq!(definition.unique_key, ["id", "cityHash64(`ORDER`)"]);
        assert_eq!(definition.partition_by.as_deref(), Some("toYYYYMM(day)"));
        assert_eq!(definition.settings["index_granularity"], "8192");
        assert_eq!(definition.settings["storage_dialect_type"], "MYSQL");
    }

    #[test]
    fn engines_of_clickhouse() {
        let parse = |rest: &str| TableDefinition::parse(&format!("CREATE TABLE t (a UInt8) {rest}")).unwrap();
        let replacing = parse("ENGINE = ReplacingMergeTree(ver, is_deleted) ORDER BY a SETTINGS non_replicated_deduplication_window = 100");
        assert_eq!(replacing.engine_args, ["ver", "is_deleted"]);
        assert_eq!(replacing.order_by, ["a"]);
        assert_eq!(replacing.settings["non_replicated_deduplication_window"], "100");
        let replicated = parse("ENGINE = ReplicatedReplacingMergeTree('/ch/{shard}/t, x', '{replica}', ver) PRIMARY KEY a ORDER BY (a)");
        assert_eq!(replicated.engine_args, ["'/ch/{shard}/t, x'", "'{replica}'", "ver"]);
        assert_eq!((replicated.primary_key, replicated.order_by), (vec!["a".to_owned()], vec!["a".to_owned()]));
        assert_eq!(parse("ENGINE = MergeTree ORDER BY tuple()").order_by, Vec::<String>::new());
        assert_eq!(parse("ENGINE = MergeTree() ORDER BY (a, b) /* ENGINE = no */").order_by, ["a", "b"]);
        assert_eq!(parse("ENGINE = Null").engine, "Null");
        assert_eq!(parse("ENGINE = HaUniqueMergeTree('/p', '{replica}') ORDER BY a UNIQUE KEY a").unique_key, ["a"]);
    }

    #[test]
    fn what_is_no_table_is_refused() {
        for sql in ["", "CREATE VIEW v AS SELECT 1", "CREATE TABLE t (a UInt8"] {
            assert_eq!(TableDefinition::parse(sql).unwrap_err().kind(), ErrorKind::Unexpected, "{sql}");
        }
    }

    proptest! {
        #[test]
        fn hostile_texts_do_no_harm(text in ".{0,200}") {
            TableDefinition::parse(&format!("CREATE TABLE t (a UInt8) ENGINE = M {text}")).ok();
            TableDefinition::parse(&text).ok();
        }
    }
}
