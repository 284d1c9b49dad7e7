//! Text and bytes.

use std::sync::Arc;

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, STANDARD_PAD_INDIFFERENT},
};
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
    BinaryText,
    column::{Build, Context, Given, unsupported},
    cursor::{Cursor, each_entry},
    encoding::{Encoding, decimal_text},
    error::{Fault, JsonErrorKind},
};

/// Text. Arrow's own builder is used, as it alone can take text that is known to be UTF-8 without
/// checking all of it again at the end.
#[derive(Debug)]
pub(super) struct TextColumn<O: OffsetSizeTrait> {
    builder: GenericStringBuilder<O>,
    view: bool,
    encoding: Encoding,
    /// Rows and bytes of the batch before.
    hint: (usize, usize),
}

impl<O: OffsetSizeTrait> TextColumn<O> {
    pub(super) fn new(view: bool, encoding: Encoding) -> Self {
        Self { builder: GenericStringBuilder::with_capacity(0, 0), view, encoding, hint: (0, 0) }
    }

    /// Reads a decimal that is written as an unscaled number in bytes, as its digits.
    #[inline(never)]
    fn decode_decimal(&mut self, cursor: &mut Cursor<'_>, context: &mut Context) -> Result<(), Fault> {
        let mut unscaled = Vec::new();
        let scale = unscaled_decimal(self.encoding, cursor, context, &mut unscaled)?;
        decimal_text(&unscaled, scale, &mut context.scratch);
        self.builder.append_value(&context.scratch);
        Ok(())
    }

    fn len(&self) -> usize {
        self.builder.offsets_slice().len() - 1
    }
}

impl<O: OffsetSizeTrait> Build for TextColumn<O> {
    #[inline]
    fn decode(&mut self, cursor: &mut Cursor<'_>, context: &mut Context) -> Result<(), Fault> {
        if self.encoding != Encoding::Plain {
            return self.decode_decimal(cursor, context);
        }
        if cursor.peek() == b'"' {
            let start = cursor.pos();
            let text = cursor.string(&mut context.scratch)?;
            if context.options.unavailable_placeholder.as_deref() == Some(text) {
                return Err(unavailable(start));
            }
            self.builder.append_value(text);
        } else if context.options.coerce_to_text {
            let start = cursor.pos();
            cursor.skip_value()?;
            self.builder.append_value(cursor.slice(start, cursor.pos()));
        } else {
            return Err(cursor.mismatch("a string"));
        }
        Ok(())
    }

    fn decode_text(&mut self, text: &str, _: &mut Context) -> Result<(), Fault> {
        self.builder.append_value(text);
        Ok(())
    }

    #[inline]
    fn take(&mut self, given: Given<'_>, context: &Context) -> bool {
        match given {
            Given::Text(text)
                if self.encoding == Encoding::Plain
                    && context.options.unavailable_placeholder.as_deref() != Some(text) =>
            {
                self.builder.append_value(text);
                true
            }
            _ => false,
        }
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

/// A placeholder stands in place of a value.
#[cold]
fn unavailable(start: usize) -> Fault {
    let expected = "the value itself: its source did not have it and sent a placeholder. Let the source send whole \
                    rows, or accept nulls with `unavailable_value`";
    Fault::new(JsonErrorKind::Unavailable, start, expected)
}

/// Appends the bytes that a base64 text stands for.
fn decode_base64(cursor: &mut Cursor<'_>, context: &mut Context, out: &mut Vec<u8>) -> Result<(), Fault> {
    if cursor.peek() != b'"' {
        return Err(cursor.mismatch(BASE64));
    }
    let start = cursor.pos();
    append_base64(cursor.string(&mut context.scratch)?, out)
        .map_err(|()| Fault::new(JsonErrorKind::InvalidText, start, BASE64))
}

fn append_base64(text: &str, out: &mut Vec<u8>) -> Result<(), ()> {
    STANDARD_PAD_INDIFFERENT.decode_vec(text, out).map_err(drop)
}

/// Appends bytes as a text of base64, as the columns of this module read it.
pub(crate) fn put_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    let start = out.len();
    // Room for four characters for each three bytes begun.
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = STANDARD.encode_slice(bytes, &mut out[start..]).unwrap_or(0);
    out.truncate(start + written);
    out.push(b'"');
}

/// Appends the bytes of a binary column.
fn decode_bytes(cursor: &mut Cursor<'_>, context: &mut Context, out: &mut Vec<u8>) -> Result<(), Fault> {
    let (start, len) = (cursor.pos(), out.len());
    if context.options.binary_text == BinaryText::Latin1 && cursor.peek() == b'"' {
        let text = cursor.string(&mut context.scratch)?;
        append_latin1(text, out).map_err(|()| Fault::new(JsonErrorKind::InvalidText, start, LATIN1))
    } else {
        decode_base64(cursor, context, out)?;
        let placeholder = context.options.unavailable_placeholder.as_deref();
        if placeholder.is_some_and(|placeholder| out.get(len..) == Some(placeholder.as_bytes())) {
            return Err(unavailable(start));
        }
        Ok(())
    }
}

/// Bytes that are no placeholder.
fn plain_bytes<'g>(given: Given<'g>, context: &Context) -> Option<&'g [u8]> {
    let Given::Bytes(bytes) = given else { return None };
    let placeholder = context.options.unavailable_placeholder.as_deref();
    (placeholder.map(str::as_bytes) != Some(bytes)).then_some(bytes)
}

