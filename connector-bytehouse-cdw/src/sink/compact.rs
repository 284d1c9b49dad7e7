//! What a unique table would be left with anyway, sent once: the last row of each key.

use connector_core::{
    ChangeBatch, Error, ErrorKind, Result, RowKind, RowKinds,
    arrow::{
        array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array},
        buffer::NullBuffer,
        compute::{cast, concat, concat_batches, take_record_batch},
        datatypes::{DataType, UInt64Type},
        error::ArrowError,
        row::{RowConverter, Rows, SortField},
    },
};
use hashbrown::{DefaultHashBuilder, HashTable, hash_table::Entry};

use crate::config::{Fate, SinkMode};

/// What decides which rows of a buffer count. All names are those of the rows.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    pub(super) mode: SinkMode,
    /// Rows that are equal here are one row of the table.
    pub(super) columns: Vec<String>,
    /// The higher value wins, whatever the order.
    pub(super) version: Option<String>,
    /// A delete without a version takes away any row.
    pub(super) forced_deletes: bool,
    /// A row changes some columns of the table's row only; the column that names them, if rows bring one.
    pub(super) partial: Option<Option<String>>,
}

/// Rows for one INSERT, in their order, as the batches that they came in.
pub(super) type Round = Vec<Piece>;

/// Some rows of a round.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) rows: RecordBatch,
    /// What each row is to do.
    pub(super) fates: Fates,
}

/// What rows are to do.
#[derive(Debug)]
pub(super) enum Fates {
    /// All the same.
    Uniform(Fate),
    /// Row by row.
    PerRow(Vec<Fate>),
}

impl Fates {
    fn of(fates: Vec<Fate>) -> Self {
        match fates.split_first() {
            Some((first, rest)) if rest.iter().any(|fate| fate != first) => Self::PerRow(fates),
            Some((first, _)) => Self::Uniform(*first),
            None => Self::Uniform(Fate::Put),
        }
    }

    pub(super) fn any_delete(&self) -> bool {
        match self {
            Self::Uniform(fate) => *fate == Fate::Delete,
            Self::PerRow(fates) => fates.contains(&Fate::Delete),
        }
    }

    /// True for rows that delete.
    pub(super) fn is_delete(&self, row: usize) -> bool {
        match self {
            Self::Uniform(fate) => *fate == Fate::Delete,
            Self::PerRow(fates) => fates[row] == Fate::Delete,
        }
    }

    /// Valid where a row counts with all its columns; `None` when all do.
    pub(super) fn whole(&self, rows: usize) -> Option<NullBuffer> {
        match self {
            Self::Uniform(Fate::Put) => None,
            Self::Uniform(_) => Some(NullBuffer::new_null(rows)),
            Self::PerRow(fates) => Some(fates.iter().map(|fate| *fate == Fate::Put).collect()),
        }
    }
}

/// Pieces of fewer rows than this are joined: a block costs more than the copy.
const SMALL_PIECE: usize = 4096;

/// Keeps the rows that count, in their order. No key is in two rows of a round; where the order of two rows of one key
/// matters to the table, they are in two rounds.
///
/// All batches have the same columns.
pub(super) fn compact(batches: &[ChangeBatch], identity: &Identity) -> Result<Vec<Round>> {
    if batches.is_empty() {
        return Ok(Vec::new());
    }
    let keys = Keys::of(batches, &identity.columns)?;
    let fates = fates(batches, identity.mode, &keys);
    if u32::try_from(fates.len()).is_err() {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "more than 4 billion rows in one flush; flush more often",
        ));
    }
    let rounds = match (&identity.partial, &identity.version) {
        (Some(named), _) => steps_of_each(batches, &keys, &fates, named.as_deref())?,
        (None, Some(version)) => newest_of_each(batches, &keys, &fates, version, identity.forced_deletes)?,
        (None, None) => vec![last_of_each(&keys, &fates)],
    };
    rounds
        .into_iter()
        .filter(|chosen| !chosen.is_empty())
        .map(|chosen| pick(batches, &fates, &chosen))
        .collect()
}

fn failed(error: ArrowError) -> Error {
    Error::new(ErrorKind::Unexpected, "cannot compact rows by their key").with_source(error)
}

