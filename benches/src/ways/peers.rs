//! Other people's crates, used as their documentation shows, with the options that make them fastest.

use anyhow::{Context as _, Result};
use arrow_ipc::writer::StreamWriter;
use clickhouse::{Compression, Row};
use connector_core::arrow::{
    array::{Array as _, AsArray as _, RecordBatch},
    datatypes::{
        DataType, Decimal128Type, Float64Type, Int32Type, Int64Type, TimestampSecondType, UInt64Type,
    },
};
use futures_util::{StreamExt as _, pin_mut, stream};
use indexmap::IndexMap;
use klickhouse::{Type, Tz, Value, block::Block};
use serde::Serialize;

use super::{address, insert::statement};
use crate::{
    cli::Job,
    measure::{Meter, Outcome},
    rows,
};

/// klickhouse with blocks of its own values. It compresses what it sends; it has no other mode.
pub(crate) async fn klickhouse(job: &Job) -> Result<Outcome> {
    let batches = rows::batches(job.rows)?;
    let types = rows::TYPES.map(|text| text.replace(' ', "").parse::<Type>());
    let names = batches[0].schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
    let types = names.into_iter().zip(types).map(|(name, ty)| Ok((name, ty?)));
    let types: IndexMap<String, Type> = types.collect::<Result<_>>()?;
    let statement = format!("{} FORMAT Native", statement(job));
    let client = klickhouse::Client::connect(address(job)?, klickhouse::ClientOptions::default()).await?;
    let meter = Meter::start()?;
    let blocks = stream::iter(batches.into_iter().map(move |batch| block(&batch, &types)));
    let answer = client.insert_native_raw(statement, blocks, None).await?;
    pin_mut!(answer);
    while let Some(block) = answer.next().await {
        block?;
    }
    meter.stop(job.rows)
}

fn block(batch: &RecordBatch, types: &IndexMap<String, Type>) -> Block {
    let cells = batch.columns().iter().map(|column| values(column.as_ref()));
    Block {
        info: klickhouse::block::BlockInfo::default(),
        rows: batch.num_rows() as u64,
        column_types: types.clone(),
        column_data: types.keys().cloned().zip(cells).collect(),
    }
}

fn values(column: &dyn connector_core::arrow::array::Array) -> Vec<Value> {
    match column.data_type() {
        DataType::UInt64 => {
            column.as_primitive::<UInt64Type>().values().iter().copied().map(Value::UInt64).collect()
        }
        DataType::Int32 => {
            column.as_primitive::<Int32Type>().values().iter().copied().map(Value::Int32).collect()
        }
        DataType::Float64 => {
            column.as_primitive::<Float64Type>().values().iter().copied().map(Value::Float64).collect()
        }
        DataType::Int64 => column
            .as_primitive::<Int64Type>()
            .iter()
            .map(|cell| cell.map_or(Value::Null, Value::Int64))
            .collect(),
        DataType::Timestamp(..) => {
            let seconds = column.as_primitive::<TimestampSecondType>().values();
            seconds
                .iter()
                .map(|time| Value::DateTime(klickhouse::DateTime(Tz::UTC, seconds_of(*time))))
                .collect()
        }
        DataType::Decimal128(..) => {
            let units = column.as_primitive::<Decimal128Type>().values();
            units.iter().map(|units| Value::Decimal64(4, units_of(*units))).collect()
        }
        _ => column.as_string::<i32>().iter().map(|text| Value::string(text.unwrap_or_default())).collect(),
    }
}

fn seconds_of(time: i64) -> u32 {
    u32::try_from(time).unwrap_or(0)
}

fn units_of(units: i128) -> i64 {
    i64::try_from(units).unwrap_or(0)
}

/// A row as the crate clickhouse takes it. The time is its seconds, the decimal its ten-thousandths.
#[derive(Row, Serialize)]
struct Cells<'a> {
    id: u64,
    i: i32,
    f: f64,
    s20: &'a str,
    s60: &'a str,
    ts: u32,
    n: Option<i64>,
    d: i64,
}

fn http(job: &Job) -> Result<clickhouse::Client> {
    let url = format!("http://{}", job.way.target.server()?.http);
    Ok(clickhouse::Client::default()
        .with_url(url)
        .with_user("default")
        .with_compression(Compression::None)
        .with_validation(false)
        .with_setting("async_insert", "0"))
}

/// The crate clickhouse with rows of a struct, which travel as RowBinary.
pub(crate) async fn row_binary(job: &Job) -> Result<Outcome> {
    let batches = rows::batches(job.rows)?;
    let client = http(job)?;
    let meter = Meter::start()?;
    let mut insert = client.insert_unescaped::<Cells<'_>>(&job.table).await?;
    for batch in &batches {
        write_rows(&mut insert, batch).await?;
    }
    insert.end().await?;
    meter.stop(job.rows)
}

async fn write_rows(insert: &mut clickhouse::insert::Insert<Cells<'_>>, batch: &RecordBatch) -> Result<()> {
    let (id, i) = (batch.column(0).as_primitive::<UInt64Type>(), batch.column(1).as_primitive::<Int32Type>());
    let (f, s20) = (batch.column(2).as_primitive::<Float64Type>(), batch.column(3).as_string::<i32>());
    let (s60, ts) =
        (batch.column(4).as_string::<i32>(), batch.column(5).as_primitive::<TimestampSecondType>());
    let (n, d) =
        (batch.column(6).as_primitive::<Int64Type>(), batch.column(7).as_primitive::<Decimal128Type>());
    for row in 0..batch.num_rows() {
        let cells = Cells {
            id: id.value(row),
            i: i.value(row),
            f: f.value(row),
            s20: s20.value(row),
            s60: s60.value(row),
            ts: seconds_of(ts.value(row)),
            n: n.is_valid(row).then(|| n.value(row)),
            d: units_of(d.value(row)),
        };
        insert.write(&cells).await?;
    }
    Ok(())
}

/// The crate clickhouse with the batches as an Arrow stream.
pub(crate) async fn arrow_stream(job: &Job) -> Result<Outcome> {
    let batches = rows::batches(job.rows)?;
    let client = http(job)?;
    let statement = format!("INSERT INTO {} {} FORMAT ArrowStream", job.table, rows::NAMES);
    let meter = Meter::start()?;
    let mut insert = client.insert_formatted_with(statement);
    let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema())?;
    for batch in &batches {
        writer.write(batch)?;
        insert.send(std::mem::take(writer.get_mut()).into()).await?;
    }
    writer.finish()?;
    insert.send(writer.into_inner().context("the end of the stream")?.into()).await?;
    insert.end().await?;
    meter.stop(job.rows)
}
