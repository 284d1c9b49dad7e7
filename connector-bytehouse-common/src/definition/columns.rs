//! The columns of a `CREATE TABLE` statement.

use super::{Kind, Reader, Token};
use crate::{
    catalog::{DefaultKind, DescribedColumn},
    sql::unquote,
};

/// Words that end a column's type.
const ATTRIBUTES: [&str; 16] = [
    "DEFAULT",
    "MATERIALIZED",
    "ALIAS",
    "EPHEMERAL",
    "COMMENT",
    "CODEC",
    "TTL",
    "NOT",
    "NULL",
    "STATISTICS",
    "SETTINGS",
    "COLLATE",
    "PRIMARY",
    "AUTO_INCREMENT",
    "REPLACE_IF_NOT_NULL",
    "KV",
];

impl Reader<'_> {
    /// The columns in the first parentheses, which stand before token `end`.
    pub(super) fn columns(&self, end: usize) -> Vec<DescribedColumn> {
        let Some(open) = self.tokens[..end].iter().position(|token| token.kind == Kind::Symbol('(')) else {
            return Vec::new();
        };
        let close = self.close_of(open).min(end);
        let mut out = Vec::new();
        let mut start = open + 1;
        for at in open + 1..=close {
            let ends =
                at == close || (self.tokens[at].kind == Kind::Symbol(',') && self.tokens[at].depth == 1);
            if ends {
                out.extend(self.column(start, at));
                start = at + 1;
            }
        }
        out
    }

    /// One element of the list; `None` for an index and the like.
    fn column(&self, start: usize, end: usize) -> Option<DescribedColumn> {
        let first = self.tokens.get(start..end)?.first()?;
        if self.is_no_column(first, start, end) {
            return None;
        }
        let mut name = unquote(self.token(first)).unwrap_or_else(|| self.token(first).to_owned());
        let mut at = start + 1;
        // Elements of a flattened Nested column: `n.a`, each part quoted or not.
        while self.tokens.get(at).is_some_and(|token| token.kind == Kind::Symbol('.')) && at + 1 < end {
            let part = self.token(&self.tokens[at + 1]);
            name = format!("{name}.{}", unquote(part).unwrap_or_else(|| part.to_owned()));
            at += 2;
        }
        let attribute = |from: usize| (from..end).find(|at| self.is_attribute(*at)).unwrap_or(end);
        let type_end = attribute(at);
        let mut column = DescribedColumn {
            name,
            type_text: self.text(at..type_end).to_owned(),
            default_kind: DefaultKind::None,
            default_expression: String::new(),
            comment: String::new(),
        };
        let mut at = type_end;
        while at < end {
            let next = attribute(at + 2);
            let value = self.text(at + 1..next);
            let kind = [
                ("DEFAULT", DefaultKind::Default),
                ("MATERIALIZED", DefaultKind::Materialized),
                ("ALIAS", DefaultKind::Alias),
                ("EPHEMERAL", DefaultKind::Ephemeral),
            ];
            if let Some((_, kind)) = kind.iter().find(|(word, _)| self.word(&self.tokens[at], word)) {
                column.default_kind = *kind;
                value.clone_into(&mut column.default_expression);
            } else if self.word(&self.tokens[at], "COMMENT") {
                column.comment = unquote(value).unwrap_or_default();
            }
            at = next;
        }
        Some(column)
    }

    /// True for an index, a projection, a constraint or a key among the columns. A column may be called so too.
    fn is_no_column(&self, first: &Token, start: usize, end: usize) -> bool {
        let word_at = |at: usize, words: &[&str]| {
            let token = self.tokens.get(at).filter(|_| at < end);
            token.is_some_and(|token| words.iter().any(|word| self.word(token, word)))
        };
        let has =
            |words: &[&str]| (start + 2..end).any(|at| self.tokens[at].depth == 1 && word_at(at, words));
        self.word(first, "INDEX") && has(&["TYPE"])
            || self.word(first, "CONSTRAINT") && has(&["CHECK", "ASSUME"])
            || self.word(first, "PROJECTION") && word_at(start + 3, &["SELECT", "WITH"])
            || ["PRIMARY", "UNIQUE", "FOREIGN"].iter().any(|word| self.word(first, word))
                && word_at(start + 1, &["KEY"])
    }

    fn is_attribute(&self, at: usize) -> bool {
        let token = &self.tokens[at];
        token.kind == Kind::Word
            && token.depth == 1
            && ATTRIBUTES.iter().any(|word| self.word(token, word))
            // An operator or parenthesis before it makes it part of an expression: `a > NULL`, `x IS NOT NULL`.
            && !self.word(&self.tokens[at - 1], "IS")
            && !(self.word(token, "NULL") && self.word(&self.tokens[at - 1], "NOT"))
            && !(self.word(token, "NULL") && self.word(&self.tokens[at - 1], "DEFAULT"))
    }

    fn token(&self, token: &Token) -> &str {
        &self.statement[token.start..token.end]
    }

    fn word(&self, token: &Token, word: &str) -> bool {
        token.kind == Kind::Word && self.token(token).eq_ignore_ascii_case(word)
    }
}
