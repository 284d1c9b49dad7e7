//! The loops under every column: fixed-width cells, null maps, and who is absent.

use connector_core::{
    Error, ErrorKind,
    arrow::{
        array::Array,
        buffer::{BooleanBuffer, NullBuffer},
        error::ArrowError,
    },
};

/// Rows that are converted in one go, which is also the number of bits in a word of a null buffer.
pub(super) const STEP: usize = 64;
/// The most characters of a value that an error shows.
const MAX_SHOWN: usize = 120;

/// A value of an array that the column cannot hold.
#[derive(Debug)]
pub(super) struct Bad {
    /// Where it is in the array.
    pub(super) index: usize,
    /// The value as text.
    pub(super) value: String,
    /// Why it cannot be held, with the limits.
    pub(super) reason: String,
}

/// What stops the encoding of a column.
#[derive(Debug)]
pub(super) enum Fault {
    Bad(Box<Bad>),
    Other(Error),
}

impl Fault {
    pub(super) fn bad(index: usize, value: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Bad(Box::new(Bad { index, value: value.into(), reason: reason.into() }))
    }

    /// Turns the index of an inner array into that of the array around it, and says which part was meant.
    pub(super) fn outward(
        self,
        index: impl FnOnce(usize) -> usize,
        part: impl FnOnce(usize) -> String,
    ) -> Self {
        match self {
            Self::Bad(mut bad) => {
                bad.reason = format!("{} ({})", bad.reason, part(bad.index));
                bad.index = index(bad.index);
                Self::Bad(bad)
            }
            other => other,
        }
    }
}

impl From<ArrowError> for Fault {
    fn from(error: ArrowError) -> Self {
        Self::Other(
            Error::new(ErrorKind::Unexpected, "cannot rearrange the values of a column").with_source(error),
        )
    }
}

pub(super) type Outcome = Result<(), Fault>;

/// Appends the data of one array.
///
/// The null buffer names the rows that are to hold the type's default whatever the array holds there: what lies under
/// a null is neither checked nor sent. It is `None` unless there is such a row.
pub(super) type Encode = Box<dyn Fn(&dyn Array, Option<&NullBuffer>, &mut Vec<u8>) -> Outcome + Send + Sync>;

/// A value in an error message: bytes that are not printable are escaped, long values are cut.
pub(super) fn shown(bytes: &[u8]) -> String {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.escape_debug().take(MAX_SHOWN + 1).collect::<String>(),
        Err(_) => bytes.escape_ascii().take(MAX_SHOWN + 1).map(char::from).collect(),
    };
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("\"{}…\" ({} bytes)", &text[..end], bytes.len()),
        None => format!("\"{text}\""),
    }
}

/// The union of two sets of absent rows; `None` when it is empty.
pub(super) fn union(a: Option<&NullBuffer>, b: Option<&NullBuffer>) -> Option<NullBuffer> {
    NullBuffer::union(a, b).filter(|nulls| nulls.null_count() > 0)
}

/// Words of a null buffer, bit 1 for a row that is present; endless, with all bits set, when nothing is absent.
struct Words<I>(Option<I>);

impl<I: Iterator<Item = u64>> Words<I> {
    fn next(&mut self) -> u64 {
        self.0.as_mut().map_or(u64::MAX, |words| words.next().unwrap_or(u64::MAX))
    }
}

fn words(absent: Option<&NullBuffer>) -> Words<impl Iterator<Item = u64>> {
    Words(absent.map(|nulls| padded(nulls.inner())))
}

/// The bits in words of 64; the last word is filled up with zeros.
fn padded(bits: &BooleanBuffer) -> impl Iterator<Item = u64> {
    let chunks = bits.bit_chunks();
    chunks.iter().chain(std::iter::once(chunks.remainder_bits()))
}

/// Converts up to [`STEP`] cells into `block`; gives the place of the first that cannot be converted.
#[inline(always)]
fn convert_step<T: Copy, const W: usize>(
    cells: &[T],
    present: u64,
    default: [u8; W],
    block: &mut [[u8; W]; STEP],
    convert: &mut impl FnMut(T) -> Option<[u8; W]>,
) -> Result<(), usize> {
    let mut good = true;
    if present == u64::MAX {
        for (slot, &cell) in block.iter_mut().zip(cells) {
            match convert(cell) {
                Some(bytes) => *slot = bytes,
                None => good = false,
            }
        }
    } else {
        for (i, (slot, &cell)) in block.iter_mut().zip(cells).enumerate() {
            if (present >> i) & 1 == 0 {
                *slot = default;
            } else if let Some(bytes) = convert(cell) {
                *slot = bytes;
            } else {
                good = false;
            }
        }
    }
    if good {
        return Ok(());
    }
    let bad =
        cells.iter().enumerate().position(|(i, &cell)| (present >> i) & 1 == 1 && convert(cell).is_none());
    Err(bad.unwrap_or(0))
}

