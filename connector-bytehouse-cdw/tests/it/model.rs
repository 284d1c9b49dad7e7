//! Seeded changes of a table with a date, and what a plain model makes of them in each mode.

use std::{collections::BTreeMap, sync::Arc};

use connector_bytehouse_cdw::SinkModeName;
use connector_core::{
    ChangeBatch, RowKind, RowKinds,
    arrow::{
        array::{ArrayRef, Date32Array, Int64Array, RecordBatch, StringArray, UInt64Array},
        datatypes::{DataType, Field, Schema},
    },
};

/// 2024-01-30: the days around are in two months.
pub(crate) const FIRST_DAY: i32 = 19_752;
const KEYS: u64 = 7;

/// Numbers that follow from a seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_add(0x9e37_79b9_7f4a_7c15))
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) id: u64,
    pub(crate) day: i32,
    pub(crate) name: Option<String>,
    pub(crate) n: Option<i64>,
    pub(crate) version: Option<u64>,
}

pub(crate) type Change = (RowKind, Row);

/// What a source tells of the changes to its table.
pub(crate) fn changes(seed: u64, count: usize) -> Vec<Vec<Change>> {
    let mut dice = Dice::new(seed);
    let mut source: BTreeMap<u64, Row> = BTreeMap::new();
    let mut events = Vec::with_capacity(count);
    for version in 1..=count as u64 {
        let id = dice.below(KEYS);
        let fresh = |id: u64, dice: &mut Dice| Row {
            id,
            day: FIRST_DAY + i32::try_from(dice.below(4)).unwrap(),
            name: (dice.below(4) > 0).then(|| format!("客户{version}")),
            n: (dice.below(4) > 0).then_some(i64::try_from(version).unwrap()),
            version: Some(version),
        };
        let Some(old) = source.get(&id).cloned() else {
            let row = fresh(id, &mut dice);
            source.insert(id, row.clone());
            events.push(vec![(RowKind::Insert, row)]);
            continue;
        };
        let mut new = fresh(id, &mut dice);
        match dice.below(6) {
            0 => {
                source.remove(&id);
                events.push(vec![(RowKind::Delete, old)]);
                continue;
            }
            // A delete that brings its key only.
            1 => {
                source.remove(&id);
                events.push(vec![(RowKind::Delete, Row { name: None, n: None, ..old })]);
                continue;
            }
            2 => {}
            3 => new.id = dice.below(KEYS),
            4 => new.day = old.day,
            // An update without a before image, so that it must not move.
            _ => {
                new.day = old.day;
                source.insert(id, new.clone());
                events.push(vec![(RowKind::UpdateAfter, new)]);
                continue;
            }
        }
        if new.id != id && source.contains_key(&new.id) {
            new.id = id;
        }
        source.remove(&id);
        source.insert(new.id, new.clone());
        events.push(vec![(RowKind::UpdateBefore, old), (RowKind::UpdateAfter, new)]);
    }
    events
}

/// The table as a list of rows for each place, written down change by change.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) rows: BTreeMap<(u64, i32), Row>,
    pub(crate) appended: Vec<Row>,
    /// The column `v` is the table's version, which never becomes null.
    pub(crate) versioned: bool,
}

impl Model {
    /// `partition` tells a day's partition.
    pub(crate) fn apply(
        &mut self,
        mode: SinkModeName,
        partition: impl Fn(i32) -> i32,
        (change, row): &Change,
    ) {
        use SinkModeName as Mode;
        let place = (row.id, partition(row.day));
        match (mode, change) {
            (Mode::Insert, RowKind::Insert) => self.appended.push(row.clone()),
            (Mode::Insert, _) => {}
            (Mode::DeleteOnly, RowKind::Delete) => drop(self.rows.remove(&place)),
            (Mode::DeleteOnly, _) => {}
            (_, RowKind::Insert | RowKind::UpdateAfter) => drop(self.rows.insert(place, row.clone())),
            (Mode::UpsertNoDelete, _) | (Mode::UpsertAllNoDelete, RowKind::Delete) => {}
            (Mode::UpsertWithDeleteToNull, _) => {
                let version = row.version.filter(|_| self.versioned);
                self.rows.insert(place, Row { name: None, n: None, version, ..row.clone() });
            }
            _ => drop(self.rows.remove(&place)),
        }
    }

    pub(crate) fn sorted(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = self.rows.values().chain(&self.appended).cloned().collect();
        sort(&mut rows);
        rows
    }
}

pub(crate) fn sort(rows: &mut [Row]) {
    rows.sort_by_key(|row| (row.id, row.day, row.n, row.version));
}

pub(crate) fn batch(changes: &[Change]) -> ChangeBatch {
    let fields = vec![
        Field::new("id", DataType::UInt64, false),
        Field::new("day", DataType::Date32, false),
        Field::new("name", DataType::Utf8, true),
        Field::new("n", DataType::Int64, true),
        Field::new("v", DataType::UInt64, true),
    ];
    let rows = || changes.iter().map(|(_, row)| row);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows().map(|row| row.id).collect::<UInt64Array>()),
        Arc::new(rows().map(|row| Some(row.day)).collect::<Date32Array>()),
        Arc::new(rows().map(|row| row.name.clone()).collect::<StringArray>()),
        Arc::new(rows().map(|row| row.n).collect::<Int64Array>()),
        Arc::new(rows().map(|row| row.version).collect::<UInt64Array>()),
    ];
    let kinds: Vec<RowKind> = changes.iter().map(|(kind, _)| *kind).collect();
    let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    ChangeBatch::try_new(rows, RowKinds::from_kinds(&kinds)).unwrap()
}
