#![allow(warnings, unsafe_code)]
// How fast record batches become blocks and blocks become record batches, next to a plain copy of the same memory.
//
// Prints nanoseconds per row and megabytes per second, the best and the median of some rounds:
// `cargo run --release -p connector-bytehouse-common --example encode_speed [rows]`.

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


use connector_core::arrow::{array::*, datatypes::*, array::AsArray};
const TYPES: [&str; 8] = ["UInt64", "Int32", "Float64", "String", "String", "DateTime", "Nullable(Int64)", "Decimal(18, 4)"];
fn vi(o: &mut Vec<u8>, mut v: u64) { while v > 127 { o.push(v as u8 | 128); v >>= 7 } o.push(v as u8) }
fn st(o: &mut Vec<u8>, s: &[u8]) { vi(o, s.len() as u64); o.extend_from_slice(s) }
fn raw<T: ArrowNativeType>(o: &mut Vec<u8>, v: &[T]) { o.extend_from_slice(unsafe { std::slice::from_raw_parts(v.as_ptr() as *const u8, std::mem::size_of_val(v)) }) }
fn strs(o: &mut Vec<u8>, a: &StringArray) { let off = a.value_offsets(); let data = a.value_data(); let total = (off[off.len() - 1] - off[0]) as usize; o.reserve(total + 5 * a.len());
    for w in off.windows(2) { let (s, e) = (w[0] as usize, w[1] as usize); let l = e - s; if l < 128 { o.push(l as u8) } else { vi(o, l as u64) } o.extend_from_slice(&data[s..e]); } }
fn spike(b: &RecordBatch, o: &mut Vec<u8>) {
    vi(o, b.num_columns() as u64); vi(o, b.num_rows() as u64);
    for (k, (f, c)) in b.schema().fields().iter().zip(b.columns()).enumerate() { st(o, f.name().as_bytes()); st(o, TYPES[k].as_bytes());
        match c.data_type() { DataType::UInt64 => raw(o, c.as_primitive::<UInt64Type>().values()), DataType::Int32 => raw(o, c.as_primitive::<Int32Type>().values()), DataType::Float64 => raw(o, c.as_primitive::<Float64Type>().values()), DataType::Utf8 => strs(o, c.as_string::<i32>()),
            DataType::Timestamp(..) => { let v = c.as_primitive::<TimestampSecondType>().values(); o.reserve(v.len() * 4); o.extend(v.iter().flat_map(|x| (*x as u32).to_le_bytes())) }
            DataType::Int64 => { let a = c.as_primitive::<Int64Type>(); match a.nulls() { Some(n) => o.extend(n.iter().map(|v| !v as u8)), None => o.resize(o.len() + a.len(), 0) } raw(o, a.values()); }
            DataType::Decimal128(..) => { let v = c.as_primitive::<Decimal128Type>().values(); o.reserve(v.len() * 8); o.extend(v.iter().flat_map(|x| (*x as i64).to_le_bytes())) }
            t => panic!("{t}") } } }
fn cpu() -> f64 { let s = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap(); s.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9 }
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let rows = 2_000_000u64; let schema = Arc::new(schema()); let mut numbers = Numbers(88_172_645_463_325_252); let mut batches = Vec::new();
    for start in (0..rows).step_by(ROWS_PER_BLOCK) { batches.push(batch(&schema, start..rows.min(start + ROWS_PER_BLOCK as u64), &mut numbers)?); }
    let columns = COLUMNS.map(|(n, t)| ColumnDef::parse(n, t)).into_iter().collect::<Result<Vec<_>>>()?;
    let encoder = BlockEncoder::new(&schema, &columns, &EncodeRules::default())?;
    let mut out = Vec::with_capacity(16 << 20); let mut t = [vec![], vec![], vec![]];
    let single: Vec<_> = columns.iter().map(|c| BlockEncoder::new(&schema, std::slice::from_ref(c), &EncodeRules::default()).unwrap()).collect();
    let mut ct = vec![f64::MAX; 16];
    for _ in 0..15 {
        let c = cpu(); for b in &batches { out.clear(); for c in b.columns() { for bf in c.to_data().buffers() { out.extend_from_slice(bf) } } black_box(&out); } t[0].push(cpu() - c);
        let c = cpu(); for b in &batches { out.clear(); spike(b, &mut out); black_box(&out); } t[1].push(cpu() - c);
        let c = cpu(); for b in &batches { out.clear(); encoder.encode(b, &mut out)?; black_box(&out); } t[2].push(cpu() - c);
        for (k, e) in single.iter().enumerate() {
            let c = cpu(); for b in &batches { out.clear(); e.encode(b, &mut out)?; black_box(&out); } ct[2 * k] = ct[2 * k].min(cpu() - c);
            let c = cpu(); for b in &batches { out.clear(); spike(&b.project(&[k]).unwrap(), &mut out); black_box(&out); } ct[2 * k + 1] = ct[2 * k + 1].min(cpu() - c);
        }
    }
    for (n, v) in ["copy", "spike", "ours"].iter().zip(&mut t) { v.sort_by(f64::total_cmp); println!("{n}: cpu min {:.4} median {:.4}", v[0], v[7]); }
    for k in 0..8 { println!("  {:?}: ours {:.4} spike {:.4}", COLUMNS[k], ct[2 * k], ct[2 * k + 1]); }
    Ok(())
}
