//! Which rows of a table are the same row: its unique key, and the partition where that is part of it.

use std::collections::BTreeSet;

use connector_bytehouse_common::{
    catalog::DescribedColumn,
    definition::{KeyPart, TableDefinition},
    sql::unquote,
};

use crate::config::SinkConfig;

/// Settings of `ReplacingMergeTree` tables whose merges drop deleted rows for good.
const CLEANING: [&str; 3] = [
    "clean_deleted_rows",
    "allow_experimental_replacing_merge_with_cleanup",
    "enable_replacing_merge_with_cleanup_for_min_age_to_force_merge",
];

/// What keyed modes have to know of a table beside its key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Columns that decide about a row's partition, and that an INSERT may name.
    pub(crate) partition: Vec<String>,
    /// The partition is the value of these columns, and not of an expression over them.
    pub(crate) plain_partition: bool,
    /// The same key in two partitions is two rows.
    pub(crate) partition_is_identity: bool,
    /// The column whose higher value wins over a later row.
    pub(crate) version: Option<String>,
    /// A version of 0 in a delete asks for no version.
    pub(crate) forced_deletes: bool,
    /// A delete may be gone before an older row of its key arrives, which would then stay.
    pub(crate) forgets_deletes: bool,
    /// Columns that an INSERT leaves out keep their values.
    pub(crate) partial_update: bool,
    /// A null leaves the value as it is.
    pub(crate) null_keeps_value: bool,
}

impl Layout {
    /// `columns` are all of the table's, those that cannot be written as well.
    pub(crate) fn new(
        columns: &[DescribedColumn],
        definition: &TableDefinition,
        config: &SinkConfig,
    ) -> Self {
        let setting = |name: &str, default: bool| match definition.settings.get(name).map(String::as_str) {
            Some("0" | "false") => false,
            Some(_) => true,
            None => default,
        };
        let expression = definition.partition_by.as_deref().unwrap_or_default();
        let (names, plain_partition) = names_in(expression);
        let mut partition = BTreeSet::new();
        for name in &names {
            add_writable(columns, name, &mut partition, 0);
        }
        let version = definition.version().and_then(|part| match part {
            KeyPart::Column(name) => Some(name),
            KeyPart::Expression(_) => None,
        });
        let unique = config.cnch_engine && !definition.unique_key.is_empty();
        Self {
            plain_partition: plain_partition
                && names.iter().all(|name| partition.contains(name.as_str()))
                && !names.is_empty(),
            partition: partition.into_iter().map(str::to_owned).collect(),
            // FINAL looks over partitions, merges do not: only a delete in the old one takes the row away in both.
            partition_is_identity: !config.cnch_engine || setting("partition_level_unique_keys", true),
            version: version.filter(|name| columns.iter().any(|c| c.name == *name && c.is_writable())),
            forced_deletes: unique,
            forgets_deletes: CLEANING.iter().any(|name| {
                definition
                    .settings
                    .get(*name)
                    .is_some_and(|value| !["0", "false", "Never"].contains(&value.trim_matches('\'')))
            }),
            partial_update: unique
                && setting("enable_unique_partial_update", false)
                && config.partial_update != Some(false),
            null_keeps_value: unique && setting("partial_update_replace_if_not_null", false),
        }
    }
}

/// Adds a column, or what it is computed from.
fn add_writable<'a>(columns: &'a [DescribedColumn], name: &str, out: &mut BTreeSet<&'a str>, depth: usize) {
    let Some(column) = columns.iter().find(|column| column.name == name) else { return };
    if column.is_writable() {
        out.insert(&column.name);
    } else if depth < columns.len() {
        for name in names_in(&column.default_expression).0 {
            add_writable(columns, &name, out, depth + 1);
        }
    }
}

/// The words and quoted names of an expression, and whether it is nothing but a list of them. Names of functions are
/// among them: who asks looks for columns.
fn names_in(expression: &str) -> (Vec<String>, bool) {
    let mut names = Vec::new();
    let mut plain = true;
    let mut rest = expression.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\'' | '`' | '"' => quoted_length(rest, first),
            c if c.is_alphanumeric() || c == '_' => {
                rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
            }
            c => c.len_utf8(),
        };
        let (token, behind) = rest.split_at(length);
        rest = behind.trim_start();
        match first {
            '`' | '"' => names.extend(unquote(token)),
            c if c.is_alphabetic() || c == '_' => {
                let call = rest.starts_with('(');
                plain &= !call || token.eq_ignore_ascii_case("tuple");
                if !call {
                    names.push(token.to_owned());
                }
            }
            '(' | ')' | ',' => {}
            _ => plain = false,
        }
    }
    (names, plain)
}

/// The length of the quoted text at the start of `text`; all of it where the quote does not end.
fn quoted_length(text: &str, quote: char) -> usize {
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == '\\' {
            chars.next();
        } else if c == quote && chars.next_if(|(_, next)| *next == quote).is_none() {
            return at + 1;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_partition_expressions() {
        for (text, names, plain) in [
            ("day", vec!["day"], true),
            ("(day, `my region`)", vec!["day", "my region"], true),
            ("tuple(day)", vec!["day"], true),
            ("toYYYYMM(ts)", vec!["ts"], false),
            ("(toDate(ts, 'a\\'b(c'), id % 16)", vec!["ts", "id"], false),
            ("`a``b`", vec!["a`b"], true),
            ("", vec![], true),
        ] {
            assert_eq!(names_in(text), (names.into_iter().map(str::to_owned).collect(), plain), "{text}");
        }
    }
}
