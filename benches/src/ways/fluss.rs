//! Rows into a Fluss table, out of it, and found by their key: our connector, and the client that it is made of.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use connector_core::{
    ChangeBatch, Sink as _, SinkWriter as _, Source as _, SourceEvent, SourceReader as _, TableId,
    TableSchema, WriterContext,
    arrow::{
        array::{
            AsArray as _, Decimal128Array, Int32Array, Int64Array, RecordBatch, StringArray,
            TimestampMillisecondArray,
        },
        compute::sum,
        datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, TimeUnit},
    },
};
use connector_fluss::{FlussCatalog, FlussLookup, FlussOptions, FlussSink, FlussSource};
use connector_tests::{mix, services::Fluss, unique_name};
use fluss::{
    client::{AppendWriter, EARLIEST_OFFSET, FlussConnection},
    metadata::TablePath,
    row::{DataGetters as _, GenericRow},
};
use futures_util::future::try_join_all;

use crate::{
    cli::Job,
    measure::{Meter, Outcome},
    services,
};

const BUCKETS: i32 = 3;
/// Rows of a batch, well below the client's batches of 2 MB.
const BATCH_ROWS: i64 = 8192;
/// Lookups under way at a time: two requests of `client.lookup.max-batch-size` keys.
const AT_ONCE: usize = 256;

/// A table of one run.
struct Table {
    fluss: Fluss,
    id: TableId,
    rows: i64,
}

impl Table {
    async fn create(rows: u64, keyed: bool) -> Result<Self> {
        let fluss = services::fluss()?;
        let id = TableId::new(fluss.create_database().await, unique_name("rows"));
        let table = Self { fluss, id, rows: i64::try_from(rows)? };
        let mut schema = TableSchema::new(schema());
        if keyed {
            schema = schema.with_primary_key(["id"])?;
        }
        schema.options.insert("bucket.num".to_owned(), BUCKETS.to_string());
        FlussCatalog::new(table.options(&[])?).create_table(&table.id, &schema).await?;
        table.fluss.end(&table.id.database, &table.id.table, None).await;
        Ok(table)
    }

    fn pairs(&self, more: &[(&str, &str)]) -> Vec<(String, String)> {
        let own = [("bootstrap.servers", self.fluss.bootstrap.as_str()), ("table", &self.id.to_string())]
            .map(|(key, value)| (key.to_owned(), value.to_owned()));
        own.into_iter().chain(more.iter().map(|(key, value)| ((*key).into(), (*value).into()))).collect()
    }

    fn options(&self, more: &[(&str, &str)]) -> Result<FlussOptions> {
        Ok(FlussOptions::from_options(self.pairs(more))?)
    }

    async fn connect(&self) -> FlussConnection {
        self.fluss.connect().await
    }

    fn path(&self) -> TablePath {
        TablePath::new(self.id.database.as_str(), self.id.table.as_str())
    }

    /// Writes all rows with our sink.
    async fn write(&self, batches: Vec<RecordBatch>) -> Result<Outcome> {
        let mut writer = FlussSink::from_options(self.pairs(&[]))?.open(WriterContext::default()).await?;
        // Connects and looks at the table.
        writer.write(&self.id, ChangeBatch::append(batches[0].slice(0, 0))).await?;
        let meter = Meter::start()?;
        for batch in batches {
            writer.write(&self.id, ChangeBatch::append(batch)).await?;
        }
        let flushed = writer.flush(None).await?;
        let outcome = meter.stop(self.rows.unsigned_abs())?;
        writer.close().await?;
        ensure!(flushed.rows == self.rows.unsigned_abs(), "{} rows were written", flushed.rows);
        Ok(outcome)
    }

    async fn check_end(&self) -> Result<()> {
        let end = self.fluss.end(&self.id.database, &self.id.table, None).await;
        ensure!(end == self.rows, "the table has {end} rows instead of {}", self.rows);
        Ok(())
    }

