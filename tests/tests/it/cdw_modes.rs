//! The modes that a ReplacingMergeTree can express, on a real ClickHouse, compared with a plain model; and partitions
//! beyond the server's limit.

use std::ops::Range;

use connector_bytehouse_cdw::{BytehouseCdwSink, SinkModeName};
use connector_core::{
    DeliveryGuarantee, RowKind, Sink, SinkWriter, TableId, WriterContext, options::SettingsList,
};
use connector_tests::{
    clickhouse::NULL,
    services::{self, Clickhouse},
};

use crate::cdw_model::{Change, Dice, Model, Row, batch, changes, sort};

/// Sequences of changes in each mode.
const SEQUENCES: u64 = 1000;
/// Sequences that go to the server in the same flushes, each with ids of its own.
const TOGETHER: u64 = 250;
const IDS: u64 = 16;
const COLUMNS: &str = "id UInt64, day Date, name Nullable(String), n Nullable(Int64), v Nullable(UInt64)";

fn sink(server: &Clickhouse, mode: SinkModeName) -> connector_bytehouse_cdw::BytehouseCdwSinkBuilder {
    let (host, port) = server.tcp.rsplit_once(':').unwrap();
    BytehouseCdwSink::builder().clickhouse(host, port.parse().unwrap()).mode(mode)
}

async fn state(server: &Clickhouse, table: &TableId) -> Vec<Row> {
    let sql = format!("SELECT id, toUInt16(day), name, n, v FROM {table} FINAL");
    let own = |text: &String| (text != NULL).then(|| text.clone());
    let mut rows: Vec<Row> = server
        .query(&sql)
        .await
        .unwrap()
        .iter()
        .map(|cells| Row {
            id: cells[0].parse().unwrap(),
            day: cells[1].parse().unwrap(),
            name: own(&cells[2]),
            n: own(&cells[3]).map(|n| n.parse().unwrap()),
            version: own(&cells[4]).map(|v| v.parse().unwrap()),
        })
        .collect();
    sort(&mut rows);
    rows
}

async fn ends_in_the_state_of_the_model(mode: SinkModeName) {
    let Some(server) = services::clickhouse_current() else { return };
    let database = server.create_database().await;
    server
        .execute(&format!(
            "CREATE TABLE {database}.t ({COLUMNS}, _v UInt64, _gone UInt8) ENGINE = ReplacingMergeTree(_v, _gone) \
             PARTITION BY toYYYYMM(day) ORDER BY id"
        ))
        .await;
    let table = TableId::new(&database, "t");
    let sink = sink(&server, mode).build().unwrap();
    for part in 0..SEQUENCES / TOGETHER {
        server.execute(&format!("TRUNCATE TABLE {table}")).await;
        run(&server, &sink, &table, mode, part * TOGETHER..(part + 1) * TOGETHER).await;
    }
    server.execute(&format!("DROP DATABASE {database}")).await;
}

/// Writes the sequences of these seeds side by side: the first change of each, then the second of each, and so on.
async fn run(
    server: &Clickhouse,
    sink: &BytehouseCdwSink,
    table: &TableId,
    mode: SinkModeName,
    seeds: Range<u64>,
) {
    let mut dice = Dice::new(seeds.start);
    // FINAL looks over all partitions: a key is one row wherever it is.
    let mut model = Model::default();
    if mode == SinkModeName::DeleteOnly {
        fill(server, table, &mut model, seeds.clone()).await;
    }
    let of_seed = |seed| {
        let mut events = changes(seed, 40);
        events.iter_mut().flatten().for_each(|(_, row)| row.id += seed * IDS);
        events
    };
    let mut sequences: Vec<_> = seeds.map(|seed| of_seed(seed).into_iter()).collect();
    let mut writer = sink
        .open(WriterContext { delivery: DeliveryGuarantee::AtLeastOnce, ..WriterContext::default() })
        .await
        .unwrap();
    loop {
        let step: Vec<Change> = sequences.iter_mut().filter_map(Iterator::next).flatten().collect();
        if step.is_empty() {
            break;
        }
        step.iter().for_each(|change| model.apply(mode, |_| 0, change));
        writer.write(table, batch(&step)).await.unwrap();
        if dice.below(4) == 0 {
            writer.flush(None).await.unwrap();
        }
    }
    writer.flush(None).await.unwrap();
    writer.close().await.unwrap();
    let (found, wanted) = (state(server, table).await, model.sorted());
    let differs = found.iter().zip(&wanted).find(|(found, wanted)| found != wanted);
    assert!(found == wanted, "{mode:?}, seed {:?}: {differs:?}", differs.map(|(row, _)| row.id / IDS));
}

