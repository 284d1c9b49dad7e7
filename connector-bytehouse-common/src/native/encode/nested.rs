//! Arrays, maps and tuples.

use connector_core::arrow::{
    array::{Array, ArrayRef, AsArray, GenericListArray, OffsetSizeTrait, UInt64Array},
    buffer::NullBuffer,
    compute::take,
    datatypes::{DataType, Fields},
};

use super::{
    super::types::{ChType, TupleElement},
    cells::{Encode, Fault, Outcome},
    plan::{Planner, Refused},
};

/// The encoder for an array, map or tuple; `None` when the types do not go together.
pub(super) fn plan(
    planner: &Planner<'_>,
    source: &DataType,
    target: &ChType,
) -> Result<Option<Encode>, Refused> {
    Ok(Some(match (source, target) {
        (
            DataType::List(field)
            | DataType::LargeList(field)
            | DataType::FixedSizeList(field, _)
            | DataType::ListView(field)
            | DataType::LargeListView(field)
            | DataType::Map(field, _),
            ChType::Array(element),
        ) => array(planner.plan(field.data_type(), element)?),
        (DataType::Map(field, _), ChType::Map(key, value)) => {
            let DataType::Struct(fields) = field.data_type() else { return Ok(None) };
            let element = |ty: &ChType| TupleElement { name: None, ty: ty.clone() };
            array(tuple(planner, fields, &[element(key), element(value)])?)
        }
        (DataType::Struct(fields), ChType::Tuple(elements)) => tuple(planner, fields, elements)?,
        _ => return Ok(None),
    }))
}

/// The elements of an array's rows, one behind the other, and where each row ends among them.
struct Flat {
    ends: Vec<u64>,
    elements: ArrayRef,
}

impl Flat {
    fn of(array: &dyn Array, absent: Option<&NullBuffer>) -> Result<Self, Fault> {
        match array.data_type() {
            DataType::List(_) => Self::of_list(array.as_list::<i32>(), absent),
            DataType::LargeList(_) => Self::of_list(array.as_list::<i64>(), absent),
            DataType::Map(..) => {
                let map = array.as_map();
                let entries: ArrayRef = std::sync::Arc::new(map.entries().clone());
                Self::of_offsets(map.value_offsets(), &entries, absent)
            }
            DataType::ListView(_) => {
                let list = array.as_list_view::<i32>();
                Self::of_views(list.value_offsets(), list.value_sizes(), list.values(), absent)
            }
            DataType::LargeListView(_) => {
                let list = array.as_list_view::<i64>();
                Self::of_views(list.value_offsets(), list.value_sizes(), list.values(), absent)
            }
            _ => {
                let list = array.as_fixed_size_list();
                let width = usize::try_from(list.value_length()).unwrap_or(0);
                let ranges = (0..list.len()).map(|row| row * width..(row + 1) * width);
                match absent {
                    Some(_) => Self::gather(ranges, list.values(), absent),
                    None => Ok(Self {
                        ends: ranges.map(|range| range.end as u64).collect(),
                        elements: ArrayRef::clone(list.values()),
                    }),
                }
            }
        }
    }

    fn of_list<O: OffsetSizeTrait>(
        list: &GenericListArray<O>,
        absent: Option<&NullBuffer>,
    ) -> Result<Self, Fault> {
        Self::of_offsets(list.value_offsets(), list.values(), absent)
    }

    fn of_offsets<O: OffsetSizeTrait>(
        offsets: &[O],
        values: &ArrayRef,
        absent: Option<&NullBuffer>,
    ) -> Result<Self, Fault> {
        let first = offsets.first().map_or(0, |offset| offset.as_usize());
        let last = offsets.last().map_or(0, |offset| offset.as_usize());
        // A null row may have elements; they are not the row's.
        let hidden = |absent: &NullBuffer| {
            absent.iter().zip(offsets.windows(2)).any(|(present, pair)| !present && pair[0] != pair[1])
        };
        if absent.is_some_and(hidden) {
            let ranges = offsets.windows(2).map(|pair| pair[0].as_usize()..pair[1].as_usize());
            return Self::gather(ranges, values, absent);
        }
        let ends = offsets.iter().skip(1).map(|offset| (offset.as_usize() - first) as u64).collect();
        Ok(Self { ends, elements: values.slice(first, last - first) })
    }

