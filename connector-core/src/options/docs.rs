//! The option table as documents.

use std::collections::BTreeSet;

use super::{OptionSpec, SetSpec};

/// The columns of the option table.
pub const COLUMNS: [&str; 9] =
    ["connector", "role", "key", "aliases", "type", "default", "required", "allowed", "behaviour"];

impl OptionSpec {
    /// The option's row, in the order of [`COLUMNS`].
    pub fn row(&self) -> [String; 9] {
        let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        [
            self.connector.to_owned(),
            self.role.to_owned(),
            self.key.to_owned(),
            self.aliases.join(","),
            self.type_name.to_owned(),
            self.default_text().to_owned(),
            if self.required { "yes" } else { "no" }.to_owned(),
            self.allowed_text(),
            one_line(self.behaviour),
        ]
    }

    /// The option's row as one line of tab-separated values, without a line end.
    pub fn tsv_line(&self) -> String {
        self.row().map(|cell| cell.replace('\t', " ")).join("\t")
    }
}

/// The options in order, constants first, each key of a role once (several sets share `job.common.*`).
fn rows<'a>(tables: &[&'a [OptionSpec]]) -> Vec<&'a OptionSpec> {
    let mut seen = BTreeSet::new();
    let mut specs: Vec<&OptionSpec> = tables.iter().flat_map(|table| table.iter()).collect();
    specs.sort_by_key(|spec| spec.constant.is_none());
    specs.retain(|spec| seen.insert((spec.connector, spec.role, spec.key)));
    specs
}

/// The options as tab-separated values with a header line.
pub fn tsv(tables: &[&[OptionSpec]]) -> String {
    let lines = rows(tables).into_iter().map(OptionSpec::tsv_line);
    let mut text = COLUMNS.join("\t");
    for line in lines {
        text.push('\n');
        text.push_str(&line);
    }
    text.push('\n');
    text
}

/// The options as Markdown: for each role a heading and a table. Connector and role stand in the
/// heading, the other [`COLUMNS`] in the table; deprecated names are marked among the aliases.
pub fn markdown(tables: &[&[OptionSpec]]) -> String {
    let specs = rows(tables);
    let mut groups: Vec<(&str, &str)> = Vec::new();
    for spec in &specs {
        if !groups.contains(&(spec.connector, spec.role)) {
            groups.push((spec.connector, spec.role));
        }
    }
    let mut text = String::new();
    for (connector, role) in groups {
        let space = if text.is_empty() { "" } else { "\n" };
        let (columns, rule) = (COLUMNS[2..].join(" | "), " --- |".repeat(COLUMNS.len() - 2));
        text.push_str(&format!("{space}## {connector} {role}\n\n| {columns} |\n|{rule}\n"));
        for spec in specs.iter().filter(|spec| (spec.connector, spec.role) == (connector, role)) {
            text.push_str(&format!("| {} |\n", markdown_cells(spec).join(" | ")));
        }
    }
    text
}

fn markdown_cells(spec: &OptionSpec) -> [String; 7] {
    let escaped = |text: &str| text.replace('|', "\\|");
    // Backticks keep `<`, `*` and `_` as they are.
    let code = |text: &str| if text.is_empty() { String::new() } else { format!("`{}`", escaped(text)) };
    let [.., default, required, allowed, behaviour] = spec.row();
    let mut aliases: Vec<String> = spec.aliases.iter().map(|name| code(name)).collect();
    aliases.extend(spec.deprecated.iter().map(|name| format!("{} (deprecated)", code(name))));
    let default = if spec.shown.is_some() { escaped(&default) } else { code(&default) };
    let mut behaviour = escaped(&behaviour).replace('<', "&lt;");
    if let Some(reason) = spec.inert {
        let separator = if behaviour.is_empty() { "" } else { "; " };
        behaviour.push_str(&format!("{separator}no effect: {}", escaped(reason)));
    }
    [
        code(spec.key),
        aliases.join(", "),
        code(spec.type_name),
        default,
        required,
        escaped(&allowed).replace('<', "&lt;"),
        behaviour,
    ]
}

/// Compares option sets with a list of options as tab-separated values (the columns above, others are
/// ignored) both ways, and gives one line per difference. Rows of roles that the sets do not have are
/// left out, and so are behaviour lines, which are prose. A key that a set refuses counts as known.
pub fn differences(sets: &[&SetSpec], list: &str) -> Vec<String> {
    let tables: Vec<&[OptionSpec]> = sets.iter().map(|set| set.options).collect();
    let specs = rows(&tables);
    let refused = |key: &str| sets.iter().any(|set| set.refused.iter().any(|(name, _)| *name == key));
    let mut found = Vec::new();
    let mut listed = BTreeSet::new();
    for line in list.lines().skip(1).filter(|line| !line.is_empty()) {
        let cells: Vec<&str> = line.split('\t').collect();
        let &[connector, role, key, ref rest @ ..] = cells.as_slice() else {
            found.push(format!("a row has too few columns: {line}"));
            continue;
        };
        if !specs.iter().any(|spec| (spec.connector, spec.role) == (connector, role)) {
            continue;
        }
        listed.insert((connector, role, key));
        let Some(spec) =
            specs.iter().find(|spec| (spec.connector, spec.role, spec.key) == (connector, role, key))
        else {
            if !refused(key) {
                found.push(format!("{connector} {role} {key}: is in the list, not in the code"));
            }
            continue;
        };
        for ((column, ours), theirs) in COLUMNS.iter().zip(spec.row()).skip(3).take(5).zip(rest) {
            if ours != *theirs {
                found.push(format!(
                    "{connector} {role} {key}: {column} is `{ours}`, the list says `{theirs}`"
                ));
            }
        }
    }
    for spec in specs {
        if !listed.contains(&(spec.connector, spec.role, spec.key)) {
            found.push(format!(
                "{} {} {}: is in the code, not in the list",
                spec.connector, spec.role, spec.key
            ));
        }
    }
    found
}
