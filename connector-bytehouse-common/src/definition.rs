//! What `SHOW CREATE TABLE` says about a table: columns, engine, keys, partitions, settings.
//!
//! A reader of the statement's outline, not of SQL: it finds the columns and the clauses behind them and
//! leaves the expressions in them as text. Names in keys come out unquoted.

mod columns;

use std::collections::BTreeMap;

use connector_core::{Error, ErrorKind, Result};

use crate::{catalog::DescribedColumn, sql::unquote};

/// One part of a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum KeyPart {
    /// A column, by its name.
    Column(String),
    /// Anything else, as it stands in the statement.
    Expression(String),
}

impl KeyPart {
    /// The column's name; `None` for an expression.
    pub fn column(&self) -> Option<&str> {
        match self {
            Self::Column(name) => Some(name),
            Self::Expression(_) => None,
        }
    }
}

/// A table's definition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableDefinition {
    /// The columns in order; empty where the statement lists none, as in `CREATE TABLE a AS b`.
    pub columns: Vec<DescribedColumn>,
    /// The engine's name, such as `CnchMergeTree`.
    pub engine: String,
    /// The engine's arguments as they stand in the statement; quoted ones can be read by [`unquote`].
    pub engine_args: Vec<String>,
    /// `ORDER BY`; empty for `tuple()`.
    pub order_by: Vec<KeyPart>,
    /// `PRIMARY KEY`, where it stands apart from `ORDER BY`.
    pub primary_key: Vec<KeyPart>,
    /// `UNIQUE KEY` of the ByteHouse engines.
    pub unique_key: Vec<KeyPart>,
    /// `PARTITION BY` as it stands in the statement; `None` without, and for `tuple()`.
    pub partition_by: Option<String>,
    /// `CLUSTER BY … INTO n BUCKETS` as it stands in the statement.
    pub cluster_by: Option<String>,
    /// `SAMPLE BY` as it stands in the statement.
    pub sample_by: Option<String>,
    /// `TTL` as it stands in the statement.
    pub ttl: Option<String>,
    /// The table's comment.
    pub comment: Option<String>,
    /// `SETTINGS` with their values unquoted.
    pub settings: BTreeMap<String, String>,
}

impl TableDefinition {
    /// Reads a `CREATE TABLE` or `ATTACH TABLE` statement.
    ///
    /// # Errors
    /// `Unsupported` for a statement without an engine, such as a view's; `Unexpected` where a quote, a
    /// comment or a parenthesis does not end.
    pub fn parse(statement: &str) -> Result<Self> {
        let tokens = tokens(statement)?;
        let reader = Reader { statement, tokens: &tokens };
        let engine = reader.engine()?;
        let columns = reader.columns(engine.start);
        let mut out = Self { columns, engine: engine.name, engine_args: engine.args, ..Self::default() };
        if let Some(key) = out.legacy_argument(1) {
            out.order_by = key_parts(&key)?;
        }
        for (clause, range) in reader.clauses(engine.end) {
            let text = reader.text(range.clone());
            match clause {
                Clause::OrderBy => out.order_by = key_parts(text)?,
                Clause::PrimaryKey => out.primary_key = key_parts(text)?,
                Clause::UniqueKey => out.unique_key = key_parts(text)?,
                Clause::PartitionBy => {
                    out.partition_by =
                        Some(text.to_owned()).filter(|text| !key_parts(text).is_ok_and(|k| k.is_empty()))
                }
                Clause::ClusterBy => out.cluster_by = Some(text.to_owned()),
                Clause::SampleBy => out.sample_by = Some(text.to_owned()),
                Clause::Ttl => out.ttl = Some(text.to_owned()),
                Clause::Comment => out.comment = unquote(text),
                Clause::Settings => out.settings = reader.settings(range),
                Clause::As => {}
            }
        }
        Ok(out)
    }

    /// The version argument of an engine that keeps the row with the highest one: `ReplacingMergeTree`,
    /// `CnchMergeTree`, `HaUniqueMergeTree` and their replicated forms. `None` where there is none.
    pub fn version(&self) -> Option<KeyPart> {
        let versioned = ["ReplacingMergeTree", "CnchMergeTree", "HaUniqueMergeTree", "UniqueMergeTree"];
        if !versioned.iter().any(|engine| self.engine.ends_with(engine)) {
            return None;
        }
        let argument = match self.granularity() {
            Some(at) => self.engine_args.get(at + 1)?,
            None => self.own_args().next()?,
        };
        key_parts(argument).ok()?.pop()
    }

    /// The column of `ReplacingMergeTree(version, is_deleted)` that marks deleted rows.
    pub fn is_deleted(&self) -> Option<KeyPart> {
        if !self.engine.ends_with("ReplacingMergeTree") || self.granularity().is_some() {
            return None;
        }
        key_parts(self.own_args().nth(1)?).ok()?.pop()
    }

    /// The arguments behind the ZooKeeper path and the replica's name.
    fn own_args(&self) -> impl Iterator<Item = &String> {
        self.engine_args.iter().skip_while(|arg| arg.starts_with('\''))
    }

