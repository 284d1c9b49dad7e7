//! One INSERT: its blocks are kept until the server has confirmed them, and sent again when it has not.

use std::sync::Arc;

use connector_bytehouse_common::{
    error::{code_rule, server_code},
    native::{BlockEncoder, ColumnDef, EncodeError},
    sql::{quote_ident, quote_table},
    wire::{Client, InsertStream, Settings},
};
use connector_core::{
    BadRecordPolicy, Error, ErrorKind, Result,
    arrow::{array::RecordBatch, buffer::NullBuffer},
    sink::RejectedRows,
};

use super::{bad_rows, columns::Columns, target::Target};
use crate::{client::Session, config::SinkConfig};

/// Bytes of rows that are encoded at once, and that wait before an INSERT is opened for them.
pub(super) const BLOCK_BYTES: usize = 4 << 20;

/// The code of an INSERT whose label the server has seen.
const LABEL_EXISTS: i32 = 5035;

/// What all INSERTs of rows of one shape into one table share. A writer keeps one for each table, so nothing is in it
/// that can be made anew for an INSERT.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) target: Target,
    pub(super) columns: Columns,
    statement: String,
}

impl Route {
    pub(super) fn new(target: Target, columns: Columns) -> Self {
        let names: Vec<String> =
            columns.sent.fields().iter().map(|field| quote_ident(field.name())).collect();
        let statement = format!("INSERT INTO {} ({}) VALUES", quote_table(&target.table), names.join(", "));
        Self { target, columns, statement }
    }

    /// The encoder for the columns that the server describes.
    fn encoder(&self, header: &[ColumnDef], config: &SinkConfig) -> Result<Arc<BlockEncoder>> {
        let columns = &self.columns;
        let blocks = BlockEncoder::new(&columns.sent, header, &config.rules)?
            .with_optional(|column| columns.is_optional(&column.name));
        Ok(Arc::new(blocks))
    }
}

/// The user's settings, and ours where the server knows them and the user says nothing else.
async fn settings(session: &mut Session, config: &SinkConfig) -> Result<Settings> {
    let mut settings = Settings::new();
    // An asynchronous insert answers before the rows are stored, and is not deduplicated by default.
    if !config.cnch_engine && session.knows_setting("async_insert", config).await? {
        settings.set("async_insert", 0);
    }
    if let Some(partial) = config.partial_update.filter(|_| config.cnch_engine) {
        settings.set("enable_unique_partial_update", u8::from(partial));
    }
    settings.extend(&config.insert_settings);
    for ours in ["max_partitions_per_insert_block"] {
        if config.insert_settings.get(ours).is_some() && !session.knows_setting(ours, config).await? {
            settings.remove(ours);
        }
    }
    Ok(settings)
}

/// Rows that are sent together.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub(super) rows: RecordBatch,
    /// Null for rows that count with their key only.
    pub(super) whole: Option<NullBuffer>,
}

impl Block {
    pub(super) fn slice(&self, start: usize, length: usize) -> Self {
        Self {
            rows: self.rows.slice(start, length),
            whole: self.whole.as_ref().map(|whole| whole.slice(start, length)),
        }
    }
}

/// The rows of one INSERT.
#[derive(Debug)]
pub(super) struct Parcel {
    pub(super) route: Arc<Route>,
    blocks: Vec<Block>,
    /// Blocks of the open INSERT that were sent.
    sent: usize,
    unsent_bytes: usize,
    /// The same for every try, so that a server with a window recognises the second one.
    token: Option<String>,
    /// The token is the caller's: the same rows may come under it after a restart.
    lasting: bool,
    label: Option<String>,
    open: Option<InsertStream<Client>>,
    /// The encoder for the open INSERT.
    encoder: Option<Arc<BlockEncoder>>,
    rejected: Vec<RejectedRows>,
}

/// What a confirmed INSERT came to.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Confirmed {
    pub(super) rows: u64,
    pub(super) bytes: u64,
}

impl Parcel {
    pub(super) fn new(route: Arc<Route>) -> Self {
        Self {
            route,
            blocks: Vec::new(),
            sent: 0,
            unsent_bytes: 0,
            token: None,
            lasting: false,
            label: None,
            open: None,
            encoder: None,
            rejected: Vec::new(),
        }
    }

    /// A parcel of these blocks that is sent instead of another one, of which it is the part number `part`.
    pub(super) fn part(&self, blocks: Vec<Block>, part: usize) -> Self {
        let named = |name: &Option<String>| name.as_ref().map(|name| format!("{name}-{part}"));
        Self {
            blocks,
            token: named(&self.token),
            label: named(&self.label),
            ..Self::new(Arc::clone(&self.route))
        }
    }

    /// Adds rows in blocks of a few megabytes.
    pub(super) fn push_sliced(&mut self, block: Block) {
        let rows = block.rows.num_rows();
        let bytes = block.rows.get_array_memory_size();
        let blocks = bytes.div_ceil(BLOCK_BYTES * 2).max(1);
        let size = rows.div_ceil(blocks).max(1);
        for start in (0..rows).step_by(size) {
            self.push(block.slice(start, size.min(rows - start)), bytes / blocks);
        }
    }

    /// Adds rows as one block.
    pub(super) fn push(&mut self, block: Block, bytes: usize) {
        if block.rows.num_rows() > 0 {
            self.unsent_bytes += bytes;
            self.blocks.push(block);
        }
    }

    pub(super) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The rows may come again under the same token after a restart, so they must stay together.
    pub(super) fn is_lasting(&self) -> bool {
        self.lasting
    }

