//! Arrays, maps, tuples and columns with a dictionary.

use std::sync::Arc;

use connector_core::{
    Error, ErrorKind, Result,
    arrow::{
        array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray, UInt32Array},
        buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer},
        compute::{concat, take},
        datatypes::{DataType, Field},
    },
};

use super::{
    super::{
        arrow_types::{element_fields, entry_fields, list_item},
        types::{ChType, TupleElement},
    },
    input::{Input, broken_column},
    read_nested,
};
use crate::wire::io::ByteSource;

fn nonsense(message: String) -> Error {
    Error::new(ErrorKind::Unexpected, message)
}

/// Where each row ends among the elements.
async fn read_offsets<S: ByteSource>(input: &mut Input<'_, S>, rows: usize) -> Result<OffsetBuffer<i32>> {
    let ends = input.read_values(rows, 8).await?;
    input.charge_values(rows, 4)?;
    let mut offsets = Vec::with_capacity(rows + 1);
    let mut last = 0i32;
    offsets.push(last);
    for end in ends.typed_data::<u64>() {
        match i32::try_from(*end) {
            Ok(end) if end >= last => last = end,
            _ => {
                return Err(nonsense(format!("an array ends at element {end}, the one before it at {last}")));
            }
        }
        offsets.push(last);
    }
    Ok(OffsetBuffer::new(ScalarBuffer::from(offsets)))
}

fn element_count(offsets: &OffsetBuffer<i32>) -> usize {
    offsets.last().and_then(|last| usize::try_from(*last).ok()).unwrap_or(0)
}

pub(super) async fn read_list<S: ByteSource>(
    input: &mut Input<'_, S>,
    element: &ChType,
    rows: usize,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let field = list_item(element, input.options.strings_as_binary)?;
    let offsets = read_offsets(input, rows).await?;
    input.depth += 1;
    let elements = read_nested(input, element, element_count(&offsets), None).await?;
    input.depth -= 1;
    Ok(Arc::new(ListArray::try_new(Arc::new(field), offsets, elements, nulls).map_err(broken_column)?))
}

pub(super) async fn read_map<S: ByteSource>(
    input: &mut Input<'_, S>,
    key: &ChType,
    value: &ChType,
    rows: usize,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let fields = entry_fields(key, value, input.options.strings_as_binary)?;
    let offsets = read_offsets(input, rows).await?;
    let count = element_count(&offsets);
    input.depth += 1;
    let keys = read_nested(input, key, count, None).await?;
    let values = read_nested(input, value, count, None).await?;
    input.depth -= 1;
    let entries = StructArray::try_new(fields.clone(), vec![keys, values], None).map_err(broken_column)?;
    let field = Arc::new(Field::new("entries", DataType::Struct(fields), false));
    Ok(Arc::new(MapArray::try_new(field, offsets, entries, nulls, false).map_err(broken_column)?))
}

pub(super) async fn read_tuple<S: ByteSource>(
    input: &mut Input<'_, S>,
    elements: &[TupleElement],
    rows: usize,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let fields = element_fields(elements, input.options.strings_as_binary)?;
    let mut columns = Vec::with_capacity(elements.len());
    for element in elements {
        columns.push(read_nested(input, &element.ty, rows, None).await?);
    }
    Ok(Arc::new(StructArray::try_new(fields, columns, nulls).map_err(broken_column)?))
}

/// Reads a column with a dictionary as plain values.
pub(super) async fn read_low_cardinality<S: ByteSource>(
    input: &mut Input<'_, S>,
    inner: &ChType,
    rows: usize,
) -> Result<ArrayRef> {
    let (key, nullable) = match inner {
        ChType::Nullable(key) => (key.as_ref(), true),
        key => (key, false),
    };
    if rows == 0 {
        return read_nested(input, key, 0, None).await;
    }
    let mut parts = Vec::new();
    let mut done = 0;
    while done < rows {
        let flags = input.read_u64().await?;
        let width = match flags & 0xff {
            width @ 0..=3 => 1usize << width,
            other => return Err(nonsense(format!("a dictionary has indexes of an unknown width ({other})"))),
        };
        // A dictionary shared between blocks never goes over the wire.
        if flags & 0x100 != 0 || flags & 0x200 == 0 {
            return Err(nonsense(format!("a dictionary has the flags {flags:#x}, which make no sense here")));
        }
        let count = input.read_u64().await?;
        let count = usize::try_from(count).map_err(|_| nonsense(format!("a dictionary has {count} keys")))?;
        let keys = read_nested(input, key, count, None).await?;
        let here = input.read_u64().await?;
        let here = usize::try_from(here)
            .ok()
            .filter(|here| (1..=rows - done).contains(here))
            .ok_or_else(|| nonsense(format!("a dictionary stands for {here} of {} rows", rows - done)))?;
        let indexes = input.read_values(here, width).await?;
        parts.push(look_up(input, &keys, &indexes, width, nullable)?);
        done += here;
    }
    if parts.len() == 1 {
        return parts.pop().ok_or_else(|| nonsense("a dictionary is missing".into()));
    }
    let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
    concat(&parts).map_err(broken_column)
}

/// The values of a dictionary's keys.
fn look_up<S: ByteSource>(
    input: &mut Input<'_, S>,
    keys: &ArrayRef,
    indexes: &Buffer,
    width: usize,
    nullable: bool,
) -> Result<ArrayRef> {
    let mut places = Vec::with_capacity(indexes.len() / width);
    for index in indexes.chunks_exact(width) {
        let mut bytes = [0; 8];
        bytes[..width].copy_from_slice(index);
        let index = u64::from_le_bytes(bytes);
        let place = u32::try_from(index).ok().filter(|place| (*place as usize) < keys.len());
        places.push(place.ok_or_else(|| nonsense(format!("key {index} of a dictionary of {}", keys.len())))?);
    }
    // Few bytes on the wire may stand for many values.
    let bytes: usize = match keys.data_type() {
        DataType::Utf8 => {
            let lengths = keys.as_string::<i32>().offsets();
            total_length(lengths, &places)
        }
        DataType::Binary => total_length(keys.as_binary::<i32>().offsets(), &places),
        DataType::FixedSizeBinary(width) => places.len().saturating_mul(usize::try_from(*width).unwrap_or(0)),
        other => places.len().saturating_mul(other.primitive_width().unwrap_or(1)),
    };
    input.charge_values(places.len(), 4)?;
    input.charge(bytes)?;
    if i32::try_from(bytes).is_err() {
        return Err(nonsense("the server sent more than 2 GiB of text in one column".into()));
    }
    let nulls = nullable.then(|| NullBuffer::from_iter(places.iter().map(|place| *place != 0)));
    let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
    take(keys, &UInt32Array::new(places.into(), nulls), None).map_err(broken_column)
}

fn total_length(offsets: &OffsetBuffer<i32>, places: &[u32]) -> usize {
    let length = |place: &u32| {
        let place = *place as usize;
        usize::try_from(offsets[place + 1] - offsets[place]).unwrap_or(0)
    };
    places.iter().map(length).fold(0, usize::saturating_add)
}
