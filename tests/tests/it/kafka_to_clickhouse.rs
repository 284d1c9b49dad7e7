//! The main job on real servers: a million orders from a Kafka topic into both ClickHouse servers.

use connector_bytehouse_cdw::{BytehouseCdwSink, BytehouseCdwSinkBuilder, SinkModeName};
use connector_core::{CancellationToken, MemoryCheckpointStore, Pipeline};
use connector_kafka::{KafkaSource, StartupMode, format::Json};
use connector_tests::{
    orders::{self, Aggregates},
    services::{self, Clickhouse},
    unique_name,
};

const ROWS: u64 = 1_000_000;
const PARTITIONS: i32 = 4;

/// A topic with a million orders, and both tables after one pipeline each.
#[tokio::test(flavor = "multi_thread")]
async fn a_million_orders_arrive_exactly_in_both_servers() {
    let (Some(kafka), Some(old), Some(current)) =
        (services::kafka(), services::clickhouse_18(), services::clickhouse_current())
    else {
        return;
    };
    let topic = unique_name("orders");
    kafka.create_topic(&topic, PARTITIONS, &[]).await;
    kafka.produce_orders(&topic, 0..ROWS, PARTITIONS).await;
    let expected = Aggregates::of(0..ROWS);
    for (server, chains) in [(&old, 1), (&current, 2)] {
        let table = orders_table(server, "MergeTree ORDER BY id").await;
        let source = KafkaSource::builder()
            .bootstrap_servers(kafka.bootstrap.as_str())
            .topics([topic.as_str()])
            .startup_mode(StartupMode::Earliest)
            .bounded()
            .format(Json::with_schema(orders::schema()))
            .build()
            .unwrap();
        let report = Pipeline::new(source, sink(server, &table, SinkModeName::Insert, 200_000))
            .parallelism(chains)
            .checkpoints(MemoryCheckpointStore::new(), std::time::Duration::from_secs(10))
            .run(CancellationToken::new())
            .await
            .unwrap();
        assert_eq!((report.rows_read, report.rows_written), (ROWS, ROWS));
        assert_eq!(server.order_aggregates(&table).await, expected, "{:?}", server.version);
    }
    kafka.delete_topic(&topic).await;
}

/// A new table of orders; returns its name with the database.
pub(crate) async fn orders_table(server: &Clickhouse, engine: &str) -> String {
    let table = format!("{}.orders", server.create_database().await);
    server
        .execute(&format!("CREATE TABLE {table} ({}) ENGINE = {engine}", orders::columns(server.version)))
        .await;
    table
}

/// A sink into one table of a test server.
pub(crate) fn sink(
    server: &Clickhouse,
    table: &str,
    mode: SinkModeName,
    flush_rows: usize,
) -> BytehouseCdwSink {
    sink_at(&server.tcp).table(table).mode(mode).flush_max_rows(flush_rows).build().unwrap()
}

/// A sink for the server at an address, to be told more.
pub(crate) fn sink_at(address: &str) -> BytehouseCdwSinkBuilder {
    let (host, port) = address.rsplit_once(':').unwrap();
    BytehouseCdwSink::builder().clickhouse(host, port.parse().unwrap())
}
