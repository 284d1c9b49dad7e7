//! Columns of texts.

use std::sync::Arc;

use connector_core::{
    Error, ErrorKind, Result,
    arrow::{
        array::{ArrayRef, BinaryArray, StringArray},
        buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer},
    },
};

use super::input::{Input, MAX_RESERVE, broken_column};
use crate::wire::io::{ByteSource, read_varuint};

pub(super) async fn read_strings<S: ByteSource>(
    input: &mut Input<'_, S>,
    rows: usize,
    nulls: Option<NullBuffer>,
    binary: bool,
) -> Result<ArrayRef> {
    input.charge_values(rows, 4)?;
    let mut texts = Texts { offsets: Vec::with_capacity((rows + 1).min(MAX_RESERVE)), data: Vec::new() };
    texts.offsets.push(0);
    while texts.offsets.len() <= rows {
        let before = texts.data.len();
        let taken = texts.take_whole(input.source.buffered(), rows);
        input.source.consume(taken);
        input.charge(texts.data.len() - before)?;
        if texts.offsets.len() <= rows {
            texts.take_split(input).await?;
        }
        if i32::try_from(texts.data.len()).is_err() {
            return Err(Error::new(
                ErrorKind::Unexpected,
                "the server sent more than 2 GiB of text in one column",
            ));
        }
    }
    texts.finish(input, nulls, binary)
}

struct Texts {
    offsets: Vec<i32>,
    data: Vec<u8>,
}

impl Texts {
    fn push(&mut self, text: &[u8]) {
        self.data.extend_from_slice(text);
        self.end();
    }

    fn end(&mut self) {
        // The caller looks at the length before an offset that was cut off is ever used.
        self.offsets.push(i32::try_from(self.data.len()).unwrap_or(i32::MAX));
    }

    /// Takes the texts that lie whole in `bytes`, up to `rows` in all. Returns the bytes taken.
    fn take_whole(&mut self, bytes: &[u8], rows: usize) -> usize {
        let mut rest = bytes;
        while self.offsets.len() <= rows {
            let Some((length, behind)) = split_length(rest) else { break };
            let Some((text, behind)) = usize::try_from(length).ok().and_then(|n| behind.split_at_checked(n))
            else {
                break;
            };
            self.push(text);
            rest = behind;
        }
        bytes.len() - rest.len()
    }

    /// Takes one text of which only a part is there yet.
    async fn take_split<S: ByteSource>(&mut self, input: &mut Input<'_, S>) -> Result<()> {
        let length = usize::try_from(read_varuint(input.source).await?).unwrap_or(usize::MAX);
        input.charge(length)?;
        let end = self.data.len().saturating_add(length);
        while self.data.len() < end {
            let here = input.source.buffered();
            let here = &here[..here.len().min(end - self.data.len())];
            if here.is_empty() {
                input.source.fill().await?;
                continue;
            }
            self.data.extend_from_slice(here);
            let taken = here.len();
            input.source.consume(taken);
        }
        self.end();
        Ok(())
    }

    fn finish<S: ByteSource>(
        self,
        input: &Input<'_, S>,
        nulls: Option<NullBuffer>,
        binary: bool,
    ) -> Result<ArrayRef> {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        let data = Buffer::from_vec(self.data);
        if binary {
            return Ok(Arc::new(BinaryArray::try_new(offsets, data, nulls).map_err(broken_column)?));
        }
        match StringArray::try_new(offsets.clone(), data.clone(), nulls) {
            Ok(array) => Ok(Arc::new(array)),
            Err(error) => {
                // Also finds a text that ends within a character which the next text goes on with.
                let is_text = |range: &[i32]| {
                    let range =
                        usize::try_from(range[0]).unwrap_or(0)..usize::try_from(range[1]).unwrap_or(0);
                    data.get(range).is_some_and(|text| std::str::from_utf8(text).is_ok())
                };
                let row = offsets.windows(2).position(|range| !is_text(range)).unwrap_or(0);
                Err(input
                    .bad_value(row, "the text is not UTF-8; read the column as binary")
                    .with_source(error))
            }
        }
    }
}

/// The length before a text, and what lies behind it; nothing when the length is not there as a whole.
#[inline(always)]
fn split_length(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        return Some((u64::from(first), rest));
    }
    let mut length = u64::from(first & 0x7f);
    for (i, byte) in rest.iter().enumerate().take(9) {
        length |= u64::from(byte & 0x7f) << (7 * (i + 1)).min(63);
        if *byte < 0x80 {
            return Some((length, &rest[i + 1..]));
        }
    }
    None
}
