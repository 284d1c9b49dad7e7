//! Options: declared once per option set, parsed and checked before any I/O.
//!
//! [`option_set!`](crate::option_set) turns one declaration into a struct with public fields, a parser
//! for pairs of text, `Deserialize` through the same parser, a builder, and the table of keys, types
//! and defaults that documents are made of.
//!
//! ```
//! use std::time::Duration;
//!
//! use connector_core::{options::{HostList, Millis, Problems}, option_set};
//!
//! option_set! {
//!     /// Options of the well.
//!     pub struct WellOptions, builder WellOptionsBuilder {
//!         connector "well";
//!         role "source";
//!         validate check;
//!         options {
//!             /// Where to ask first.
//!             "job.reader.bootstrap_servers" alias "job.reader.servers" => bootstrap_servers: HostList, required;
//!             /// What to read.
//!             "job.reader.topics" => topics: Vec<String>, required;
//!             /// The first offset; -1 is the group's own.
//!             "job.reader.start_offset" => start_offset: i64, default -1, min -1;
//!             /// The offset after the last one.
//!             "job.reader.end_offset" => end_offset: i64, optional;
//!             /// How long to wait for more.
//!             "job.reader.linger_ms" => linger: Duration as Millis, default 5000;
//!         }
//!     }
//! }
//!
//! fn check(options: &WellOptions, problems: &mut Problems) {
//!     if options.end_offset.is_some_and(|end| end < options.start_offset) {
//!         problems.push("job.reader.end_offset", "`end_offset` is before `start_offset`");
//!     }
//! }
//!
//! let built = WellOptions::builder().bootstrap_servers("localhost:9092").topics(["a", "b"]).build()?;
//! let read = WellOptions::from_options([
//!     ("job.reader.servers", "localhost:9092"),
//!     ("topics", "a, b"),
//! ])?;
//! assert_eq!(built, read);
//! assert_eq!(read.linger, Duration::from_secs(5));
//!
//! let error = WellOptions::from_options([("topics", "a"), ("start_ofset", "1")]).unwrap_err();
//! assert_eq!(
//!     error.message(),
//!     "2 problems: (1) required option `job.reader.bootstrap_servers` is missing; \
//!      (2) unknown option `start_ofset` of the well source: did you mean `start_offset`?"
//! );
//! # Ok::<_, connector_core::Error>(())
//! ```
//!
//! # Names
//!
//! Keys are given as they stand in the table; `job.reader.`, `job.writer.` and `job.common.` in front
//! may be left out. Nested maps of a YAML or JSON file are followed by their dotted names. An entry of a
//! map option may be written flat (`properties.acks`). A connector that knows several spellings asks
//! [`detect_dialect`] which one a map speaks.
//!
//! # Secrets
//!
//! A [`Secret`] has no `Display`; `Debug` and `Serialize` mask it, and so they do with values in a
//! [`PropertyMap`] or [`SettingsList`] whose names or contents look like secrets. Errors about such
//! options do not show the value.

mod dialect;
mod docs;
mod enums;
mod macros;
mod mask;
mod parse;
mod problems;
mod raw;
mod secret;
mod spec;
mod suggest;
mod value;

pub use dialect::detect_dialect;
pub use docs::{COLUMNS, differences, markdown, tsv};
pub use mask::{is_secret_key, mask, mask_map};
pub use parse::{OptionSet, declaration_faults};
pub use problems::Problems;
pub use raw::{RawOptions, RawValue};
pub use secret::{MASK, Secret};
pub use spec::{EntryTest, OptionSpec, SetSpec};
pub use value::{
    Codec, Epoch, HostList, HostPort, IntoValue, Invalid, MemorySize, Millis, Plain, PropertyMap, RegexList,
    Seconds, Setting, SettingsList, Sql, format_duration, parse_duration, parse_signed_duration,
};

/// What the macros need; not for use by hand.
#[doc(hidden)]
pub mod __private {
    pub use serde;

    pub use super::parse::{AnySlot, Slot, build, deserialize, from_raw, read_enum, serialize, to_options};
}
