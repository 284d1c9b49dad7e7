//! Columns with a dictionary.

use connector_core::arrow::{
    array::{Array, AsArray, UInt64Array},
    compute::take,
};
use hashbrown::{HashMap, hash_map::Entry};

use super::{
    super::types::ChType,
    cells::{Encode, Fault, union},
    defaults::put_defaults,
};
/// Flags of a dictionary that comes with its column: it has keys of its own, and they are new.
const OWN_KEYS: u64 = 0x600;

/// What both kinds of source need to know about the dictionary.
pub(super) struct Dictionary {
    /// The type of the keys, which is never nullable.
    pub(super) key: ChType,
    /// Whether null is a value; its key is then the first.
    pub(super) nullable: bool,
}

impl Dictionary {
    pub(super) fn of(inner: &ChType) -> Self {
        match inner {
            ChType::Nullable(key) => Self { key: (**key).clone(), nullable: true },
            key => Self { key: key.clone(), nullable: false },
        }
    }

    /// The bytes of the key that stands for null or for an absent value.
    fn default_key(&self) -> Vec<u8> {
        let mut key = Vec::new();
        put_defaults(&self.key, 1, &mut key);
        key
    }
}

/// A dictionary from plain values, whose encoder gives the keys' bytes.
pub(super) fn from_values(dictionary: Dictionary, values: Encode) -> Encode {
    let default = dictionary.default_key();
    Box::new(move |array, absent, out| {
        if array.is_empty() {
            return Ok(());
        }
        let absent = union(array.logical_nulls().as_ref(), absent);
        let mut cells = Vec::new();
        values(array, absent.as_ref(), &mut cells)?;
        let mut keys = Vec::new();
        let mut count = 0;
        if dictionary.nullable {
            keys.extend_from_slice(&default);
            count = 1;
        }
        let mut known: HashMap<&[u8], u64> = HashMap::new();
        let mut indexes = Vec::with_capacity(array.len());
        let mut rest = cells.as_slice();
        for row in 0..array.len() {
            let (cell, behind) = rest.split_at(cell_length(rest, dictionary.key.width()).min(rest.len()));
            rest = behind;
            if dictionary.nullable && absent.as_ref().is_some_and(|absent| absent.is_null(row)) {
                indexes.push(0);
                continue;
            }
            indexes.push(match known.entry(cell) {
                Entry::Occupied(entry) => *entry.get(),
                Entry::Vacant(entry) => {
                    keys.extend_from_slice(cell);
                    count += 1;
                    *entry.insert(count - 1)
                }
            });
        }
        put(count, &keys, &indexes, out);
        Ok(())
    })
}

/// The length of the cell that comes first.
fn cell_length(cells: &[u8], width: Option<usize>) -> usize {
    if let Some(width) = width {
        return width;
    }
    let mut length = 0usize;
    for (i, byte) in cells.iter().enumerate().take(10) {
        length |= usize::from(byte & 0x7f) << (7 * i).min(63);
        if *byte < 0x80 {
            return length + i + 1;
        }
    }
    cells.len()
}

/// A dictionary from an Arrow dictionary; only keys that occur are sent and checked.
pub(super) fn from_dictionary(dictionary: Dictionary, values: Encode) -> Encode {
    let default = dictionary.default_key();
    Box::new(move |array, absent, out| {
        if array.is_empty() {
            return Ok(());
        }
        let source = array.as_any_dictionary();
        let absent = union(array.logical_nulls().as_ref(), absent);
        let places = if source.values().is_empty() { vec![0; array.len()] } else { source.normalized_keys() };
        let mut numbers: Vec<Option<u64>> = vec![None; source.values().len()];
        let mut used = Vec::new();
        let mut indexes = Vec::with_capacity(array.len());
        // The first key stands for null and for absent values, where there are any.
        let first = u64::from(dictionary.nullable || absent.is_some());
        for (row, place) in places.iter().enumerate() {
            if absent.as_ref().is_some_and(|absent| absent.is_null(row)) {
                indexes.push(0);
                continue;
            }
            let number = numbers[*place].get_or_insert_with(|| {
                used.push(*place as u64);
                used.len() as u64 - 1 + first
            });
            indexes.push(*number);
        }
        let mut keys = if first == 1 { default.clone() } else { Vec::new() };
        let used = UInt64Array::from(used);
        let wanted = take(source.values(), &used, None)?;
        values(wanted.as_ref(), None, &mut keys).map_err(|fault| {
            let row = |key: usize| indexes.iter().position(|index| *index == key as u64 + first).unwrap_or(0);
            if let Fault::Bad(mut bad) = fault {
                bad.index = row(bad.index);
                Fault::Bad(bad)
            } else {
                fault
            }
        })?;
        put(used.len() as u64 + first, &keys, &indexes, out);
        Ok(())
    })
}

/// Flags, number of keys, keys, number of rows, and the key's number for each row.
fn put(count: u64, keys: &[u8], indexes: &[u64], out: &mut Vec<u8>) {
    out.reserve(24 + keys.len() + indexes.len() * 4);
    let mut head = |width: u64| {
        out.extend_from_slice(&(OWN_KEYS | width).to_le_bytes());
        out.extend_from_slice(&count.to_le_bytes());
        out.extend_from_slice(keys);
        out.extend_from_slice(&(indexes.len() as u64).to_le_bytes());
    };
    match count {
        0..=0x100 => {
            head(0);
            out.extend(indexes.iter().map(|index| index.to_le_bytes()[0]));
        }
        0x101..=0x1_0000 => {
            head(1);
            indexes.iter().for_each(|index| out.extend_from_slice(&index.to_le_bytes()[..2]));
        }
        0x1_0001..=0x1_0000_0000 => {
            head(2);
            indexes.iter().for_each(|index| out.extend_from_slice(&index.to_le_bytes()[..4]));
        }
        _ => {
            head(3);
            indexes.iter().for_each(|index| out.extend_from_slice(&index.to_le_bytes()));
        }
    }
}
