//! Keys of one object that have no column to remember them: those of maps, and unknown ones.

use std::{borrow::Cow, hash::BuildHasher};

use hashbrown::DefaultHashBuilder;

use super::cursor::Cursor;

/// A key: where it stands, and a hash of its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::format) struct KeyMark {
    hash: u64,
    at: usize,
}

/// Marks and compares keys.
#[derive(Debug, Default)]
pub(in crate::format) struct KeyRule {
    hasher: DefaultHashBuilder,
    /// Whether spellings that differ in case alone are one key.
    fold: bool,
}

impl KeyRule {
    pub(in crate::format) fn new(fold: bool) -> Self {
        Self { hasher: DefaultHashBuilder::default(), fold }
    }

    /// The mark of the key with this text, which stands at `at`.
    pub(in crate::format) fn mark(&self, text: &str, at: usize) -> KeyMark {
        KeyMark { hash: self.hasher.hash_one(self.folded(text).as_bytes()), at }
    }

    fn folded<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.fold { fold_case(text) } else { Cow::Borrowed(text) }
    }

    /// The places, in order, of the keys that another one follows (`superseded`) or precedes.
    pub(in crate::format) fn duplicates(
        &self,
        marks: &mut [KeyMark],
        cursor: &Cursor<'_>,
        superseded: bool,
    ) -> Vec<usize> {
        let mut found = Vec::new();
        if marks.len() < 2 {
            return found;
        }
        marks.sort_unstable();
        let same = |a: &KeyMark, b: &KeyMark| {
            a.hash == b.hash && self.text_at(cursor, a.at) == self.text_at(cursor, b.at)
        };
        for group in marks.chunk_by(|a, b| a.hash == b.hash) {
            // Nearly always one key; different texts with the same hash are compared each with each.
            for (i, mark) in group.iter().enumerate() {
                let others = if superseded { group.get(i + 1..) } else { group.get(..i) };
                if others.unwrap_or_default().iter().any(|other| same(mark, other)) {
                    found.push(mark.at);
                }
            }
        }
        found.sort_unstable();
        found
    }

    /// The text of the key that stands at `at`, as it is compared.
    fn text_at(&self, cursor: &Cursor<'_>, at: usize) -> String {
        self.folded(&key_at(cursor, at)).into_owned()
    }
}

/// The text of a key that was read before.
pub(in crate::format) fn key_at(cursor: &Cursor<'_>, at: usize) -> String {
    let (mut again, mut scratch) = (cursor.clone(), String::new());
    again.set_pos(at);
    again.string(&mut scratch).map(str::to_owned).unwrap_or_default()
}

/// A spelling that all spellings which differ in case alone have in common.
pub(in crate::format) fn fold_case(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().flat_map(char::to_lowercase).collect())
}
