//! Connectors by name, for programs that learn at run time which they need.

use std::{collections::BTreeMap, fmt};

use crate::{
    dynamic::{DynSink, DynSource},
    error::{Error, ErrorKind, Result},
};

/// Option keys and values as text, as a YAML file or a command line gives them.
pub type OptionMap = BTreeMap<String, String>;

type Factory<T> = Box<dyn Fn(OptionMap) -> Result<T> + Send + Sync>;

/// Maps the `type` of a source or sink to a factory. An application registers the connectors that it
/// compiled in, and no others.
///
/// ```
/// use connector_core::{dynamic::{DynSink, DynSource}, memory::{MemorySink, MemorySource}, registry::{OptionMap, Registry}};
///
/// let registry = Registry::new()
///     .with_source("memory", |_options| Ok(DynSource::new(MemorySource::bounded())))
///     .with_sink("memory", |_options| Ok(DynSink::new(MemorySink::new())));
/// assert!(registry.source("memory", OptionMap::new()).is_ok());
/// assert!(registry.sink("kafak", OptionMap::new()).is_err());
/// ```
#[derive(Default)]
pub struct Registry {
    sources: BTreeMap<String, Factory<DynSource>>,
    sinks: BTreeMap<String, Factory<DynSink>>,
}

impl Registry {
    /// A registry without connectors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a source; the last one of a name wins.
    #[must_use]
    pub fn with_source(
        mut self,
        name: impl Into<String>,
        factory: impl Fn(OptionMap) -> Result<DynSource> + Send + Sync + 'static,
    ) -> Self {
        self.sources.insert(name.into(), Box::new(factory));
        self
    }

    /// Adds a sink; the last one of a name wins.
    #[must_use]
    pub fn with_sink(
        mut self,
        name: impl Into<String>,
        factory: impl Fn(OptionMap) -> Result<DynSink> + Send + Sync + 'static,
    ) -> Self {
        self.sinks.insert(name.into(), Box::new(factory));
        self
    }

    /// Builds a source.
    ///
    /// # Errors
    /// `OptionInvalid` for a name that is not registered, with those that are; else what the factory says.
    pub fn source(&self, name: &str, options: OptionMap) -> Result<DynSource> {
        build(&self.sources, "source", name, options)
    }

    /// Builds a sink.
    ///
    /// # Errors
    /// As [`Self::source`].
    pub fn sink(&self, name: &str, options: OptionMap) -> Result<DynSink> {
        build(&self.sinks, "sink", name, options)
    }
}

fn build<T>(
    factories: &BTreeMap<String, Factory<T>>,
    role: &str,
    name: &str,
    options: OptionMap,
) -> Result<T> {
    let factory = factories.get(name).ok_or_else(|| {
        let names: Vec<&str> = factories.keys().map(String::as_str).collect();
        Error::new(
            ErrorKind::OptionInvalid,
            format!("there is no {role} of type `{name}` in this program; it has: {}", names.join(", ")),
        )
    })?;
    factory(options)
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("sources", &self.sources.keys().collect::<Vec<_>>())
            .field("sinks", &self.sinks.keys().collect::<Vec<_>>())
            .finish()
    }
}
