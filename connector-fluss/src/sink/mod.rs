//! The sink: appends to log tables, upserts and deletes in primary-key tables.

mod lanes;
pub mod metrics;
mod pending;
mod rows;
mod table;
mod writer;

use std::{collections::BTreeSet, fmt, sync::Arc};

use connector_core::{
    DeliveryGuarantee, Error, ErrorKind, ExactlyOnce, Result, RowKind, SchemaChangeKind, Sink,
    SinkCapabilities, TableId, WriterContext, async_trait,
    options::{RawOptions, RawValue},
};

use self::lanes::Lanes;
pub use self::writer::FlussWriter;
use crate::{
    client::Client,
    options::{FlussOptions, Given},
};

const NO_TOKENS: &str = "Fluss does not recognise a repeated flush: rows of a log table would be there twice after a crash. With \
                         sink.require-primary-key every row is an upsert by its key, and repeating it changes nothing";

pub(crate) struct Inner {
    pub(crate) given: Given,
    pub(crate) client: Arc<Client>,
    /// The table for all rows, whatever table they name.
    pub(crate) table: Option<TableId>,
    /// The connections of the writers of this process.
    pub(crate) lanes: Lanes,
}

/// A sink that writes into tables of a Fluss cluster. Clones are cheap and mean the same sink.
#[derive(Clone)]
pub struct FlussSink(pub(crate) Arc<Inner>);

impl fmt::Debug for FlussSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlussSink")
            .field("table", &self.0.table)
            .field("options", &self.0.given.options)
            .finish_non_exhaustive()
    }
}

impl FlussSink {
    /// A sink that writes all rows into the table of the options, or else each into the one that it names.
    ///
    /// # Errors
    /// `OptionInvalid` when options contradict each other.
    pub fn new(options: FlussOptions) -> Result<Self> {
        Self::given(Given::built(options)?)
    }

    /// A sink from pairs of name and value.
    ///
    /// # Errors
    /// As [`FlussOptions::from_options`].
    pub fn from_options<K, V>(options: impl IntoIterator<Item = (K, V)>) -> Result<Self>
    where
        K: Into<String>,
        V: Into<RawValue>,
    {
        Self::from_raw(options.into_iter().collect())
    }

    /// A sink from options that were collected or read from a file before.
    ///
    /// # Errors
    /// As [`Self::from_options`].
    pub fn from_raw(options: RawOptions) -> Result<Self> {
        Self::given(Given::parse(options)?)
    }

    fn given(given: Given) -> Result<Self> {
        let table = given.options.table.as_ref().map(|name| name.parse()).transpose()?;
        given.options.warn();
        let client = Arc::new(Client::new(&given.options));
        Ok(Self(Arc::new(Inner { given, client, table, lanes: Lanes::default() })))
    }
}

#[async_trait]
impl Sink for FlussSink {
    type Writer = FlussWriter;

    fn connector(&self) -> &'static str {
        "fluss"
    }

    fn capabilities(&self) -> SinkCapabilities {
        let exactly_once = if self.0.given.options.require_primary_key {
            ExactlyOnce::IdempotentUpsert
        } else {
            ExactlyOnce::Unsupported(NO_TOKENS.to_owned())
        };
        SinkCapabilities {
            row_kinds: BTreeSet::from(RowKind::ALL),
            schema_changes: BTreeSet::from([
                SchemaChangeKind::CreateTable,
                SchemaChangeKind::AddColumn,
                SchemaChangeKind::DropTable,
            ]),
            exactly_once,
        }
    }

    /// Looks at the table, where the options name one that is there; else only whether the cluster answers.
    async fn check(&self, delivery: DeliveryGuarantee) -> Result<()> {
        const OPERATION: &str = "fluss.check";
        let options = &self.0.given.options;
        if delivery == DeliveryGuarantee::ExactlyOnce && !options.require_primary_key {
            return Err(Error::new(ErrorKind::Unsupported, NO_TOKENS).with_operation(OPERATION));
        }
        let Some(table) = &self.0.table else {
            return self
                .0
                .client
                .ask(OPERATION, |admin| async move { admin.list_databases().await })
                .await
                .map(drop);
        };
        match self.0.client.table(OPERATION, table).await {
            Ok(info) => table::check(&info, options)
                .map_err(|e| e.with_operation(OPERATION).with_context("table", table)),
            Err(error) if error.kind() == ErrorKind::NotFound && options.create_table => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn open(&self, context: WriterContext) -> Result<FlussWriter> {
        self.check(context.delivery).await?;
        Ok(FlussWriter::new(Arc::clone(&self.0), &context))
    }
}
