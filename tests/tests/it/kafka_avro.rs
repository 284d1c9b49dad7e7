//! Avro records that Confluent's own serializer wrote, with a real registry and a real broker.

use std::collections::BTreeMap;

use connector_bytehouse_cdw::{BytehouseCdwSink, SinkModeName};
use connector_core::{
    CancellationToken, Pipeline, Source, SourceEvent, SourceReader,
    arrow::{
        array::{Array, AsArray, RecordBatch},
        datatypes::{
            Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType,
        },
    },
};
use connector_kafka::{Avro, Changes, KafkaSource, SchemaRegistry, StartupMode};
use connector_tests::{
    services::{self, Kafka},
    unique_name,
};

const PARTITIONS: i32 = 3;

/// A topic that the serializer has written to.
async fn written(kafka: &Kafka, registry: &str, kind: &str, count: u32) -> Option<String> {
    let topic = unique_name("avro");
    kafka.create_topic(&topic, PARTITIONS, &[]).await;
    let arguments = [&kafka.bootstrap, registry, &topic, kind, &count.to_string()];
    services::run_driver("avro_producer.py", &arguments).await.then_some(topic)
}

/// Looks at each row of a batch, as the script wrote them.
fn check(rows: &RecordBatch, half: i64, seen: &mut BTreeMap<i64, ()>) {
    let column = |name: &str| rows.column_by_name(name).unwrap();
    let ids = column("id").as_primitive::<Int64Type>();
    for (row, id) in ids.values().iter().enumerate() {
        assert!(seen.insert(*id, ()).is_none(), "{id} came twice");
        let (number, at) = (*id, |days: i64| days * 86_400_000_000);
        let note = column("note").as_string::<i32>();
        let expected = (number % 3 != 0).then(|| format!("订单 \"{number}\"\n"));
        assert_eq!(note.is_valid(row).then(|| note.value(row).to_owned()), expected);
        assert_eq!(column("price").as_primitive::<Decimal128Type>().value(row), i128::from(number) - 500);
        assert_eq!(column("at").as_primitive::<TimestampMicrosecondType>().value(row), at(19_782) + number);
        assert_eq!(i64::from(column("day").as_primitive::<Date32Type>().value(row)), number - 10);
        let token = uuid::Uuid::from_u128(u128::try_from(number).unwrap());
        assert_eq!(column("token").as_string::<i32>().value(row), token.to_string());
        let tags = column("tags").as_list::<i32>().value(row);
        let tags: Vec<&str> = tags.as_string::<i32>().iter().flatten().collect();
        assert_eq!(tags, ["a", "中"].repeat(usize::try_from(number % 3).unwrap()));
        let counts = column("counts").as_map().value(row);
        assert_eq!(counts.column(1).as_primitive::<Int64Type>().values().as_ref(), [number]);
        assert_eq!(column("kind").as_string::<i32>().value(row), if number % 2 == 1 { "NEW" } else { "OLD" });
        let total = column("total").as_struct();
        assert_eq!(total.column_by_name("currency").unwrap().as_string::<i32>().value(row), "CNY");
        assert_eq!(
            total.column_by_name("cents").unwrap().as_primitive::<Int64Type>().value(row),
            number * 100
        );
        #[expect(clippy::cast_precision_loss, reason = "the numbers are small")]
        let ratio = number as f64 / 4.0;
        assert_eq!(column("ratio").as_primitive::<Float64Type>().value(row).to_bits(), ratio.to_bits());
        assert_eq!(column("flag").as_boolean().value(row), number % 2 == 1);
        // The column comes with the first record that has it; in another partition that may be later.
        let extra = rows.column_by_name("extra").map(AsArray::as_primitive::<Int32Type>);
        let extra = extra.filter(|extra| extra.is_valid(row)).map(|extra| i64::from(extra.value(row)));
        assert_eq!(extra, (number >= half).then_some(number));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_confluents_serializer() {
    const COUNT: u32 = 3000;
    let (Some(kafka), Some(registry)) = (services::kafka(), services::schema_registry()) else { return };
    let Some(topic) = written(&kafka, &registry, "rows", COUNT).await else { return };
    let source = KafkaSource::from_options([
        ("job.reader.bootstrap_servers", kafka.bootstrap.as_str()),
        ("job.reader.topics", &topic),
        ("job.reader.format_type", "avro"),
        ("job.reader.schema_registry_url", &registry),
        ("job.common.job_type", "BATCH"),
        // An instant is not moved by it.
        ("job.common.global_timezone", "Asia/Shanghai"),
    ])
    .unwrap()
    .build()
    .unwrap();
    source.check().await.unwrap();
    let mut reader = source.open(source.discover(&[]).await.unwrap()).await.unwrap();
    let (mut seen, mut changes) = (BTreeMap::new(), Vec::new());
    while let Some(event) = reader.next().await.unwrap() {
        match event {
            SourceEvent::Batch { rows, .. } => check(rows.rows(), i64::from(COUNT / 2), &mut seen),
            SourceEvent::Schema { change, .. } => changes.push(change.kind().as_str()),
            _ => {}
        }
    }
    assert_eq!(seen.len(), COUNT as usize);
    assert!(changes.contains(&"create.table") && changes.contains(&"add.column"), "{changes:?}");
    assert!(matches!(changes.len(), 2..=6), "{changes:?}");
    reader.close().await.unwrap();
}

/// Columns and key by the events' schemas, rows by their kinds: the table in the end is that of the source.
#[tokio::test(flavor = "multi_thread")]
async fn events_of_debezium_become_a_table() {
    const COUNT: u32 = 3000;
    let (Some(kafka), Some(registry)) = (services::kafka(), services::schema_registry()) else { return };
    let Some(clickhouse) = services::clickhouse_current() else { return };
    let Some(topic) = written(&kafka, &registry, "events", COUNT).await else { return };
    let registry = SchemaRegistry::builder(&registry).build().unwrap();
    let database = unique_name("avro");
    let source = KafkaSource::builder()
        .bootstrap_servers(kafka.bootstrap.as_str())
        .topics([topic.as_str()])
        .startup_mode(StartupMode::Earliest)
        .format(Changes::debezium_avro(registry))
        .table(&format!("{database}.orders"))
        .bounded()
        .build()
        .unwrap();
    let (host, port) = clickhouse.tcp.rsplit_once(':').unwrap();
    let sink = BytehouseCdwSink::builder()
        .clickhouse(host, port.parse().unwrap())
        .mode(SinkModeName::Upsert)
        .build()
        .unwrap();
    Pipeline::new(source, sink).run(CancellationToken::new()).await.unwrap();
    let types: Vec<Vec<String>> = clickhouse
        .query(&format!(
            "SELECT name, type FROM system.columns WHERE database = '{database}' AND table = 'orders' AND name IN ('id', 'v', 'amount', 'at') ORDER BY name"
        ))
        .await
        .unwrap();
    let types: Vec<String> = types.iter().map(|row| row.join(" ")).collect();
    assert_eq!(types, ["amount Decimal(10, 2)", "at DateTime64(6)", "id Int64", "v Nullable(String)"]);
    let expected: Vec<String> = (0..COUNT)
        .filter(|number| number % 5 != 0)
        .map(|number| {
            let text = if number % 3 == 0 { "updated" } else { "created" };
            format!("{number} {text} {number} {}", number * 1_000_001)
        })
        .collect();
    let rows = clickhouse
        .query(&format!(
            "SELECT id, v, toInt64(amount * 100), toUnixTimestamp64Micro(at) FROM {database}.orders FINAL ORDER BY id"
        ))
        .await
        .unwrap();
    let rows: Vec<String> = rows.iter().map(|row| row.join(" ")).collect();
    assert_eq!(rows, expected);
    clickhouse.execute(&format!("DROP DATABASE {database}")).await;
}

/// A registry that has gone is told by name, and one that is none.
#[tokio::test(flavor = "multi_thread")]
async fn addresses_that_are_no_registry() {
    let (Some(kafka), Some(registry)) = (services::kafka(), services::schema_registry()) else { return };
    let nothing_there = registry.replace("/apis/ccompat/v7", "/apis/none");
    for (url, part) in
        [(nothing_there.as_str(), "schema_registry_url"), ("http://127.0.0.1:1", "cannot be reached")]
    {
        let registry = SchemaRegistry::builder(url).build().unwrap();
        let source = KafkaSource::builder()
            .bootstrap_servers(kafka.bootstrap.as_str())
            .topics(["none"])
            .format(Avro::new(registry))
            .build()
            .unwrap();
        let error = source.check().await.unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
}