const LATIN1: &str = "bytes as characters up to U+00FF";

fn append_latin1(text: &str, out: &mut Vec<u8>) -> Result<(), ()> {
    for character in text.chars() {
        out.push(u8::try_from(u32::from(character)).map_err(drop)?);
    }
    Ok(())
}

/// As [`decode_bytes`], for a text that is no JSON.
fn text_bytes(text: &str, context: &Context, out: &mut Vec<u8>) -> Result<(), Fault> {
    match context.options.binary_text {
        BinaryText::Latin1 => {
            append_latin1(text, out).map_err(|()| Fault::new(JsonErrorKind::InvalidText, 0, LATIN1))
        }
        BinaryText::Base64 => {
            append_base64(text, out).map_err(|()| Fault::new(JsonErrorKind::InvalidText, 0, BASE64))
        }
    }
}

/// No decimal that a database holds has a scale beyond it; a wrong one must not become a text without end.
const MAX_SCALE: i32 = 100_000;
/// The most bytes of an unscaled number: about 157,000 digits, more than any database holds.
const MAX_UNSCALED: usize = 65_536;

/// Reads an unscaled number into `out`, and tells its scale.
pub(super) fn unscaled_decimal(
    encoding: Encoding,
    cursor: &mut Cursor<'_>,
    context: &mut Context,
    out: &mut Vec<u8>,
) -> Result<i32, Fault> {
    let start = cursor.pos();
    out.clear();
    let scale = match encoding {
        Encoding::VariableDecimal => variable_decimal(cursor, context, out)?,
        Encoding::Decimal(scale) => {
            decode_base64(cursor, context, out)?;
            scale.unwrap_or_default()
        }
        _ => return Err(cursor.mismatch("a decimal")),
    };
    if out.len() > MAX_UNSCALED || scale.unsigned_abs() > MAX_SCALE.unsigned_abs() {
        return Err(Fault::new(JsonErrorKind::OutOfRange, start, "a decimal of a size that databases have"));
    }
    Ok(scale)
}

/// Reads `{"scale":2,"value":"Dzw="}`.
fn variable_decimal(cursor: &mut Cursor<'_>, context: &mut Context, out: &mut Vec<u8>) -> Result<i32, Fault> {
    const EXPECTED: &str = "an object of a `scale` and a `value`";
    if cursor.peek() != b'{' {
        return Err(cursor.mismatch(EXPECTED));
    }
    let start = cursor.pos();
    let (mut scale, mut value) = (None, false);
    each_entry(cursor, &mut String::new(), |key, cursor| {
        match key {
            "scale" => {
                let at = cursor.pos();
                let number = cursor.number()?.raw.parse::<i32>();
                scale = Some(number.map_err(|_| Fault::new(JsonErrorKind::OutOfRange, at, EXPECTED))?);
            }
            "value" => {
                out.clear();
                decode_base64(cursor, context, out)?;
                value = true;
            }
            _ => cursor.skip_value()?,
        }
        Ok(())
    })?;
    match scale {
        Some(scale) if value => Ok(scale),
        _ => Err(Fault::new(JsonErrorKind::MissingValue, start, EXPECTED)),
    }
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
        if let Err(fault) = decode_bytes(cursor, context, &mut self.values) {
            self.values.truncate(len);
            return Err(fault);
        }
        self.push_offset();
        self.validity.append_non_null();
        Ok(())
    }

    fn decode_text(&mut self, text: &str, context: &mut Context) -> Result<(), Fault> {
        let len = self.values.len();
        if let Err(fault) = text_bytes(text, context, &mut self.values) {
            self.values.truncate(len);
            return Err(fault);
        }
        self.push_offset();
        self.validity.append_non_null();
        Ok(())
    }

    fn take(&mut self, given: Given<'_>, context: &Context) -> bool {
        let Some(bytes) = plain_bytes(given, context) else { return false };
        self.values.extend_from_slice(bytes);
        self.push_offset();
        self.validity.append_non_null();
        true
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

    /// Keeps the bytes behind `len` if they are as many as they should be.
    fn settle(&mut self, result: Result<(), Fault>, start: usize, len: usize) -> Result<(), Fault> {
        if result.is_ok() && self.values.len() == len + self.bytes {
            self.validity.append_non_null();
            return Ok(());
        }
        self.values.truncate(len);
        let expected = || format!("{} {BASE64}", self.bytes);
        result.and_then(|()| Err(Fault::new(JsonErrorKind::OutOfRange, start, expected())))
    }

    fn push_zeros(&mut self) {
        self.values.resize(self.values.len() + self.bytes, 0);
    }
}

impl Build for FixedBinaryColumn {
    fn decode(&mut self, cursor: &mut Cursor<'_>, context: &mut Context) -> Result<(), Fault> {
        let (start, len) = (cursor.pos(), self.values.len());
        let result = decode_bytes(cursor, context, &mut self.values);
        self.settle(result, start, len)
    }

    fn decode_text(&mut self, text: &str, context: &mut Context) -> Result<(), Fault> {
        let len = self.values.len();
        let result = text_bytes(text, context, &mut self.values);
        self.settle(result, 0, len)
    }

    fn take(&mut self, given: Given<'_>, context: &Context) -> bool {
        let Some(bytes) = plain_bytes(given, context).filter(|bytes| bytes.len() == self.bytes) else {
            return false;
        };
        self.values.extend_from_slice(bytes);
        self.validity.append_non_null();
        true
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
