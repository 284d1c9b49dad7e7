//! Objects whose keys are data.

use std::sync::Arc;

use connector_core::{
    Result,
    arrow::{
        array::{ArrayRef, MapArray, StructArray},
        datatypes::{DataType, FieldRef, Fields},
        error::ArrowError,
    },
};

use super::{
    DuplicateKeys, JsonOptions,
    column::{Build, Column, Context, nested_path, unsupported},
    cursor::{self, Cursor},
    error::{Fault, JsonErrorKind},
    keys::{KeyRule, key_at},
    list::Ends,
};

/// Maps from text to values of one type; the entries keep the order of the record.
#[derive(Debug)]
pub(super) struct MapColumn {
    entries: FieldRef,
    fields: Fields,
    keys: Column,
    values: Column,
    ends: Ends<i32>,
    rule: KeyRule,
}

impl MapColumn {
    pub(super) fn new(entries: &FieldRef, sorted: bool, path: &str, options: &JsonOptions) -> Result<Self> {
        let DataType::Struct(fields) = entries.data_type() else {
            return Err(unsupported(path, "the entries of a map have to be a struct"));
        };
        let [key, value] = fields.as_ref() else {
            return Err(unsupported(path, "the entries of a map have to be a key and a value"));
        };
        if !matches!(key.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) {
            return Err(unsupported(
                path,
                &format!("the keys of a JSON object are text, not {}", key.data_type()),
            ));
        }
        if sorted {
            return Err(unsupported(path, "the keys of a JSON object are not sorted"));
        }
        Ok(Self {
            entries: Arc::clone(entries),
            fields: fields.clone(),
            keys: Column::new(key, &nested_path(path, key.name()), options)?,
            values: Column::new(value, &nested_path(path, value.name()), options)?,
            ends: Ends::new(),
            rule: KeyRule::new(false),
        })
    }

    /// Reads a key and its colon.
    fn decode_key(&mut self, cursor: &mut Cursor<'_>, context: &mut Context) -> Result<(), Fault> {
        if cursor.peek() != b'"' {
            return Err(cursor.malformed("a key in double quotes"));
        }
        let start = cursor.pos();
        if context.options.duplicate_keys == DuplicateKeys::Fail {
            let mut ahead = cursor.clone();
            let mark = self.rule.mark(ahead.string(&mut context.scratch)?, start);
            context.keys.push(mark);
        }
        self.keys.decode(cursor, context)?;
        cursor.colon()
    }

    /// The places of the keys that a later one replaces. Reads ahead, so that only what counts is decoded.
    fn superseded(&self, cursor: &Cursor<'_>, context: &mut Context) -> Result<Vec<usize>, Fault> {
        let mut ahead = cursor.clone();
        let mut marks = Vec::new();
        while ahead.peek() == b'"' {
            let at = ahead.pos();
            marks.push(self.rule.mark(ahead.string(&mut context.scratch)?, at));
            ahead.colon()?;
            ahead.skip_value()?;
            ahead.skip_space();
            if ahead.peek() == b',' {
                ahead.advance(1);
                ahead.skip_space();
            }
        }
        Ok(self.rule.duplicates(&mut marks, cursor, true))
    }

    fn check_keys(&self, first: usize, cursor: &Cursor<'_>, context: &mut Context) -> Result<(), Fault> {
        let marks = context.keys.get_mut(first..).unwrap_or_default();
        let duplicates = self.rule.duplicates(marks, cursor, false);
        context.keys.truncate(first);
        match duplicates.first() {
            None => Ok(()),
            Some(at) => {
                let fault = Fault::new(JsonErrorKind::DuplicateKey, *at, "each key once in its object");
                Err(fault.in_entry(&key_at(cursor, *at)))
            }
        }
    }

    fn decode_entries(&mut self, cursor: &mut Cursor<'_>, context: &mut Context) -> Result<usize, Fault> {
        let skipped = match context.options.duplicate_keys {
            DuplicateKeys::Fail => Vec::new(),
            DuplicateKeys::Last => self.superseded(cursor, context)?,
        };
        let mut len = 0;
        loop {
            let key = cursor.pos();
            if skipped.binary_search(&key).is_ok() {
                cursor.skip_string()?;
                cursor.colon()?;
                cursor.skip_value()?;
            } else {
                self.decode_key(cursor, context)?;
                cursor.skip_space();
                self.values.decode(cursor, context).map_err(|fault| fault.in_entry(&key_at(cursor, key)))?;
                len += 1;
            }
            cursor.skip_space();
            match cursor.peek() {
                b',' => cursor.advance(1),
                b'}' => return Ok(len),
                _ => return Err(cursor.malformed("`,` or `}`")),
            }
            cursor.skip_space();
        }
    }
}

impl Build for MapColumn {
    fn decode(&mut self, cursor: &mut Cursor<'_>, context: &mut Context) -> Result<(), Fault> {
        if cursor.peek() != b'{' {
            return Err(cursor.mismatch("an object"));
        }
        cursor.enter()?;
        cursor.skip_space();
        let first_key = context.keys.len();
        let len = if cursor.peek() == b'}' { 0 } else { self.decode_entries(cursor, context)? };
        if context.keys.len() > first_key {
            self.check_keys(first_key, cursor, context)?;
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
        let items = self.ends.truncate(len);
        self.keys.truncate(items);
        self.values.truncate(items);
    }

    fn reserve(&mut self) {
        self.ends.reserve();
        self.keys.reserve();
        self.values.reserve();
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let (offsets, nulls) = self.ends.finish();
        let columns = vec![self.keys.finish()?, self.values.finish()?];
        let entries = StructArray::try_new(self.fields.clone(), columns, None)?;
        Ok(Arc::new(MapArray::try_new(Arc::clone(&self.entries), offsets, entries, nulls, false)?))
    }

    fn memory_size(&self) -> usize {
        self.ends.memory_size() + self.keys.memory_size() + self.values.memory_size()
    }
}