/// The chosen rows, ascending, of each batch. A batch of which all count is not copied.
fn pick(batches: &[ChangeBatch], fates: &[Fate], chosen: &[u32]) -> Result<Round> {
    let mut pieces = Vec::with_capacity(batches.len());
    let (mut start, mut rest) = (0_u32, chosen);
    for batch in batches {
        let count = u32::try_from(batch.num_rows()).unwrap_or(u32::MAX);
        let end = start.saturating_add(count);
        let (here, behind) = rest.split_at(rest.partition_point(|row| *row < end));
        rest = behind;
        if !here.is_empty() {
            let rows = if here.len() == batch.num_rows() {
                batch.rows().clone()
            } else {
                let places = UInt32Array::from_iter_values(here.iter().map(|row| row - start));
                take_record_batch(batch.rows(), &places).map_err(failed)?
            };
            pieces.push((rows, here));
        }
        start = end;
    }
    let fates = |rows: &[u32]| Fates::of(rows.iter().map(|row| fates[*row as usize]).collect());
    if pieces.len() > 1 && chosen.len() / pieces.len() < SMALL_PIECE {
        let rows =
            concat_batches(&pieces[0].0.schema(), pieces.iter().map(|(rows, _)| rows)).map_err(failed)?;
        return Ok(vec![Piece { rows, fates: fates(chosen) }]);
    }
    Ok(pieces.into_iter().map(|(rows, places)| Piece { rows, fates: fates(places) }).collect())
}

fn fates(batches: &[ChangeBatch], mode: SinkMode, keys: &Keys) -> Vec<Fate> {
    let mut fates = Vec::with_capacity(keys.len());
    for batch in batches {
        match batch.kinds() {
            RowKinds::Uniform(kind) => fates.resize(fates.len() + batch.num_rows(), mode.fate(*kind)),
            RowKinds::PerRow(_) => {
                let start = fates.len();
                fates.extend((0..batch.num_rows()).map(|row| {
                    let kind = batch.kinds().get(row);
                    // The +U that follows a -U says all about their key, if they have the same.
                    let stays = kind == RowKind::UpdateBefore && keys.same(start + row, start + row + 1);
                    if stays { Fate::Ignore } else { mode.fate(kind) }
                }));
            }
        }
    }
    fates
}

fn counts(fate: Fate) -> bool {
    !matches!(fate, Fate::Ignore | Fate::Drop)
}

/// The key columns as comparable bytes, a row each.
struct Keys {
    rows: Rows,
    hasher: DefaultHashBuilder,
}

impl Keys {
    fn of(batches: &[ChangeBatch], columns: &[String]) -> Result<Self> {
        let batches = batches.iter().map(|batch| {
            columns.iter().map(|name| column(batch.rows(), name).cloned()).collect::<Result<Vec<_>>>()
        });
        let rows = comparable(&batches.collect::<Result<Vec<_>>>()?)?;
        Ok(Self { rows, hasher: DefaultHashBuilder::default() })
    }

    fn len(&self) -> usize {
        self.rows.num_rows()
    }

    fn same(&self, left: usize, right: usize) -> bool {
        right < self.rows.num_rows() && self.rows.row(left) == self.rows.row(right)
    }

    fn hash(&self, row: u32) -> u64 {
        std::hash::BuildHasher::hash_one(&self.hasher, self.rows.row(row as usize).as_ref())
    }

    /// The number of each row's key, by the first row that has it; `u32::MAX` for rows that do not count.
    fn numbered(&self, fates: &[Fate]) -> (Vec<u32>, usize) {
        let mut known: HashTable<(u32, u32)> = HashTable::with_capacity(fates.len());
        let mut numbers = Vec::with_capacity(fates.len());
        for (row, fate) in (0u32..).zip(fates) {
            if !counts(*fate) {
                numbers.push(u32::MAX);
                continue;
            }
            let next = u32::try_from(known.len()).unwrap_or(u32::MAX);
            let same = |other: &(u32, u32)| self.same(other.0 as usize, row as usize);
            let entry = known.entry(self.hash(row), same, |other| self.hash(other.0));
            numbers.push(entry.or_insert((row, next)).get().1);
        }
        (numbers, known.len())
    }
}

fn column<'a>(rows: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef> {
    rows.column_by_name(name).ok_or_else(|| {
        Error::new(ErrorKind::SchemaMismatch, format!("the rows lack the key column `{name}`"))
    })
}

/// A column of all batches in one.
fn whole_column(batches: &[ChangeBatch], name: &str) -> Result<ArrayRef> {
    let parts = batches
        .iter()
        .map(|batch| column(batch.rows(), name).map(AsRef::as_ref))
        .collect::<Result<Vec<_>>>()?;
    concat(&parts).map_err(failed)
}

/// The columns of all batches, one behind the other, as bytes that compare as their values do.
fn comparable(batches: &[Vec<ArrayRef>]) -> Result<Rows> {
    let unsupported = |e: ArrowError| {
        Error::new(ErrorKind::Unsupported, "a key column has a type that cannot be a key").with_source(e)
    };
    let types =
        batches.first().into_iter().flatten().map(|column| SortField::new(column.data_type().clone()));
    let converter = RowConverter::new(types.collect()).map_err(unsupported)?;
    let count = batches.iter().map(|columns| columns.first().map_or(0, Array::len)).sum();
    let mut rows = converter.empty_rows(count, 0);
    for columns in batches {
        converter.append(&mut rows, columns).map_err(unsupported)?;
    }
    Ok(rows)
}

