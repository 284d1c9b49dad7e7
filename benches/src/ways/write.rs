//! Orders as Kafka records: our sink, and librdkafka's producer in a loop.

use std::{thread, time::Duration};

use anyhow::{Result, anyhow, bail, ensure};
use connector_core::{ChangeBatch, Sink as _, SinkWriter as _, TableId, WriterContext};
use connector_kafka::{Json, KafkaSink};
use connector_tests::unique_name;
use rdkafka::{
    config::ClientConfig,
    error::{KafkaError, RDKafkaErrorCode},
    producer::{BaseRecord, DefaultProducerContext, Producer as _, ThreadedProducer},
};

use crate::{
    cli::Job,
    measure::{Meter, Outcome},
    orders::{self, Payloads},
    services,
    ways::read::PARTITIONS,
};

/// Rows of a batch.
const BATCH_ROWS: usize = 65_536;

/// Our sink, from Arrow batches that are ready.
pub(crate) async fn ours(job: &Job) -> Result<Outcome> {
    let topic = Topic::create().await?;
    let mut decoder = Json::with_schema(orders::schema("UTC")).decoder()?;
    let mut batches = Vec::new();
    for payload in Payloads::new(job.rows).iter() {
        decoder.decode(payload)?;
        if decoder.len() == BATCH_ROWS {
            batches.push(decoder.finish()?);
        }
    }
    batches.push(decoder.finish()?);
    let sink = KafkaSink::builder()
        .bootstrap_servers(services::kafka()?.bootstrap)
        .topic(topic.0.as_str())
        .build()?;
    let mut writer = sink.open(WriterContext::default()).await?;
    let table = TableId::new("", "orders");
    let meter = Meter::start()?;
    for batch in batches {
        writer.write(&table, ChangeBatch::append(batch)).await?;
    }
    let flushed = writer.flush(None).await?;
    let outcome = meter.stop(job.rows)?;
    writer.close().await?;
    ensure!(flushed.rows == job.rows, "{} rows were written instead of {}", flushed.rows, job.rows);
    topic.check(job.rows).await?;
    Ok(outcome)
}

/// Records that are ready, by a producer with the same guarantees.
pub(crate) async fn bare(job: &Job) -> Result<Outcome> {
    let topic = Topic::create().await?;
    let (name, rows) = (topic.0.clone(), job.rows);
    let outcome = tokio::task::spawn_blocking(move || produce(&name, rows)).await??;
    topic.check(job.rows).await?;
    Ok(outcome)
}

#[allow(clippy::disallowed_methods, reason = "it has a thread of its own")]
fn produce(topic: &str, rows: u64) -> Result<Outcome> {
    let payloads = Payloads::new(rows);
    let producer: ThreadedProducer<DefaultProducerContext> = ClientConfig::new()
        .set("bootstrap.servers", services::kafka()?.bootstrap)
        .set("enable.idempotence", "true")
        .set("queue.buffering.max.messages", "0")
        .set("queue.buffering.max.kbytes", "32768")
        .set("linger.ms", "20")
        .set("sticky.partitioning.linger.ms", "100")
        .create()?;
    let meter = Meter::start()?;
    for payload in payloads.iter() {
        let mut record: BaseRecord<'_, (), [u8]> = BaseRecord::to(topic).payload(payload);
        loop {
            record = match producer.send(record) {
                Ok(()) => break,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => back,
                Err((error, _)) => bail!(error),
            };
            thread::sleep(Duration::from_millis(1));
        }
    }
    producer.flush(Duration::from_secs(60))?;
    meter.stop(rows)
}

/// A topic of one run.
struct Topic(String);

impl Topic {
    async fn create() -> Result<Self> {
        let name = unique_name("bench_write");
        services::kafka()?.create_topic(&name, PARTITIONS, &[]).await;
        Ok(Self(name))
    }

    /// Every record is there once; then the topic goes.
    async fn check(&self, rows: u64) -> Result<()> {
        let kafka = services::kafka()?;
        let mut found = 0;
        for partition in 0..PARTITIONS {
            let (low, high) = kafka.watermarks(&self.0, partition).await;
            found += high - low;
        }
        kafka.delete_topic(&self.0).await;
        let wanted = i64::try_from(rows).map_err(|_| anyhow!("too many rows"))?;
        ensure!(found == wanted, "the topic holds {found} records instead of {wanted}");
        Ok(())
    }
}
