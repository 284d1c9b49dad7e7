//! A source and a sink in memory: the reference implementation of the contracts, and what tests and
//! documentation examples use.

mod sink;
mod source;

pub use sink::{MemorySink, MemoryWriter};
pub use source::{MemoryOffset, MemoryReader, MemorySource, MemorySplit};
