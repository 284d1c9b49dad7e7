//! [`FlussLookup`]: rows of a primary-key table by their key, or by the first part of it.

mod answers;
mod cache;
mod insert;
pub mod metrics;

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use connector_core::{
    Error, ErrorKind, Result, RetryState, TableId,
    arrow::{
        array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array},
        compute::{and, filter_record_batch, kernels::cmp, take},
        datatypes::SchemaRef,
    },
    retry::RetryPolicy,
};
use fluss::{
    client::{LookupResult, Lookuper, PrefixKeyLookuper},
    metadata::{RowType, TableInfo},
    row::ColumnarRow,
};
use futures_util::{StreamExt as _, stream::FuturesUnordered};

use self::{answers::Answers, cache::PartialCache, insert::Inserter, metrics::LookupMetrics};
use crate::{
    client::{Client, table_of, within},
    connection::Connection,
    error::from_client,
    options::{FlussOptions, Given},
    source::{changes::Keys, plan::check_format},
    types::{Missing, Target, arrow_schema},
};

const OPERATION: &str = "fluss.lookup";

/// What was found for a batch of keys.
#[derive(Debug, Clone)]
pub struct Found {
    /// The rows, with all columns of the table, in the order of their keys.
    pub rows: RecordBatch,
    /// For each row, which key it belongs to: its place in the batch of keys. Ascending; a key without rows is not
    /// among them, and one of a prefix lookup may stand there often.
    pub key_rows: UInt32Array,
}

enum Finder {
    Key(Lookuper),
    Prefix(PrefixKeyLookuper),
}

impl Finder {
    async fn find(&mut self, key: &ColumnarRow) -> fluss::error::Result<LookupResult> {
        match self {
            Self::Key(lookuper) => lookuper.lookup(key).await,
            Self::Prefix(lookuper) => lookuper.lookup(key).await,
        }
    }
}

/// Finders of one connection; each does one lookup at a time.
struct Pool {
    connection: Arc<Connection>,
    idle: Vec<Finder>,
}

/// Looks up rows by their primary key, or by a prefix of it: the partition keys and the bucket key.
///
/// Cheap to share by reference; lookups of several tasks go into the same requests.
pub struct FlussLookup {
    client: Arc<Client>,
    options: FlussOptions,
    table: TableId,
    info: TableInfo,
    schema: SchemaRef,
    /// The columns that the servers look up by, in their order.
    by: Vec<String>,
    key_target: Target,
    key_type: Arc<RowType>,
    /// Columns that found rows must agree with.
    filters: Vec<String>,
    is_prefix: bool,
    pool: Mutex<Option<Pool>>,
    cache: Option<PartialCache>,
    inserter: Option<Inserter>,
    metrics: LookupMetrics,
}

impl fmt::Debug for FlussLookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlussLookup")
            .field("table", &self.table)
            .field("by", &self.by)
            .field("is_prefix", &self.is_prefix)
            .finish_non_exhaustive()
    }
}

impl FlussLookup {
    /// Prepares lookups in `table`, or else in the table of the options, by the columns `key`, in any order: those of
    /// the primary key, or the partition keys and the bucket key for a prefix lookup. Further columns are compared
    /// with what was found.
    ///
    /// # Errors
    /// `NotFound`; `SchemaMismatch` when the columns are neither; `Unsupported` for a table without a primary key, and
    /// for `lookup.insert-if-not-exists` with a prefix.
    pub async fn open(options: FlussOptions, table: Option<TableId>, key: &[&str]) -> Result<Self> {
        let given = Given::built(options)?;
        let table = crate::options::table_of(&given.options, table)?;
        given.options.warn();
        let client = Arc::new(Client::new(&given.options));
        let info = client.table(OPERATION, &table).await?;
        let options = given.over(info.get_custom_properties())?;
        let client = if options == given.options { client } else { Arc::new(Client::new(&options)) };
        Self::prepare(client, options, table.clone(), info, key)
            .map_err(|e| e.with_operation(OPERATION).with_context("table", table))
    }

