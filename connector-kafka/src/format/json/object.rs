//! Objects with a column per key: the record itself and nested structs.

use std::sync::Arc;

use connector_core::{
    Error, ErrorKind, Result,
    arrow::{
        array::{ArrayRef, NullBufferBuilder, StructArray},
        datatypes::Fields,
        error::ArrowError,
    },
};
use hashbrown::HashMap;

use super::{
    DuplicateKeys, JsonOptions, UnknownFields,
    column::{Build, Column, Context, nested_path},
    cursor::{self, Cursor},
    error::{Fault, JsonErrorKind},
    keys::{fold_case, key_at},
};

/// No slot, and no column.
const NONE: usize = usize::MAX;

/// No earlier object.
const NO_OBJECT: u64 = u64::MAX;

/// The place before the first key.
const START: usize = usize::MAX - 1;

/// How many keys without a column are remembered, and how long they may be. Keys beyond that are only slower.
const EXTRA_SLOTS: usize = 256;
const EXTRA_NAME: usize = 64;

/// A key from its quote to its colon, as producers write it: `"name":`.
#[derive(Debug, Default)]
struct Spelling {
    /// All of it; empty when the name needs escapes, and then it is never met.
    bytes: Vec<u8>,
    /// The first eight bytes, and which of them count.
    head: u64,
    mask: u64,
    /// The last eight bytes.
    tail: u64,
}

impl Spelling {
    fn new(name: &str) -> Self {
        let mut spelling = Self::default();
        spelling.set(name);
        spelling
    }

    fn set(&mut self, name: &str) {
        self.bytes.clear();
        if name.bytes().any(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1F)) {
            return;
        }
        self.bytes.push(b'"');
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.extend_from_slice(b"\":");
        let (mut head, mut mask) = ([0; 8], [0; 8]);
        for ((head, mask), byte) in head.iter_mut().zip(&mut mask).zip(&self.bytes) {
            (*head, *mask) = (*byte, 0xFF);
        }
        self.head = u64::from_le_bytes(head);
        self.mask = u64::from_le_bytes(mask);
        self.tail = self.bytes.last_chunk().map_or(0, |tail| u64::from_le_bytes(*tail));
    }

    /// Whether `text` begins with this key. Short ones are compared as one or two numbers, which is what
    /// most keys are and what a comparison of slices of unknown length is slow at.
    #[inline]
    fn begins(&self, text: &[u8]) -> bool {
        let len = self.bytes.len();
        let Some(head) = text.first_chunk() else { return len > 0 && text.starts_with(&self.bytes) };
        if len == 0 || u64::from_le_bytes(*head) & self.mask != self.head {
            return false;
        }
        match len {
            ..=8 => true,
            9..=16 => text
                .get(..len)
                .and_then(<[u8]>::last_chunk)
                .is_some_and(|t| u64::from_le_bytes(*t) == self.tail),
            _ => text.starts_with(&self.bytes),
        }
    }
}

/// A key that records have.
#[derive(Debug)]
struct Slot {
    name: String,
    spelling: Spelling,
    /// The column, or `NONE` for a key that has none.
    column: usize,
    /// The slot of the key that follows this one, as far as we know.
    next: usize,
    /// The last object in which the key stood.
    object: u64,
}

impl Slot {
    fn new(name: &str, column: usize) -> Self {
        Self { name: name.to_owned(), spelling: Spelling::new(name), column, next: NONE, object: 0 }
    }

    /// Reads the key and its colon, if this is the one that stands at the cursor.
    #[inline]
    fn read(&self, cursor: &mut Cursor<'_>) -> bool {
        let found = self.spelling.begins(cursor.rest());
        if found {
            cursor.advance(self.spelling.bytes.len());
        }
        found
    }
}

/// The keys of an object and the order in which they come.
#[derive(Debug)]
struct Slots {
    slots: Vec<Slot>,
    /// Slots by name, which is folded where case does not matter.
    by_name: HashMap<String, usize>,
    fold: bool,
    first: usize,
    extra: usize,
}