    /// Where the index granularity stands among the arguments of the old form
    /// `MergeTree(date, (key), 8192)`, which has no clauses.
    fn granularity(&self) -> Option<usize> {
        self.engine_args.iter().position(|arg| arg.bytes().all(|byte| byte.is_ascii_digit()))
    }

    /// An argument of the old form, counted back from the granularity.
    fn legacy_argument(&self, before: usize) -> Option<String> {
        if !self.engine.ends_with("MergeTree") {
            return None;
        }
        self.engine_args.get(self.granularity()?.checked_sub(before)?).cloned()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A bare word or number.
    Word,
    /// Anything in quotes.
    Quoted,
    /// One character.
    Symbol(char),
}

/// A token and how deep in parentheses it stands. Parentheses themselves stand outside.
#[derive(Debug, Clone)]
struct Token {
    kind: Kind,
    start: usize,
    end: usize,
    depth: usize,
}

fn unfinished(what: &str) -> Error {
    Error::new(ErrorKind::Unexpected, format!("the table's definition cannot be read: {what} does not end"))
}

fn tokens(statement: &str) -> Result<Vec<Token>> {
    let mut out = Vec::new();
    let mut depth = 0usize;
    let mut chars = statement.char_indices().peekable();
    while let Some((start, c)) = chars.next() {
        let rest = &statement[start..];
        let (kind, end) = match c {
            c if c.is_whitespace() => continue,
            '-' if rest.starts_with("--") => {
                let end = rest.find('\n').map_or(statement.len(), |at| start + at);
                while chars.next_if(|(at, _)| *at < end).is_some() {}
                continue;
            }
            '/' if rest.starts_with("/*") => {
                let end = start + 2 + rest[2..].find("*/").ok_or_else(|| unfinished("a comment"))? + 2;
                while chars.next_if(|(at, _)| *at < end).is_some() {}
                continue;
            }
            '\'' | '`' | '"' => {
                (Kind::Quoted, start + quoted_length(rest, c).ok_or_else(|| unfinished("a quote"))?)
            }
            c if c.is_alphanumeric() || c == '_' => {
                let word = |c: char| c.is_alphanumeric() || c == '_';
                (Kind::Word, start + rest.find(|c| !word(c)).unwrap_or(rest.len()))
            }
            c => (Kind::Symbol(c), start + c.len_utf8()),
        };
        while chars.next_if(|(at, _)| *at < end).is_some() {}
        match kind {
            Kind::Symbol(')' | ']' | '}') => {
                depth = depth
                    .checked_sub(1)
                    .ok_or_else(|| unfinished("what comes before a closing parenthesis"))?;
                out.push(Token { kind, start, end, depth });
            }
            _ => {
                out.push(Token { kind, start, end, depth });
                if matches!(kind, Kind::Symbol('(' | '[' | '{')) {
                    depth += 1;
                }
            }
        }
    }
    if depth == 0 { Ok(out) } else { Err(unfinished("a parenthesis")) }
}

/// The length of the quoted text at the start of `text`, quotes included.
fn quoted_length(text: &str, quote: char) -> Option<usize> {
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == '\\' {
            chars.next()?;
        } else if c == quote && chars.next_if(|(_, next)| *next == quote).is_none() {
            return Some(at + 1);
        }
    }
    None
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clause {
    PartitionBy,
    PrimaryKey,
    OrderBy,
    UniqueKey,
    ClusterBy,
    SampleBy,
    Ttl,
    Settings,
    Comment,
    As,
}

/// The words that open a clause behind the engine.
const CLAUSES: &[(&[&str], Clause)] = &[
    (&["PARTITION", "BY"], Clause::PartitionBy),
    (&["PRIMARY", "KEY"], Clause::PrimaryKey),
    (&["ORDER", "BY"], Clause::OrderBy),
    (&["UNIQUE", "KEY"], Clause::UniqueKey),
    (&["CLUSTER", "BY"], Clause::ClusterBy),
    (&["SAMPLE", "BY"], Clause::SampleBy),
    (&["TTL"], Clause::Ttl),
    (&["SETTINGS"], Clause::Settings),
    (&["COMMENT"], Clause::Comment),
    (&["AS"], Clause::As),
];

struct Engine {
    /// The word `ENGINE`.
    start: usize,
    name: String,
    args: Vec<String>,
    /// The first token behind it.
    end: usize,
}

struct Reader<'a> {
    statement: &'a str,
    tokens: &'a [Token],
}

