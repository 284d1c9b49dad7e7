//! Blocks on their way to one table: kept until the server has confirmed them, resent when it has not.

use connector_bytehouse_common::{
    error::code_rule,
    native::{BlockEncoder, ColumnDef, EncodeError, EncodeRules},
    sql::{quote_ident, quote_table},
    wire::{Client, InsertStream, Settings},
};
use connector_core::{
    BadRecordPolicy, ChangeBatch, Error, ErrorKind, Result,
    arrow::{
        array::{BooleanArray, RecordBatch},
        compute::filter_record_batch,
    },
    sink::RejectedRows,
};

use super::{columns::Columns, target::Target};
use crate::{client::Session, config::SinkConfig};

/// Bytes of rows that are encoded at once, and that wait before an INSERT is opened for them.
pub(super) const BLOCK_BYTES: usize = 4 << 20;

/// Rows that are sent together.
#[derive(Debug)]
struct Block {
    rows: RecordBatch,
    /// Rows that only say which keys to delete: columns beside the key may be missing.
    deletes: bool,
}

/// What is under way to one table.
#[derive(Debug)]
pub(super) struct TableInsert {
    pub(super) target: Target,
    columns: Columns,
    statement: String,
    blocks: Vec<Block>,
    /// Blocks of the open INSERT that were sent.
    sent: usize,
    unsent_bytes: usize,
    /// The same for every try of one INSERT, so that a server with a window recognises the second one.
    token: Option<String>,
    encoders: Option<Encoders>,
    open: Option<InsertStream<Client>>,
    rejected: Vec<RejectedRows>,
    settings: Option<Settings>,
}

/// Encoders for the columns that the server described.
#[derive(Debug)]
struct Encoders {
    header: Vec<ColumnDef>,
    rows: BlockEncoder,
    deletes: BlockEncoder,
}

/// What a confirmed INSERT came to.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Confirmed {
    pub(super) rows: u64,
    pub(super) bytes: u64,
}

impl TableInsert {
    pub(super) fn new(target: Target, columns: Columns) -> Self {
        let names: Vec<String> =
            columns.sent.fields().iter().map(|field| quote_ident(field.name())).collect();
        let statement = format!("INSERT INTO {} ({}) VALUES", quote_table(&target.table), names.join(", "));
        Self {
            target,
            columns,
            statement,
            blocks: Vec::new(),
            sent: 0,
            unsent_bytes: 0,
            token: None,
            encoders: None,
            open: None,
            rejected: Vec::new(),
            settings: None,
        }
    }

    pub(super) fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Adds rows in blocks of a few megabytes.
    pub(super) fn push_sliced(&mut self, rows: &RecordBatch) {
        let bytes = rows.get_array_memory_size();
        let blocks = bytes.div_ceil(BLOCK_BYTES * 2).max(1);
        let size = rows.num_rows().div_ceil(blocks).max(1);
        for start in (0..rows.num_rows()).step_by(size) {
            let slice = rows.slice(start, size.min(rows.num_rows() - start));
            self.push(slice, bytes / blocks, false);
        }
    }

