//! Arrays.

use std::sync::Arc;

use connector_core::{
    Result,
    arrow::{
        array::{ArrayRef, GenericListArray, NullBufferBuilder, OffsetSizeTrait},
        buffer::OffsetBuffer,
        datatypes::FieldRef,
        error::ArrowError,
    },
};

use super::{
    JsonOptions,
    column::{Build, Column, Context},
    cursor::{self, Cursor},
    error::{Fault, JsonErrorKind},
};

/// The ends of lists in the column of their items.
#[derive(Debug)]
pub(super) struct Ends<O: OffsetSizeTrait> {
    offsets: Vec<O>,
    validity: NullBufferBuilder,
    hint: usize,
}

impl<O: OffsetSizeTrait> Ends<O> {
    pub(super) fn new() -> Self {
        Self { offsets: vec![O::zero()], validity: NullBufferBuilder::new(0), hint: 0 }
    }

    /// How many items the lists so far have.
    pub(super) fn items(&self) -> usize {
        self.offsets.last().map_or(0, |end| end.as_usize())
    }

    #[inline]
    pub(super) fn push(&mut self, items: usize, valid: bool) {
        // The decoder bounds the bytes of a batch, so the offset always fits.
        self.offsets.push(O::from_usize(self.items() + items).unwrap_or_default());
        self.validity.append(valid);
    }

    /// Takes back the lists from `len` on, and tells how many items are left.
    pub(super) fn truncate(&mut self, len: usize) -> usize {
        self.offsets.truncate(len + 1);
        self.validity.truncate(len);
        self.items()
    }

    pub(super) fn reserve(&mut self) {
        self.offsets.reserve_exact(self.hint);
        self.validity = NullBufferBuilder::new(self.hint);
    }

    pub(super) fn finish(&mut self) -> (OffsetBuffer<O>, Option<connector_core::arrow::buffer::NullBuffer>) {
        self.hint = self.offsets.len() - 1;
        let offsets = std::mem::replace(&mut self.offsets, vec![O::zero()]);
        (OffsetBuffer::new(offsets.into()), self.validity.finish())
    }

    pub(super) fn memory_size(&self) -> usize {
        size_of_val(self.offsets.as_slice()) + self.offsets.len().div_ceil(8)
    }
}

/// Arrays of values of one type.
#[derive(Debug)]
pub(super) struct ListColumn<O: OffsetSizeTrait> {
    field: FieldRef,
    items: Column,
    ends: Ends<O>,
}

impl<O: OffsetSizeTrait> ListColumn<O> {
    pub(super) fn new(field: &FieldRef, path: &str, options: &JsonOptions) -> Result<Self> {
        let items = Column::new(field, &format!("{path}[]"), options)?.of_items();
        Ok(Self { field: Arc::clone(field), items, ends: Ends::new() })
    }

    /// Where a placeholder is all that an array holds, the array itself is what the source did not have.
    #[cold]
    fn in_item(&mut self, fault: Fault, index: usize, cursor: &mut Cursor<'_>) -> Fault {
        let mut ahead = cursor.clone();
        ahead.skip_space();
        if fault.kind() == JsonErrorKind::Unavailable && index == 0 && ahead.peek() == b']' {
            cursor.leave_depth();
            return fault;
        }
        let fault = fault.in_item(index);
        if fault.kind() == JsonErrorKind::Unavailable {
            fault.of_kind(JsonErrorKind::InvalidText)
        } else {
            fault
        }
    }
}

impl<O: OffsetSizeTrait> Build for ListColumn<O> {
    fn decode(&mut self, cursor: &mut Cursor<'_>, context: &mut Context) -> Result<(), Fault> {
        if cursor.peek() != b'[' {
            return Err(cursor.mismatch("an array"));
        }
        cursor.enter()?;
        cursor.skip_space();
        let mut len = 0;
        if cursor.peek() != b']' {
            loop {
                if let Err(fault) = self.items.decode(cursor, context) {
                    return Err(self.in_item(fault, len, cursor));
                }
                len += 1;
                cursor.skip_space();
                match cursor.peek() {
                    b',' => cursor.advance(1),
                    b']' => break,
                    _ => return Err(cursor.malformed("`,` or `]`")),
                }
                cursor.skip_space();
            }
        }
        cursor.leave();
        self.ends.push(len, true);
        Ok(())
    }

    fn decode_text(&mut self, text: &str, context: &mut Context) -> Result<(), Fault> {
        cursor::whole(text, |cursor| self.decode(cursor, context))
    }

    fn append_null(&mut self) {
        self.ends.push(0, false);
    }

    fn append_filler(&mut self) {
        self.ends.push(0, true);
    }

    fn truncate(&mut self, len: usize) {
        self.items.truncate(self.ends.truncate(len));
    }

    fn reserve(&mut self) {
        self.ends.reserve();
        self.items.reserve();
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let (offsets, nulls) = self.ends.finish();
        Ok(Arc::new(GenericListArray::try_new(
            Arc::clone(&self.field),
            offsets,
            self.items.finish()?,
            nulls,
        )?))
    }

    fn memory_size(&self) -> usize {
        self.ends.memory_size() + self.items.memory_size()
    }
}