/// Rows of the keys that the changes are about.
async fn fill(server: &Clickhouse, table: &TableId, model: &mut Model, seeds: Range<u64>) {
    let mut values = Vec::new();
    for id in seeds.flat_map(|seed| (0..7).map(move |id| seed * IDS + id)) {
        let row = Row { id, day: crate::cdw_model::FIRST_DAY, name: None, n: None, version: Some(0) };
        model.apply(SinkModeName::Upsert, |_| 0, &(RowKind::Insert, row.clone()));
        values.push(format!("({id}, toDate({}), NULL, NULL, 0, 1, 0)", row.day));
    }
    server.execute(&format!("INSERT INTO {table} VALUES {}", values.join(", "))).await;
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
    clickhouse_current_upsert: Upsert,
    clickhouse_current_upsert_no_delete: UpsertNoDelete,
    clickhouse_current_upsert_all: UpsertAll,
    clickhouse_current_upsert_all_no_delete: UpsertAllNoDelete,
    clickhouse_current_upsert_with_delete_to_null: UpsertWithDeleteToNull,
    clickhouse_current_delete_only: DeleteOnly,
}

async fn splits_what_touches_too_many_partitions(server: &Clickhouse, partition: &str) {
    let database = server.create_database().await;
    let create = format!(
        "CREATE TABLE {database}.t ({COLUMNS}) ENGINE = MergeTree PARTITION BY {partition} ORDER BY id"
    );
    server.execute(&create).await;
    let limit = SettingsList::new().with("max_partitions_per_insert_block", 100);
    let sink = sink(server, SinkModeName::Insert).query_settings(limit).build().unwrap();
    let rows: Vec<(RowKind, Row)> = (0..800u64)
        .map(|id| {
            let day = 19_000 + i32::try_from(id * 7919 % 400).unwrap();
            (RowKind::Insert, Row { id, day, name: None, n: None, version: Some(id) })
        })
        .collect();
    let mut writer = sink.open(WriterContext::default()).await.unwrap();
    writer.write(&TableId::new(&database, "t"), batch(&rows)).await.unwrap();
    assert_eq!(writer.flush(None).await.unwrap().rows, 800);
    writer.close().await.unwrap();
    let sql = format!(
        "SELECT count(), sum(id), uniqExact(day), sum(toUInt16(day) = 19000 + id * 7919 % 400) FROM {database}.t"
    );
    assert_eq!(server.query(&sql).await.unwrap(), [["800", "319600", "400", "800"]]);
    server.execute(&format!("DROP DATABASE {database}")).await;
}

#[tokio::test]
async fn clickhouse_current_splits_what_touches_too_many_partitions() {
    let Some(server) = services::clickhouse_current() else { return };
    splits_what_touches_too_many_partitions(&server, "day").await;
    splits_what_touches_too_many_partitions(&server, "toYYYYMMDD(day)").await;
}

#[tokio::test]
async fn clickhouse_18_splits_what_touches_too_many_partitions() {
    let Some(server) = services::clickhouse_18() else { return };
    splits_what_touches_too_many_partitions(&server, "day").await;
}
