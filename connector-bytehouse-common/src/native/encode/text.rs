//! Texts and bytes, and what is read out of them: enums, UUIDs, addresses.

use std::net::{Ipv4Addr, Ipv6Addr};

use connector_core::arrow::{
    array::{
        Array, AsArray, BinaryViewArray, FixedSizeBinaryArray, GenericByteArray, OffsetSizeTrait,
        StringViewArray,
    },
    buffer::NullBuffer,
    datatypes::{ByteArrayType, DataType},
};
use hashbrown::HashMap;
use serde::de::IgnoredAny;
use uuid::Uuid;

use super::{
    super::types::{ChType, EnumValues},
    cells::{Encode, Fault, shown},
};
use crate::wire::io::put_varuint;

/// The encoder for texts and bytes; `None` when the types do not go together.
pub(super) fn plan(source: &DataType, target: &ChType) -> Option<Encode> {
    let is_text = matches!(source, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let is_bytes = matches!(source, DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
    let width =
        if let DataType::FixedSizeBinary(width) = source { usize::try_from(*width).ok() } else { None };
    if !is_text && !is_bytes && width.is_none() {
        return None;
    }
    let holds = |bytes: usize| is_bytes || width == Some(bytes);
    Some(match target {
        ChType::String => strings(b""),
        ChType::Json | ChType::Object if is_text => json(*target == ChType::Json),
        ChType::FixedString(length) => fixed_string(*length),
        ChType::Uuid if is_text => parsed(parse_uuid, "it is not a UUID"),
        ChType::Uuid if holds(16) => {
            parsed(|bytes| bytes.try_into().ok().map(uuid_bytes), "a UUID has 16 bytes")
        }
        ChType::IPv4 if is_text => parsed(parse_ipv4, "it is not an IPv4 address"),
        ChType::IPv4 if holds(4) => parsed(
            |bytes| <[u8; 4]>::try_from(bytes).ok().map(|octets| u32::from_be_bytes(octets).to_le_bytes()),
            "an IPv4 address has 4 bytes",
        ),
        ChType::IPv6 if is_text => parsed(parse_ipv6, "it is not an IPv6 address"),
        ChType::IPv6 if holds(16) => {
            parsed::<16>(|bytes| bytes.try_into().ok(), "an IPv6 address has 16 bytes")
        }
        ChType::Enum8(values) if is_text => {
            enum_names(values, |n| i8::try_from(n).ok().map(i8::to_le_bytes))?
        }
        ChType::Enum16(values) if is_text => enum_names(values, |n| Some(n.to_le_bytes()))?,
        // The form in which such columns are read, as Arrow has no number of this width.
        ChType::Int256 | ChType::UInt256 if width == Some(32) => {
            parsed::<32>(|bytes| bytes.try_into().ok(), "the type has 32 bytes")
        }
        _ => return None,
    })
}

/// Runs `$body` with `$cells` as a [`Cells`] over the array.
macro_rules! with_cells {
    ($array:expr, $cells:ident => $body:expr) => {{
        let array: &dyn Array = $array;
        match array.data_type() {
            DataType::Utf8 => {
                let $cells = &Ranges::of(array.as_string::<i32>());
                $body
            }
            DataType::LargeUtf8 => {
                let $cells = &Ranges::of(array.as_string::<i64>());
                $body
            }
            DataType::Binary => {
                let $cells = &Ranges::of(array.as_binary::<i32>());
                $body
            }
            DataType::LargeBinary => {
                let $cells = &Ranges::of(array.as_binary::<i64>());
                $body
            }
            DataType::Utf8View => {
                let $cells = array.as_string_view();
                $body
            }
            DataType::BinaryView => {
                let $cells = array.as_binary_view();
                $body
            }
            _ => {
                let $cells = array.as_fixed_size_binary();
                $body
            }
        }
    }};
}

/// Byte strings by number.
trait Cells {
    fn cell(&self, index: usize) -> &[u8];
    /// The bytes of all cells together.
    fn total(&self) -> usize;

    /// Appends all cells with their lengths; `default` where the row is absent.
    fn put_all(&self, len: usize, absent: Option<&NullBuffer>, default: &[u8], out: &mut Vec<u8>) {
        match absent {
            None => (0..len).for_each(|index| put_bytes(self.cell(index), out)),
            Some(absent) => {
                for (index, present) in absent.iter().enumerate() {
                    put_bytes(if present { self.cell(index) } else { default }, out);
                }
            }
        }
    }
}

/// Byte strings that lie one behind the other.
struct Ranges<'a, O> {
    offsets: &'a [O],
    data: &'a [u8],
}

impl<'a, O: OffsetSizeTrait> Ranges<'a, O> {
    fn of<T: ByteArrayType<Offset = O>>(array: &'a GenericByteArray<T>) -> Self {
        Self { offsets: array.value_offsets(), data: array.value_data() }
    }
}

impl<O: OffsetSizeTrait> Cells for Ranges<'_, O> {
    #[inline(always)]
    fn cell(&self, index: usize) -> &[u8] {
        &self.data[self.offsets[index].as_usize()..self.offsets[index + 1].as_usize()]
    }

    fn total(&self) -> usize {
        match (self.offsets.first(), self.offsets.last()) {
            (Some(first), Some(last)) => last.as_usize() - first.as_usize(),
            _ => 0,
        }
    }

    fn put_all(&self, _len: usize, absent: Option<&NullBuffer>, default: &[u8], out: &mut Vec<u8>) {
        let ranges = self.offsets.windows(2).map(|pair| pair[0].as_usize()..pair[1].as_usize());
        match absent {
            None => ranges.for_each(|range| put_range(self.data, range, out)),
            Some(absent) => {
                for (range, present) in ranges.zip(absent) {
                    if present { put_range(self.data, range, out) } else { put_bytes(default, out) }
                }
            }
        }
    }
}

