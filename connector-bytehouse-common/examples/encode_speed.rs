//! How fast record batches become blocks and blocks become record batches, next to a plain copy of the same memory.
//!
//! Prints nanoseconds per row and megabytes per second, the best and the median of some rounds:
//! `cargo run --release -p connector-bytehouse-common --example encode_speed [rows]`.

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use connector_bytehouse_common::{
    native::{BlockEncoder, ColumnDef, EncodeRules, ReadOptions, read_block},
    wire::io::SliceSource,
};
use connector_core::{
    Result,
    arrow::{
        array::{
            Array, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
            TimestampSecondArray, UInt64Array,
        },
        datatypes::{DataType, Field, Schema, TimeUnit},
    },
};

const ROWS_PER_BLOCK: usize = 65_536;
const ROUNDS: usize = 9;
const COLUMNS: [(&str, &str); 8] = [
    ("id", "UInt64"),
    ("i", "Int32"),
    ("f", "Float64"),
    ("s20", "String"),
    ("s60", "String"),
    ("ts", "DateTime"),
    ("n", "Nullable(Int64)"),
    ("d", "Decimal(18, 4)"),
];

/// A small generator of numbers that look random and are the same every time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn signed_below(&mut self, end: u64) -> i64 {
        i64::try_from(self.below(end)).unwrap_or(0)
    }
}

fn schema() -> Schema {
    let utc = DataType::Timestamp(TimeUnit::Second, Some("UTC".into()));
    Schema::new(vec![
        Field::new("id", DataType::UInt64, false),
        Field::new("i", DataType::Int32, false),
        Field::new("f", DataType::Float64, false),
        Field::new("s20", DataType::Utf8, false),
        Field::new("s60", DataType::Utf8, false),
        Field::new("ts", utc, false),
        Field::new("n", DataType::Int64, true),
        Field::new("d", DataType::Decimal128(18, 4), false),
    ])
}

fn batch(schema: &Arc<Schema>, rows: std::ops::Range<u64>, numbers: &mut Numbers) -> Result<RecordBatch> {
    let ids: UInt64Array = rows.clone().collect::<Vec<_>>().into();
    let mut each = |make: &mut dyn FnMut(&mut Numbers)| rows.clone().for_each(|_| make(numbers));
    let (mut i, mut f, mut s20, mut s60, mut n, mut d) = (vec![], vec![], vec![], vec![], vec![], vec![]);
    each(&mut |r| i.push(i32::try_from(r.signed_below(2_000_000) - 1_000_000).unwrap_or(0)));
    each(&mut |r| f.push(f64::from(u32::try_from(r.below(1_000_000)).unwrap_or(0)) / 7.0));
    each(&mut |r| s20.push(format!("user-{:015}", r.below(1_000_000_000_000))));
    each(&mut |r| s60.push(format!("https://example.test/path/{:016x}/{:016x}", r.next(), r.next())));
    each(&mut |r| n.push((r.below(7) != 0).then(|| r.signed_below(1 << 62))));
    each(&mut |r| d.push(i128::from(r.below(10_000_000_000))));
    let ts: Vec<i64> = rows.map(|row| 1_700_000_000 + i64::try_from(row / 10).unwrap_or(0)).collect();
    let decimals = Decimal128Array::from(d).with_precision_and_scale(18, 4);
    let batch = decimals.and_then(|decimals| {
        RecordBatch::try_new(
            Arc::clone(schema),
            vec![
                Arc::new(ids),
                Arc::new(Int32Array::from(i)),
                Arc::new(Float64Array::from(f)),
                Arc::new(StringArray::from(s20)),
                Arc::new(StringArray::from(s60)),
                Arc::new(TimestampSecondArray::from(ts).with_timezone("UTC")),
                Arc::new(Int64Array::from(n)),
                Arc::new(decimals),
            ],
        )
    });
    batch.map_err(|e| {
        connector_core::Error::new(connector_core::ErrorKind::Unexpected, "cannot make a batch")
            .with_source(e)
    })
}

fn report(what: &str, rows: u64, bytes: usize, mut times: Vec<Duration>) {
    times.sort();
    let line = |label: &str, time: Duration| {
        let seconds = time.as_secs_f64();
        let rows = f64::from(u32::try_from(rows).unwrap_or(u32::MAX));
        let megabytes = f64::from(u32::try_from(bytes >> 10).unwrap_or(u32::MAX)) * 1024.0 / 1e6;
        println!(
            "{what:<24} {label:<7} {seconds:.4} s  {:6.2} ns/row  {:7.0} MB/s",
            seconds * 1e9 / rows,
            megabytes / seconds
        );
    };
    line("best", times[0]);
    line("median", times[times.len() / 2]);
}

fn measure(mut work: impl FnMut() -> Result<()>) -> Result<Vec<Duration>> {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        work()?;
        times.push(start.elapsed());
    }
    Ok(times)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let rows: u64 = std::env::args().nth(1).and_then(|rows| rows.parse().ok()).unwrap_or(2_000_000);
    let schema = Arc::new(schema());
    let mut numbers = Numbers(88_172_645_463_325_252);
    let mut batches = Vec::new();
    for start in (0..rows).step_by(ROWS_PER_BLOCK) {
        let end = rows.min(start + ROWS_PER_BLOCK as u64);
        batches.push(batch(&schema, start..end, &mut numbers)?);
    }
    let columns =
        COLUMNS.map(|(name, ty)| ColumnDef::parse(name, ty)).into_iter().collect::<Result<Vec<_>>>()?;
    let encoder = BlockEncoder::new(&schema, &columns, &EncodeRules::default())?;
    let mut out = Vec::with_capacity(16 << 20);

    let copied: usize = batches
        .iter()
        .flat_map(|b| b.columns().to_vec())
        .flat_map(|c| c.to_data().buffers().to_vec())
        .map(|b| b.len())
        .sum();
    let times = measure(|| {
        for batch in &batches {
            out.clear();
            for column in batch.columns() {
                column.to_data().buffers().iter().for_each(|buffer| out.extend_from_slice(buffer));
            }
            black_box(&out);
        }
        Ok(())
    })?;
    report("copy of Arrow's memory", rows, copied, times);

    let mut encoded = 0;
    let times = measure(|| {
        encoded = 0;
        for batch in &batches {
            out.clear();
            encoder.encode(batch, &mut out)?;
            encoded += out.len();
            black_box(&out);
        }
        Ok(())
    })?;
    report("encode", rows, encoded, times);

    for (place, column) in columns.iter().enumerate() {
        let encoder = BlockEncoder::new(&schema, std::slice::from_ref(column), &EncodeRules::default())?;
        let mut encoded = 0;
        let times = measure(|| {
            encoded = 0;
            for batch in &batches {
                out.clear();
                encoder.encode(batch, &mut out)?;
                encoded += out.len();
            }
            Ok(())
        })?;
        report(&format!("  {} {}", COLUMNS[place].0, COLUMNS[place].1), rows, encoded, times);
    }

    let mut blocks = Vec::new();
    for batch in &batches {
        out.clear();
        encoder.encode(batch, &mut out)?;
        blocks.push(out.clone());
    }
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for block in &blocks {
            black_box(read_block(&mut SliceSource(block), &ReadOptions::default()).await?);
        }
        times.push(start.elapsed());
    }
    report("decode", rows, encoded, times);
    Ok(())
}
