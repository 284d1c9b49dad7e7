//! The source: a table, read bucket by bucket.

pub(crate) mod changes;
mod discovery;
pub mod metrics;
pub(crate) mod plan;
mod reader;
mod snapshot;
mod split;
mod worker;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use connector_core::{
    Boundedness, ChangelogMode, Error, ErrorKind, Result, Source, SplitId, TableId,
    arrow::array::RecordBatch,
    async_trait,
    options::{RawOptions, RawValue},
};

use self::plan::Plan;
pub use self::{
    reader::FlussReader,
    split::{FlussOffset, FlussPartition, FlussSplit, Key, Part},
};
use crate::{
    client::Client,
    options::{FlussOptions, Given},
};

struct Inner {
    given: Given,
    client: Arc<Client>,
    table: TableId,
    /// A first discovery that found nothing has been: whatever appears now is new.
    looked_in_vain: AtomicBool,
}

/// A source of rows and changes out of a table of a Fluss cluster.
///
/// It holds options and, once one is needed, a connection for questions and for its readers. Clones are cheap and mean the
/// same source. Options that are stored with the table hold where none are given.
#[derive(Clone)]
pub struct FlussSource(Arc<Inner>);

impl fmt::Debug for FlussSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlussSource")
            .field("table", &self.0.table)
            .field("options", &self.0.given.options)
            .finish_non_exhaustive()
    }
}

impl FlussSource {
    /// A source of the table `table`, or else of the one that the options name.
    ///
    /// # Errors
    /// `OptionInvalid` when neither names one, or the options contradict each other.
    pub fn new(options: FlussOptions, table: Option<TableId>) -> Result<Self> {
        Self::given(Given::built(options)?, table)
    }

    /// A source from pairs of name and value, `table` among them.
    ///
    /// # Errors
    /// As [`FlussOptions::from_options`], and when no table is named.
    pub fn from_options<K, V>(options: impl IntoIterator<Item = (K, V)>) -> Result<Self>
    where
        K: Into<String>,
        V: Into<RawValue>,
    {
        Self::from_raw(options.into_iter().collect())
    }

    /// A source from options that were collected or read from a file before.
    ///
    /// # Errors
    /// As [`Self::from_options`].
    pub fn from_raw(options: RawOptions) -> Result<Self> {
        Self::given(Given::parse(options)?, None)
    }

    fn given(given: Given, table: Option<TableId>) -> Result<Self> {
        let table = crate::options::table_of(&given.options, table)?;
        given.options.warn();
        let client = Arc::new(Client::new(&given.options));
        Ok(Self(Arc::new(Inner { given, client, table, looked_in_vain: AtomicBool::new(false) })))
    }

    /// Up to `limit` rows as they are now, in no order: for a look at a table, as `SELECT … LIMIT` gives it. Of a
    /// primary-key table any rows, of a log table the last ones of a bucket; with the columns of `scan.columns`.
    ///
    /// Asks one bucket after the other until there are enough, each with one request. Cancel-safe: it only reads.
    ///
    /// # Errors
    /// `NotFound` without the table, `Unsupported` for tables that the client cannot read; else as every call.
    pub async fn limit_scan(&self, limit: u32) -> Result<RecordBatch> {
        const OPERATION: &str = "fluss.limit_scan";
        snapshot::first_rows(&self.plan(OPERATION).await?, OPERATION, limit).await
    }

    async fn plan(&self, operation: &'static str) -> Result<Plan> {
        Plan::make(operation, &self.0.given, &self.0.client, &self.0.table).await
    }
}

#[async_trait]
impl Source for FlussSource {
    type Split = FlussSplit;
    type Reader = FlussReader;

    fn connector(&self) -> &'static str {
        "fluss"
    }

    fn boundedness(&self) -> Boundedness {
        if self.0.given.options.scan_bounded { Boundedness::Bounded } else { Boundedness::Unbounded }
    }

    /// What a primary-key table may hold; a log table has inserts only.
    fn changelog_mode(&self) -> ChangelogMode {
        ChangelogMode::Full
    }

    fn discovery_interval(&self) -> Option<Duration> {
        self.0.given.options.discovery_interval()
    }

    async fn check(&self) -> Result<()> {
        self.plan("fluss.check").await.map(drop)
    }

    async fn discover(&self, known: &[SplitId]) -> Result<Vec<FlussSplit>> {
        let plan = self.plan("fluss.discover").await?;
        let first = known.is_empty() && !self.0.looked_in_vain.load(Ordering::Relaxed);
        let splits = plan.discover(known, first).await?;
        if splits.is_empty() && first {
            self.0.looked_in_vain.store(true, Ordering::Relaxed);
        }
        Ok(splits)
    }

    async fn open(&self, splits: Vec<FlussSplit>) -> Result<FlussReader> {
        FlussReader::open(self.plan("fluss.open").await?, splits).await
    }
}

/// What [`FlussSource::new`] says when nobody names a table.
pub(crate) fn no_table() -> Error {
    Error::new(ErrorKind::OptionInvalid, "no table is named: give `table`, as database.table")
        .with_operation("fluss.options")
        .with_context("option", "table")
}
