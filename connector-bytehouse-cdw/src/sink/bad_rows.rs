//! Rows that their table cannot hold: parted from the others, or made to fit where an option says so.

use std::collections::HashMap;

use connector_bytehouse_common::native::BlockEncoder;
use connector_core::{
    BadRecordPolicy, Error, ErrorKind, Result,
    arrow::{
        array::{ArrayRef, AsArray, BooleanArray, RecordBatch},
        buffer::NullBuffer,
        compute::{filter, filter_record_batch, not, nullif},
        datatypes::{Field, Schema},
        error::ArrowError,
    },
    sink::RejectedRows,
};

use super::insert::{Block, Route};

/// Takes the rows that the table cannot hold out of `block`.
pub(super) fn reject(
    encoder: &BlockEncoder,
    block: &mut Block,
    route: &Route,
    policy: BadRecordPolicy,
) -> Result<RejectedRows> {
    let cells = encoder.check_rows(&block.rows, block.whole.as_ref());
    let mut keep = vec![true; block.rows.num_rows()];
    let mut reasons = Vec::with_capacity(cells.len());
    for cell in &cells {
        if std::mem::replace(&mut keep[cell.row], false) {
            reasons.push(cell.to_string());
        }
    }
    let keep = BooleanArray::from(keep);
    let rows = filter_record_batch(&block.rows, &not(&keep).map_err(failed)?).map_err(failed)?;
    if let Some(whole) = &block.whole {
        let kept = filter(&BooleanArray::new(whole.inner().clone(), None), &keep).map_err(failed)?;
        block.whole = Some(NullBuffer::new(kept.as_boolean().values().clone()));
    }
    block.rows = filter_record_batch(&block.rows, &keep).map_err(failed)?;
    let dead_letter = policy == BadRecordPolicy::DeadLetter;
    Ok(RejectedRows { table: route.target.table.clone(), rows, reasons, dead_letter })
}

/// Sets what a nullable column cannot hold to null. What a column that is not nullable cannot hold stays.
pub(super) fn null_cells(encoder: &BlockEncoder, block: &mut Block) -> Result<()> {
    // Each look finds the first bad cell of a row.
    for _ in 0..encoder.columns().len() {
        let mut bad: HashMap<String, Vec<usize>> = HashMap::new();
        for cell in encoder.check_rows(&block.rows, block.whole.as_ref()) {
            let nullable =
                encoder.columns().iter().any(|column| column.name == cell.column && column.ty.is_nullable());
            if nullable {
                bad.entry(cell.column).or_default().push(cell.row);
            }
        }
        if bad.is_empty() {
            break;
        }
        block.rows = without(&block.rows, &bad)?;
    }
    Ok(())
}

/// The rows with null in these cells.
fn without(rows: &RecordBatch, bad: &HashMap<String, Vec<usize>>) -> Result<RecordBatch> {
    let mut fields: Vec<Field> = Vec::with_capacity(rows.num_columns());
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(rows.num_columns());
    for (field, column) in rows.schema().fields().iter().zip(rows.columns()) {
        let Some(places) = bad.get(field.name()) else {
            fields.push(field.as_ref().clone());
            columns.push(ArrayRef::clone(column));
            continue;
        };
        let mut mask = vec![false; rows.num_rows()];
        places.iter().for_each(|row| mask[*row] = true);
        metrics::counter!(crate::metrics::VALUES_NULLED, "column" => field.name().clone())
            .increment(places.len() as u64);
        fields.push(field.as_ref().clone().with_nullable(true));
        columns.push(nullif(column, &BooleanArray::from(mask)).map_err(failed)?);
    }
    RecordBatch::try_new(std::sync::Arc::new(Schema::new(fields)), columns).map_err(failed)
}

fn failed(error: ArrowError) -> Error {
    Error::new(ErrorKind::Unexpected, "cannot part good rows from bad ones").with_source(error)
}
