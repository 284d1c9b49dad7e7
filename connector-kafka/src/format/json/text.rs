//! Text and bytes.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD_PAD_INDIFFERENT};
use connector_core::{
    Result,
    arrow::{
        array::{
            ArrayRef, AsArray, BinaryViewArray, FixedSizeBinaryArray, GenericBinaryArray, GenericStringArray,
            GenericStringBuilder, NullBufferBuilder, OffsetSizeTrait, StringViewArray,
        },
        buffer::OffsetBuffer,
        error::ArrowError,
    },
};

use super::{
    column::{Build, Context, unsupported},
    cursor::Cursor,
    error::{Fault, JsonErrorKind},
};

/// Text. Arrow's own builder is used, as it alone can take text that is known to be UTF-8 without
/// checking all of it again at the end.
#[derive(Debug)]
pub(super) struct TextColumn<O: OffsetSizeTrait> {
    builder: GenericStringBuilder<O>,
    view: bool,
    /// Rows and bytes of the batch before.
    hint: (usize, usize),
}

impl<O: OffsetSizeTrait> TextColumn<O> {
    pub(super) fn new(view: bool) -> Self {
        Self { builder: GenericStringBuilder::with_capacity(0, 0), view, hint: (0, 0) }
    }

    fn len(&self) -> usize {
        self.builder.offsets_slice().len() - 1
    }
}

impl<O: OffsetSizeTrait> Build for TextColumn<O> {
    #[inline]
    fn decode(&mut self, cursor: &mut Cursor<'_>, context: &mut Context) -> Result<(), Fault> {
        if cursor.peek() == b'"' {
            self.builder.append_value(cursor.string(&mut context.scratch)?);
        } else if context.options.coerce_to_text {
            let start = cursor.pos();
            cursor.skip_value()?;
            self.builder.append_value(cursor.slice(start, cursor.pos()));
        } else {
            return Err(cursor.mismatch("a string"));
        }
        Ok(())
    }

    fn append_null(&mut self) {
        self.builder.append_null();
    }

    fn append_filler(&mut self) {
        self.builder.append_value("");
    }

    fn truncate(&mut self, len: usize) {
        if len >= self.len() {
            return;
        }
        // The builder cannot be cut, but an array can, and turns back into a builder without a copy.
        let array = self.builder.finish();
        let kept: GenericStringArray<O> = array.slice(0, len);
        drop(array);
        match kept.into_builder() {
            Ok(builder) => self.builder = builder,
            Err(array) => array.iter().for_each(|value| self.builder.append_option(value)),
        }
    }

    fn reserve(&mut self) {
        self.builder = GenericStringBuilder::with_capacity(self.hint.0, self.hint.1);
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        self.hint = (self.len(), self.builder.values_slice().len());
        let array: ArrayRef = Arc::new(self.builder.finish());
        Ok(match array.as_string_opt::<i32>() {
            Some(text) if self.view => Arc::new(StringViewArray::from(text)),
            _ => array,
        })
    }

    fn memory_size(&self) -> usize {
        let rows = self.len();
        self.builder.values_slice().len() + rows * size_of::<O>() + rows.div_ceil(8)
    }
}

/// Why a text is no base64.
const BASE64: &str = "bytes in standard base64";

/// Appends the bytes that a base64 text stands for.
fn decode_base64(cursor: &mut Cursor<'_>, context: &mut Context, out: &mut Vec<u8>) -> Result<(), Fault> {
    if cursor.peek() != b'"' {
        return Err(cursor.mismatch(BASE64));
    }
    let start = cursor.pos();
    let text = cursor.string(&mut context.scratch)?;
    STANDARD_PAD_INDIFFERENT
        .decode_vec(text, out)
        .map_err(|_| Fault::new(JsonErrorKind::InvalidText, start, BASE64))
}

/// Bytes of any length, from base64.
#[derive(Debug)]
pub(super) struct BinaryColumn<O: OffsetSizeTrait> {
    values: Vec<u8>,
    offsets: Vec<O>,
    validity: NullBufferBuilder,
    view: bool,
    hint: (usize, usize),
}

impl<O: OffsetSizeTrait> BinaryColumn<O> {
    pub(super) fn new(view: bool) -> Self {
        let offsets = vec![O::zero()];
        Self { values: Vec::new(), offsets, validity: NullBufferBuilder::new(0), view, hint: (0, 0) }
    }