    fn check_ids(&self, rows: i64, ids: i64) -> Result<()> {
        let expected = (self.rows, self.rows * (self.rows - 1) / 2);
        ensure!((rows, ids) == expected, "wrong rows were read: {rows} with {ids} as the sum of their ids");
        Ok(())
    }
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("customer", DataType::Utf8, true),
        Field::new("amount", DataType::Decimal128(18, 4), true),
        Field::new("quantity", DataType::Int32, true),
        Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, None), true),
    ]))
}

fn batches(rows: i64) -> Result<Vec<RecordBatch>> {
    let starts = (0..rows).step_by(usize::try_from(BATCH_ROWS)?);
    starts.map(|start| batch(start..rows.min(start + BATCH_ROWS))).collect()
}

fn batch(ids: std::ops::Range<i64>) -> Result<RecordBatch> {
    let random = |id: i64| i64::try_from(mix(id.unsigned_abs()) % 1_000_000_000).unwrap_or(0);
    let amounts = Decimal128Array::from_iter_values(ids.clone().map(|id| i128::from(random(id))));
    Ok(RecordBatch::try_new(
        schema(),
        vec![
            Arc::new(Int64Array::from_iter_values(ids.clone())),
            Arc::new(StringArray::from_iter_values(ids.clone().map(|id| format!("customer-{}", random(id))))),
            Arc::new(amounts.with_precision_and_scale(18, 4)?),
            Arc::new(Int32Array::from_iter_values(
                ids.clone().map(|id| i32::try_from(random(id) % 1000).unwrap_or(0)),
            )),
            Arc::new(TimestampMillisecondArray::from_iter_values(
                ids.map(|id| 1_700_000_000_000 + random(id)),
            )),
        ],
    )?)
}

/// The sum of the ids of a batch.
fn ids(batch: &RecordBatch) -> i64 {
    sum(batch.column(0).as_primitive::<Int64Type>()).unwrap_or(0)
}

/// Our sink.
pub(crate) async fn append(job: &Job) -> Result<Outcome> {
    let table = Table::create(job.rows, false).await?;
    let outcome = table.write(batches(table.rows)?).await?;
    table.check_end().await?;
    Ok(outcome)
}

/// The client's own writer.
pub(crate) async fn append_bare(job: &Job) -> Result<Outcome> {
    let table = Table::create(job.rows, false).await?;
    let outcome = write_bare(&table, batches(table.rows)?).await?;
    table.check_end().await?;
    Ok(outcome)
}

async fn write_bare(table: &Table, batches: Vec<RecordBatch>) -> Result<Outcome> {
    let connection = table.connect().await;
    let writer: AppendWriter = connection.get_table(&table.path()).await?.new_append()?.create_writer()?;
    let meter = Meter::start()?;
    // It waits for memory with the thread it is on.
    let writes = tokio::task::block_in_place(|| {
        batches.into_iter().map(|batch| writer.append_arrow_batch(batch)).collect::<Result<Vec<_>, _>>()
    })?;
    writer.flush().await?;
    try_join_all(writes).await?;
    meter.stop(table.rows.unsigned_abs())
}

/// Our source, from the first row to the present end.
pub(crate) async fn scan(job: &Job) -> Result<Outcome> {
    let table = Table::create(job.rows, false).await?;
    write_bare(&table, batches(table.rows)?).await?;
    let source = FlussSource::from_options(
        table.pairs(&[("scan.startup.mode", "earliest"), ("scan.bounded", "true")]),
    )?;
    let splits = source.discover(&[]).await?;
    let meter = Meter::start()?;
    let mut reader = source.open(splits).await?;
    let (mut rows, mut found) = (0, 0);
    while rows < table.rows {
        let event = reader.next().await?.context("the read ended early")?;
        if let SourceEvent::Batch { rows: batch, .. } = event {
            rows += i64::try_from(batch.num_rows())?;
            found += ids(batch.rows());
        }
    }
    let outcome = meter.stop(job.rows)?;
    reader.close().await?;
    table.check_ids(rows, found)?;
    Ok(outcome)
}