/// Copying a fixed number of bytes is several times as fast as copying a few of them: what is too much is cut off.
const SHORT: usize = 32;

#[inline(always)]
fn put_range(data: &[u8], range: std::ops::Range<usize>, out: &mut Vec<u8>) {
    let length = range.len();
    if let (..=SHORT, Some(chunk)) = (length, data[range.start..].first_chunk::<SHORT>()) {
        let mut text = [0; SHORT + 1];
        text[0] = length.to_le_bytes()[0];
        text[1..].copy_from_slice(chunk);
        out.extend_from_slice(&text);
        out.truncate(out.len() - (SHORT - length));
    } else {
        put_bytes(&data[range], out);
    }
}

impl Cells for StringViewArray {
    #[inline(always)]
    fn cell(&self, index: usize) -> &[u8] {
        self.value(index).as_bytes()
    }

    fn total(&self) -> usize {
        self.total_bytes_len()
    }
}

impl Cells for BinaryViewArray {
    #[inline(always)]
    fn cell(&self, index: usize) -> &[u8] {
        self.value(index)
    }

    fn total(&self) -> usize {
        self.total_bytes_len()
    }
}

impl Cells for FixedSizeBinaryArray {
    #[inline(always)]
    fn cell(&self, index: usize) -> &[u8] {
        self.value(index)
    }

    fn total(&self) -> usize {
        self.len() * self.value_size()
    }
}

/// What stands where there is no JSON: servers parse it even under a null.
pub(super) const EMPTY_JSON: &[u8] = b"{}";

fn strings(default: &'static [u8]) -> Encode {
    Box::new(move |array, absent, out| {
        with_cells!(array, cells => {
            let total = cells.total();
            // Each length takes one byte, and one more for every 128 bytes at most.
            out.reserve(total + total / 128 + array.len() + SHORT);
            cells.put_all(array.len(), absent, default, out);
        });
        Ok(())
    })
}