impl Slots {
    fn new(fields: &Fields, path: &str, fold: bool) -> Result<Self> {
        let mut by_name = HashMap::with_capacity(fields.len());
        let mut slots = Vec::with_capacity(fields.len());
        for (column, field) in fields.iter().enumerate() {
            let name = if fold { fold_case(field.name()).into_owned() } else { field.name().clone() };
            if by_name.insert(name, column).is_some() {
                let path = nested_path(path, field.name());
                let how = if fold { ", as names are compared without regard to case" } else { "" };
                return Err(Error::new(
                    ErrorKind::SchemaMismatch,
                    format!("the column `{path}` stands twice in the schema{how}"),
                )
                .with_operation("kafka.decode")
                .with_context("column", path));
            }
            let mut slot = Slot::new(field.name(), column);
            slot.next = column + 1;
            slots.push(slot);
        }
        Ok(Self { slots, by_name, fold, first: 0, extra: 0 })
    }

    /// Reads the key at the cursor and its colon; `guess` is the slot that should come.
    #[inline]
    fn read(
        &mut self,
        guess: usize,
        previous: usize,
        cursor: &mut Cursor<'_>,
        context: &mut Context,
    ) -> Result<usize, Fault> {
        match self.slots.get(guess) {
            Some(slot) if slot.read(cursor) => Ok(guess),
            Some(slot) if self.slots.get(slot.next).is_some_and(|slot| slot.read(cursor)) => Ok(slot.next),
            _ => self.find(previous, cursor, context),
        }
    }

    /// Reads a key that was not foreseen. `NONE` for one without a column that is not worth a slot.
    #[inline(never)]
    fn find(
        &mut self,
        previous: usize,
        cursor: &mut Cursor<'_>,
        context: &mut Context,
    ) -> Result<usize, Fault> {
        let start = cursor.pos();
        if cursor.peek() != b'"' {
            return Err(cursor.malformed("a key in double quotes"));
        }
        let name = cursor.string(&mut context.scratch)?;
        let is_plain = cursor.pos() - start == name.len() + 2;
        let found = if self.fold { self.by_name.get(&*fold_case(name)) } else { self.by_name.get(name) };
        let found = match found.copied() {
            Some(slot) => {
                if self.fold
                    && is_plain
                    && let Some(slot) = self.slots.get_mut(slot)
                {
                    slot.spelling.set(name);
                }
                slot
            }
            None => {
                if context.options.unknown_fields == UnknownFields::Fail {
                    let fault = Fault::new(JsonErrorKind::UnknownField, start, "a key that has a column");
                    return Err(fault.in_key(name));
                }
                let slot = self.add_extra(name);
                if slot == NONE && context.options.duplicate_keys == DuplicateKeys::Fail {
                    context.keys.push(context.key_rule.mark(name, start));
                }
                slot
            }
        };
        cursor.colon()?;
        match self.slots.get_mut(previous) {
            Some(slot) => slot.next = found,
            None if previous == START => self.first = found,
            None => {}
        }
        Ok(found)
    }

    fn add_extra(&mut self, name: &str) -> usize {
        if self.extra == EXTRA_SLOTS || name.len() > EXTRA_NAME {
            return NONE;
        }
        self.extra += 1;
        let slot = self.slots.len();
        self.slots.push(Slot::new(name, NONE));
        self.by_name.insert(if self.fold { fold_case(name).into_owned() } else { name.to_owned() }, slot);
        slot
    }
}

/// A struct: one column per field.
#[derive(Debug)]
pub(in crate::format) struct ObjectColumn {
    fields: Fields,
    columns: Vec<Column>,
    slots: Slots,
    validity: NullBufferBuilder,
    len: usize,
    hint: usize,
}

impl ObjectColumn {
    pub(in crate::format) fn new(fields: &Fields, path: &str, options: &JsonOptions) -> Result<Self> {
        let slots = Slots::new(fields, path, options.case_insensitive)?;
        let columns = fields
            .iter()
            .map(|field| Column::new(field, &nested_path(path, field.name()), options))
            .collect::<Result<_>>()?;
        Ok(Self {
            fields: fields.clone(),
            columns,
            slots,
            validity: NullBufferBuilder::new(0),
            len: 0,
            hint: 0,
        })
    }

