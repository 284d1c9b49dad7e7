//! Which spelling a map of options speaks, for connectors that know several.

use super::{RawOptions, SetSpec};
use crate::{Error, ErrorKind, Result};

/// Finds the option set whose spelling `options` use. Keys that several sets know, and keys that
/// nobody knows, decide nothing; when no key decides, it is the first set.
///
/// # Errors
/// [`ErrorKind::OptionInvalid`] when keys of two spellings are mixed; the error names one of each.
/// [`ErrorKind::Unexpected`] when `sets` is empty.
pub fn detect_dialect(sets: &[&'static SetSpec], options: &RawOptions) -> Result<&'static SetSpec> {
    let mut chosen: Option<(&'static SetSpec, String)> = None;
    for name in options.leaf_names() {
        let mut knowing = sets.iter().filter(|set| set.knows(&name));
        let (Some(set), None) = (knowing.next(), knowing.next()) else { continue };
        match &chosen {
            None => chosen = Some((set, name)),
            Some((first, _)) if first.dialect == set.dialect => {}
            Some((first, earlier)) => {
                return Err(Error::new(
                    ErrorKind::OptionInvalid,
                    format!(
                        "option `{earlier}` is in the spelling of {}, `{name}` in that of {}; use one spelling \
                         for all options of a {}",
                        first.dialect, set.dialect, set.role
                    ),
                )
                .with_operation(set.operation)
                .with_context("connector", set.connector)
                .with_context("role", set.role));
            }
        }
    }
    match (chosen, sets.first()) {
        (Some((set, _)), _) => Ok(set),
        (None, Some(first)) => Ok(first),
        (None, None) => Err(Error::new(ErrorKind::Unexpected, "there is no option set to choose from")),
    }
}
