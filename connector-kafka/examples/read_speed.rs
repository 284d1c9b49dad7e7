//! How fast a topic is read: rows a second and CPU of a bare librdkafka loop, of the JSON decoder alone,
//! and of this source into Arrow.
//!
//! ```text
//! cargo run --release -p connector-kafka --example read_speed -- ADDRESS TOPIC write 2000000
//! cargo run --release -p connector-kafka --example read_speed -- ADDRESS TOPIC count|decode|source [NAME=VALUE…]
//! ```
//!
//! `write` makes JSON orders of about 185 bytes in 4 partitions of a new topic. `NAME=VALUE` sets a client property.
#![allow(clippy::let_underscore_must_use, reason = "writing to a string cannot fail")]

use std::{
    error::Error,
    fmt::Write as _,
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use connector_core::{
    Source, SourceEvent, SourceReader,
    arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit},
};
use connector_kafka::{Json, KafkaSource, StartupMode};
use rdkafka::{
    ClientConfig, Message, Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    consumer::{BaseConsumer, Consumer},
    producer::{BaseProducer, BaseRecord, Producer},
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const PARTITIONS: i32 = 4;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [address, topic, what, rest @ ..] = args.as_slice() else {
        return Err("usage: read_speed ADDRESS TOPIC write|count|decode|source …".into());
    };
    let properties: Vec<(&str, &str)> = rest.iter().filter_map(|pair| pair.split_once('=')).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    match what.as_str() {
        "write" => runtime.block_on(write(address, topic, rest.first().ok_or("how many?")?.parse()?)),
        "count" => count(address, topic, &properties),
        "decode" => decode(address, topic),
        "source" => runtime.block_on(source(address, topic, &properties)),
        other => Err(format!("`{other}` is none of write, count, decode, source").into()),
    }
}

/// Wall time and CPU since it was made.
struct Meter(Instant, f64);

impl Meter {
    fn start() -> Self {
        Self(Instant::now(), cpu_seconds())
    }

    fn report(&self, what: &str, rows: u64, bytes: u64) {
        let (wall, cpu) = (self.0.elapsed().as_secs_f64(), cpu_seconds() - self.1);
        #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
        let (rows_f, bytes_f) = (rows as f64, bytes as f64);
        println!(
            "{what}: {rows} rows in {wall:.2} s = {:.0} rows/s, {:.0} MB/s, {:.2} s CPU = {:.2} µs a row, peak {} MiB",
            rows_f / wall,
            bytes_f / wall / 1e6,
            cpu,
            cpu / rows_f * 1e6,
            peak_mib()
        );
    }
}

/// User and system time of this process, from the kernel's own count in hundredths of a second.
fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program may hold spaces; the fields begin behind its bracket.
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

fn peak_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) / 1024
}

fn schema() -> SchemaRef {
    let item = Arc::new(Field::new("item", DataType::Utf8, false));
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::UInt64, false),
        Field::new("customer", DataType::Utf8, false),
        Field::new("amount", DataType::Decimal128(18, 4), false),
        Field::new("status", DataType::Utf8, false),
        Field::new("note", DataType::Utf8, false),
        Field::new("created_at", DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())), false),
        Field::new("discount", DataType::Int32, true),
        Field::new("tags", DataType::List(item), false),
    ]))
}

