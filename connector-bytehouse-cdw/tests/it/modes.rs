//! Every mode ends in the state of a plain model, whatever the sequence of changes, on four kinds of table.

use bytehouse_testkit::BytehouseDouble;
use connector_bytehouse_cdw::{BytehouseCdwWriter, SinkModeName};
use connector_core::{
    DeliveryGuarantee, RowKind, SinkWriter, TableId,
    arrow::{
        array::{Array, AsArray},
        compute::cast,
        datatypes::{DataType, Date32Type, Int64Type, UInt64Type},
    },
};

use crate::{
    model::{Change, Dice, FIRST_DAY, Model, Row, batch, changes, sort},
    support::{builder, double, writer},
};

const SEQUENCES: u64 = 1000;

/// Where a key is one row: in the whole table, a day or a month; and whether the table has a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Whole,
    ByDay,
    ByMonth,
    Versioned,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Whole, Self::ByDay, Self::ByMonth, Self::Versioned];

    fn table(self) -> &'static str {
        ["whole", "by_day", "by_month", "versioned"][self as usize]
    }

    fn create(self, double: &BytehouseDouble, unique: bool) {
        let engine = match self {
            Self::Whole => "CnchMergeTree PARTITION BY day ORDER BY id",
            Self::ByDay => "CnchMergeTree PARTITION BY day ORDER BY id",
            Self::ByMonth => "CnchMergeTree PARTITION BY toYYYYMM(day) ORDER BY id",
            Self::Versioned if !unique => "CnchMergeTree ORDER BY id",
            Self::Versioned => "CnchMergeTree(v) PARTITION BY day ORDER BY id",
        };
        let version = if self == Self::Versioned { "UInt64" } else { "Nullable(UInt64)" };
        let columns = format!("id UInt64, day Date, name Nullable(String), n Nullable(Int64), v {version}");
        let key = match (unique, self) {
            (false, _) => "",
            (true, Self::Whole) => "UNIQUE KEY id SETTINGS partition_level_unique_keys = 0",
            (true, _) => "UNIQUE KEY id",
        };
        let create = format!("CREATE TABLE app.{} ({columns}) ENGINE = {engine} {key}", self.table());
        double.execute(&create).unwrap();
    }

    fn partition(self, day: i32) -> i32 {
        match self {
            Self::Whole => 0,
            Self::ByDay | Self::Versioned => day,
            // The first two days are in January.
            Self::ByMonth => i32::from(day >= FIRST_DAY + 2),
        }
    }
}

fn state(double: &BytehouseDouble, kind: Kind) -> Vec<Row> {
    let rows = double.table(&format!("app.{}", kind.table())).unwrap();
    let column = |name: &str, ty: &DataType| cast(rows.column_by_name(name).unwrap(), ty).unwrap();
    let (ids, days) = (column("id", &DataType::UInt64), column("day", &DataType::Date32));
    let (names, ns) = (column("name", &DataType::Utf8), column("n", &DataType::Int64));
    let versions = column("v", &DataType::UInt64);
    let mut out: Vec<Row> = (0..rows.num_rows())
        .map(|row| Row {
            id: ids.as_primitive::<UInt64Type>().value(row),
            day: days.as_primitive::<Date32Type>().value(row),
            name: (!names.is_null(row)).then(|| names.as_string::<i32>().value(row).to_owned()),
            n: (!ns.is_null(row)).then(|| ns.as_primitive::<Int64Type>().value(row)),
            version: (!versions.is_null(row)).then(|| versions.as_primitive::<UInt64Type>().value(row)),
        })
        .collect();
    sort(&mut out);
    out
}

/// Fills the table and the model with a row for every place that deletes may find.
fn prefill(double: &BytehouseDouble, kind: Kind, events: &[Vec<Change>], model: &mut Model) {
    for (_, row) in events.iter().flatten() {
        let row = Row { version: Some(0), ..row.clone() };
        model.rows.insert((row.id, kind.partition(row.day)), row);
    }
    let values: Vec<String> = model
        .rows
        .values()
        .map(|row| {
            let name = row.name.as_ref().map_or("NULL".to_owned(), |name| format!("'{name}'"));
            let n = row.n.map_or("NULL".to_owned(), |n| n.to_string());
            format!("({}, toDate({}), {name}, {n}, 0)", row.id, row.day)
        })
        .collect();
    double.execute(&format!("INSERT INTO app.{} VALUES {}", kind.table(), values.join(", "))).unwrap();
}

async fn run(
    double: &BytehouseDouble,
    writer: &mut BytehouseCdwWriter,
    mode: SinkModeName,
    kind: Kind,
    seed: u64,
) {
    double.execute(&format!("TRUNCATE TABLE app.{}", kind.table())).unwrap();
    let mut dice = Dice::new(seed ^ 0xabcd);
    let mut events = changes(seed, 40);
    if kind == Kind::Versioned && mode != SinkModeName::UpsertWithDeleteToNull {
        // A delete without a version takes any row away.
        for (change, row) in events.iter_mut().flatten() {
            if *change == RowKind::Delete && row.name.is_none() && row.n.is_none() {
                row.version = None;
            }
        }
    }
    let mut model = Model { versioned: kind == Kind::Versioned, ..Model::default() };
    if mode == SinkModeName::DeleteOnly {
        prefill(double, kind, &events, &mut model);
    }
    let table = TableId::new("app", kind.table());
    let mut rest = events.as_slice();
    while !rest.is_empty() {
        let count = usize::try_from(dice.below(9) + 1).unwrap().min(rest.len());
        let (head, tail) = rest.split_at(count);
        let changes: Vec<Change> = head.iter().flatten().cloned().collect();
        changes.iter().for_each(|change| model.apply(mode, |day| kind.partition(day), change));
        writer.write(&table, batch(&changes)).await.unwrap();
        if dice.below(3) == 0 {
            writer.flush(None).await.unwrap();
        }
        rest = tail;
    }
    writer.flush(None).await.unwrap();
    assert_eq!(state(double, kind), model.sorted(), "{mode:?} into {kind:?}, seed {seed}");
}

async fn ends_in_the_state_of_the_model(mode: SinkModeName) {
    let double = double().await;
    let sink = builder(&double).mode(mode).build().unwrap();
    for kind in Kind::ALL {
        kind.create(&double, mode != SinkModeName::Insert);
        let mut writer = writer(&sink, DeliveryGuarantee::AtLeastOnce).await;
        for seed in (0..SEQUENCES).filter(|seed| seed % 4 == kind as u64) {
            run(&double, &mut writer, mode, kind, seed).await;
        }
        writer.close().await.unwrap();
    }
}

macro_rules! modes {
    ($($name:ident: $mode:ident),* $(,)?) => {
        $(#[tokio::test]
        async fn $name() {
            ends_in_the_state_of_the_model(SinkModeName::$mode).await;
        })*
    };
}

modes! {
    insert: Insert,
    upsert: Upsert,
    upsert_no_delete: UpsertNoDelete,
    upsert_all: UpsertAll,
    upsert_all_no_delete: UpsertAllNoDelete,
    upsert_with_delete_to_null: UpsertWithDeleteToNull,
    delete_only: DeleteOnly,
}
