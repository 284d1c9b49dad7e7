//! Flush tokens made of source offsets, so that the same range always has the same token.

use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher24};

use crate::{
    error::Result,
    sink::FlushToken,
    split::{Offset, Split},
};

/// The token of the rows between `base` and `until`, split by split. Splits that `base` lacks begin at
/// their start.
///
/// Offsets name rows for good, contents do not: two honest batches with the same content get two tokens.
pub(super) fn of_range<S: Split>(pipeline: &str, base: &[S], until: &[S]) -> Result<FlushToken> {
    let mut hasher = SipHasher24::new();
    let mut put = |text: &str| {
        hasher.write_u64(text.len() as u64);
        hasher.write(text.as_bytes());
    };
    put(pipeline);
    for end in until {
        let id = end.id();
        let start = base.iter().find(|split| split.id() == id);
        put(id.as_str());
        put(&offset_text(start.and_then(Split::offset)));
        put(&offset_text(end.offset()));
    }
    FlushToken::new(format!("{:032x}", hasher.finish128().as_u128()))
}

fn offset_text<O: Offset>(offset: Option<&O>) -> String {
    offset.map(ToString::to_string).unwrap_or_default()
}
