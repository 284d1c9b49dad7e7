//! What is known about options: the table from which parsing, hints and documents come.

use super::{Codec, suggest::short_form};

/// Everything about one option but its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct OptionSpec {
    /// The connector, such as `kafka`.
    pub connector: &'static str,
    /// What the option is for: `source`, `sink`, `common`, `lookup` …
    pub role: &'static str,
    /// The key to use. A `job.reader.`, `job.writer.` or `job.common.` in front may be left out.
    pub key: &'static str,
    /// Other keys that are as good.
    pub aliases: &'static [&'static str],
    /// Keys that work and warn once.
    pub deprecated: &'static [&'static str],
    /// The type's name in documents.
    pub type_name: &'static str,
    /// The default as it would be written; `None` when there is none, or when it is not a fixed value.
    pub default: Option<&'static str>,
    /// The default in words, in place of `default` in documents: `system zone`.
    pub shown: Option<&'static str>,
    /// Whether the option must be given.
    pub required: bool,
    /// What is allowed in words; see [`OptionSpec::allowed_text`] for the words with bounds.
    pub allowed: &'static str,
    /// The smallest value, as it would be written.
    pub min: Option<&'static str>,
    /// The largest value, as it would be written.
    pub max: Option<&'static str>,
    /// What the option does, in one line.
    pub behaviour: &'static str,
    /// Whether the value, or parts of it, must not be shown.
    pub secret: bool,
    /// Whether a nested map is the option's value.
    pub map: bool,
    /// Accepted without effect, for the reason given; a warning says so once.
    pub inert: Option<&'static str>,
    /// The only value that is accepted, for a key such as `type` that names the connector.
    pub constant: Option<&'static str>,
}

/// The modifiers of a declaration in [`option_set!`](crate::option_set).
impl OptionSpec {
    /// An option without type and presence.
    pub const fn new(connector: &'static str, role: &'static str, key: &'static str) -> Self {
        Self {
            connector,
            role,
            key,
            aliases: &[],
            deprecated: &[],
            type_name: "",
            default: None,
            shown: None,
            required: false,
            allowed: "",
            min: None,
            max: None,
            behaviour: "",
            secret: false,
            map: false,
            inert: None,
            constant: None,
        }
    }

    /// An option that takes one value only.
    pub const fn constant(
        connector: &'static str,
        role: &'static str,
        key: &'static str,
        value: &'static str,
    ) -> Self {
        let mut spec = Self::new(connector, role, key).default(value).required();
        spec.type_name = "const";
        spec.constant = Some(value);
        spec.behaviour = "names the connector; may be left out where the connector is chosen by code";
        spec
    }

    /// Sets other names and the behaviour line.
    pub const fn described(
        mut self,
        aliases: &'static [&'static str],
        deprecated: &'static [&'static str],
        behaviour: &'static str,
    ) -> Self {
        (self.aliases, self.deprecated) = (aliases, deprecated);
        self.behaviour = behaviour.trim_ascii();
        self
    }

    /// Takes over what the type says about itself.
    pub const fn codec<T, C: Codec<T>>(mut self) -> Self {
        (self.type_name, self.allowed) = (C::TYPE, C::ALLOWED);
        (self.secret, self.map) = (C::SECRET, C::MAP);
        self
    }

    /// The option must be given; the field is the type itself.
    pub const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// The option may be left out; the field is an `Option`.
    pub const fn optional(self) -> Self {
        self
    }

    /// The option has this value when left out; the field is the type itself.
    pub const fn default(mut self, text: &'static str) -> Self {
        self.default = Some(text);
        self
    }

    /// How documents show the default, where it is no fixed value: `system zone`.
    pub const fn shown(mut self, text: &'static str) -> Self {
        self.shown = Some(text);
        self
    }

    /// The smallest value that is accepted.
    pub const fn min(mut self, text: &'static str) -> Self {
        self.min = Some(text);
        self
    }

    /// The largest value that is accepted.
    pub const fn max(mut self, text: &'static str) -> Self {
        self.max = Some(text);
        self
    }

    /// What is allowed, in words, in place of bounds or an enum's spellings.
    pub const fn allowed(mut self, text: &'static str) -> Self {
        self.allowed = text;
        self
    }

    /// The type's name in documents, where the Rust type does not tell: `rows`.
    pub const fn type_name(mut self, text: &'static str) -> Self {
        self.type_name = text;
        self
    }

    /// Another role than that of the option set, such as `common`.
    pub const fn role(mut self, text: &'static str) -> Self {
        self.role = text;
        self
    }

    /// Accepted without effect, with one warning that gives this reason.
    pub const fn inert(mut self, reason: &'static str) -> Self {
        self.inert = Some(reason);
        self
    }
}

