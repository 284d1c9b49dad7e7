//! What stands where no value is.

use super::{super::types::ChType, text::EMPTY_JSON};
use crate::wire::io::put_string;

/// Appends the data of `count` default values of a type.
pub(super) fn put_defaults(ty: &ChType, count: usize, out: &mut Vec<u8>) {
    let zeros = |bytes: usize, out: &mut Vec<u8>| out.resize(out.len() + bytes, 0);
    match ty {
        ChType::Enum8(values) => {
            let byte = values.smallest().to_le_bytes()[0];
            out.resize(out.len() + count, byte);
        }
        ChType::Enum16(values) => {
            (0..count).for_each(|_| out.extend_from_slice(&values.smallest().to_le_bytes()))
        }
        ChType::Json | ChType::Object => (0..count).for_each(|_| put_string(out, EMPTY_JSON)),
        ChType::Nullable(inner) => {
            out.resize(out.len() + count, 1);
            put_defaults(inner, count, out);
        }
        ChType::LowCardinality(_) if count == 0 => {}
        ChType::LowCardinality(inner) => {
            // One key, which every row refers to.
            out.extend_from_slice(&0x600u64.to_le_bytes());
            out.extend_from_slice(&1u64.to_le_bytes());
            match inner.as_ref() {
                ChType::Nullable(key) => put_defaults(key, 1, out),
                key => put_defaults(key, 1, out),
            }
            out.extend_from_slice(&(count as u64).to_le_bytes());
            zeros(count, out);
        }
        ChType::Array(_) | ChType::Map(..) => zeros(8 * count, out),
        ChType::Tuple(elements) => elements.iter().for_each(|element| put_defaults(&element.ty, count, out)),
        other => zeros(other.width().unwrap_or(1) * count, out),
    }
}