    /// Reads the value of the key that stands at `key`, and tells how many columns have got their first value.
    #[inline]
    fn decode_field(
        &mut self,
        (object, earlier): (u64, u64),
        key: usize,
        slot: usize,
        cursor: &mut Cursor<'_>,
        context: &mut Context,
    ) -> Result<usize, Fault> {
        let Some(slot) = self.slots.slots.get_mut(slot) else {
            cursor.skip_value()?;
            return Ok(0);
        };
        let last = std::mem::replace(&mut slot.object, object);
        let again = last == object;
        if again && context.options.duplicate_keys == DuplicateKeys::Fail {
            return Err(Fault::new(JsonErrorKind::DuplicateKey, key, "each key once in its object")
                .in_key(&slot.name));
        }
        let Some(column) = self.columns.get_mut(slot.column) else {
            cursor.skip_value().map_err(|fault| fault.in_key(&slot.name))?;
            return Ok(0);
        };
        if last == earlier {
            cursor.skip_value().map_err(|fault| fault.in_key(&slot.name))?;
            return Ok(0);
        }
        if again {
            column.truncate(self.len);
        }
        column.decode(cursor, context).map_err(|fault| fault.in_field(&slot.name))?;
        Ok(usize::from(!again))
    }

    /// Gives a null to the columns that the objects do not mention.
    #[inline(never)]
    fn fill_absent(&mut self, (object, earlier): (u64, u64), end: usize) -> Result<(), Fault> {
        for (column, slot) in self.columns.iter_mut().zip(&self.slots.slots) {
            if slot.object != object && slot.object != earlier {
                column.append_absent().map_err(|()| Fault::absent(end).in_field(&slot.name))?;
            }
        }
        Ok(())
    }

    /// Refuses the object if two of the keys that it added to `context.keys` are the same.
    #[cold]
    fn check_keys(first: usize, cursor: &Cursor<'_>, context: &mut Context) -> Result<(), Fault> {
        let marks = context.keys.get_mut(first..).unwrap_or_default();
        let duplicates = context.key_rule.duplicates(marks, cursor, false);
        context.keys.truncate(first);
        match duplicates.first() {
            None => Ok(()),
            Some(at) => {
                let fault = Fault::new(JsonErrorKind::DuplicateKey, *at, "each key once in its object");
                Err(fault.in_key(&key_at(cursor, *at)))
            }
        }
    }

    /// Takes the columns; the fields that they belong to are those of the schema.
    pub(in crate::format) fn finish_columns(&mut self) -> Result<Vec<ArrayRef>, ArrowError> {
        self.hint = self.len;
        self.len = 0;
        self.validity = NullBufferBuilder::new(0);
        self.columns.iter_mut().map(Column::finish).collect()
    }
}

impl ObjectColumn {
    /// Reads an object's keys and values, and tells how many columns have got their first value. Those that have one of
    /// the `earlier` object keep it.
    #[inline]
    fn decode_keys(
        &mut self,
        objects: (u64, u64),
        cursor: &mut Cursor<'_>,
        context: &mut Context,
    ) -> Result<usize, Fault> {
        if cursor.peek() != b'{' {
            return Err(cursor.mismatch("an object"));
        }
        cursor.enter()?;
        let first_key = context.keys.len();
        let (mut guess, mut previous, mut found) = (self.slots.first, START, 0);
        cursor.skip_space();
        if cursor.peek() != b'}' {
            loop {
                let key = cursor.pos();
                let slot = self.slots.read(guess, previous, cursor, context)?;
                cursor.skip_space();
                found += self.decode_field(objects, key, slot, cursor, context)?;
                (previous, guess) = (slot, self.slots.slots.get(slot).map_or(NONE, |slot| slot.next));
                cursor.skip_space();
                match cursor.peek() {
                    b',' => cursor.advance(1),
                    b'}' => break,
                    _ => return Err(cursor.malformed("`,` or `}`")),
                }
                cursor.skip_space();
            }
        }
        if context.keys.len() > first_key {
            Self::check_keys(first_key, cursor, context)?;
        }
        Ok(found)
    }

    fn end_row(&mut self) {
        self.validity.append_non_null();
        self.len += 1;
    }

