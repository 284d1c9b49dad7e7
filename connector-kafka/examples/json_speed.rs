//! How fast JSON becomes Arrow: our decoder and arrow-json's over the same records in memory.
//!
//! ```text
//! cargo run --release -p connector-kafka --example json_speed -- [ROWS] [ROUNDS]
//! ```
//!
//! The records are orders of about 185 bytes, all of which follow from their ids. Both decoders make
//! batches of 8192 rows on one thread, take turns, and are checked against each other first.

use std::{fmt::Write, hint::black_box, sync::Arc, time::Instant};

use arrow_json::{ReaderBuilder, reader::Decoder};
use connector_core::arrow::{
    array::RecordBatch,
    datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit},
};
use connector_kafka::format::{Json, JsonDecoder};

type AnyError = Box<dyn std::error::Error>;

const BATCH_ROWS: usize = 8192;
const STATUSES: [&str; 5] = ["created", "paid", "shipped", "delivered", "cancelled"];
const NOTES: [&str; 8] = [
    "",
    "请尽快发货,谢谢",
    "ring twice 🔔",
    r#"the \"blue\" one"#,
    "生日快乐🎂请附贺卡",
    "standard delivery",
    "易碎 — handle with care",
    r"back door\nsecond floor",
];
const TAGS: [&str; 8] = ["vip", "gift🎁", "b2b", "北京", "深圳", "promo", "returning", "express"];

/// Numbers that look random but follow from a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (bits ^ (bits >> 31)) % bound
    }

    fn pick<'a>(&mut self, texts: &[&'a str; 8]) -> &'a str {
        texts[usize::try_from(self.below(8)).unwrap_or(0)]
    }
}

/// The order with this id.
fn order(id: u64) -> Result<String, AnyError> {
    let mut random = Random(id);
    let mut text = String::with_capacity(224);
    write!(text, r#"{{"id":{id},"customer":"cust-{:08}""#, random.below(5_000_000))?;
    write!(text, r#","amount":"{}.{:04}""#, random.below(100_000), random.below(10_000))?;
    let status = STATUSES[usize::try_from(random.below(5))?];
    write!(text, r#","status":"{status}","note":"{}""#, random.pick(&NOTES))?;
    let millis = i64::try_from(1_767_225_600_000 + id * 137)?;
    write!(text, r#","created_at":"{:.3}""#, jiff::Timestamp::from_millisecond(millis)?)?;
    match random.below(5) {
        0 | 1 => text.push_str(r#","discount":null"#),
        _ => write!(text, r#","discount":{}"#, random.below(90))?,
    }
    text.push_str(r#","tags":["#);
    for tag in 0..random.below(4) {
        write!(text, r#"{}"{}""#, if tag == 0 { "" } else { "," }, random.pick(&TAGS))?;
    }
    text.push_str("]}");
    Ok(text)
}

fn schema() -> SchemaRef {
    let tag = Field::new("item", DataType::Utf8, false);
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::UInt64, false),
        Field::new("customer", DataType::Utf8, false),
        Field::new("amount", DataType::Decimal128(18, 4), false),
        Field::new("status", DataType::Utf8, false),
        Field::new("note", DataType::Utf8, false),
        Field::new("created_at", DataType::Timestamp(TimeUnit::Millisecond, Some("+00:00".into())), false),
        Field::new("discount", DataType::Int32, true),
        Field::new("tags", DataType::List(Arc::new(tag)), false),
    ]))
}

/// Decodes all records, hands every batch to `sink`, and returns the seconds that it took.
fn run_ours(
    decoder: &mut JsonDecoder,
    records: &[String],
    mut sink: impl FnMut(RecordBatch),
) -> Result<f64, AnyError> {
    let start = Instant::now();
    for record in records {
        decoder.decode(record.as_bytes())?;
        if decoder.len() == BATCH_ROWS {
            sink(decoder.finish()?);
        }
    }
    sink(decoder.finish()?);
    Ok(start.elapsed().as_secs_f64())
}

fn run_arrow_json(
    decoder: &mut Decoder,
    records: &[String],
    mut sink: impl FnMut(RecordBatch),
) -> Result<f64, AnyError> {
    let start = Instant::now();
    for (row, record) in records.iter().enumerate() {
        if decoder.decode(record.as_bytes())? != record.len() || decoder.has_partial_record() {
            return Err("arrow-json did not take the whole record".into());
        }
        if (row + 1) % BATCH_ROWS == 0
            && let Some(batch) = decoder.flush()?
        {
            sink(batch);
        }
    }
    if let Some(batch) = decoder.flush()? {
        sink(batch);
    }
    Ok(start.elapsed().as_secs_f64())
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn main() -> Result<(), AnyError> {
    let mut args = std::env::args().skip(1);
    let rows: u64 = args.next().map_or(Ok(500_000), |arg| arg.parse())?;
    let rounds: usize = args.next().map_or(Ok(9), |arg| arg.parse())?;
    let records = (0..rows).map(order).collect::<Result<Vec<_>, _>>()?;
    let bytes: usize = records.iter().map(String::len).sum();
    println!("{rows} records, {:.1} bytes each", bytes as f64 / rows as f64);

    let mut ours = Json::with_schema(schema()).decoder()?;
    let mut arrow = ReaderBuilder::new(schema()).with_batch_size(BATCH_ROWS).build_decoder()?;
    let (mut left, mut right) = (Vec::new(), Vec::new());
    run_ours(&mut ours, &records, |batch| left.push(batch))?;
    run_arrow_json(&mut arrow, &records, |batch| right.push(batch))?;
    left.retain(|batch| batch.num_rows() > 0);
    if left != right {
        return Err("the two decoders do not agree".into());
    }
    drop((left, right));

    let (mut ours_rates, mut arrow_rates, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds.max(1) {
        let keep = |batch| drop(black_box(batch));
        // Who goes first changes, so that neither always runs on a warmer or colder machine.
        let (ours_time, arrow_time) = if round % 2 == 0 {
            let first = run_ours(&mut ours, &records, keep)?;
            (first, run_arrow_json(&mut arrow, &records, keep)?)
        } else {
            let first = run_arrow_json(&mut arrow, &records, keep)?;
            (run_ours(&mut ours, &records, keep)?, first)
        };
        let (ours_rate, arrow_rate) = (rows as f64 / ours_time, rows as f64 / arrow_time);
        println!("round {round}: ours {ours_rate:>10.0} rows/s, arrow-json {arrow_rate:>10.0} rows/s");
        ours_rates.push(ours_rate);
        arrow_rates.push(arrow_rate);
        ratios.push(ours_rate / arrow_rate);
    }
    println!(
        "median: ours {:.0} rows/s, arrow-json {:.0} rows/s, ratio {:.2}",
        median(&mut ours_rates),
        median(&mut arrow_rates),
        median(&mut ratios)
    );
    Ok(())
}
