//! Client properties: which are the connector's own, and the Java client's names for librdkafka's.
//!
//! A property of the Java client is passed on where librdkafka means the same by it, translated where it says the same
//! otherwise, left out with a warning where leaving it out changes nothing that can be seen, and else refused with what
//! to do instead.

mod rules;
mod sasl;
mod tls;

use std::collections::BTreeSet;

use connector_core::{
    Secret,
    options::{PropertyMap, is_secret_key},
};
use rdkafka::ClientConfig;

use self::rules::{RULES, Rule, SINK};

/// Rules by the property's name.
type Rules = [(&'static str, Rule)];

/// What became of a map of properties.
#[derive(Default)]
struct Translation {
    /// As librdkafka gets them.
    pairs: Vec<(String, String)>,
    /// `(name, sentence)`. No sentence holds the value of a secret.
    problems: Vec<(String, String)>,
    warnings: Vec<String>,
}

impl Translation {
    fn set(&mut self, name: &str, value: impl Into<String>) {
        self.pairs.push((name.to_owned(), value.into()));
    }

    fn refuse(&mut self, name: &str, sentence: impl Into<String>) {
        self.problems.push((name.to_owned(), sentence.into()));
    }
}

/// The rule of the role, else that of both.
fn rule(rules: &'static Rules, name: &str) -> Option<&'static Rule> {
    let find = |rules: &'static Rules| rules.iter().find(|(known, _)| *known == name).map(|(_, rule)| rule);
    find(rules).or_else(|| find(rules::BOTH))
}

/// Whose properties they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Consumer,
    Producer,
}

impl Role {
    fn rules(self) -> &'static Rules {
        match self {
            Self::Consumer => RULES,
            Self::Producer => SINK,
        }
    }

    /// What is wrong with the properties: `(name, sentence)` for each. No sentence holds the value of a secret. Reads the
    /// trust stores that they name.
    pub(crate) fn problems(self, map: &PropertyMap) -> Vec<(String, String)> {
        translate(self.rules(), map).problems
    }

    /// The properties as librdkafka gets them, after [`Self::problems`] found none.
    pub(crate) fn translated(self, map: &PropertyMap) -> Vec<(String, String)> {
        translate(self.rules(), map).pairs
    }

    /// Warns of properties that are accepted without effect.
    pub(crate) fn warn(self, map: &PropertyMap) {
        translate(self.rules(), map).warnings.iter().for_each(|text| tracing::warn!("{text}"));
    }
}

/// True when `name` is a consumer's property and not an option of ours.
pub(crate) fn is_client_property(name: &str) -> bool {
    is_property(RULES, name)
}

/// True when `name` is a producer's property and not an option of ours.
pub(crate) fn is_producer_property(name: &str) -> bool {
    is_property(SINK, name)
}

fn is_property(rules: &'static Rules, name: &str) -> bool {
    // librdkafka does not own up to a secret that has no value.
    let is_secret = name.contains('.') && is_secret_key(name);
    is_secret
        || rule(rules, name).is_some()
        || ClientConfig::new().create_native_config().is_ok_and(|config| config.get(name).is_ok())
}

/// Values that may stand in no text: those of the user's secrets, and what was taken out of them.
pub(crate) fn secrets(map: &PropertyMap, translated: &[(String, String)]) -> Vec<Secret> {
    let all = map.iter().chain(translated.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    let values: BTreeSet<&str> =
        all.filter(|(name, _)| is_secret_key(name)).map(|(_, value)| value).collect();
    values.into_iter().map(Secret::new).collect()
}

fn translate(rules: &'static Rules, map: &PropertyMap) -> Translation {
    let mut out = Translation::default();
    for (name, value) in map.iter() {
        apply(rules, name, value, &mut out);
    }
    rules::apply_together(map, &mut out);
    tls::apply(map, &mut out);
    sasl::apply(map, &mut out);
    out
}

fn apply(rules: &'static Rules, name: &str, value: &str, out: &mut Translation) {
    let pairs = match rule(rules, name) {
        Some(Rule::Owned(_, Some(ours))) if ours.eq_ignore_ascii_case(value.trim()) => return,
        Some(Rule::Owned(instead, _)) => {
            return out.refuse(name, format!("the property `{name}` is the connector's own: {instead}"));
        }
        Some(Rule::Refused(instead)) => {
            return out.refuse(name, format!("the property `{name}` cannot be honoured: {instead}"));
        }
        Some(Rule::Inert(reason)) => {
            return out.warnings.push(format!("the property `{name}` has no effect: {reason}"));
        }
        Some(Rule::Together) => return,
        Some(Rule::Rename(other)) => vec![(*other, value.to_owned())],
        Some(Rule::Change(change)) => match change(value) {
            Ok(pairs) => pairs,
            Err(sentence) => return out.refuse(name, format!("the property `{name}`: {sentence}")),
        },
        None => vec![(name, value.to_owned())],
    };
    for (for_client, value) in pairs {
        match refusal(rules, name, for_client, &value) {
            Some(sentence) => out.refuse(name, sentence),
            None => out.set(for_client, value),
        }
    }
}

/// Why librdkafka does not take the value. It checks a property when it is set; each alone, so that one fault does not
/// hide another.
fn refusal(rules: &'static Rules, name: &str, for_client: &str, value: &str) -> Option<String> {
    if ClientConfig::new().set(for_client, value).create_native_config().is_ok() {
        return None;
    }
    Some(if !is_property(rules, name) {
        format!("librdkafka has no property `{name}`")
    } else if is_secret_key(name) {
        format!("librdkafka does not accept the value of the property `{name}`")
    } else {
        format!("librdkafka does not accept `{value}` for the property `{name}`")
    })
}

#[cfg(test)]
mod tests;
