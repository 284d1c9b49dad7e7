//! Bytes of a block, within its bounds.

use connector_core::{
    Error, ErrorKind, Result,
    arrow::{
        buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer},
        error::ArrowError,
    },
};

use super::ReadOptions;
use crate::wire::io::{ByteSource, read_exact};

/// The most bytes that are reserved before any of them has come in.
pub(super) const MAX_RESERVE: usize = 1 << 20;

pub(super) struct Input<'a, S> {
    pub(super) source: &'a mut S,
    pub(super) options: &'a ReadOptions,
    /// Bytes that the block may still take.
    left: usize,
    /// How many arrays and maps are around the values that are being read.
    pub(super) depth: usize,
}

impl<'a, S: ByteSource> Input<'a, S> {
    pub(super) fn new(source: &'a mut S, options: &'a ReadOptions) -> Self {
        Self { source, options, left: options.max_bytes, depth: 0 }
    }

    /// Takes `bytes` from what the block may use.
    pub(super) fn charge(&mut self, bytes: usize) -> Result<()> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| {
            let message = format!("the server sends a block of more than {} bytes", self.options.max_bytes);
            Error::new(ErrorKind::Unexpected, message)
        })?;
        Ok(())
    }

    /// As [`charge`](Self::charge) for `count` values of `width` bytes.
    pub(super) fn charge_values(&mut self, count: usize, width: usize) -> Result<()> {
        self.charge(count.saturating_mul(width))
    }

    pub(super) async fn read_u64(&mut self) -> Result<u64> {
        let mut bytes = [0; 8];
        read_exact(self.source, &mut bytes).await?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads `count` values of `width` bytes into memory that is aligned for every Arrow type.
    pub(super) async fn read_values(&mut self, count: usize, width: usize) -> Result<Buffer> {
        let length = count.saturating_mul(width);
        self.charge(length)?;
        let mut buffer = MutableBuffer::with_capacity(length.min(MAX_RESERVE));
        while buffer.len() < length {
            let here = self.source.buffered();
            let here = &here[..here.len().min(length - buffer.len())];
            if here.is_empty() {
                self.source.fill().await?;
                continue;
            }
            buffer.extend_from_slice(here);
            let taken = here.len();
            self.source.consume(taken);
        }
        Ok(buffer.into())
    }

    /// Reads a null map; nothing when no value is null.
    pub(super) async fn read_null_map(&mut self, rows: usize) -> Result<Option<NullBuffer>> {
        let map = self.read_values(rows, 1).await?;
        let nulls = NullBuffer::new(BooleanBuffer::collect_bool(rows, |row| map[row] == 0));
        Ok(Some(nulls).filter(|nulls| nulls.null_count() > 0))
    }

    /// An error about one value.
    pub(super) fn bad_value(&self, index: usize, reason: &str) -> Error {
        let place = if self.depth == 0 { "row" } else { "element" };
        Error::new(ErrorKind::DataInvalid, format!("{place} {index} cannot be read: {reason}"))
            .with_context(place, index)
    }
}

/// An error about a column whose parts do not fit together.
pub(super) fn broken_column(error: ArrowError) -> Error {
    Error::new(ErrorKind::Unexpected, "the server sent a column that makes no sense").with_source(error)
}
