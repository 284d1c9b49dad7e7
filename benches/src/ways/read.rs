//! Kafka records, read as batches or only counted.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use connector_core::{Source as _, SourceEvent, SourceReader as _, TableSchema};
use connector_kafka::{Assignment, Changes, Json, KafkaSource, StartupMode};
use connector_tests::{kafka::Record, services::Kafka, unique_name};
use rdkafka::{
    Message as _, Offset, TopicPartitionList,
    config::ClientConfig,
    consumer::{BaseConsumer, Consumer as _},
};

use super::Tally;
use crate::{
    cli::Job,
    measure::{Meter, Outcome},
    orders::{self, Payloads},
    services,
};

/// The partitions of the bench's topic.
pub(crate) const PARTITIONS: i32 = 4;

/// Our source, in one reader.
pub(crate) async fn ours(job: &Job) -> Result<Outcome> {
    let source = KafkaSource::builder()
        .bootstrap_servers(services::kafka()?.bootstrap)
        .topics([job.topic.as_str()])
        .format(Json::with_schema(orders::schema("UTC")))
        .bounded()
        .build()?;
    let outcome = read_all(&source, job.rows).await?;
    Ok(outcome.with_bytes(Payloads::new(job.rows).len()))
}

/// Reads a bounded source to its end, in one reader.
pub(super) async fn read_all(source: &KafkaSource, rows: u64) -> Result<Outcome> {
    let splits = source.discover(&[]).await?;
    let mut tally = Tally::default();
    let mut reader = source.open(splits).await?;
    let meter = Meter::start()?;
    while let Some(event) = reader.next().await? {
        if let SourceEvent::Batch { rows, .. } = event {
            tally.add(rows.rows());
        }
    }
    let outcome = meter.stop(rows)?;
    reader.close().await?;
    tally.check(rows)?;
    Ok(outcome)
}

/// Our source without an end, until all orders have come, from when it has its partitions on: given by hand, or as the only
/// member of a group. The last batch waits for more in either way.
pub(crate) async fn unbounded(job: &Job, assignment: Assignment) -> Result<Outcome> {
    let source = KafkaSource::builder()
        .bootstrap_servers(services::kafka()?.bootstrap)
        .topics([job.topic.as_str()])
        .format(Json::with_schema(orders::schema("UTC")))
        .assignment(assignment)
        .group_id(unique_name("bench"))
        .startup_mode(StartupMode::Earliest)
        .build()?;
    let mut tally = Tally::default();
    let mut reader = source.open(source.discover(&[]).await?).await?;
    let mut meter = match assignment {
        Assignment::Group => None,
        _ => Some(Meter::start()?),
    };
    while tally.rows < job.rows {
        match reader.next().await? {
            Some(SourceEvent::Batch { rows, .. }) => tally.add(rows.rows()),
            Some(SourceEvent::Assigned { .. }) if meter.is_none() => meter = Some(Meter::start()?),
            Some(_) => {}
            None => break,
        }
    }
    let outcome = meter.context("the group gave no partitions")?.stop(job.rows)?;
    reader.close().await?;
    tally.check(job.rows)?;
    Ok(outcome)
}

/// Writes records into a topic, some at a time.
pub(super) async fn fill(kafka: &Kafka, topic: &str, mut records: impl Iterator<Item = Record>) {
    loop {
        let some: Vec<Record> = records.by_ref().take(100_000).collect();
        if some.is_empty() {
            return;
        }
        kafka.produce(topic, some).await;
    }
}

/// The orders as they are created, in a topic of their own.
pub(crate) async fn debezium(job: &Job) -> Result<Outcome> {
    let kafka = services::kafka()?;
    let topic = unique_name("bench_debezium");
    kafka.create_topic(&topic, PARTITIONS, &[]).await;
    let mut bytes = 0;
    let payloads = Payloads::new(job.rows);
    let events = payloads.iter().zip(0_i32..).map(|(order, number)| {
        let order = String::from_utf8_lossy(order);
        let event = format!(
            r#"{{"before":null,"after":{order},"source":{{"connector":"mysql","db":"shop","table":"orders"}},"op":"c","ts_ms":1700000000000}}"#
        );
        bytes += event.len() as u64;
        Record::new(number % PARTITIONS, event)
    });
    fill(&kafka, &topic, events).await;
    let source = KafkaSource::builder()
        .bootstrap_servers(kafka.bootstrap.as_str())
        .topics([topic.as_str()])
        .format(Changes::debezium().table(TableSchema::new(orders::schema("UTC"))))
        .bounded()
        .build()?;
    let outcome = read_all(&source, job.rows).await?;
    kafka.delete_topic(&topic).await;
    Ok(outcome.with_bytes(bytes))
}

/// librdkafka's consumer through its usual binding, in a loop that counts bytes.
pub(crate) fn bare(job: &Job) -> Result<Outcome> {
    let consumer = BareConsumer::open(job)?;
    let mut bytes = 0;
    let meter = Meter::start()?;
    consumer.read(job.rows, |value| {
        bytes += value.len();
        Ok(())
    })?;
    let outcome = meter.stop(job.rows)?;
    ensure!(bytes > 0, "the records are empty");
    Ok(outcome)
}

/// librdkafka's consumer on all partitions from the start.
pub(crate) struct BareConsumer(BaseConsumer);

impl BareConsumer {
    pub(crate) fn open(job: &Job) -> Result<Self> {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", services::kafka()?.bootstrap)
            .set("group.id", "connector-benches")
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            // With the default of 1000 a fast reader waits for most of the time.
            .set("fetch.queue.backoff.ms", "10")
            .create()?;
        let mut partitions = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            partitions.add_partition_offset(&job.topic, partition, Offset::Beginning)?;
        }
        consumer.assign(&partitions)?;
        Ok(Self(consumer))
    }

    /// Hands the values of the next `records` records to `take`.
    pub(crate) fn read(&self, records: u64, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut left = records;
        while left > 0 {
            if let Some(message) = self.0.poll(Duration::from_millis(100)) {
                take(message?.payload().unwrap_or_default())?;
                left -= 1;
            }
        }
        Ok(())
    }
}
