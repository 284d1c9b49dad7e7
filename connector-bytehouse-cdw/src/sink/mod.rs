//! [`BytehouseCdwSink`]: what to write to, and with which guarantees.

mod atomic;
mod bad_rows;
mod columns;
mod compact;
mod ddl;
mod defaults;
mod delivery;
mod evolution;
mod insert;
mod layout;
mod pressure;
mod schema;
mod split;
mod tables;
mod target;
mod writer;

use std::{fmt, sync::Arc};

use connector_core::{
    DeliveryGuarantee, Error, ErrorKind, ExactlyOnce, Result, SchemaChangeKind, Sink, SinkCapabilities,
    WriterContext, async_trait, sink::AtomicBatch,
};

pub use self::writer::BytehouseCdwWriter;
pub(crate) use self::{
    atomic::AtomicWrite,
    ddl::{Keyless, TableCreation},
};
use self::{atomic::Batch, tables::Tables};
use crate::{client::Session, config::SinkConfig, options::BytehouseCdwSinkBuilder};

/// Writes rows to ByteHouse CDW, or to an open-source ClickHouse with `cnch_engine=false`.
///
/// # Delivery
/// - At least once in every mode: a flush is durable when the server has confirmed it, and a failed one is
///   resent unchanged.
/// - Exactly once in the modes with keys (repeating a row changes nothing), and in mode `insert` into a table with
///   a deduplication window (`non_replicated_deduplication_window`, or a replicated engine), one block a flush.
///   Elsewhere [`Sink::check`] refuses it with the reason.
/// - All or nothing, and exactly once, with `job.writer.atomic_write` and a source that ends: rows go to a temporary
///   table, whose partitions move to the target once all are written.
#[derive(Clone)]
pub struct BytehouseCdwSink {
    config: Arc<SinkConfig>,
    batch: Option<Arc<Batch>>,
}

impl fmt::Debug for BytehouseCdwSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BytehouseCdwSink")
            .field("host", &self.config.client.host)
            .field("port", &self.config.client.port)
            .field("table", &self.config.table)
            .field("mode", &self.config.mode)
            .finish_non_exhaustive()
    }
}

impl BytehouseCdwSink {
    /// Options one by one.
    pub fn builder() -> BytehouseCdwSinkBuilder {
        BytehouseCdwSinkBuilder::default()
    }

    pub(crate) fn new(config: SinkConfig) -> Self {
        let config = Arc::new(config);
        Self { batch: Batch::new(Arc::clone(&config)).map(Arc::new), config }
    }

    #[cfg(test)]
    pub(crate) fn config(&self) -> &SinkConfig {
        &self.config
    }

    /// Looks at the one table that the options name.
    async fn check_table(&self, session: &mut Session, delivery: DeliveryGuarantee) -> Result<()> {
        let exactly_once_insert = delivery == DeliveryGuarantee::ExactlyOnce
            && !self.config.mode.is_keyed()
            && self.batch.is_none();
        let off = matches!(self.config.insert_settings.get("insert_deduplicate"), Some("0" | "false"));
        if exactly_once_insert && off {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "exactly-once in mode insert needs the server's deduplication, which the setting \
                 insert_deduplicate=0 switches off; leave it out, or use mode upsert",
            ));
        }
        let Some(table) = &self.config.table else {
            if exactly_once_insert {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    "exactly-once in mode insert needs one table with a deduplication window; name it in `table`, or use mode upsert",
                ));
            }
            return Ok(());
        };
        let Some(target) = Tables::default().check(session, table, &self.config).await? else {
            let window = self.config.creation.settings.get("non_replicated_deduplication_window");
            if exactly_once_insert && window.is_none_or(|window| window.value == "0") {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    "exactly-once in mode insert needs a deduplication window, and the table is not there yet; \
                     create it with one, or set non_replicated_deduplication_window among the settings of created tables",
                )
                .with_context("table", table));
            }
            return Ok(());
        };
        if let Some(batch) = &self.batch {
            return batch.expect_possible(session, &target).await;
        }
        if exactly_once_insert && !target.deduplicates {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "exactly-once in mode insert needs a deduplication window, and the table has none; \
                 set non_replicated_deduplication_window on it, use a replicated engine, or mode upsert",
            )
            .with_context("table", table));
        }
        Ok(())
    }
}

#[async_trait]
impl Sink for BytehouseCdwSink {
    type Writer = BytehouseCdwWriter;

    fn connector(&self) -> &'static str {
        "bytehouse-cdw"
    }

    fn capabilities(&self) -> SinkCapabilities {
        let mode = self.config.mode;
        SinkCapabilities {
            row_kinds: mode.kinds(),
            schema_changes: SchemaChangeKind::ALL.into(),
            exactly_once: if mode.is_keyed() {
                ExactlyOnce::IdempotentUpsert
            } else {
                ExactlyOnce::DeduplicatedFlush
            },
        }
    }

    async fn check(&self, delivery: DeliveryGuarantee) -> Result<()> {
        let mut session = Session::new(&self.config);
        let outcome = async {
            session.client().await?;
            expect_writable(&mut session).await?;
            self.check_table(&mut session, delivery).await
        };
        let outcome = outcome.await;
        session.close();
        outcome.map_err(|e| e.with_operation("bytehouse.check"))
    }

    async fn open(&self, context: WriterContext) -> Result<BytehouseCdwWriter> {
        Ok(BytehouseCdwWriter::new(Arc::clone(&self.config), self.batch.clone(), context))
    }

    fn atomic_batch(&self) -> Option<Arc<dyn AtomicBatch>> {
        self.batch.clone().map(|batch| batch as Arc<dyn AtomicBatch>)
    }
}

/// A read-only login is refused before a row is read from the source, not at the first flush.
async fn expect_writable(session: &mut Session) -> Result<()> {
    // A gateway that hides its settings says nothing about them; the first INSERT will.
    let readonly =
        session.texts("SELECT value FROM system.settings WHERE name = 'readonly'").await.unwrap_or_default();
    match readonly.first().map(String::as_str) {
        Some("1" | "2") => Err(Error::new(
            ErrorKind::PermissionDenied,
            "the user is read-only at the server; use one that may INSERT",
        )),
        _ => Ok(()),
    }
}