/// Appends `W` bytes for each value. On failure says which value could not be converted.
#[inline]
pub(super) fn put_cells<T: Copy, const W: usize>(
    values: &[T],
    absent: Option<&NullBuffer>,
    default: [u8; W],
    out: &mut Vec<u8>,
    mut convert: impl FnMut(T) -> Option<[u8; W]>,
) -> Result<(), usize> {
    out.reserve(values.len() * W);
    let mut words = words(absent);
    let mut block = [default; STEP];
    for (step, cells) in values.chunks(STEP).enumerate() {
        convert_step(cells, words.next(), default, &mut block, &mut convert).map_err(|i| step * STEP + i)?;
        out.extend_from_slice(block[..cells.len()].as_flattened());
    }
    Ok(())
}

/// As [`put_cells`] for values that `fill` makes, a step at a time, from the place it is given.
#[inline]
fn put_filled<T: Copy + Default, const W: usize>(
    len: usize,
    fill: impl Fn(usize, &mut [T]),
    absent: Option<&NullBuffer>,
    default: [u8; W],
    out: &mut Vec<u8>,
    mut convert: impl FnMut(T) -> Option<[u8; W]>,
) -> Result<(), usize> {
    out.reserve(len * W);
    let mut words = words(absent);
    let mut block = [default; STEP];
    let mut values = [T::default(); STEP];
    for at in (0..len).step_by(STEP) {
        let cells = &mut values[..STEP.min(len - at)];
        fill(at, cells);
        convert_step(cells, words.next(), default, &mut block, &mut convert).map_err(|i| at + i)?;
        out.extend_from_slice(block[..cells.len()].as_flattened());
    }
    Ok(())
}

/// How the values of an array are read as numbers of one type.
#[derive(Clone, Copy)]
pub(super) enum Values<N> {
    /// As they lie in memory.
    Direct(fn(&dyn Array) -> &[N]),
    /// Converted, from a place on.
    Filled(fn(&dyn Array, usize, &mut [N])),
}

impl<N: Copy + Default> Values<N> {
    /// Appends `W` bytes for each value. On failure says which value could not be converted.
    #[inline]
    pub(super) fn put<const W: usize>(
        self,
        array: &dyn Array,
        absent: Option<&NullBuffer>,
        default: [u8; W],
        out: &mut Vec<u8>,
        convert: impl FnMut(N) -> Option<[u8; W]>,
    ) -> Result<(), usize> {
        match self {
            Self::Direct(values) => put_cells(values(array), absent, default, out, convert),
            Self::Filled(fill) => {
                put_filled(array.len(), |at, cells| fill(array, at, cells), absent, default, out, convert)
            }
        }
    }

    /// One value.
    pub(super) fn get(self, array: &dyn Array, index: usize) -> N {
        match self {
            Self::Direct(values) => values(array).get(index).copied().unwrap_or_default(),
            Self::Filled(fill) => {
                let mut value = [N::default()];
                fill(array, index, &mut value);
                value[0]
            }
        }
    }
}

/// The bits of each byte as eight bytes of 0 or 1.
const SPREAD: [[u8; 8]; 256] = {
    let mut table = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut bit = 0;
        while bit < 8 {
            table[byte][bit] = if (byte >> bit) & 1 == 1 { 1 } else { 0 };
            bit += 1;
        }
        byte += 1;
    }
    table
};

/// Appends one byte of 0 or 1 for each of `len` bits.
pub(super) fn put_bits(mut words: impl Iterator<Item = u64>, len: usize, out: &mut Vec<u8>) {
    out.reserve(len);
    for at in (0..len).step_by(STEP) {
        let word = words.next().unwrap_or(0).to_le_bytes();
        let block = word.map(|byte| SPREAD[usize::from(byte)]);
        out.extend_from_slice(&block.as_flattened()[..STEP.min(len - at)]);
    }
}

/// Appends the bits of a boolean array, 0 where the row is absent.
pub(super) fn put_booleans(values: &BooleanBuffer, absent: Option<&NullBuffer>, out: &mut Vec<u8>) {
    let mut words = words(absent);
    put_bits(padded(values).map(|bits| bits & words.next()), values.len(), out);
}

/// Appends the null map of a nullable column: 1 for null.
pub(super) fn put_null_map(absent: Option<&NullBuffer>, len: usize, out: &mut Vec<u8>) {
    match absent {
        None => out.resize(out.len() + len, 0),
        Some(nulls) => put_bits(padded(nulls.inner()).map(|word| !word), len, out),
    }
}

/// A column that may hold null: the null map, then the values.
pub(super) fn nullable(values: Encode) -> Encode {
    Box::new(move |array, absent, out| {
        let absent = union(array.logical_nulls().as_ref(), absent);
        put_null_map(absent.as_ref(), array.len(), out);
        values(array, absent.as_ref(), out)
    })
}

/// A column that must not hold null, or holds the default instead when `null_as_default`.
pub(super) fn required(values: Encode, null_as_default: bool) -> Encode {
    Box::new(move |array, absent, out| {
        let Some(nulls) = array.logical_nulls().filter(|nulls| nulls.null_count() > 0) else {
            return values(array, absent, out);
        };
        if null_as_default {
            return values(array, union(Some(&nulls), absent).as_ref(), out);
        }
        let expected = |i: usize| absent.is_none_or(|absent| absent.is_valid(i));
        match (0..nulls.len()).find(|&i| nulls.is_null(i) && expected(i)) {
            Some(i) => Err(Fault::bad(i, "null", "the column is not nullable")),
            None => values(array, absent, out),
        }
    })
}