impl Reader<'_> {
    fn is_word(&self, at: usize, word: &str) -> bool {
        self.tokens.get(at).is_some_and(|token| {
            token.kind == Kind::Word
                && token.depth == 0
                && self.statement[token.start..token.end].eq_ignore_ascii_case(word)
        })
    }

    /// The text from the first to the last of these tokens.
    fn text(&self, tokens: std::ops::Range<usize>) -> &str {
        match self.tokens.get(tokens).unwrap_or_default() {
            [] => "",
            [first, .., last] => &self.statement[first.start..last.end],
            [only] => &self.statement[only.start..only.end],
        }
    }

    fn engine(&self) -> Result<Engine> {
        let followed_by = |kind: Kind| {
            let named = move |at: &usize| {
                self.is_word(*at, "ENGINE") && self.tokens.get(at + 1).is_some_and(|next| next.kind == kind)
            };
            (0..self.tokens.len()).find(named)
        };
        // The sign may be left out. What stands behind AS is a query.
        let at = followed_by(Kind::Symbol('=')).or_else(|| followed_by(Kind::Word));
        let at = at.filter(|at| !(0..*at).any(|before| self.is_word(before, "AS"))).ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                "the definition names no engine: a view or dictionary cannot be written to",
            )
        })?;
        let mut next = at + 1;
        if self.tokens.get(next).is_some_and(|token| token.kind == Kind::Symbol('=')) {
            next += 1;
        }
        let name = self.text(next..next + 1);
        let name = unquote(name).unwrap_or_else(|| name.to_owned());
        next += 1;
        let mut args = Vec::new();
        if self.tokens.get(next).is_some_and(|token| token.kind == Kind::Symbol('(')) {
            let close = self.close_of(next);
            args = self.list(next + 1..close, 1);
            next = close + 1;
        }
        Ok(Engine { start: at, name, args, end: next })
    }

    /// The closing parenthesis of the one at `open`.
    fn close_of(&self, open: usize) -> usize {
        let depth = self.tokens[open].depth;
        let behind = self.tokens[open + 1..].iter().position(|token| token.depth == depth);
        behind.map_or(self.tokens.len(), |at| open + 1 + at)
    }

    /// The items between the commas that stand at `depth`.
    fn list(&self, tokens: std::ops::Range<usize>, depth: usize) -> Vec<String> {
        let mut items = Vec::new();
        let mut start = tokens.start;
        for at in tokens.clone() {
            if self.tokens[at].kind == Kind::Symbol(',') && self.tokens[at].depth == depth {
                items.push(self.text(start..at).to_owned());
                start = at + 1;
            }
        }
        if start < tokens.end {
            items.push(self.text(start..tokens.end).to_owned());
        }
        items
    }

    fn clause_at(&self, at: usize) -> Option<(Clause, usize)> {
        CLAUSES.iter().find_map(|(words, clause)| {
            let all = words.iter().enumerate().all(|(i, word)| self.is_word(at + i, word));
            all.then_some((*clause, words.len()))
        })
    }

    /// The clauses from token `at` on with the tokens of each.
    fn clauses(&self, mut at: usize) -> Vec<(Clause, std::ops::Range<usize>)> {
        let mut out = Vec::new();
        while at < self.tokens.len() {
            let Some((clause, words)) = self.clause_at(at) else {
                at += 1;
                continue;
            };
            let start = at + words;
            // The first token belongs to the clause whatever it is: a column may be called `ttl`.
            let end = (start + 1..self.tokens.len())
                .find(|next| self.ends_clause(*next))
                .unwrap_or(self.tokens.len());
            out.push((clause, start..end));
            if clause == Clause::As {
                break;
            }
            at = end;
        }
        out
    }

    /// True where a new clause begins: its words stand there, and not where an expression must go on.
    fn ends_clause(&self, at: usize) -> bool {
        let goes_on = matches!(self.tokens[at - 1].kind, Kind::Symbol(c) if !matches!(c, ')' | ']' | '}'));
        let followed =
            self.tokens.get(at + 1).is_some_and(|next| !matches!(next.kind, Kind::Symbol(',' | '=')));
        !goes_on && followed && self.clause_at(at).is_some() || self.tokens[at].kind == Kind::Symbol(';')
    }

    fn settings(&self, tokens: std::ops::Range<usize>) -> BTreeMap<String, String> {
        let pairs = self.list(tokens, 0);
        let pairs = pairs.iter().filter_map(|pair| pair.split_once('='));
        pairs
            .map(|(name, value)| {
                let value = value.trim();
                (name.trim().to_owned(), unquote(value).unwrap_or_else(|| value.to_owned()))
            })
            .collect()
    }
}

/// The parts of a key: `a`, `(a, b)`, `tuple(a, b)`, `tuple()`.
fn key_parts(text: &str) -> Result<Vec<KeyPart>> {
    let tokens = tokens(text)?;
    let reader = Reader { statement: text, tokens: &tokens };
    let open = usize::from(reader.is_word(0, "tuple"));
    let whole = tokens.get(open).is_some_and(|token| token.kind == Kind::Symbol('('))
        && reader.close_of(open) + 1 == tokens.len();
    let parts = if whole { reader.list(open + 1..tokens.len() - 1, 1) } else { vec![text.trim().to_owned()] };
    Ok(parts.into_iter().map(key_part).collect())
}

fn key_part(text: String) -> KeyPart {
    let bare = |c: char| c.is_alphanumeric() || c == '_';
    if !text.starts_with('\'')
        && let Some(name) = unquote(&text)
    {
        return KeyPart::Column(name);
    }
    if !text.is_empty() && text.chars().all(bare) && !text.starts_with(|c: char| c.is_ascii_digit()) {
        return KeyPart::Column(text);
    }
    KeyPart::Expression(text)
}

#[cfg(test)]
mod tests;
