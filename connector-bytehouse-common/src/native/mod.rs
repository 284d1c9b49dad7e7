//! Native blocks to and from Arrow.
//!
//! A block is a set of named, typed columns with the same number of rows; the bytes of one are: number of columns,
//! number of rows, then for each column its name, its type and its data. [`BlockEncoder`] writes them from Arrow
//! record batches, [`read_block`] reads them.

#[cfg(target_endian = "big")]
compile_error!("blocks are copied to and from memory as they are, which needs a little-endian machine");

mod arrow_types;
mod decode;
mod encode;
mod rules;
mod type_text;
mod types;

pub use arrow_types::{arrow_field, ch_type_for};
pub use decode::{Block, ReadOptions, read_block};
pub use encode::BlockEncoder;
pub use rules::{BadCell, EncodeError, EncodeRules};
pub use types::{ChType, ColumnDef, EnumValues, IntervalUnit, TupleElement};

#[cfg(test)]
mod tests;
