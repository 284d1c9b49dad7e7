//! Exactly once into Kafka: processes killed at every step, the core's contracts, and topics that are created.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use connector_core::{
    CancellationToken, ChangeBatch, DeliveryGuarantee, ErrorKind, MemoryCheckpointStore, Pipeline, RowKind,
    SchemaChange, Sink, SinkWriter, Source, SourceEvent, SourceOffsets, SourceReader, SplitId, TableId,
    TableSchema, WriterContext,
    arrow::array::RecordBatch,
    async_trait,
    options::PropertyMap,
    testkit::{SinkFixture, check_sink, orders as rows, orders_schema},
};
use connector_kafka::{KafkaSink, KafkaSource, StartupMode, format::Json};
use connector_tests::{
    kafka::Read,
    process::Program,
    services::{self, Kafka},
    unique_name,
};
use tempfile::TempDir;
use tokio::{process::Command, time::sleep};

const ROWS: u64 = 20_000;
const PARTITIONS: i32 = 3;
const LIMIT: Duration = Duration::from_secs(120);

/// A copy of a topic, as a program that is started again and again.
struct Copy {
    kafka: Kafka,
    from: String,
    to: String,
    name: String,
    folder: TempDir,
}

impl Copy {
    async fn new(rows: u64) -> Option<Self> {
        let kafka = services::kafka()?;
        let (from, to) = (unique_name("from"), unique_name("to"));
        kafka.create_topic(&from, 4, &[]).await;
        kafka.create_topic(&to, PARTITIONS, &[]).await;
        kafka.produce_orders(&from, 0..rows, 4).await;
        Some(Self { kafka, from, to, name: unique_name("copy"), folder: tempfile::tempdir().unwrap() })
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start(&self, log: &str, options: &[&str]) -> Program {
        let mut command = Command::new(env!("CARGO_BIN_EXE_copy_pipeline"));
        command.args([
            format!("bootstrap={}", self.kafka.bootstrap),
            format!("from={}", self.from),
            format!("to={}", self.to),
            format!("name={}", self.name),
            format!("state={}", self.folder.path().join("state").display()),
        ]);
        command.args(options);
        Program::start(&mut command, &self.log(log)).unwrap()
    }

    /// Runs to a step and kills the program there.
    async fn kill_at(&self, step: &str, options: &[&str]) {
        let stop = format!("stop={step}");
        let all: Vec<&str> = options.iter().copied().chain([stop.as_str()]).collect();
        let mut program = self.start(step, &all);
        program.wait_for_line("stopped", LIMIT).await;
        program.kill_after(Duration::ZERO).await;
    }

    /// Runs to the end.
    async fn finish(&self, options: &[&str]) {
        let mut program = self.start("last", options);
        let status = program.wait(LIMIT).await;
        assert!(status.success(), "{}", program.output());
    }

    /// A sink of this copy, whose transactions tell a group how far the source was read.
    fn sink(&self, group: &str) -> KafkaSink {
        KafkaSink::builder()
            .bootstrap_servers(self.kafka.bootstrap.as_str())
            .topic(self.to.as_str())
            .key_fields(["id"])
            .source_group(group)
            .build()
            .unwrap()
    }

    /// The group's offsets are those behind the committed records of each partition; how many records there are.
    async fn check_group(&self, group: &str) -> u64 {
        let mut expected = [0; 4];
        for Read { key, .. } in self.kafka.read_committed(&self.to, PARTITIONS).await {
            let id: usize = String::from_utf8(key.unwrap()).unwrap().parse().unwrap();
            expected[id % 4] += 1;
        }
        for (partition, records) in (0..).zip(expected) {
            let found = self.kafka.committed_offset(group, &self.from, partition).await;
            assert_eq!(found, Some(records), "partition {partition} of {expected:?}");
        }
        u64::try_from(expected.iter().sum::<i64>()).unwrap()
    }

    /// Each order is there once, and in one partition in the order of its records.
    async fn check(&self, rows: u64) {
        let found = self.kafka.read_committed(&self.to, PARTITIONS).await;
        let mut times: BTreeMap<u64, u32> = BTreeMap::new();
        for Read { key, value, .. } in &found {
            let order: serde_json::Value = serde_json::from_slice(value.as_deref().unwrap()).unwrap();
            let id = order["id"].as_u64().unwrap();
            assert_eq!(key.as_deref(), Some(id.to_string().as_bytes()), "its key is its own");
            *times.entry(id).or_default() += 1;
        }
        let wrong: Vec<_> = (0..rows).filter(|id| times.get(id) != Some(&1)).take(10).collect();
        assert!(wrong.is_empty(), "orders that are lost or there more than once: {wrong:?}");
        assert_eq!(found.len() as u64, rows);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_every_step_each_record_is_there_once() {
    let Some(copy) = Copy::new(ROWS).await else { return };
    let quick = ["checkpoint_ms=20"];
    // Before a transaction, before its commit, behind it and before that is stored; the first ones and later ones, with other
    // numbers of chains than the run before.
    copy.kill_at("begin", &quick).await;
    copy.kill_at("announced:1", &quick).await;
    copy.kill_at("committed:1", &quick).await;
    copy.kill_at("committed:3", &["checkpoint_ms=20", "chains=3"]).await;
    copy.kill_at("announced:2", &["checkpoint_ms=20", "chains=2"]).await;
    // In the middle of a transaction.
    let mut program = copy.start("middle", &["checkpoint_ms=60000"]);
    let before = copy.kafka.written_end(&copy.to, 0).await;
    while program.is_running() && copy.kafka.written_end(&copy.to, 0).await < before + 50 {
        sleep(Duration::from_millis(10)).await;
    }
    program.kill_after(Duration::ZERO).await;
    copy.kill_at("committed:1", &quick).await;
    copy.finish(&quick).await;
    copy.check(ROWS).await;
    // Nothing is left to do.
    copy.finish(&quick).await;
    copy.check(ROWS).await;
}

/// The checkpoint is lost, and the transactions tell how far they came.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_checkpoint_is_made_up_for_by_the_transactions() {
    let Some(copy) = Copy::new(ROWS).await else { return };
    copy.kill_at("committed:2", &["checkpoint_ms=20", "chains=2"]).await;
    std::fs::remove_dir_all(copy.folder.path().join("state")).unwrap();
    copy.finish(&[]).await;
    copy.check(ROWS).await;
}

/// With `source_group`: the group's offsets are those behind the records that were committed, wherever the program was killed.
#[tokio::test(flavor = "multi_thread")]
async fn the_sources_group_has_the_offsets_of_the_records_that_were_committed() {
    let Some(copy) = Copy::new(ROWS).await else { return };
    let group = unique_name("group");
    let option = format!("group={group}");
    let mut before = 0;
    for (step, more) in
        [("announced:1", false), ("committed:2", true), ("announced:2", true), ("committed:1", true)]
    {
        copy.kill_at(step, &["checkpoint_ms=20", option.as_str()]).await;
        let committed = copy.check_group(&group).await;
        assert_eq!(committed > before, more, "{step}: {committed} records, {before} before");
        before = committed;
    }
    copy.finish(&["checkpoint_ms=20", "chains=3", option.as_str()]).await;
    assert_eq!(copy.check_group(&group).await, ROWS);
    copy.check(ROWS).await;
}

/// Nor does an acknowledgement of the source come behind the transactions' offsets: it commits none.
#[tokio::test(flavor = "multi_thread")]
async fn a_source_whose_offsets_go_along_commits_none_itself() {
    let Some(copy) = Copy::new(1000).await else { return };
    let (own, told) = (unique_name("group"), unique_name("group"));
    let source = KafkaSource::builder()
        .bootstrap_servers(copy.kafka.bootstrap.as_str())
        .topics([copy.from.as_str()])
        .startup_mode(StartupMode::Earliest)
        .bounded()
        .group_id(own.as_str())
        .format(Json::with_schema(connector_tests::orders::schema()))
        .build()
        .unwrap();
    assert_eq!(source.group(), own);
    let sink = copy.sink(&told);
    Pipeline::new(source, sink.clone())
        .name(copy.name.as_str())
        .delivery(DeliveryGuarantee::ExactlyOnce)
        .checkpoints(MemoryCheckpointStore::new(), Duration::from_millis(20))
        .run(CancellationToken::new())
        .await
        .unwrap();
    assert_eq!(copy.check_group(&told).await, 1000);
    for partition in 0..4 {
        assert_eq!(copy.kafka.committed_offset(&own, &copy.from, partition).await, None);
    }

    // What is no partition of this cluster is refused.
    for split in ["s0", "no-such-topic-0"] {
        sink.recover(&copy.name).await.unwrap();
        let context = WriterContext {
            delivery: DeliveryGuarantee::ExactlyOnce,
            pipeline: copy.name.clone(),
            ..WriterContext::default()
        };
        let mut writer = sink.open(context).await.unwrap();
        let mut offsets = SourceOffsets::default();
        offsets.insert(SplitId::new(split), 7.into());
        let error = writer.flush_with(&offsets).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OptionInvalid, "{error}");
        assert!(error.message().contains("`source_group`"), "{error}");
    }
    // And so is a group that has something else to keep.
    let context = WriterContext {
        delivery: DeliveryGuarantee::ExactlyOnce,
        pipeline: "p".to_owned(),
        ..WriterContext::default()
    };
    let sink = copy.sink("p-sink-0");
    sink.recover("p").await.unwrap();
    let error = sink.open(context).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OptionInvalid, "{error}");
}

