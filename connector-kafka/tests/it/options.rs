//! Options from pairs of text, end to end.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use connector_core::{
    BadRecordPolicy, Boundedness, CancellationToken, DeliveryGuarantee, ErrorKind, Pipeline, Result, Sink,
    SinkCapabilities, Source, WriterContext, async_trait, memory::MemorySink,
};
use connector_kafka::{Json, KafkaSource};

use crate::common::{Cluster, drain, id, open_all, schema};

#[tokio::test]
async fn a_source_from_the_keys_that_a_user_has_already() {
    let cluster = Cluster::with_topic("orders", 2);
    cluster.write_rows("orders", 0, 0..20);
    cluster.write_rows("orders", 1, 20..40);
    let source = KafkaSource::from_options([
        ("job.reader.kafka_servers", cluster.address().as_str()),
        ("job.reader.topics", "orders"),
        ("job.reader.group_id", "loader"),
        ("job.reader.format_type", "json"),
        ("job.reader.start_offset", "5"),
        ("job.reader.end_offset", "9"),
        ("job.reader.max_partition_num_per_consumer", "1"),
        ("job.reader.commit_in_checkpoint", "true"),
        ("job.reader.properties", r#"{"fetch.wait.max.ms": 100, "request.timeout.ms": 20000}"#),
        ("job.reader.bad_record_policy", "skip"),
        ("job.common.job_type", "BATCH"),
        ("job.common.global_timezone", "Asia/Shanghai"),
    ])
    .unwrap()
    .format(Json::with_schema(schema()))
    .build()
    .unwrap();
    assert_eq!(source.boundedness(), Boundedness::Bounded);
    assert_eq!(source.discovery_interval(), None);
    assert_eq!(source.suggested_parallelism(2), 2);
    let seen = drain(&mut open_all(&source).await).await;
    assert_eq!(seen.ids[&id("orders", 0)], (5..10).collect::<Vec<_>>());
    assert_eq!(seen.ids[&id("orders", 1)], (25..30).collect::<Vec<_>>());
}

#[tokio::test]
async fn reading_from_the_first_to_the_latest_offset() {
    let cluster = Cluster::with_topic("orders", 1);
    cluster.write_rows("orders", 0, 0..20);
    let source = KafkaSource::from_options([
        ("bootstrap_servers", cluster.address().as_str()),
        ("topics", "orders"),
        ("read_from_earliest_offset", "true"),
        ("read_to_latest_offset", "true"),
    ])
    .unwrap()
    .format(Json::with_schema(schema()))
    .build()
    .unwrap();
    assert_eq!(source.boundedness(), Boundedness::Bounded);
    assert_eq!(drain(&mut open_all(&source).await).await.all(), (0..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn without_a_place_to_start_only_a_checkpoint_can_say_it() {
    let cluster = Cluster::with_topic("orders", 1);
    cluster.write_rows("orders", 0, 0..20);
    let source = cluster
        .source(&["orders"])
        .auto_offset_reset(connector_kafka::AutoOffsetReset::None)
        .bad_record_policy(BadRecordPolicy::Skip)
        .bounded()
        .build()
        .unwrap();
    let error = source.discover(&[]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OptionInvalid);
    assert!(error.message().contains("start_offset"), "{error}");
    let split = connector_kafka::KafkaSplit::new("orders", 0).starting_at(3);
    source.open(vec![split]).await.unwrap();
}

/// A sink that notes how many chains there are, and which of them write.
struct Counting {
    sink: MemorySink,
    chains: Arc<Mutex<BTreeSet<(usize, usize)>>>,
}

#[async_trait]
impl Sink for Counting {
    type Writer = <MemorySink as Sink>::Writer;

    fn connector(&self) -> &'static str {
        self.sink.connector()
    }

    fn capabilities(&self) -> SinkCapabilities {
        self.sink.capabilities()
    }

    async fn check(&self, delivery: DeliveryGuarantee) -> Result<()> {
        self.sink.check(delivery).await
    }

    async fn open(&self, context: WriterContext) -> Result<Self::Writer> {
        self.chains.lock().unwrap().insert((context.chain, context.chains));
        self.sink.open(context).await
    }
}

#[tokio::test]
async fn partitions_for_a_reader_and_readers_set_the_chains() {
    let cluster = Cluster::with_topic("orders", 5);
    for partition in 0..5 {
        cluster.write_rows("orders", partition, 0..3);
    }
    let chains = |options: &'static [(&'static str, &'static str)], told: Option<usize>| {
        let address = cluster.address();
        async move {
            let base = [("bootstrap_servers", address.as_str()), ("topics", "orders"), ("job_type", "BATCH")];
            let source = KafkaSource::from_options(base.iter().chain(options).copied()).unwrap();
            let source = source.format(Json::with_schema(schema())).build().unwrap();
            let chains = Arc::new(Mutex::new(BTreeSet::new()));
            let sink = Counting { sink: MemorySink::new(), chains: Arc::clone(&chains) };
            let mut pipeline = Pipeline::new(source, sink);
            if let Some(told) = told {
                pipeline = pipeline.parallelism(told);
            }
            let report = pipeline.run(CancellationToken::new()).await.unwrap();
            assert_eq!(report.rows_read, 15);
            let chains = chains.lock().unwrap();
            assert!(chains.iter().all(|(_, all)| *all == chains.len()), "{chains:?}");
            chains.len()
        }
    };
    assert_eq!(chains(&[], None).await, 1, "nobody asked for more");
    assert_eq!(chains(&[("max_partition_num_per_consumer", "2")], None).await, 3);
    assert_eq!(
        chains(&[("max_partition_num_per_consumer", "2"), ("reader_parallelism_num", "4")], None).await,
        4
    );
    assert_eq!(chains(&[("reader_parallelism_num", "4")], Some(2)).await, 2, "the host has the last word");
}

/// Writes OPTIONS.md with `UPDATE_DOCS=1`, else compares.
#[test]
fn options_md_is_what_the_declarations_say() {
    let text = format!(
        "# Options of connector-kafka\n\nWritten by a test (`UPDATE_DOCS=1 cargo test -p connector-kafka options_md`).\n\n{}",
        connector_core::options::markdown(&[
            connector_kafka::KafkaSourceOptions::OPTIONS,
            connector_kafka::KafkaSinkOptions::OPTIONS
        ])
    );
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("OPTIONS.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), text, "run it with UPDATE_DOCS=1");
}
