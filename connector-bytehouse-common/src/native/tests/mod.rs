//! Tests of the codec as a whole.

mod generate;
mod hostile;
mod literal;
mod round_trip;
mod sources;
mod times;
mod types;

use std::sync::Arc;

use connector_core::{
    Result,
    arrow::{
        array::{Array, ArrayRef, RecordBatch},
        datatypes::{Field, Schema},
    },
};

use super::{Block, BlockEncoder, ColumnDef, EncodeError, EncodeRules, ReadOptions, read_block};
use crate::wire::io::{ByteSource, SliceSource};

/// A batch with these columns, all of them nullable.
fn batch(columns: &[(&str, ArrayRef)]) -> RecordBatch {
    let field = |(name, array): &(&str, ArrayRef)| Field::new(*name, array.data_type().clone(), true);
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), columns.iter().map(|(_, array)| Arc::clone(array)).collect())
        .unwrap()
}

fn encoder(batch: &RecordBatch, types: &[&str], rules: &EncodeRules) -> Result<BlockEncoder> {
    let schema = batch.schema();
    let columns: Vec<ColumnDef> = schema
        .fields()
        .iter()
        .zip(types)
        .map(|(field, ty)| ColumnDef::parse(field.name(), *ty).unwrap())
        .collect();
    BlockEncoder::new(&schema, &columns, rules)
}

/// One column, called `c`, as a block.
fn encode_one(array: ArrayRef, ty: &str, rules: &EncodeRules) -> Result<Vec<u8>, EncodeError> {
    let batch = batch(&[("c", array)]);
    let mut out = Vec::new();
    encoder(&batch, &[ty], rules).map_err(EncodeError::Other)?.encode(&batch, &mut out)?;
    Ok(out)
}

/// The data of one column without what stands before it.
fn data_of(array: impl Array + 'static, ty: &str) -> Vec<u8> {
    data_with(Arc::new(array), ty, &EncodeRules::default())
}

fn data_with(array: ArrayRef, ty: &str, rules: &EncodeRules) -> Vec<u8> {
    let rows = u8::try_from(array.len()).unwrap();
    let block = encode_one(array, ty, rules).unwrap();
    let mut head = vec![1, rows, 1, b'c', u8::try_from(ty.len()).unwrap()];
    head.extend_from_slice(ty.as_bytes());
    block.strip_prefix(head.as_slice()).unwrap().to_vec()
}

/// What is wrong with the only bad cell: its row, value and reason.
fn refused(array: impl Array + 'static, ty: &str, rules: &EncodeRules) -> (usize, String, String) {
    match encode_one(Arc::new(array), ty, rules) {
        Err(EncodeError::BadCell(cell)) => {
            assert_eq!((cell.column.as_str(), cell.type_text.as_str()), ("c", ty));
            (cell.row, cell.value, cell.reason)
        }
        other => panic!("expected a bad cell, got {other:?}"),
    }
}

fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn read(bytes: &[u8], options: &ReadOptions) -> Result<Block> {
    let mut source = SliceSource(bytes);
    let block = run(read_block(&mut source, options))?;
    assert!(source.0.is_empty(), "{} bytes are left", source.0.len());
    Ok(block)
}

/// Reads the only column of a block.
fn read_one(bytes: &[u8]) -> ArrayRef {
    Arc::clone(read(bytes, &ReadOptions::default()).unwrap().rows.column(0))
}

/// A source that hands out its bytes a few at a time.
struct Drip<'a> {
    bytes: &'a [u8],
    here: usize,
    step: usize,
}

impl ByteSource for Drip<'_> {
    fn buffered(&self) -> &[u8] {
        &self.bytes[..self.here]
    }

    fn consume(&mut self, count: usize) {
        self.bytes = &self.bytes[count..];
        self.here -= count;
    }

    async fn fill(&mut self) -> Result<()> {
        if self.here == self.bytes.len() {
            return SliceSource(&[]).fill().await;
        }
        self.here = self.bytes.len().min(self.here + self.step);
        Ok(())
    }
}
