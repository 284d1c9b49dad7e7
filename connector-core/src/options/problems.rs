//! What is wrong with a map of options, collected so that one error tells all of it.

use super::{Invalid, OptionSpec, SetSpec};
use crate::{Error, ErrorKind, Result};

/// The problems found so far. A cross-field check adds to them with [`Problems::push`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems {
    missing: Vec<String>,
    others: Vec<(String, String)>,
}

impl Problems {
    /// Adds a problem. `option` is the key it is about; `message` is a sentence that names the options
    /// in backticks, without a full stop. It must not hold the value of a secret.
    pub fn push(&mut self, option: impl Into<String>, message: impl Into<String>) {
        self.others.push((option.into(), message.into()));
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.others.is_empty()
    }

    /// A required option that was not given. One with a wrong value is not missing as well.
    pub(crate) fn missing(&mut self, spec: &OptionSpec) {
        if !self.others.iter().any(|(option, _)| option == spec.key) {
            self.missing.push(spec.key.to_owned());
        }
    }

    /// A value that is not accepted: `name` as it was written, `shown` the value if it is known and no secret.
    pub(crate) fn invalid(&mut self, spec: &OptionSpec, name: &str, shown: Option<&str>, reason: &Invalid) {
        let value = if spec.secret { None } else { shown }.unwrap_or("the value");
        let allowed = match spec.allowed_text() {
            words if words.is_empty() => words,
            words => format!(", allowed: {words}"),
        };
        self.push(spec.key, format!("option `{name}`: {value} {reason} (type {}{allowed})", spec.type_name));
    }

    /// Forgets what was wrong with an option, since it was set again.
    pub(crate) fn forget(&mut self, key: &str) {
        self.others.retain(|(option, _)| option != key);
    }

    /// The error, if there is a problem.
    pub(crate) fn into_result(self, set: &SetSpec) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let mut options: Vec<String> = self.missing.clone();
        let mut sentences = Vec::new();
        match self.missing.as_slice() {
            [] => {}
            [one] => sentences.push(format!("required option `{one}` is missing")),
            many => sentences.push(format!("required options `{}` are missing", many.join("`, `"))),
        }
        for (option, message) in self.others {
            if !options.contains(&option) {
                options.push(option);
            }
            sentences.push(message);
        }
        let message = match sentences.len() {
            1 => sentences.swap_remove(0),
            count => {
                let numbered = sentences.iter().enumerate().map(|(i, s)| format!("({}) {s}", i + 1));
                format!("{count} problems: {}", numbered.collect::<Vec<_>>().join("; "))
            }
        };
        Err(Error::new(ErrorKind::OptionInvalid, message)
            .with_operation(set.operation)
            .with_context("connector", set.connector)
            .with_context("role", set.role)
            .with_context("option", options.join(",")))
    }
}