/// Index of the last row of each key that counts, ascending.
fn last_of_each(keys: &Keys, fates: &[Fate]) -> Vec<u32> {
    let mut seen: HashTable<u32> = HashTable::with_capacity(fates.len());
    let mut last = Vec::with_capacity(fates.len());
    let count = u32::try_from(fates.len()).unwrap_or(u32::MAX);
    // From the end: the first row met of a key is its last one.
    for row in (0..count).rev() {
        if !counts(fates[row as usize]) {
            continue;
        }
        let same = |other: &u32| keys.same(*other as usize, row as usize);
        if let Entry::Vacant(vacant) = seen.entry(keys.hash(row), same, |other| keys.hash(*other)) {
            vacant.insert(row);
            last.push(row);
        }
    }
    last.reverse();
    last
}

/// The newest row of each key by its version, the later one where two are equal. A delete that asks for no version goes
/// first, in a round of its own, where a row follows it that might be older than what it deletes.
fn newest_of_each(
    batches: &[ChangeBatch],
    keys: &Keys,
    fates: &[Fate],
    version: &str,
    forced_deletes: bool,
) -> Result<Vec<Vec<u32>>> {
    let version = whole_column(batches, version)?;
    let versions = comparable(&[vec![ArrayRef::clone(&version)]])?;
    let unversioned = unversioned(&version)?;
    let forced =
        |row: u32| forced_deletes && fates[row as usize] == Fate::Delete && unversioned[row as usize];
    let (numbers, count) = keys.numbered(fates);
    let mut newest: Vec<Option<u32>> = vec![None; count];
    let mut before: Vec<Option<u32>> = vec![None; count];
    for (row, number) in (0u32..).zip(&numbers).filter(|(_, number)| **number != u32::MAX) {
        let number = *number as usize;
        match newest[number] {
            _ if forced(row) => (before[number], newest[number]) = (None, Some(row)),
            Some(known) if forced(known) => {
                (before[number], newest[number]) = (Some(known), Some(row));
            }
            Some(known) if versions.row(row as usize) < versions.row(known as usize) => {}
            _ => newest[number] = Some(row),
        }
    }
    let ascending = |rows: Vec<Option<u32>>| {
        let mut rows: Vec<u32> = rows.into_iter().flatten().collect();
        rows.sort_unstable();
        rows
    };
    Ok(vec![ascending(before), ascending(newest)])
}

/// True for rows whose version is null or 0.
fn unversioned(version: &ArrayRef) -> Result<Vec<bool>> {
    // A version below 0 is none that a table can hold.
    let numbers = if version.data_type().is_integer() {
        cast(version, &DataType::UInt64)
    } else {
        cast(version, &DataType::Int64).and_then(|numbers| cast(&numbers, &DataType::UInt64))
    };
    let numbers = numbers.map_err(failed)?;
    let numbers = numbers.as_primitive::<UInt64Type>();
    Ok((0..numbers.len()).map(|row| numbers.is_null(row) || numbers.value(row) == 0).collect())
}

/// The rows of each key that change columns which no later row changes, one round after the other: the table sees
/// them in their order. A delete makes what came before it void.
fn steps_of_each(
    batches: &[ChangeBatch],
    keys: &Keys,
    fates: &[Fate],
    named: Option<&str>,
) -> Result<Vec<Vec<u32>>> {
    let changed = named.map(|name| whole_column(batches, name)).transpose()?;
    let changed = changed.map(|changed| comparable(&[vec![changed]])).transpose()?;
    let same_columns = |left: u32, right: u32| {
        let changed = changed.as_ref();
        changed.is_none_or(|changed| changed.row(left as usize) == changed.row(right as usize))
    };
    let (numbers, count) = keys.numbered(fates);
    let mut steps: Vec<Vec<u32>> = vec![Vec::new(); count];
    for (row, number) in (0u32..).zip(&numbers).filter(|(_, number)| **number != u32::MAX) {
        let steps = &mut steps[*number as usize];
        match fates[row as usize] {
            Fate::Delete => steps.clear(),
            _ => steps.retain(|old| fates[*old as usize] == Fate::Delete || !same_columns(*old, row)),
        }
        steps.push(row);
    }
    let longest = steps.iter().map(Vec::len).max().unwrap_or(0);
    Ok((0..longest)
        .map(|step| {
            let mut round: Vec<u32> = steps.iter().filter_map(|steps| steps.get(step).copied()).collect();
            round.sort_unstable();
            round
        })
        .collect())
}

#[cfg(test)]
mod tests;