    fn prepare(
        client: Arc<Client>,
        options: FlussOptions,
        table: TableId,
        info: TableInfo,
        key: &[&str],
    ) -> Result<Self> {
        check_format(&info)?;
        if !info.has_primary_key() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "the table has no primary key, so nothing can be looked up in it",
            ));
        }
        let (by, is_prefix) = keys_of(&info, key)?;
        if is_prefix && options.insert_if_not_exists {
            let text = "lookup.insert-if-not-exists needs lookups by the whole primary key: a prefix names no row to insert";
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        let key_type = info.row_type().project_with_field_names(&by).map_err(|e| from_client(&e))?;
        let filters = key
            .iter()
            .filter(|name| !by.iter().any(|other| other == *name))
            .map(|name| (*name).to_owned())
            .collect();
        let inserter = if options.insert_if_not_exists { Some(Inserter::new(&info)?) } else { None };
        Ok(Self {
            schema: arrow_schema(info.row_type(), &HashMap::new())?,
            key_target: Target::of(&key_type, true)?,
            key_type: Arc::new(key_type),
            cache: PartialCache::new(&options),
            pool: Mutex::new(None),
            metrics: LookupMetrics::new(),
            client,
            options,
            table,
            info,
            by,
            filters,
            is_prefix,
            inserter,
        })
    }

    /// The columns of found rows.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Looks up a batch of keys, which has the columns that the lookup was opened for.
    ///
    /// Cancel-safe: nothing is lost but the answers.
    ///
    /// # Errors
    /// `SchemaMismatch` and `DataInvalid` for keys that the table cannot have; errors that may pass are tried again
    /// `lookup.max-retries` times. A key whose partition is not there has no rows, which is no error.
    pub async fn lookup(&self, keys: &RecordBatch) -> Result<Found> {
        let named = |e: Error| e.with_operation(OPERATION).with_context("table", &self.table);
        self.find(keys).await.map_err(named)
    }

    async fn find(&self, keys: &RecordBatch) -> Result<Found> {
        let by = self.key_columns(keys)?;
        let mut answers = Answers::new(self.info.row_type(), by.num_rows(), self.cache.is_some())?;
        let cached = match &self.cache {
            Some(cache) if by.num_rows() > 0 => {
                let places: Vec<usize> = (0..by.num_columns()).collect();
                let of = Keys::new(&by, &places)?.of(&by)?;
                for place in 0..by.num_rows() {
                    if let Some(entry) = cache.get(of.row(place).data()) {
                        answers.add_cached(place, &entry)?;
                    }
                }
                Some((cache, of))
            }
            _ => None,
        };
        let open = answers.open();
        self.metrics.keys.increment(by.num_rows() as u64);
        self.metrics.cache_hits.increment((by.num_rows() - open.len()) as u64);
        self.ask_all(&by, &open, &mut answers).await?;
        if let Some(inserter) = &self.inserter {
            self.insert_missing(inserter, &by, &open, &mut answers).await?;
        }
        if let Some((cache, of)) = cached {
            for (place, entry) in answers.kept() {
                cache.keep(of.row(*place).data(), entry);
            }
        }
        self.metrics.misses.increment(answers.missing().len() as u64);
        self.filter(keys, answers.finish(&self.schema)?)
    }

    /// The columns that servers look up by, in their order and types.
    fn key_columns(&self, keys: &RecordBatch) -> Result<RecordBatch> {
        let given = keys.schema();
        let places = self.by.iter().map(|name| {
            given.index_of(name).map_err(|_| {
                Error::new(ErrorKind::SchemaMismatch, "the keys lack a column that the lookup goes by")
                    .with_context("column", name)
            })
        });
        let projected = keys.project(&places.collect::<Result<Vec<_>>>()?);
        let projected = projected
            .map_err(|e| Error::new(ErrorKind::Unexpected, "cannot choose key columns").with_source(e))?;
        self.key_target.convert(&projected, Missing::Refuse)
    }

    /// Asks for the rows of the keys at `open`, many at a time where the options say so.
    async fn ask_all(&self, by: &RecordBatch, open: &[usize], answers: &mut Answers) -> Result<()> {
        if open.is_empty() {
            return Ok(());
        }
        let policy = RetryPolicy {
            max_retries: usize::try_from(self.options.lookup_max_retries).ok(),
            min_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(2),
        };
        let mut left = open.to_vec();
        let answers = Mutex::new(answers);
        let mut backoffs = policy.backoffs();
        loop {
            let Err(error) = self.ask_once(by, &left, &answers).await else { return Ok(()) };
            if !error.is_transient() {
                return Err(error);
            }
            let Some(wait) = backoffs.next() else { return Err(error.with_retry(RetryState::Exhausted)) };
            tracing::warn!(table = %self.table, error = %error, ?wait, "a lookup is tried again");
            self.metrics.retries.increment(1);
            {
                // What was answered before the error is kept.
                left = answers.lock().unwrap_or_else(PoisonError::into_inner).open();
            }
            tokio::time::sleep(wait).await;
        }
    }

    async fn ask_once(&self, by: &RecordBatch, open: &[usize], answers: &Mutex<&mut Answers>) -> Result<()> {
        // Two full batches, so that one is made while the other is under way.
        let at_once = if self.options.lookup_async {
            usize::try_from(self.options.lookup_max_batch_size).unwrap_or(1).saturating_mul(2)
        } else {
            1
        };
        let (connection, finders) = self.finders(open.len().min(at_once)).await?;
        let row = ColumnarRow::new(Arc::new(by.clone()), Arc::clone(&self.key_type), 0, None)
            .map_err(|e| from_client(&e))?;
        let (next, answered) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (next, answered) = (&next, &answered);
        let mut workers: FuturesUnordered<_> = finders
            .into_iter()
            .map(|mut finder| {
                let mut row = row.clone();
                async move {
                    while let Some(place) = open.get(next.fetch_add(1, Ordering::Relaxed)) {
                        row.set_row_id(*place);
                        let rows = finder.find(&row).await.map_err(|e| from_client(&e))?;
                        answered.fetch_add(1, Ordering::Relaxed);
                        answers.lock().unwrap_or_else(PoisonError::into_inner).add(*place, rows)?;
                    }
                    Ok::<_, Error>(finder)
                }
            })
            .collect();
        let mut done = Vec::new();
        let all = async {
            while let Some(finder) = workers.next().await.transpose()? {
                done.push(finder);
            }
            Ok(())
        };
        let outcome = self.while_answers_come(answered, all).await;
        match &outcome {
            Ok(()) => self.give_back(&connection, done),
            Err(error) if error.is_transient() => self.client.give_up(&connection),
            Err(_) => {}
        }
        outcome
    }

    /// Waits for lookups as long as answers come. One clock for all of them: one for each lookup costs more than the lookup.
    async fn while_answers_come(
        &self,
        answered: &AtomicUsize,
        all: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        let limit = self.client.request_timeout().saturating_add(self.options.lookup_batch_timeout);
        let mut all = std::pin::pin!(all);
        let mut seen = 0;
        loop {
            if let Ok(outcome) = tokio::time::timeout(limit, all.as_mut()).await {
                return outcome;
            }
            let now = answered.load(Ordering::Relaxed);
            if std::mem::replace(&mut seen, now) == now {
                return within(OPERATION, Duration::ZERO, std::future::pending()).await;
            }
        }
    }

    /// Finders on the present connection.
    async fn finders(&self, count: usize) -> Result<(Arc<Connection>, Vec<Finder>)> {
        let connection = self.client.connection_for(OPERATION, &self.info).await?;
        let mut finders = {
            let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
            match pool.as_mut().filter(|pool| Arc::ptr_eq(&pool.connection, &connection)) {
                Some(pool) => {
                    let keep = pool.idle.len().saturating_sub(count);
                    pool.idle.split_off(keep)
                }
                None => Vec::new(),
            }
        };
        while finders.len() < count.max(1) {
            finders.push(self.finder(&connection)?);
        }
        Ok((connection, finders))
    }

    fn finder(&self, connection: &Connection) -> Result<Finder> {
        let table = table_of(connection, &self.info);
        let made = self.client.with_metrics(|| {
            let lookup = table.new_lookup()?;
            if self.is_prefix {
                lookup.lookup_by(self.by.clone()).create_lookuper().map(Finder::Prefix)
            } else {
                lookup.create_lookuper().map(Finder::Key)
            }
        });
        made.map_err(|e| from_client(&e))
    }

    fn give_back(&self, connection: &Arc<Connection>, finders: Vec<Finder>) {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        match pool.as_mut().filter(|pool| Arc::ptr_eq(&pool.connection, connection)) {
            Some(pool) => pool.idle.extend(finders),
            None => *pool = Some(Pool { connection: Arc::clone(connection), idle: finders }),
        }
    }

    async fn insert_missing(
        &self,
        inserter: &Inserter,
        by: &RecordBatch,
        open: &[usize],
        answers: &mut Answers,
    ) -> Result<()> {
        // What a cache says is missing was inserted, or is not to be.
        let mut missing = answers.missing();
        missing.retain(|place| open.binary_search(place).is_ok());
        if missing.is_empty() {
            return Ok(());
        }
        inserter.insert(&self.client, &self.options, &self.table, by, &missing).await?;
        answers.ask_again(&missing);
        self.ask_all(by, &missing, answers).await
    }

    /// Only the rows that agree with the further columns of their keys. A null agrees with nothing.
    fn filter(&self, keys: &RecordBatch, found: Found) -> Result<Found> {
        let failed = |e| {
            Error::new(ErrorKind::SchemaMismatch, "a key column cannot be compared with the table's")
                .with_source(e)
        };
        let mut keep: Option<BooleanArray> = None;
        for name in &self.filters {
            let missing = || {
                Error::new(ErrorKind::SchemaMismatch, "the keys or the table lack a column")
                    .with_context("column", name)
            };
            let wanted = keys.column_by_name(name).ok_or_else(missing)?;
            let there = found.rows.column_by_name(name).ok_or_else(missing)?;
            let wanted = take(wanted, &found.key_rows, None).map_err(failed)?;
            let equal = cmp::eq(&wanted, there).map_err(failed)?;
            keep = Some(match keep {
                Some(other) => and(&other, &equal).map_err(failed)?,
                None => equal,
            });
        }
        let Some(keep) = keep else { return Ok(found) };
        let key_rows: ArrayRef = Arc::new(found.key_rows);
        let kept = connector_core::arrow::compute::filter(&key_rows, &keep).map_err(failed)?;
        let key_rows = UInt32Array::from(kept.to_data());
        Ok(Found { rows: filter_record_batch(&found.rows, &keep).map_err(failed)?, key_rows })
    }
}

/// By which columns servers look up, and whether these are a prefix.
fn keys_of(info: &TableInfo, key: &[&str]) -> Result<(Vec<String>, bool)> {
    for name in key {
        if info.row_type().get_field_index(name).is_none() {
            return Err(Error::new(ErrorKind::SchemaMismatch, "the table has no such column")
                .with_context("column", name));
        }
    }
    let holds = |names: &[String]| names.iter().all(|name| key.contains(&name.as_str()));
    let primary = info.get_primary_keys();
    if holds(primary) {
        return Ok((primary.clone(), false));
    }
    let prefix: Vec<String> =
        info.get_partition_keys().iter().chain(info.get_bucket_keys()).cloned().collect();
    if !prefix.is_empty() && holds(&prefix) {
        return Ok((prefix, true));
    }
    let text = format!(
        "lookups go by the primary key ({}), or by partition keys and bucket key ({})",
        primary.join(", "),
        prefix.join(", ")
    );
    Err(Error::new(ErrorKind::SchemaMismatch, text).with_context("by", key.join(",")))
}
