//! The decoder: records in, record batches out.

use std::fmt;

use super::{
    JsonError, JsonErrorKind, JsonOptions,
    column::{Build, Context},
    cursor::Cursor,
    error::Fault,
    object::ObjectColumn,
};
use connector_core::{
    Error, ErrorKind, Result,
    arrow::{
        array::{RecordBatch, RecordBatchOptions},
        datatypes::SchemaRef,
    },
};

/// The most bytes of records that one batch takes: offsets of 32 bits can count no further.
pub(in crate::format) const BATCH_BYTES: usize = i32::MAX as usize;

/// Decodes JSON objects, one per call, into the columns of a schema.
///
/// Rows gather until [`finish`](Self::finish) takes them as a batch. A record that cannot be read leaves
/// no trace: the rows before and after it are as if it had never come. The decoder learns the order of
/// the keys from the records, so one decoder should see records of one kind.
pub struct JsonDecoder {
    schema: SchemaRef,
    root: ObjectColumn,
    context: Context,
    rows: usize,
    /// Bytes of the records behind the rows.
    bytes: usize,
    /// Whether room was made for this batch.
    reserved: bool,
}

impl fmt::Debug for JsonDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonDecoder")
            .field("schema", &self.schema)
            .field("options", &self.context.options)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl JsonDecoder {
    /// A decoder of records into the columns of `schema`.
    ///
    /// # Errors
    /// `Unsupported` when a column has a type that cannot be read from JSON, such as a dictionary;
    /// `SchemaMismatch` when a column stands twice or has an invalid decimal type. Both name the column.
    pub fn new(schema: SchemaRef, options: JsonOptions) -> Result<Self> {
        let root = ObjectColumn::new(schema.fields(), "", &options)?;
        Ok(Self { schema, root, context: Context::new(options), rows: 0, bytes: 0, reserved: false })
    }

    /// The columns that batches have.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// How records are read.
    pub fn options(&self) -> &JsonOptions {
        &self.context.options
    }

    /// Appends one record as one row: exactly one JSON object in UTF-8, with nothing but white space
    /// around it.
    ///
    /// # Errors
    /// The record is refused and the decoder is as it was before the call. With
    /// [`JsonErrorKind::BatchFull`] the record may be fine: with it the batch would hold more than 2 GiB, so
    /// take the batch with [`finish`](Self::finish) and decode the record again. A record that is refused so by
    /// an empty decoder is itself too large.
    pub fn decode(&mut self, record: &[u8]) -> Result<(), JsonError> {
        match self.append(record) {
            Ok(()) => {
                self.rows += 1;
                self.bytes += record.len();
                Ok(())
            }
            Err(fault) => {
                self.root.truncate(self.rows);
                self.context.keys.clear();
                Err(fault.into_error(record))
            }
        }
    }

    fn append(&mut self, record: &[u8]) -> Result<(), Fault> {
        if record.len() > BATCH_BYTES - self.bytes {
            let fault = Fault::new(JsonErrorKind::BatchFull, 0, "at most 2 GiB of records in one batch");
            return Err(fault.showing("more"));
        }
        if !self.reserved {
            self.root.reserve();
            self.reserved = true;
        }
        let text = simdutf8::basic::from_utf8(record).map_err(|_| not_utf8(record))?;
        let mut cursor = Cursor::new(text);
        cursor.skip_space();
        if cursor.peek() != b'{' {
            return Err(not_an_object(text, &cursor));
        }
        self.root.decode(&mut cursor, &mut self.context)?;
        cursor.skip_space();
        if !cursor.rest().is_empty() {
            return Err(cursor.malformed("one object and nothing after it"));
        }
        Ok(())
    }

    /// Rows since the last [`finish`](Self::finish).
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Bytes of the rows so far: values, offsets and null bits, without room that is not used yet.
    ///
    /// Asks every column, so ask once per some rows rather than after each.
    pub fn memory_size(&self) -> usize {
        self.root.memory_size()
    }

    /// Takes the rows as a batch, which may have none. The next batch gets room for as many again.
    ///
    /// # Errors
    /// `Unexpected` when Arrow refuses the columns; the rows are lost then. No record can cause that.
    pub fn finish(&mut self) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        self.rows = 0;
        self.bytes = 0;
        self.reserved = false;
        self.root
            .finish_columns()
            .and_then(|columns| {
                RecordBatch::try_new_with_options(SchemaRef::clone(&self.schema), columns, &options)
            })
            .map_err(|e| {
                Error::new(ErrorKind::Unexpected, "cannot build a batch of decoded records")
                    .with_operation("kafka.decode")
                    .with_source(e)
            })
    }
}

#[cold]
pub(in crate::format) fn not_utf8(record: &[u8]) -> Fault {
    let valid = std::str::from_utf8(record).map_or_else(|e| e.valid_up_to(), str::len);
    Fault::syntax(valid, "text in UTF-8")
}

#[cold]
fn not_an_object(text: &str, cursor: &Cursor<'_>) -> Fault {
    if text.starts_with('\u{feff}') {
        return Fault::syntax(0, "an object from the first byte on").showing("a byte order mark");
    }
    cursor.mismatch("an object")
}