    /// Appends a row of the values that `over` has, and for the rest of those that the object at `cursor` has.
    pub(in crate::format) fn decode_over(
        &mut self,
        over: &mut Cursor<'_>,
        cursor: &mut Cursor<'_>,
        context: &mut Context,
    ) -> Result<(), Fault> {
        context.objects += 2;
        let (earlier, object) = (context.objects - 1, context.objects);
        let found = self.decode_keys((earlier, NO_OBJECT), over, context)?;
        over.leave();
        let found = found + self.decode_keys((object, earlier), cursor, context)?;
        if found < self.columns.len() {
            self.fill_absent((object, earlier), cursor.pos())?;
        }
        cursor.leave();
        self.end_row();
        Ok(())
    }

    /// Appends a row of which only the key counts: a column that the object does not mention, or has as a null, is
    /// null, and where there can be no null the value of its type that stands for nothing.
    pub(in crate::format) fn decode_sparse(
        &mut self,
        cursor: &mut Cursor<'_>,
        context: &mut Context,
    ) -> Result<(), Fault> {
        for column in &mut self.columns {
            column.set_sparse(true);
        }
        context.objects += 1;
        let object = context.objects;
        let decoded = self.decode_keys((object, NO_OBJECT), cursor, context);
        for (column, slot) in self.columns.iter_mut().zip(&self.slots.slots) {
            column.set_sparse(false);
            if decoded.is_ok() && slot.object != object {
                column.append_blank();
            }
        }
        decoded?;
        cursor.leave();
        self.end_row();
        Ok(())
    }

    /// The columns, in the order of the fields.
    pub(in crate::format) fn columns_mut(&mut self) -> &mut [Column] {
        &mut self.columns
    }

    /// Ends a row whose columns were each given a value from outside.
    pub(in crate::format) fn end_row_of_columns(&mut self) {
        self.end_row();
    }
}

impl Build for ObjectColumn {
    fn decode(&mut self, cursor: &mut Cursor<'_>, context: &mut Context) -> Result<(), Fault> {
        context.objects += 1;
        let objects = (context.objects, NO_OBJECT);
        let found = self.decode_keys(objects, cursor, context)?;
        if found < self.columns.len() {
            self.fill_absent(objects, cursor.pos())?;
        }
        cursor.leave();
        self.end_row();
        Ok(())
    }

    fn decode_text(&mut self, text: &str, context: &mut Context) -> Result<(), Fault> {
        cursor::whole(text, |cursor| self.decode(cursor, context))
    }

    fn append_null(&mut self) {
        self.columns.iter_mut().for_each(Column::append_filler);
        self.validity.append_null();
        self.len += 1;
    }

    fn append_filler(&mut self) {
        self.columns.iter_mut().for_each(Column::append_filler);
        self.validity.append_non_null();
        self.len += 1;
    }

    fn truncate(&mut self, len: usize) {
        self.columns.iter_mut().for_each(|column| column.truncate(len));
        self.validity.truncate(len);
        self.len = len;
    }

    fn reserve(&mut self) {
        self.columns.iter_mut().for_each(Column::reserve);
        self.validity = NullBufferBuilder::new(self.hint);
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let (len, nulls) = (self.len, self.validity.finish());
        let columns = self.finish_columns()?;
        Ok(Arc::new(StructArray::try_new_with_length(self.fields.clone(), columns, nulls, len)?))
    }

    fn memory_size(&self) -> usize {
        self.columns.iter().map(Column::memory_size).sum::<usize>() + self.len.div_ceil(8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_every_length_are_compared_to_the_last_byte() {
        for len in 0..40 {
            let name = "abcdefghijklmnopqrstuvwxyz0123456789_-+."[..len].to_owned();
            let spelling = Spelling::new(&name);
            let text = format!("\"{name}\":1,\"and more\":2}}");
            assert!(spelling.begins(text.as_bytes()), "{name}");
            assert!(spelling.begins(format!("\"{name}\":").as_bytes()), "{name}");
            for at in 0..len + 3 {
                let mut other = text.clone().into_bytes();
                other[at] ^= 1;
                assert!(!spelling.begins(&other), "{name} {at}");
                assert!(!spelling.begins(&text.as_bytes()[..at]), "{name} {at}");
            }
        }
        for name in ["\"", "a\\b", "a\nb"] {
            assert!(!Spelling::new(name).begins(format!("\"{name}\":").as_bytes()));
            assert!(!Spelling::new(name).begins(b""));
        }
    }
}
