//! Values as they are.

use std::sync::Arc;

use connector_core::{
    Error, ErrorKind, Result, TableSchema,
    arrow::{
        array::{BinaryBuilder, RecordBatch},
        datatypes::{DataType, Field, Schema, SchemaRef},
    },
};

use super::json::{JsonError, JsonErrorKind, decoder::BATCH_BYTES, error::Fault};

/// Records whose value is one binary column; a record without a value is a null.
#[derive(Debug, Clone)]
pub struct Raw {
    table: TableSchema,
}

impl Default for Raw {
    /// The column is named `value`.
    fn default() -> Self {
        Self::column("value")
    }
}

impl Raw {
    /// Names the column.
    pub fn column(name: impl Into<String>) -> Self {
        let field = Field::new(name.into(), DataType::Binary, true);
        Self { table: TableSchema::new(Arc::new(Schema::new(vec![field]))) }
    }

    /// The one column.
    pub fn table_schema(&self) -> &TableSchema {
        &self.table
    }
}

/// Gathers values.
pub(super) struct RawDecoder {
    schema: SchemaRef,
    values: BinaryBuilder,
    rows: usize,
}

impl RawDecoder {
    pub(super) fn new(raw: &Raw) -> Self {
        Self { schema: Arc::clone(&raw.table.columns), values: BinaryBuilder::new(), rows: 0 }
    }

    pub(super) fn decode(&mut self, value: Option<&[u8]>) -> Result<(), JsonError> {
        let bytes = value.map_or(0, <[u8]>::len);
        if bytes > BATCH_BYTES - self.values.values_slice().len() {
            let fault = Fault::new(JsonErrorKind::BatchFull, 0, "at most 2 GiB of records in one batch");
            return Err(fault.showing("more").into_error(&[]));
        }
        self.values.append_option(value);
        self.rows += 1;
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.rows
    }

    pub(super) fn memory_size(&self) -> usize {
        self.values.values_slice().len() + self.rows * size_of::<i32>()
    }

    pub(super) fn finish(&mut self) -> Result<RecordBatch> {
        self.rows = 0;
        RecordBatch::try_new(Arc::clone(&self.schema), vec![Arc::new(self.values.finish())]).map_err(|e| {
            Error::new(ErrorKind::Unexpected, "cannot build a batch of values")
                .with_operation("kafka.decode")
                .with_source(e)
        })
    }
}

#[cfg(test)]
mod tests {
    use connector_core::arrow::array::{Array, AsArray};

    use super::*;

    #[test]
    fn values_come_as_they_are() {
        let mut decoder = RawDecoder::new(&Raw::column("body"));
        for value in [Some(&b"\x00\xFF"[..]), None, Some(b"")] {
            decoder.decode(value).unwrap();
        }
        assert_eq!(decoder.len(), 3);
        let batch = decoder.finish().unwrap();
        let column = batch.column_by_name("body").unwrap().as_binary::<i32>();
        assert_eq!((column.value(0), column.is_null(1), column.value(2)), (&b"\x00\xFF"[..], true, &b""[..]));
        assert!(!column.is_null(2), "an empty value is no null");
        assert_eq!(decoder.finish().unwrap().num_rows(), 0);
    }
}
