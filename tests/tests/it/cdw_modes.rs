//! The modes that a ReplacingMergeTree can express, on a real ClickHouse, compared with a plain model; and partitions
//! beyond the server's limit.

use connector_bytehouse_cdw::{BytehouseCdwSink, SinkModeName};
use connector_core::{
    DeliveryGuarantee, RowKind, Sink, SinkWriter, TableId, WriterContext, options::SettingsList,
};
use connector_tests::{
    clickhouse::NULL,
    services::{self, Clickhouse},
};

use crate::cdw_model::{Dice, Model, Row, batch, changes, sort};

const SEQUENCES: u64 = 8;
const COLUMNS: &str = "id UInt64, day Date, name Nullable(String), n Nullable(Int64), v Nullable(UInt64)";

fn sink(server: &Clickhouse, mode: SinkModeName) -> connector_bytehouse_cdw::BytehouseCdwSinkBuilder {
    let (host, port) = server.tcp.rsplit_once(':').unwrap();
    BytehouseCdwSink::builder().clickhouse(host, port.parse().unwrap()).mode(mode)
}

async fn state(server: &Clickhouse, table: &str) -> Vec<Row> {
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
    let table = format!("{database}.t");
    let sink = sink(&server, mode).build().unwrap();
    for seed in 0..SEQUENCES {
        server.execute(&format!("TRUNCATE TABLE {table}")).await;
        let mut writer = sink
            .open(WriterContext { delivery: DeliveryGuarantee::AtLeastOnce, ..WriterContext::default() })
            .await
            .unwrap();
        let mut dice = Dice::new(seed);
        let events = changes(seed, 40);
        // FINAL looks over all partitions: a key is one row wherever it is.
        let mut model = Model::default();
        if mode == SinkModeName::DeleteOnly {
            fill(&server, &table, &mut model).await;
        }
        for event in &events {
            event.iter().for_each(|change| model.apply(mode, |_| 0, change));
            // A delete has to bring what the table's columns need; the sink leaves the rest out.
            writer.write(&TableId::new(&database, "t"), batch(event)).await.unwrap();
            if dice.below(8) == 0 {
                writer.flush(None).await.unwrap();
            }
        }
        writer.flush(None).await.unwrap();
        writer.close().await.unwrap();
        assert_eq!(state(&server, &table).await, model.sorted(), "{mode:?}, seed {seed}");
    }
    server.execute(&format!("DROP DATABASE {database}")).await;
}

/// Rows of the keys that the changes are about.
async fn fill(server: &Clickhouse, table: &str, model: &mut Model) {
    for id in 0..7 {
        let row = Row { id, day: crate::cdw_model::FIRST_DAY, name: None, n: None, version: Some(0) };
        model.apply(SinkModeName::Upsert, |_| 0, &(RowKind::Insert, row.clone()));
        let values = format!("({id}, toDate({}), NULL, NULL, 0, 1, 0)", row.day);
        server.execute(&format!("INSERT INTO {table} VALUES {values}")).await;
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