fn order(id: u64, text: &mut String) {
    const STATUS: [&str; 4] = ["created", "paid", "shipped", "delivered"];
    const NOTE: [&str; 4] = ["leave at the door 🚪", "请尽快送达", "", "he said \\\"later\\\""];
    const TAGS: [&str; 4] = ["[]", r#"["vip"]"#, r#"["new","北京"]"#, r#"["promo","gift","b2b"]"#];
    // Spreads consecutive ids over all values.
    let mix = id.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
    let pick = |list: [&'static str; 4], shift: u32| list[usize::try_from(mix >> shift & 3).unwrap_or(0)];
    text.clear();
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        r#"{{"id":{id},"customer":"cust-{:08}","amount":"{}.{:04}","status":"{}","note":"{}","created_at":"2026-01-{:02}T{:02}:{:02}:{:02}.{:03}Z","discount":{},"tags":{}}}"#,
        mix % 5_000_000,
        mix % 100_000,
        mix % 10_000,
        pick(STATUS, 8),
        pick(NOTE, 10),
        mix % 28 + 1,
        mix % 24,
        mix % 60,
        mix % 59,
        mix % 1000,
        if mix % 5 < 2 { "null".to_owned() } else { (mix % 90).to_string() },
        pick(TAGS, 12),
    );
}

async fn write(address: &str, topic: &str, rows: u64) -> Result<()> {
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", address).create()?;
    let new = NewTopic::new(topic, PARTITIONS, TopicReplication::Fixed(1));
    for made in admin.create_topics(&[new], &AdminOptions::new()).await? {
        made.map_err(|(name, code)| format!("cannot make {name}: {code}"))?;
    }
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", address)
        .set("linger.ms", "50")
        .set("queue.buffering.max.messages", "200000")
        .create()?;
    let mut text = String::new();
    for id in 0..rows {
        order(id, &mut text);
        let partition = i32::try_from(id % 4)?;
        let mut record = BaseRecord::<(), str>::to(topic).partition(partition).payload(&text);
        while let Err((_, back)) = producer.send(record) {
            record = back;
            producer.poll(Duration::from_millis(10));
        }
    }
    producer.flush(Duration::from_secs(60))?;
    Ok(())
}

fn consumer(address: &str, topic: &str, properties: &[(&str, &str)]) -> Result<(BaseConsumer, u64)> {
    let mut config = ClientConfig::new();
    for (name, value) in [
        ("bootstrap.servers", address),
        ("group.id", "read-speed"),
        ("enable.auto.commit", "false"),
        ("enable.auto.offset.store", "false"),
        ("fetch.queue.backoff.ms", "10"),
    ] {
        config.set(name, value);
    }
    for (name, value) in properties {
        config.set(*name, *value);
    }
    let consumer: BaseConsumer = config.create()?;
    let (mut list, mut records) = (TopicPartitionList::new(), 0);
    for partition in 0..PARTITIONS {
        let (low, high) = consumer.fetch_watermarks(topic, partition, Duration::from_secs(10))?;
        list.add_partition_offset(topic, partition, Offset::Offset(low))?;
        records += u64::try_from(high - low)?;
    }
    consumer.assign(&list)?;
    Ok((consumer, records))
}

fn read_bare(consumer: &BaseConsumer, records: u64, mut each: impl FnMut(&[u8])) -> Result<()> {
    let mut read = 0;
    while read < records {
        if let Some(message) = consumer.poll(Duration::from_millis(100)) {
            each(message?.payload().unwrap_or_default());
            read += 1;
        }
    }
    Ok(())
}

fn count(address: &str, topic: &str, properties: &[(&str, &str)]) -> Result<()> {
    let (consumer, records) = consumer(address, topic, properties)?;
    let (meter, mut bytes) = (Meter::start(), 0);
    read_bare(&consumer, records, |value| bytes += value.len() as u64)?;
    meter.report("bare loop that counts", records, bytes);
    Ok(())
}

fn decode(address: &str, topic: &str) -> Result<()> {
    let (consumer, records) = consumer(address, topic, &[])?;
    let (mut values, mut ends) = (Vec::new(), Vec::new());
    read_bare(&consumer, records, |value| {
        values.extend_from_slice(value);
        ends.push(values.len());
    })?;
    let mut decoder = Json::with_schema(schema()).decoder()?;
    let (meter, mut start, mut rows) = (Meter::start(), 0, 0);
    for end in ends {
        decoder.decode(&values[start..end])?;
        start = end;
        if decoder.len() == 65_536 {
            rows += decoder.finish()?.num_rows() as u64;
        }
    }
    rows += decoder.finish()?.num_rows() as u64;
    meter.report("decoder alone", rows, values.len() as u64);
    Ok(())
}

async fn source(address: &str, topic: &str, properties: &[(&str, &str)]) -> Result<()> {
    let mut builder = KafkaSource::builder()
        .bootstrap_servers(address)
        .topics([topic])
        .startup_mode(StartupMode::Earliest)
        .bounded()
        .format(Json::with_schema(schema()));
    for (name, value) in properties {
        builder = builder.property(*name, *value);
    }
    let source = builder.build()?;
    let meter = Meter::start();
    let mut reader = source.open(source.discover(&[]).await?).await?;
    let (mut rows, mut batches, mut bytes) = (0, 0_u64, 0);
    while let Some(event) = reader.next().await? {
        if let SourceEvent::Batch { rows: batch, .. } = event {
            rows += batch.num_rows() as u64;
            bytes += batch.memory_size() as u64;
            batches += 1;
        }
    }
    meter.report("source into Arrow", rows, bytes);
    println!("{batches} batches of {} rows", rows.checked_div(batches).unwrap_or(0));
    reader.close().await?;
    Ok(())
}