/// The later run of one pipeline goes on, the earlier one ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_run_takes_the_place_of_the_first() {
    let Some(copy) = Copy::new(ROWS).await else { return };
    let endless = ["checkpoint_ms=50", "unbounded=true", "chains=2"];
    let mut first = copy.start("first", &endless);
    first.wait_for_line("checkpoint stored", LIMIT).await;
    // As on another machine, which has no checkpoint.
    let state = format!("state={}", copy.folder.path().join("elsewhere").display());
    let all: Vec<&str> = endless.iter().copied().chain([state.as_str()]).collect();
    let mut second = copy.start("second", &all);
    second.wait_for_line("pipeline starts", LIMIT).await;
    copy.kafka.produce_orders(&copy.from, ROWS..2 * ROWS, 4).await;
    let status = first.wait(LIMIT).await;
    assert!(!status.success(), "the first run ends");
    let log = first.output();
    assert!(log.contains("another run of the same name took this one's place"), "{log}");
    let deadline = tokio::time::Instant::now() + LIMIT;
    while (copy.kafka.read_committed(&copy.to, PARTITIONS).await.len() as u64) < 2 * ROWS {
        assert!(tokio::time::Instant::now() < deadline && second.is_running(), "{}", second.output());
        sleep(Duration::from_millis(100)).await;
    }
    assert!(second.terminate(LIMIT).await.success(), "{}", second.output());
    copy.check(2 * ROWS).await;
}

