//! What of the options a table stores, and how what it has stored is laid under what is given for a use.

use std::collections::{BTreeMap, HashMap};

use connector_core::{
    Error, ErrorKind, Result,
    options::{OptionSpec, RawOptions, RawValue, format_duration},
};

use super::{FlussOptions, Ttl};

/// Options as the user gave them, so that a table's stored ones can be laid under them.
#[derive(Debug, Clone)]
pub(crate) struct Given {
    pub(crate) options: FlussOptions,
    raw: RawOptions,
}

impl Given {
    pub(crate) fn parse(raw: RawOptions) -> Result<Self> {
        Ok(Self { options: FlussOptions::from_raw(raw.clone())?, raw })
    }

    /// Options that were built: those that differ from their defaults count as given.
    pub(crate) fn built(options: FlussOptions) -> Result<Self> {
        options.validate()?;
        let raw = super::given(&options).into_iter().chain(secrets(&options)).collect();
        Ok(Self { options, raw })
    }

    /// With the options that the table has stored, as far as these are not given.
    ///
    /// # Errors
    /// `OptionInvalid` when they contradict each other; it names the table's part in it.
    pub(crate) fn over(&self, stored: &HashMap<String, String>) -> Result<FlussOptions> {
        let mut merged = self.raw.clone();
        let mut laid_under = false;
        for (key, value) in stored {
            let Some(spec) = spec_of(key).filter(|spec| is_kept(spec)) else { continue };
            if !self.raw.iter().any(|(name, _)| spec.is_named(name)) {
                merged.push(spec.key, value.as_str());
                laid_under = true;
            }
        }
        if !laid_under {
            return Ok(self.options.clone());
        }
        FlussOptions::from_raw(merged).map_err(|error| {
            let text = format!("with the options that are stored with the table: {}", error.message());
            Error::new(ErrorKind::OptionInvalid, text).with_operation("fluss.options")
        })
    }
}

/// `to_options` masks secrets, so they come as they are.
fn secrets(options: &FlussOptions) -> Option<(&'static str, RawValue)> {
    let password = options.sasl_password.as_ref()?;
    Some(("client.security.sasl.password", RawValue::text(password.expose())))
}

fn spec_of(name: &str) -> Option<&'static OptionSpec> {
    FlussOptions::OPTIONS.iter().find(|spec| spec.is_named(name))
}

fn is_storage(spec: &OptionSpec) -> bool {
    spec.role == "table"
}

/// Whether a table keeps the option for its users: not how it is stored, nor where the cluster is and who may go there.
fn is_kept(spec: &OptionSpec) -> bool {
    let own = ["bootstrap.servers", "table", "scan.bounded", "scan.columns"].contains(&spec.key)
        || spec.key.starts_with("client.security.");
    !is_storage(spec) && !own
}

/// Lays hints over options.
pub(super) fn merge(stored: RawOptions, hints: RawOptions) -> Result<FlussOptions> {
    for (name, _) in hints.iter() {
        if let Some(spec) = spec_of(name).filter(|spec| is_storage(spec)) {
            let text = format!(
                "option `{name}` cannot be given as a hint: it says how the table is stored, and is given when the table is created"
            );
            return Err(Error::new(ErrorKind::OptionInvalid, text)
                .with_operation("fluss.options")
                .with_context("connector", "fluss")
                .with_context("role", "table")
                .with_context("option", spec.key));
        }
    }
    let is_hinted = |name: &str| {
        hints.iter().any(|(hint, _)| spec_of(name).map_or(hint == name, |spec| spec.is_named(hint)))
    };
    let rest: Vec<(String, RawValue)> = stored.into_iter().filter(|(name, _)| !is_hinted(name)).collect();
    FlussOptions::from_raw(rest.into_iter().chain(hints).collect())
}

/// Storage options over those of `options`, checked together.
pub(super) fn with_storage(options: &FlussOptions, storage: RawOptions) -> Result<FlussOptions> {
    let others = super::given(options).into_iter().filter(|(key, _)| storage.get(key).is_none());
    let own = others
        .filter(|(key, _)| spec_of(key).is_some_and(is_storage))
        .map(|(key, value)| (key.to_owned(), value));
    let servers = ("bootstrap.servers".to_owned(), RawValue::text(options.bootstrap_servers.to_string()));
    let all = own.chain([servers]).collect::<Vec<_>>().into_iter().chain(storage.clone());
    FlussOptions::from_raw(all.collect())
}

/// The properties of a table that is created with these options; buckets are no property.
pub(crate) fn table_properties(options: &FlussOptions) -> BTreeMap<String, String> {
    let mut properties = BTreeMap::new();
    for (key, value) in options.to_options() {
        if !spec_of(key).is_some_and(|spec| is_storage(spec) && key.starts_with("table.")) {
            continue;
        }
        let text = match (key, value) {
            ("table.log.ttl", _) => options.log_ttl.map(Ttl::text),
            ("table.log.local-ttl", _) => options.log_local_ttl.map(format_duration),
            (_, RawValue::List(list)) => {
                let words = list.into_iter().map(|word| Some(word.into_text().ok()?.to_string()));
                words.collect::<Option<Vec<_>>>().map(|words| words.join(","))
            }
            (_, value) => value.into_text().ok().map(|text| text.to_string()),
        };
        // Servers of today know this one by another name.
        let key = if key == "table.auto-inc.batch-size" { "table.auto-increment.cache-size" } else { key };
        properties.extend(text.map(|text| (key.to_owned(), text)));
    }
    properties
}

/// Divides the options of a table to create: those that this crate knows as how the table is stored, those that it keeps for its
/// users, and those that are neither.
pub(crate) struct Persisted {
    pub(crate) storage: RawOptions,
    pub(crate) kept: BTreeMap<String, String>,
    pub(crate) unknown: Vec<String>,
}

pub(crate) fn persisted(options: &BTreeMap<String, String>) -> Persisted {
    let mut all = Persisted { storage: RawOptions::new(), kept: BTreeMap::new(), unknown: Vec::new() };
    for (name, value) in options {
        match spec_of(name) {
            Some(spec) if is_storage(spec) => all.storage.push(spec.key, value.as_str()),
            Some(spec) if is_kept(spec) => {
                all.kept.insert(spec.key.to_owned(), value.clone());
            }
            _ => all.unknown.push(name.clone()),
        }
    }
    all
}