    /// True when enough waits to be worth opening an INSERT, or one is open.
    pub(super) fn wants_to_send(&self) -> bool {
        self.unsent_bytes >= BLOCK_BYTES || (self.open.is_some() && self.sent < self.blocks.len())
    }

    pub(super) fn take_rejected(&mut self) -> Vec<RejectedRows> {
        std::mem::take(&mut self.rejected)
    }

    pub(super) fn num_rows(&self) -> usize {
        self.blocks.iter().map(|block| block.rows.num_rows()).sum()
    }

    /// Names this INSERT for every try of it. A token of the caller's stays the same after a restart too.
    pub(super) fn name(&mut self, token: Option<&str>, config: &SinkConfig) {
        if let Some(token) = token {
            self.token = Some(token.to_owned());
            self.lasting = true;
        } else if self.token.is_none() && self.route.target.deduplicates {
            self.token = Some(uuid::Uuid::new_v4().simple().to_string());
        }
        if config.insertion_label && config.cnch_engine && self.label.is_none() {
            let label = token.map_or_else(|| uuid::Uuid::new_v4().to_string(), label_of);
            self.label = Some(label);
        }
    }

    /// Sends what waits and, with `finish`, waits for the server's confirmation. After an error the next
    /// call starts over with the first block.
    ///
    /// # Errors
    /// Those of the connection, the server and the encoder, with the table and the number of rows.
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
        if finish && self.is_known(&error) {
            tracing::info!(table = %self.route.target.table, %error, "the server has these rows from an earlier try");
            return Ok(Some(self.confirm(0)));
        }
        if error.kind() == ErrorKind::Timeout && server_code(&error).is_none() {
            session.kill(error.context_value("query_id")).await;
        }
        Err(error.with_context("table", &self.route.target.table).with_context("rows", self.num_rows()))
    }

    /// The server says that it has the rows. A label says so only when it is of our making.
    fn is_known(&self, error: &Error) -> bool {
        code_rule(error)
            .is_some_and(|rule| rule.success_on_insert && (rule.code != LABEL_EXISTS || self.label.is_some()))
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
        let mut fresh = self.open.is_none();
        if fresh {
            self.begin(session, config).await?;
        }
        let mut stream = self.open.take().ok_or_else(no_insert)?;
        while self.sent < self.blocks.len() {
            if !self.encode(config, buffer, fresh)? {
                // The table may have changed since the INSERT was opened: an enum may have a new name.
                fresh = true;
                self.sent = 0;
                drop(stream);
                self.begin(session, config).await?;
                stream = self.open.take().ok_or_else(no_insert)?;
                continue;
            }
            if !buffer.is_empty() {
                stream.send(buffer).await?;
            }
            self.sent += 1;
        }
        self.unsent_bytes = 0;
        if !finish {
            self.open = Some(stream);
            return Ok(None);
        }
        let (summary, client) = stream.finish_into().await?;
        session.put_back(client);
        Ok(Some(self.confirm(summary.bytes_on_wire)))
    }

    async fn begin(&mut self, session: &mut Session, config: &SinkConfig) -> Result<()> {
        let mut settings = settings(session, config).await?;
        if let Some(token) = &self.token {
            settings.set("insert_deduplication_token", token);
        }
        if let Some(label) = &self.label {
            settings.set("insertion_label", label);
        }
        let stream = session.take().await?.into_insert(&self.route.statement, &settings, None).await?;
        self.encoder = Some(self.route.encoder(stream.columns(), config)?);
        self.open = Some(stream);
        Ok(())
    }

    /// Encodes the next block; rows that the table cannot hold are taken out where the policy allows it. False when
    /// there are some and what is known of the table is not `fresh`.
    fn encode(&mut self, config: &SinkConfig, buffer: &mut Vec<u8>, fresh: bool) -> Result<bool> {
        let encoder = self.encoder.clone().ok_or_else(no_insert)?;
        let encoder = encoder.as_ref();
        buffer.clear();
        let block = &mut self.blocks[self.sent];
        let error = match encoder.encode_rows(&block.rows, block.whole.as_ref(), buffer) {
            Ok(()) => return Ok(true),
            Err(error) => error,
        };
        if !matches!(error, EncodeError::BadCell(_)) {
            return Err(error.into());
        }
        if !fresh {
            return Ok(false);
        }
        if config.invalid_as_null {
            bad_rows::null_cells(encoder, block)?;
            match encoder.encode_rows(&block.rows, block.whole.as_ref(), buffer) {
                Ok(()) => return Ok(true),
                Err(error) if config.bad_records == BadRecordPolicy::Fail => return Err(error.into()),
                Err(_) => {}
            }
        } else if config.bad_records == BadRecordPolicy::Fail {
            return Err(error.into());
        }
        let rejected = bad_rows::reject(encoder, block, &self.route, config.bad_records)?;
        tracing::warn!(
            table = %self.route.target.table, rows = rejected.reasons.len(), first = rejected.reasons.first(),
            "rows that the table cannot hold are left out"
        );
        self.rejected.push(rejected);
        if block.rows.num_rows() > 0 {
            encoder.encode_rows(&block.rows, block.whole.as_ref(), buffer)?;
        }
        Ok(true)
    }

    fn confirm(&mut self, bytes: u64) -> Confirmed {
        let confirmed = Confirmed { rows: self.num_rows() as u64, bytes };
        self.blocks.clear();
        self.sent = 0;
        self.unsent_bytes = 0;
        confirmed
    }
}

/// A token in the letters that labels may have.
fn label_of(token: &str) -> String {
    token
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_string() } else { format!("-{:x}-", u32::from(c)) })
        .collect()
}

fn no_insert() -> Error {
    Error::new(ErrorKind::Unexpected, "there is no open INSERT")
}