/// The client's own scanner of whole batches.
pub(crate) async fn scan_bare(job: &Job) -> Result<Outcome> {
    let table = Table::create(job.rows, false).await?;
    write_bare(&table, batches(table.rows)?).await?;
    let meter = Meter::start()?;
    let connection = table.connect().await;
    let scanner = connection.get_table(&table.path()).await?.new_scan().create_record_batch_log_scanner()?;
    let starts: HashMap<i32, i64> = (0..BUCKETS).map(|bucket| (bucket, EARLIEST_OFFSET)).collect();
    scanner.subscribe_buckets(&starts).await?;
    let (mut rows, mut found) = (0, 0);
    while rows < table.rows {
        for batch in scanner.poll(Duration::from_secs(1)).await? {
            let batch = batch.into_batch();
            rows += i64::try_from(batch.num_rows())?;
            found += ids(&batch);
        }
    }
    let outcome = meter.stop(job.rows)?;
    table.check_ids(rows, found)?;
    Ok(outcome)
}

/// A table with a tenth of the rows, and as many keys to look up, in no order.
async fn keyed(job: &Job) -> Result<(Table, Vec<i64>)> {
    let table = Table::create(job.rows / 10, true).await?;
    table.write(batches(table.rows)?).await?;
    let mut keys: Vec<i64> = (0..table.rows).collect();
    keys.sort_unstable_by_key(|id| mix(id.unsigned_abs()));
    Ok((table, keys))
}

/// Our lookups, all keys in one call.
pub(crate) async fn lookup(job: &Job) -> Result<Outcome> {
    let (table, keys) = keyed(job).await?;
    let field = Field::new("id", DataType::Int64, false);
    let batch = |keys: &[i64]| {
        let column = Arc::new(Int64Array::from(keys.to_vec()));
        RecordBatch::try_new(Arc::new(Schema::new(vec![field.clone()])), vec![column])
    };
    let lookup = FlussLookup::open(table.options(&[])?, None, &["id"]).await?;
    lookup.lookup(&batch(&keys[..1])?).await?;
    let meter = Meter::start()?;
    let answer = lookup.lookup(&batch(&keys)?).await?;
    let outcome = meter.stop(table.rows.unsigned_abs())?;
    table.check_ids(i64::try_from(answer.rows.num_rows())?, ids(&answer.rows))?;
    Ok(outcome)
}

/// The client's own lookups, as many at a time as ours, with every value of the rows looked at.
pub(crate) async fn lookup_bare(job: &Job) -> Result<Outcome> {
    let (table, keys) = keyed(job).await?;
    let connection = table.connect().await;
    let handle = connection.get_table(&table.path()).await?;
    let mut lookupers =
        (0..AT_ONCE).map(|_| handle.new_lookup()?.create_lookuper()).collect::<Result<Vec<_>, _>>()?;
    let next = AtomicUsize::new(0);
    let (next, keys) = (&next, &keys);
    lookupers[0].lookup(&GenericRow::from_data(vec![keys[0]])).await?;
    let meter = Meter::start()?;
    let sums = try_join_all(lookupers.iter_mut().map(|lookuper| async move {
        let (mut rows, mut found) = (0, 0);
        while let Some(key) = keys.get(next.fetch_add(1, Ordering::Relaxed)) {
            let answer = lookuper.lookup(&GenericRow::from_data(vec![*key])).await?;
            for row in answer.get_rows()? {
                rows += 1;
                found += row.get_long(0)?;
                let other = (
                    row.get_string(1)?.len(),
                    row.get_decimal(2, 18, 4)?.to_unscaled_long()?,
                    row.get_int(3)?,
                    row.get_timestamp_ntz(4, 3)?.get_millisecond(),
                );
                std::hint::black_box(other);
            }
        }
        Ok::<_, fluss::error::Error>((rows, found))
    }))
    .await?;
    let outcome = meter.stop(table.rows.unsigned_abs())?;
    let (rows, found) = sums.into_iter().fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
    table.check_ids(rows, found)?;
    Ok(outcome)
}
