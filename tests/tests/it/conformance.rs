//! The contracts of the core, kept on real systems: the source on a real broker, the sink on real servers.

use std::sync::{Arc, Mutex};

use connector_bytehouse_cdw::{BytehouseCdwSink, SinkModeName};
use connector_core::{
    ChangeBatch, TableId,
    arrow::{
        array::{Int64Array, RecordBatch, StringArray, UInt64Array},
        datatypes::{DataType, Field, Schema},
    },
    async_trait,
    testkit::{SinkFixture, SourceFixture, check_sink, check_source},
};
use connector_kafka::{KafkaSource, format::Json};
use connector_tests::{
    kafka::Record,
    services::{self, Clickhouse, Kafka},
    unique_name,
};

use crate::{
    bounded::{id_schema, row},
    kafka_to_clickhouse::sink,
};

const TABLE: &str = "app.rows";

/// Four partitions: one of rows alone, one with a tombstone after each tenth row, one written in transactions of
/// which every other one was aborted, one that is empty.
struct Topic {
    kafka: Kafka,
    name: String,
    ids: Vec<i64>,
}

impl Topic {
    async fn new() -> Option<Self> {
        let kafka = services::kafka()?;
        let name = unique_name("conformance");
        kafka.create_topic(&name, 4, &[]).await;
        let mut ids: Vec<i64> = (0..400).collect();
        let mut records: Vec<Record> = (0..200).map(|id| Record::new(0, row(id))).collect();
        for id in 200..400 {
            records.push(Record::new(1, row(id)));
            if id % 10 == 0 {
                records.push(Record { value: None, key: Some(b"gone".to_vec()), ..Record::new(1, "") });
            }
        }
        kafka.produce(&name, records).await;
        for transaction in 0..4 {
            let some = transaction * 50 + 1000..transaction * 50 + 1050;
            let records = some.clone().map(|id| Record::new(2, row(id))).collect();
            let open = kafka.begin_transaction(&name, records).await;
            if transaction % 2 == 0 {
                open.commit().await;
                ids.extend(some);
            } else {
                open.abort().await;
            }
        }
        Some(Self { kafka, name, ids })
    }
}

#[async_trait]
impl SourceFixture for Topic {
    type Source = KafkaSource;

    async fn source(&self) -> KafkaSource {
        KafkaSource::builder()
            .bootstrap_servers(self.kafka.bootstrap.as_str())
            .topics([self.name.as_str()])
            .table(TABLE)
            .bounded()
            .max_batch_rows(37)
            .format(Json::with_schema(id_schema()))
            .build()
            .unwrap()
    }

    fn expected(&self) -> Vec<String> {
        let notes = self.ids.iter().map(|id| Some(format!("note {id}")));
        let columns = RecordBatch::try_new(
            id_schema(),
            vec![Arc::new(Int64Array::from(self.ids.clone())), Arc::new(notes.collect::<StringArray>())],
        );
        self.row_ids(&TABLE.parse().unwrap(), &ChangeBatch::append(columns.unwrap()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kafka_source_keeps_the_contracts() {
    let Some(topic) = Topic::new().await else { return };
    check_source(&topic).await;
}

/// The suite asks for a sink and then for its table. In mode insert a sink keeps exactly-once for one table only,
/// which its options name: so the table is made with the sink.
struct Server {
    server: Clickhouse,
    mode: SinkModeName,
    engine: &'static str,
    database: String,
    latest: Mutex<String>,
}

impl Server {
    async fn new(server: Clickhouse, mode: SinkModeName, engine: &'static str) -> Self {
        let database = server.create_database().await;
        Self { server, mode, engine, database, latest: Mutex::default() }
    }
}

#[async_trait]
impl SinkFixture for Server {
    type Sink = BytehouseCdwSink;

    async fn sink(&self) -> BytehouseCdwSink {
        let table = format!("{}.{}", self.database, unique_name("t"));
        let more = if self.mode == SinkModeName::Insert { "" } else { ", version UInt64, gone UInt8" };
        self.server
            .execute(&format!(
                "CREATE TABLE {table} (id UInt64, customer String, amount Decimal(18, 4), \
                 discount Nullable(Int32){more}) ENGINE = {}",
                self.engine
            ))
            .await;
        self.latest.lock().unwrap().clone_from(&table);
        sink(&self.server, &table, self.mode, 50_000)
    }

    async fn table(&self) -> TableId {
        self.latest.lock().unwrap().parse().unwrap()
    }

    async fn rows(&self, table: &TableId) -> Vec<RecordBatch> {
        let last = if self.mode == SinkModeName::Insert { "" } else { " FINAL" };
        let rows = self.server.query(&format!("SELECT id FROM {table}{last}")).await.unwrap();
        let ids: UInt64Array = rows.iter().map(|row| row[0].parse::<u64>().unwrap()).collect();
        let schema = Schema::new(vec![Field::new("id", DataType::UInt64, false)]);
        vec![RecordBatch::try_new(Arc::new(schema), vec![Arc::new(ids)]).unwrap()]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sink_keeps_the_contracts_in_mode_insert() {
    let Some(server) = services::clickhouse_current() else { return };
    let engine = "MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 100";
    check_sink(&Server::new(server, SinkModeName::Insert, engine).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sink_keeps_the_contracts_in_the_modes_with_keys() {
    // 18.16 knows no deletes.
    if let Some(server) = services::clickhouse_18() {
        let engine = "ReplacingMergeTree(version) ORDER BY id";
        check_sink(&Server::new(server, SinkModeName::UpsertNoDelete, engine).await).await;
    }
    if let Some(server) = services::clickhouse_current() {
        let engine = "ReplacingMergeTree(version, gone) ORDER BY id";
        check_sink(&Server::new(server, SinkModeName::Upsert, engine).await).await;
    }
}