    fn of_views<O: OffsetSizeTrait>(
        offsets: &[O],
        sizes: &[O],
        values: &ArrayRef,
        absent: Option<&NullBuffer>,
    ) -> Result<Self, Fault> {
        let ranges = offsets.iter().zip(sizes).map(|(o, s)| o.as_usize()..o.as_usize() + s.as_usize());
        Self::gather(ranges, values, absent)
    }

    /// Copies the elements of the rows that are present.
    fn gather(
        ranges: impl Iterator<Item = std::ops::Range<usize>>,
        values: &ArrayRef,
        absent: Option<&NullBuffer>,
    ) -> Result<Self, Fault> {
        let mut ends = Vec::with_capacity(ranges.size_hint().0);
        let mut places = Vec::new();
        for (row, range) in ranges.enumerate() {
            if absent.is_none_or(|absent| absent.is_valid(row)) {
                places.extend(range.map(|place| place as u64));
            }
            ends.push(places.len() as u64);
        }
        Ok(Self { ends, elements: take(values, &UInt64Array::from(places), None)? })
    }

    /// The row of an element.
    fn row(&self, element: usize) -> usize {
        self.ends.partition_point(|end| *end <= element as u64)
    }

    /// The number of an element in its row, from 1.
    fn number(&self, element: usize) -> usize {
        let before = self.row(element).checked_sub(1).map_or(0, |row| self.ends[row]);
        element + 1 - usize::try_from(before).unwrap_or(0)
    }
}

/// The ends of the rows, then all elements.
fn array(element: Encode) -> Encode {
    Box::new(move |array, absent, out| -> Outcome {
        let flat = Flat::of(array, absent)?;
        out.reserve(flat.ends.len() * 8);
        for end in &flat.ends {
            out.extend_from_slice(&end.to_le_bytes());
        }
        // Without elements the wire holds nothing more, not even an empty dictionary.
        if flat.elements.is_empty() {
            return Ok(());
        }
        element(flat.elements.as_ref(), None, out).map_err(|fault| {
            fault.outward(|index| flat.row(index), |index| format!("element {}", flat.number(index)))
        })
    })
}

/// The elements one after the other; by name where the tuple has names, else by place.
fn tuple(planner: &Planner<'_>, fields: &Fields, elements: &[TupleElement]) -> Result<Encode, Refused> {
    if fields.len() != elements.len() {
        return Err(Refused::because(format!(
            "the source has {} fields, the tuple {} elements",
            fields.len(),
            elements.len()
        )));
    }
    let mut parts = Vec::with_capacity(elements.len());
    for (number, element) in elements.iter().enumerate() {
        let (place, label) = match &element.name {
            None => (number, (number + 1).to_string()),
            Some(name) => {
                let place = fields.iter().position(|field| field.name() == name);
                (
                    place.ok_or_else(|| Refused::because(format!("the source has no field `{name}`")))?,
                    name.clone(),
                )
            }
        };
        let encode = planner.plan(fields[place].data_type(), &element.ty).map_err(|e| e.within(&label))?;
        parts.push((place, label, encode));
    }
    let mut places: Vec<usize> = parts.iter().map(|(place, ..)| *place).collect();
    places.sort_unstable();
    places.dedup();
    if places.len() < fields.len() {
        return Err(Refused::because("the tuple has two elements of one name".into()));
    }
    Ok(Box::new(move |array, absent, out| {
        let columns = array.as_struct().columns();
        for (place, label, encode) in &parts {
            encode(columns[*place].as_ref(), absent, out)
                .map_err(|fault| fault.outward(|index| index, |_| format!("in `{label}`")))?;
        }
        Ok(())
    }))
}
