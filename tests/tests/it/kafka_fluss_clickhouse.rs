//! Kafka to Fluss to ClickHouse: two pipelines, one behind the other, as the example `kafka_to_fluss_to_bytehouse` has them.

use std::{sync::Arc, time::Duration};

use connector_bytehouse_cdw::{BytehouseCdwSink, SinkModeName};
use connector_core::{
    CancellationToken, MemoryCheckpointStore, Pipeline, TableSchema,
    arrow::datatypes::{DataType, Field, Schema},
};
use connector_fluss::{FlussSink, FlussSource};
use connector_kafka::{Json, KafkaSource};
use connector_tests::{kafka::Record, services, unique_name};

const ROWS: i64 = 20_000;

fn schema() -> TableSchema {
    let columns = Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("note", DataType::Utf8, true),
        Field::new("amount", DataType::Decimal128(18, 4), true),
    ]);
    TableSchema::new(Arc::new(columns)).with_primary_key(["id"]).unwrap()
}

/// Every id comes twice; the later one counts.
fn records() -> Vec<Record> {
    (0..2 * ROWS)
        .map(|number| {
            let (id, version) = (number % ROWS, number / ROWS);
            let partition = i32::try_from(id % 4).unwrap();
            Record::new(
                partition,
                format!(r#"{{"id": {id}, "note": "订单 {version}", "amount": "{id}.{version}5"}}"#),
            )
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_go_through_fluss_to_clickhouse() {
    let (Some(kafka), Some(fluss), Some(server)) =
        (services::kafka(), services::fluss(), services::clickhouse_current())
    else {
        return;
    };
    let topic = unique_name("through_fluss");
    kafka.create_topic(&topic, 4, &[]).await;
    kafka.produce(&topic, records()).await;
    let (lake, warehouse) = (fluss.create_database().await, server.create_database().await);
    let middle = format!("{lake}.orders");

    let source = KafkaSource::builder()
        .bootstrap_servers(kafka.bootstrap.as_str())
        .topics([topic.as_str()])
        .bounded()
        .format(Json::with_table_schema(schema()))
        .build()
        .unwrap();
    let sink = FlussSink::from_options([
        ("bootstrap.servers", fluss.bootstrap.as_str()),
        ("table", &middle),
        ("bucket.num", "2"),
    ])
    .unwrap();
    let store = Arc::new(MemoryCheckpointStore::new());
    let first = Pipeline::new(source, sink)
        .name("into-fluss")
        .parallelism(2)
        .checkpoints(store, Duration::from_millis(200))
        .run(CancellationToken::new())
        .await
        .unwrap();
    assert_eq!(first.rows_written, u64::try_from(2 * ROWS).unwrap());

    let source = FlussSource::from_options([
        ("bootstrap.servers", fluss.bootstrap.as_str()),
        ("table", &middle),
        ("scan.bounded", "true"),
    ])
    .unwrap();
    let (host, port) = server.tcp.rsplit_once(':').unwrap();
    let sink = BytehouseCdwSink::builder()
        .clickhouse(host, port.parse::<u16>().unwrap())
        .table(format!("{warehouse}.orders"))
        .mode(SinkModeName::Upsert)
        .build()
        .unwrap();
    Pipeline::new(source, sink)
        .name("out-of-fluss")
        .parallelism(2)
        .checkpoints(Arc::new(MemoryCheckpointStore::new()), Duration::from_millis(200))
        .run(CancellationToken::new())
        .await
        .unwrap();
    let sql = format!(
        "SELECT count(), sum(id), countIf(note = '订单 1'), countIf(amount = toDecimal64(concat(toString(id), '.15'), 4)) \
         FROM {warehouse}.orders FINAL"
    );
    let wanted = [ROWS, ROWS * (ROWS - 1) / 2, ROWS, ROWS].map(|number| number.to_string());
    assert_eq!(server.query(&sql).await.unwrap(), [wanted]);
    server.execute(&format!("DROP DATABASE {warehouse}")).await;
}
