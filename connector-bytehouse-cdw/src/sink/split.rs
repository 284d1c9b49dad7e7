//! An INSERT that the server cannot take whole, in parts that it can.

use connector_bytehouse_common::error::{Retry, code_rule};
use connector_core::{
    Error, ErrorKind, Result,
    arrow::{
        array::{ArrayRef, AsArray, BooleanArray, RecordBatch, UInt32Array},
        buffer::NullBuffer,
        compute::{concat_batches, take, take_record_batch},
        error::ArrowError,
        row::{RowConverter, Rows, SortField},
    },
};

use super::insert::{Block, Parcel};

/// What may make a refused INSERT pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Split {
    /// Parts that touch fewer partitions; this many at most, where the server said so.
    Partitions(Option<usize>),
    /// Two halves.
    Halves,
}

impl Split {
    /// What helps after this error of the server.
    pub(super) fn after(error: &Error) -> Option<Self> {
        let rule = code_rule(error)?;
        match rule.retry {
            Retry::HalveBatch => Some(Self::Halves),
            // The other meaning of the code, too many parts, is no final one.
            Retry::Final if rule.code == 252 => Some(Self::Partitions(limit_in(error.message()))),
            _ => None,
        }
    }
}

/// The number in "Too many partitions for single INSERT block (more than 100)".
fn limit_in(text: &str) -> Option<usize> {
    let (_, behind) = text.split_once("more than ")?;
    let end = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
    behind[..end].parse().ok().filter(|limit| *limit > 0)
}

/// The parcel in parts; `None` when it is one row.
pub(super) fn split(parcel: &Parcel, how: Split) -> Result<Option<Vec<Parcel>>> {
    let rows = parcel.num_rows();
    if rows < 2 {
        return Ok(None);
    }
    let parts = match how {
        Split::Halves => {
            vec![blocks_of(parcel.blocks(), 0, rows / 2), blocks_of(parcel.blocks(), rows / 2, rows)]
        }
        Split::Partitions(limit) => by_partition(parcel, limit)?,
    };
    Ok(Some(parts.into_iter().enumerate().map(|(number, blocks)| parcel.part(blocks, number)).collect()))
}

/// The rows from `start` to `end` over all blocks.
fn blocks_of(blocks: &[Block], start: usize, end: usize) -> Vec<Block> {
    let mut out = Vec::new();
    let mut at = 0;
    for block in blocks {
        let rows = block.rows.num_rows();
        let (from, to) = (start.max(at), end.min(at + rows));
        if from < to {
            out.push(block.slice(from - at, to - from));
        }
        at += rows;
    }
    out
}

fn by_partition(parcel: &Parcel, limit: Option<usize>) -> Result<Vec<Vec<Block>>> {
    let rows = parcel.num_rows();
    let (columns, layout) = (&parcel.route.columns, &parcel.route.target.layout);
    let halves = |blocks: &[Block]| vec![blocks_of(blocks, 0, rows / 2), blocks_of(blocks, rows / 2, rows)];
    // Rows of one key may stand there twice where an expression decides about their partition: their order counts.
    let ordered = columns.identity.is_some() && !layout.plain_partition;
    if columns.partition.is_empty() || ordered {
        return Ok(halves(parcel.blocks()));
    }
    let block = joined(parcel.blocks())?;
    let places = partition_values(&block.rows, &columns.partition)?;
    let mut order: Vec<u32> = (0..u32::try_from(rows).map_err(too_many)?).collect();
    order.sort_by(|left, right| places.row(*left as usize).cmp(&places.row(*right as usize)));
    let changes = |at: &usize| places.row(order[*at] as usize) != places.row(order[*at - 1] as usize);
    let starts: Vec<usize> = (1..rows).filter(changes).collect();
    let sorted = rearranged(&block, order.clone())?;
    let Some(limit) =
        limit.filter(|_| layout.plain_partition && starts.len() + 1 > limit.unwrap_or(usize::MAX))
    else {
        return Ok(halves(&[sorted]));
    };
    let mut cuts = vec![0];
    cuts.extend(starts.iter().skip(limit - 1).step_by(limit));
    cuts.push(rows);
    Ok(cuts.windows(2).map(|cut| vec![sorted.slice(cut[0], cut[1] - cut[0])]).collect())
}

fn joined(blocks: &[Block]) -> Result<Block> {
    let [first, ..] = blocks else { return Err(Error::new(ErrorKind::Unexpected, "no rows to split")) };
    let rows =
        concat_batches(&first.rows.schema(), blocks.iter().map(|block| &block.rows)).map_err(failed)?;
    let whole = blocks.iter().any(|block| block.whole.is_some()).then(|| {
        let bits = blocks.iter().flat_map(|block| {
            (0..block.rows.num_rows()).map(|row| block.whole.as_ref().is_none_or(|whole| whole.is_valid(row)))
        });
        bits.collect::<NullBuffer>()
    });
    Ok(Block { rows, whole })
}

fn rearranged(block: &Block, order: Vec<u32>) -> Result<Block> {
    let order = UInt32Array::from(order);
    let whole = block.whole.as_ref().map(|whole| {
        let bits = take(&BooleanArray::new(whole.inner().clone(), None), &order, None).map_err(failed)?;
        Ok::<_, Error>(NullBuffer::new(bits.as_boolean().values().clone()))
    });
    Ok(Block { rows: take_record_batch(&block.rows, &order).map_err(failed)?, whole: whole.transpose()? })
}

/// What decides about each row's partition, as comparable bytes.
fn partition_values(rows: &RecordBatch, columns: &[String]) -> Result<Rows> {
    let columns: Vec<ArrayRef> =
        columns.iter().filter_map(|name| rows.column_by_name(name)).cloned().collect();
    let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
    RowConverter::new(fields).and_then(|converter| converter.convert_columns(&columns)).map_err(failed)
}

fn failed(error: ArrowError) -> Error {
    Error::new(ErrorKind::Unexpected, "cannot split the rows of an INSERT").with_source(error)
}

fn too_many(_: std::num::TryFromIntError) -> Error {
    Error::new(ErrorKind::Unsupported, "more than 4 billion rows in one flush; flush more often")
}
