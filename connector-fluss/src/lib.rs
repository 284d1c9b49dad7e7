#![doc = include_str!("../README.md")]

mod catalog;
mod client;
mod connection;
mod error;
pub mod lookup;
pub mod options;
pub mod sink;
pub mod source;
mod types;

pub use catalog::FlussCatalog;
pub use lookup::{FlussLookup, Found};
pub use options::FlussOptions;
pub use sink::{FlussSink, FlussWriter};
pub use source::{FlussOffset, FlussPartition, FlussReader, FlussSource, FlussSplit};