/// Makes sinks whose tables have topics of their own, which they create.
struct Topics {
    kafka: Kafka,
    offsets: String,
}

impl Topics {
    fn sink(&self) -> connector_kafka::KafkaSinkBuilder {
        KafkaSink::builder()
            .bootstrap_servers(self.kafka.bootstrap.as_str())
            .topic("${table}")
            .create_topic_enabled(true)
            .create_topic_partitions(2_u32)
            .transaction_topic(self.offsets.as_str())
    }
}

#[async_trait]
impl SinkFixture for Topics {
    type Sink = KafkaSink;

    async fn sink(&self) -> KafkaSink {
        Topics::sink(self).build().unwrap()
    }

    async fn table(&self) -> TableId {
        TableId::new("", unique_name("suite"))
    }

    async fn rows(&self, table: &TableId) -> Vec<RecordBatch> {
        let source = KafkaSource::builder()
            .bootstrap_servers(self.kafka.bootstrap.as_str())
            .topics([table.table.as_str()])
            .startup_mode(StartupMode::Earliest)
            .bounded()
            .format(Json::with_schema(orders_schema()))
            .build()
            .unwrap();
        let mut reader = source.open(source.discover(&[]).await.unwrap()).await.unwrap();
        let mut batches = Vec::new();
        while let Some(event) = reader.next().await.unwrap() {
            if let SourceEvent::Batch { rows, .. } = event {
                batches.push(rows.rows().clone());
            }
        }
        reader.close().await.unwrap();
        batches
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kafka_sink_keeps_the_contracts() {
    let Some(kafka) = services::kafka() else { return };
    let offsets = unique_name("offsets");
    kafka.create_topic(&offsets, 1, &[]).await;
    check_sink(&Topics { kafka, offsets }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_are_created_as_the_options_say() {
    let Some(kafka) = services::kafka() else { return };
    let topics = Topics { kafka, offsets: "none".to_owned() };
    let table = TableId::new("shop", unique_name("made"));
    let mut properties = PropertyMap::default();
    properties.insert("retention.ms", "123456789");
    let sink = topics.sink().create_topic_partitions(3_u32).create_topic_replication_factor(1_u32);
    let mut writer = sink
        .create_topic_properties(properties)
        .build()
        .unwrap()
        .open(WriterContext::default())
        .await
        .unwrap();
    // By the announcement, before there is a row; and once more by another writer, who finds it.
    let schema = TableSchema::new(orders_schema());
    writer.apply(&SchemaChange::CreateTable { table: table.clone(), schema }).await.unwrap();
    assert_eq!(topics.kafka.partition_count(&table.table).await, 3);
    assert_eq!(topics.kafka.topic_option(&table.table, "retention.ms").await, "123456789");
    let mut other = topics.sink().build().unwrap().open(WriterContext::default()).await.unwrap();
    other.write(&table, ChangeBatch::append(rows(0..10))).await.unwrap();
    assert_eq!(other.flush(None).await.unwrap().rows, 10);
    assert!(topics.sink().build().unwrap().capabilities().row_kinds.contains(&RowKind::Insert));

    // One topic for all rows is created at the start, with what the cluster has by default.
    let name = unique_name("made");
    let fixed = KafkaSink::builder().bootstrap_servers(topics.kafka.bootstrap.as_str()).topic(name.as_str());
    let refused = fixed.clone().build().unwrap().open(WriterContext::default()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound, "{refused}");
    let fixed = fixed.create_topic_enabled(true).build().unwrap();
    fixed.check(connector_core::DeliveryGuarantee::AtLeastOnce).await.unwrap();
    fixed.open(WriterContext::default()).await.unwrap();
    assert_eq!(topics.kafka.partition_count(&name).await, 1);

    // What the cluster cannot do is told.
    let impossible = topics.sink().create_topic_replication_factor(3_u32).build().unwrap();
    let mut writer = impossible.open(WriterContext::default()).await.unwrap();
    let table = TableId::new("shop", unique_name("made"));
    let error = writer.write(&table, ChangeBatch::append(rows(0..10))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OptionInvalid, "{error}");
    assert!(error.message().contains("create_topic_replication_factor"), "{error}");
}

/// A broker that allows no such time-out says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_may_not_outlast_what_the_broker_allows() {
    let Some(kafka) = services::kafka() else { return };
    let topic = unique_name("long");
    kafka.create_topic(&topic, 1, &[]).await;
    let sink = KafkaSink::builder()
        .bootstrap_servers(kafka.bootstrap.as_str())
        .topic(topic.as_str())
        .transaction_timeout(Duration::from_secs(3600))
        .build()
        .unwrap();
    let error = sink.recover(&unique_name("long")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OptionInvalid, "{error}");
    assert!(error.message().contains("transaction_timeout"), "{error}");
}