    /// Adds rows as one block.
    pub(super) fn push(&mut self, rows: RecordBatch, bytes: usize, deletes: bool) {
        if rows.num_rows() > 0 {
            self.unsent_bytes += bytes;
            self.blocks.push(Block { rows, deletes });
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    pub(super) fn has_blocks(&self) -> bool {
        !self.blocks.is_empty()
    }

    /// True when enough waits to be worth opening an INSERT, or one is open.
    pub(super) fn wants_to_send(&self) -> bool {
        self.unsent_bytes >= BLOCK_BYTES || (self.open.is_some() && self.sent < self.blocks.len())
    }

    pub(super) fn take_rejected(&mut self) -> Vec<RejectedRows> {
        std::mem::take(&mut self.rejected)
    }

    /// Names this INSERT for every try of it. A token of the caller's stays the same after a restart too.
    pub(super) fn name(&mut self, token: Option<&str>) {
        if let Some(token) = token {
            self.token = Some(token.to_owned());
        } else if self.token.is_none() && self.target.deduplicates {
            self.token = Some(uuid::Uuid::new_v4().simple().to_string());
        }
    }

    /// Sends what waits and, with `finish`, waits for the server's confirmation. After an error the next
    /// call starts over with the first block that is not confirmed.
    pub(super) async fn attempt(
        &mut self,
        session: &mut Session,
        config: &SinkConfig,
        buffer: &mut Vec<u8>,
        finish: bool,
    ) -> Result<Option<Confirmed>> {
        let outcome = self.try_once(session, config, buffer, finish).await;
        let error = match outcome {
            Ok(confirmed) => return Ok(confirmed),
            Err(error) => error,
        };
        // Dropping the stream breaks the INSERT off in the middle of a block: its rows are not stored.
        self.open = None;
        self.sent = 0;
        if finish && code_rule(&error).is_some_and(|rule| rule.success_on_insert) {
            tracing::info!(table = %self.target.table, %error, "the server has these rows from an earlier try");
            return Ok(Some(self.confirm(0)));
        }
        Err(error.with_context("table", &self.target.table).with_context("rows", self.num_rows()))
    }

    async fn try_once(
        &mut self,
        session: &mut Session,
        config: &SinkConfig,
        buffer: &mut Vec<u8>,
        finish: bool,
    ) -> Result<Option<Confirmed>> {
        if self.blocks.is_empty() {
            return Ok(finish.then(Confirmed::default));
        }
        if self.open.is_none() {
            self.begin(session, config).await?;
        }
        while self.sent < self.blocks.len() {
            self.encode(config, buffer)?;
            let Some(stream) = &mut self.open else { return Err(no_insert()) };
            if !buffer.is_empty() {
                stream.send(buffer).await?;
            }
            self.sent += 1;
        }
        self.unsent_bytes = 0;
        if !finish {
            return Ok(None);
        }
        let stream = self.open.take().ok_or_else(no_insert)?;
        let (summary, client) = stream.finish_into().await?;
        session.put_back(client);
        Ok(Some(self.confirm(summary.bytes_on_wire)))
    }

    async fn begin(&mut self, session: &mut Session, config: &SinkConfig) -> Result<()> {
        let mut settings = match &self.settings {
            Some(settings) => settings.clone(),
            None => {
                let settings = self.base_settings(session, config).await?;
                self.settings.insert(settings).clone()
            }
        };
        if let Some(token) = &self.token {
            settings.set("insert_deduplication_token", token);
        }
        let stream = session.take().await?.into_insert(&self.statement, &settings, None).await?;
        if self.encoders.as_ref().is_none_or(|encoders| encoders.header != stream.columns()) {
            self.encoders = Some(Encoders::new(&self.columns, stream.columns(), config)?);
        }
        self.open = Some(stream);
        Ok(())
    }

    /// The user's settings, and ours where the server knows them and the user says nothing else.
    async fn base_settings(&self, session: &mut Session, config: &SinkConfig) -> Result<Settings> {
        let mut settings = Settings::new();
        // An asynchronous insert answers before the rows are stored, and is not deduplicated by default.
        if !config.cnch_engine && session.knows_setting("async_insert", config).await? {
            settings.set("async_insert", 0);
        }
        settings.extend(&config.insert_settings);
        for ours in ["max_partitions_per_insert_block"] {
            if config.insert_settings.get(ours).is_some() && !session.knows_setting(ours, config).await? {
                settings.remove(ours);
            }
        }
        Ok(settings)
    }

    /// Encodes the next block; rows that the table cannot hold are taken out where the policy allows it.
    fn encode(&mut self, config: &SinkConfig, buffer: &mut Vec<u8>) -> Result<()> {
        buffer.clear();
        let Some(encoders) = &self.encoders else { return Err(no_insert()) };
        let block = &mut self.blocks[self.sent];
        let encoder = if block.deletes { &encoders.deletes } else { &encoders.rows };
        let error = match encoder.encode(&block.rows, buffer) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        if config.bad_records == BadRecordPolicy::Fail || !matches!(error, EncodeError::BadCell(_)) {
            return Err(error.into());
        }
        let (good, rejected) = reject(encoder, &block.rows, &self.target, config.bad_records)?;
        tracing::warn!(
            table = %self.target.table, rows = rejected.reasons.len(), first = rejected.reasons.first(),
            "rows that the table cannot hold are left out"
        );
        self.rejected.push(rejected);
        block.rows = good;
        if block.rows.num_rows() == 0 {
            return Ok(());
        }
        encoder.encode(&block.rows, buffer).map_err(Error::from)
    }

    fn num_rows(&self) -> usize {
        self.blocks.iter().map(|block| block.rows.num_rows()).sum()
    }

    fn confirm(&mut self, bytes: u64) -> Confirmed {
        let confirmed = Confirmed { rows: self.num_rows() as u64, bytes };
        self.blocks.clear();
        self.sent = 0;
        self.unsent_bytes = 0;
        self.token = None;
        confirmed
    }
}

fn no_insert() -> Error {
    Error::new(ErrorKind::Unexpected, "there is no open INSERT")
}

impl Encoders {
    fn new(columns: &Columns, header: &[ColumnDef], config: &SinkConfig) -> Result<Self> {
        let deletes = EncodeRules { null_as_default: true, ..config.rules.clone() };
        Ok(Self {
            header: header.to_vec(),
            rows: BlockEncoder::new(&columns.sent, header, &config.rules)?,
            deletes: BlockEncoder::new(&columns.sent, header, &deletes)?,
        })
    }
}

/// Parts the rows that the table can hold from those that it cannot.
fn reject(
    encoder: &BlockEncoder,
    rows: &RecordBatch,
    target: &Target,
    policy: BadRecordPolicy,
) -> Result<(RecordBatch, RejectedRows)> {
    let cells = encoder.check(rows);
    let mut keep = vec![true; rows.num_rows()];
    let mut reasons = Vec::with_capacity(cells.len());
    for cell in &cells {
        if std::mem::replace(&mut keep[cell.row], false) {
            reasons.push(cell.to_string());
        }
    }
    let keep = BooleanArray::from(keep);
    let refused = connector_core::arrow::compute::not(&keep).map_err(cannot_filter)?;
    let bad = filter_record_batch(rows, &refused).map_err(cannot_filter)?;
    let good = filter_record_batch(rows, &keep).map_err(cannot_filter)?;
    let dead_letter = policy == BadRecordPolicy::DeadLetter;
    Ok((good, RejectedRows { table: target.table.clone(), rows: bad, reasons, dead_letter }))
}

fn cannot_filter(error: connector_core::arrow::error::ArrowError) -> Error {
    Error::new(ErrorKind::Unexpected, "cannot part good rows from bad ones").with_source(error)
}

/// All rows of the batches as one.
pub(super) fn concat(batches: &[ChangeBatch]) -> Result<Option<RecordBatch>> {
    let Some(first) = batches.first() else { return Ok(None) };
    connector_core::arrow::compute::concat_batches(
        &first.rows().schema(),
        batches.iter().map(ChangeBatch::rows),
    )
    .map(Some)
    .map_err(|e| Error::new(ErrorKind::Unexpected, "cannot join batches").with_source(e))
}