    fn push_offset(&mut self) {
        // The decoder bounds the bytes of a batch, so the offset always fits.
        self.offsets.push(O::from_usize(self.values.len()).unwrap_or_default());
    }
}

impl<O: OffsetSizeTrait> Build for BinaryColumn<O> {
    fn decode(&mut self, cursor: &mut Cursor<'_>, context: &mut Context) -> Result<(), Fault> {
        let len = self.values.len();
        if let Err(fault) = decode_base64(cursor, context, &mut self.values) {
            self.values.truncate(len);
            return Err(fault);
        }
        self.push_offset();
        self.validity.append_non_null();
        Ok(())
    }

    fn append_null(&mut self) {
        self.push_offset();
        self.validity.append_null();
    }

    fn append_filler(&mut self) {
        self.push_offset();
        self.validity.append_non_null();
    }

    fn truncate(&mut self, len: usize) {
        self.offsets.truncate(len + 1);
        self.values.truncate(self.offsets.last().map_or(0, |end| end.as_usize()));
        self.validity.truncate(len);
    }

    fn reserve(&mut self) {
        self.offsets.reserve_exact(self.hint.0);
        self.values.reserve_exact(self.hint.1);
        self.validity = NullBufferBuilder::new(self.hint.0);
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        self.hint = (self.offsets.len() - 1, self.values.len());
        let offsets = std::mem::replace(&mut self.offsets, vec![O::zero()]);
        let values = std::mem::take(&mut self.values);
        let offsets = OffsetBuffer::new(offsets.into());
        let array: ArrayRef =
            Arc::new(GenericBinaryArray::try_new(offsets, values.into(), self.validity.finish())?);
        Ok(match array.as_binary_opt::<i32>() {
            Some(bytes) if self.view => Arc::new(BinaryViewArray::from(bytes)),
            _ => array,
        })
    }

    fn memory_size(&self) -> usize {
        let rows = self.offsets.len() - 1;
        self.values.len() + rows * size_of::<O>() + rows.div_ceil(8)
    }
}

/// Bytes of one length, from base64.
#[derive(Debug)]
pub(super) struct FixedBinaryColumn {
    width: i32,
    bytes: usize,
    values: Vec<u8>,
    validity: NullBufferBuilder,
    hint: usize,
}

impl FixedBinaryColumn {
    pub(super) fn new(width: i32, path: &str) -> Result<Self> {
        let bytes = usize::try_from(width).ok().filter(|bytes| *bytes > 0);
        let bytes =
            bytes.ok_or_else(|| unsupported(path, "a binary type needs a width of at least one byte"))?;
        Ok(Self { width, bytes, values: Vec::new(), validity: NullBufferBuilder::new(0), hint: 0 })
    }

    fn push_zeros(&mut self) {
        self.values.resize(self.values.len() + self.bytes, 0);
    }
}

impl Build for FixedBinaryColumn {
    fn decode(&mut self, cursor: &mut Cursor<'_>, context: &mut Context) -> Result<(), Fault> {
        let (start, len) = (cursor.pos(), self.values.len());
        let expected = || format!("{} {BASE64}", self.bytes);
        let result = decode_base64(cursor, context, &mut self.values);
        if result.is_ok() && self.values.len() == len + self.bytes {
            self.validity.append_non_null();
            return Ok(());
        }
        self.values.truncate(len);
        result.and_then(|()| Err(Fault::new(JsonErrorKind::OutOfRange, start, expected())))
    }

    fn append_null(&mut self) {
        self.push_zeros();
        self.validity.append_null();
    }

    fn append_filler(&mut self) {
        self.push_zeros();
        self.validity.append_non_null();
    }

    fn truncate(&mut self, len: usize) {
        self.values.truncate(len * self.bytes);
        self.validity.truncate(len);
    }

    fn reserve(&mut self) {
        self.values.reserve_exact(self.hint * self.bytes);
        self.validity = NullBufferBuilder::new(self.hint);
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        self.hint = self.values.len() / self.bytes;
        let values = std::mem::take(&mut self.values);
        Ok(Arc::new(FixedSizeBinaryArray::try_new(self.width, values.into(), self.validity.finish())?))
    }

    fn memory_size(&self) -> usize {
        self.values.len() + (self.values.len() / self.bytes).div_ceil(8)
    }
}