/// The reading side.
impl OptionSpec {
    /// The default as documents show it; empty when there is none.
    pub fn default_text(&self) -> &'static str {
        self.shown.or(self.default).unwrap_or("")
    }

    /// What is allowed as documents show it: words, spellings, or bounds such as `>=1` and `1..22`.
    pub fn allowed_text(&self) -> String {
        match (self.allowed, self.min, self.max) {
            ("", Some(min), Some(max)) => format!("{min}..{max}"),
            ("", Some(min), None) => format!(">={min}"),
            ("", None, Some(max)) => format!("<={max}"),
            (words, ..) => words.to_owned(),
        }
    }

    /// Every name that is accepted, the key first, deprecated ones last; each with its short form.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let long =
            [self.key].into_iter().chain(self.aliases.iter().copied()).chain(self.deprecated.iter().copied());
        long.flat_map(|name| [Some(name), short_form(name)]).flatten()
    }

    /// True when `name` is a name of this option.
    pub fn is_named(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    /// The name of an entry inside this map option: `acks` for `properties.acks`.
    pub(crate) fn entry<'a>(&self, name: &'a str) -> Option<&'a str> {
        if !self.map {
            return None;
        }
        self.names()
            .find_map(|known| name.strip_prefix(known)?.strip_prefix('.'))
            .filter(|entry| !entry.is_empty())
    }

    pub(crate) fn is_deprecated_name(&self, name: &str) -> bool {
        self.deprecated.iter().any(|old| *old == name || short_form(old) == Some(name))
    }
}

/// The key of a map option, and a test whether a name is one of the system's own that belongs into it.
pub type EntryTest = (&'static str, fn(&str) -> bool);

/// Everything about the options of one source, sink or other role in one spelling.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct SetSpec {
    /// The connector, such as `kafka`.
    pub connector: &'static str,
    /// The role that parses these options, such as `source`.
    pub role: &'static str,
    /// The spelling, such as `DataSail`; empty where a connector has one only.
    pub dialect: &'static str,
    /// The operation that errors name, such as `kafka.options`.
    pub operation: &'static str,
    /// The options, those with a field first, then constants.
    pub options: &'static [OptionSpec],
    /// Keys that are known and refused, with the reason.
    pub refused: &'static [(&'static str, &'static str)],
    /// Options of the connector's other roles, to say where a misplaced key belongs.
    pub siblings: &'static [&'static [OptionSpec]],
    /// Which names belong into map options.
    pub entries: &'static [EntryTest],
}

/// The head of a declaration in [`option_set!`](crate::option_set).
impl SetSpec {
    /// A set of these options.
    pub const fn new(
        connector: &'static str,
        role: &'static str,
        operation: &'static str,
        options: &'static [OptionSpec],
    ) -> Self {
        Self { connector, role, dialect: "", operation, options, refused: &[], siblings: &[], entries: &[] }
    }

    /// Names the spelling.
    pub const fn dialect(mut self, name: &'static str) -> Self {
        self.dialect = name;
        self
    }

    /// Names keys that are refused, with the reasons.
    pub const fn refused(mut self, refused: &'static [(&'static str, &'static str)]) -> Self {
        self.refused = refused;
        self
    }

    /// Names the options of the connector's other roles.
    pub const fn siblings(mut self, siblings: &'static [&'static [OptionSpec]]) -> Self {
        self.siblings = siblings;
        self
    }

    /// Says which names belong into map options.
    pub const fn entries(mut self, entries: &'static [EntryTest]) -> Self {
        self.entries = entries;
        self
    }
}

/// The reading side.
impl SetSpec {
    /// `kafka source`, as errors say it.
    pub fn title(&self) -> String {
        format!("{} {}", self.connector, self.role)
    }

    /// The place of the option with this name.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.options.iter().position(|spec| spec.is_named(name))
    }

    /// The map option that `name` is a flat entry of, and the entry's name.
    pub(crate) fn find_entry<'a>(&self, name: &'a str) -> Option<(usize, &'a str)> {
        self.options.iter().enumerate().find_map(|(place, spec)| Some((place, spec.entry(name)?)))
    }

    /// Why the key is refused; its short form and entries of a refused map count as well.
    pub(crate) fn refusal(&self, name: &str) -> Option<&'static str> {
        let is_it = |key: &str| {
            let rest = name.strip_prefix(key).or_else(|| name.strip_prefix(short_form(key)?));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.refused.iter().find(|(key, _)| is_it(key)).map(|(_, reason)| *reason)
    }

    /// The option of another role that has this name.
    pub(crate) fn find_sibling(&self, name: &str) -> Option<&'static OptionSpec> {
        let mut others = self.siblings.iter().flat_map(|options| options.iter());
        others.find(|spec| spec.is_named(name) || spec.entry(name).is_some())
    }

    /// True when the set has a place for this dotted name: an option, a refused key or a map's entry.
    pub fn knows(&self, name: &str) -> bool {
        self.find(name).is_some() || self.find_entry(name).is_some() || self.refusal(name).is_some()
    }

    /// Whether `name` is one of the system's own, for a map option that says which are.
    pub(crate) fn holds(&self, map: &OptionSpec, name: &str) -> Option<bool> {
        self.entries.iter().find(|(key, _)| *key == map.key).map(|(_, holds)| holds(name))
    }
}