/// JSON texts. What is no JSON is found here: a server would refuse the whole block without naming the row.
fn json(objects_only: bool) -> Encode {
    let put = strings(EMPTY_JSON);
    Box::new(move |array, absent, out| {
        with_cells!(array, cells => {
            for index in (0..array.len()).filter(|row| absent.is_none_or(|absent| absent.is_valid(*row))) {
                let cell = cells.cell(index);
                if let Err(error) = serde_json::from_slice::<IgnoredAny>(cell) {
                    return Err(Fault::bad(index, shown(cell), format!("it is not JSON: {error}")));
                }
                if objects_only && cell.trim_ascii_start().first() != Some(&b'{') {
                    return Err(Fault::bad(index, shown(cell), "the type holds JSON objects"));
                }
            }
        });
        put(array, absent, out)
    })
}

#[inline(always)]
fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    match u8::try_from(bytes.len()) {
        Ok(length @ ..0x80) => out.push(length),
        _ => put_varuint(out, bytes.len() as u64),
    }
    out.extend_from_slice(bytes);
}

/// Bytes padded with zero bytes.
fn fixed_string(width: usize) -> Encode {
    Box::new(move |array, absent, out| {
        out.reserve(array.len().saturating_mul(width));
        with_cells!(array, cells => {
            for index in 0..array.len() {
                let end = out.len() + width;
                if absent.is_none_or(|absent| absent.is_valid(index)) {
                    let cell = cells.cell(index);
                    if cell.len() > width {
                        let reason = format!("it has {} bytes, the type holds at most {width}", cell.len());
                        return Err(Fault::bad(index, shown(cell), reason));
                    }
                    out.extend_from_slice(cell);
                }
                out.resize(end, 0);
            }
        });
        Ok(())
    })
}

/// Values of a fixed width that are read out of a text or byte string.
fn parsed<const W: usize>(parse: fn(&[u8]) -> Option<[u8; W]>, reason: &'static str) -> Encode {
    Box::new(move |array, absent, out| {
        out.reserve(array.len() * W);
        with_cells!(array, cells => {
            for index in 0..array.len() {
                if absent.is_some_and(|absent| absent.is_null(index)) {
                    out.extend_from_slice(&[0; W]);
                    continue;
                }
                let cell = cells.cell(index);
                let bytes = parse(cell).ok_or_else(|| Fault::bad(index, shown(cell), reason))?;
                out.extend_from_slice(&bytes);
            }
        });
        Ok(())
    })
}

/// A UUID's wire form: two halves, each with its last byte first.
pub(in crate::native) fn uuid_bytes(mut bytes: [u8; 16]) -> [u8; 16] {
    bytes[..8].reverse();
    bytes[8..].reverse();
    bytes
}

fn parse_uuid(text: &[u8]) -> Option<[u8; 16]> {
    Uuid::try_parse_ascii(text).ok().map(|uuid| uuid_bytes(uuid.into_bytes()))
}

fn parse_ipv4(text: &[u8]) -> Option<[u8; 4]> {
    let address: Ipv4Addr = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some(u32::from(address).to_le_bytes())
}

fn parse_ipv6(text: &[u8]) -> Option<[u8; 16]> {
    let text = std::str::from_utf8(text).ok()?;
    let address = text.parse().or_else(|_| text.parse().map(|v4: Ipv4Addr| v4.to_ipv6_mapped()));
    address.ok().map(|address: Ipv6Addr| address.octets())
}

/// The numbers of an enum's names.
fn enum_names<const W: usize>(values: &EnumValues, bytes: fn(i16) -> Option<[u8; W]>) -> Option<Encode> {
    let default = bytes(values.smallest())?;
    let numbers: HashMap<Vec<u8>, [u8; W]> = values
        .iter()
        .map(|(name, number)| Some((name.as_bytes().to_vec(), bytes(number)?)))
        .collect::<Option<_>>()?;
    Some(Box::new(move |array, absent, out| {
        out.reserve(array.len() * W);
        with_cells!(array, cells => {
            for index in 0..array.len() {
                if absent.is_some_and(|absent| absent.is_null(index)) {
                    out.extend_from_slice(&default);
                    continue;
                }
                let cell = cells.cell(index);
                let number = numbers
                    .get(cell)
                    .ok_or_else(|| Fault::bad(index, shown(cell), "the name is not listed in the enum"))?;
                out.extend_from_slice(number);
            }
        });
        Ok(())
    }))
}
