//! The rows of one table under construction, with what happened to each.

use connector_core::{
    ChangeBatch, Error, ErrorKind, Result, RowKind, RowKinds,
    arrow::{
        array::{RecordBatch, RecordBatchOptions},
        datatypes::{Fields, SchemaRef},
    },
};

use crate::format::{
    avro::{Into, Plan, Row},
    json::{
        JsonError, JsonOptions,
        column::{Build, Context},
        cursor::Cursor,
        decoder::BATCH_BYTES,
        error::Fault,
        object::ObjectColumn,
    },
};

/// Rows of one table.
pub(super) struct Rows {
    schema: SchemaRef,
    root: ObjectColumn,
    context: Context,
    kinds: Vec<RowKind>,
    /// Rows that belong to whole records; those behind them are of the record that is being read.
    settled: usize,
    bytes: usize,
    reserved: bool,
    /// Where the fields of Avro records go, by the layouts of those.
    plans: Vec<(u64, Plan)>,
    /// Texts of values that no column takes as they are.
    text: Vec<u8>,
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").field("rows", &self.kinds.len()).finish_non_exhaustive()
    }
}

impl Rows {
    /// Rows with the columns of `schema`, read as `fields` say.
    pub(super) fn new(schema: SchemaRef, fields: &Fields, options: &JsonOptions) -> Result<Self> {
        let root = ObjectColumn::new(fields, "", options)?;
        let context = Context::new(options.clone());
        let (kinds, text) = (Vec::new(), Vec::new());
        Ok(Self {
            schema,
            root,
            context,
            kinds,
            settled: 0,
            bytes: 0,
            reserved: false,
            plans: Vec::new(),
            text,
        })
    }

    /// Whether the batch can take a record of so many bytes.
    pub(super) fn make_room(&mut self, bytes: usize) -> Result<(), Fault> {
        // A record's bytes may stand in two rows: the one before and the one after.
        if bytes.saturating_mul(2) > BATCH_BYTES.saturating_sub(self.bytes) {
            return Err(Fault::batch_full());
        }
        if !self.reserved {
            self.root.reserve();
            self.reserved = true;
        }
        Ok(())
    }

    /// Appends the object at the cursor.
    #[inline]
    pub(super) fn push(&mut self, kind: RowKind, cursor: &mut Cursor<'_>) -> Result<(), Fault> {
        self.root.decode(cursor, &mut self.context)?;
        self.kinds.push(kind);
        Ok(())
    }

    /// Appends an object of which only the key counts.
    pub(super) fn push_sparse(&mut self, kind: RowKind, cursor: &mut Cursor<'_>) -> Result<(), Fault> {
        self.root.decode_sparse(cursor, &mut self.context)?;
        self.kinds.push(kind);
        Ok(())
    }

    /// Appends the object at the cursor with the values of `over` in place of its own.
    pub(super) fn push_over(
        &mut self,
        kind: RowKind,
        over: &mut Cursor<'_>,
        cursor: &mut Cursor<'_>,
    ) -> Result<(), Fault> {
        self.root.decode_over(over, cursor, &mut self.context)?;
        self.kinds.push(kind);
        Ok(())
    }

    /// Appends a record of Avro that has this layout, of which only the key counts where it is `sparse`. Tells where it ends.
    pub(super) fn push_avro(
        &mut self,
        kind: RowKind,
        layout: u64,
        row: &Row<'_>,
        sparse: bool,
    ) -> Result<usize, JsonError> {
        let known = self.plans.iter().position(|(known, _)| *known == layout);
        let at = known.unwrap_or_else(|| {
            let fields = row.schema.record(row.record).unwrap_or_default();
            let fold = self.context.options.case_insensitive;
            self.plans.push((layout, Plan::new(fields, self.schema.fields(), fold)));
            self.plans.len() - 1
        });
        let plan = &self.plans[at].1;
        // Texts may be longer than the record's bytes, by which the batch is bounded otherwise.
        let room = BATCH_BYTES.saturating_sub(self.bytes);
        let sink = Into { columns: &mut self.root, text: &mut self.text, context: &mut self.context, room };
        let (end, texts) = row.append(plan, sparse, sink)?;
        self.kinds.push(kind);
        self.bytes += texts;
        Ok(end)
    }

    /// Ends a record: how many rows it gave.
    pub(super) fn settle(&mut self, bytes: usize) -> usize {
        let rows = self.kinds.len() - self.settled;
        self.settled = self.kinds.len();
        self.bytes += bytes.saturating_mul(2);
        rows
    }

    /// Takes back the rows of a record that cannot be read to its end.
    pub(super) fn roll_back(&mut self) {
        self.root.truncate(self.settled);
        self.kinds.truncate(self.settled);
        self.context.keys.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.kinds.len()
    }

    pub(super) fn memory_size(&self) -> usize {
        self.root.memory_size() + self.kinds.len()
    }

    /// Takes the rows; `more` adds columns behind them.
    pub(super) fn finish(
        &mut self,
        more: impl FnOnce(RecordBatch) -> Result<RecordBatch>,
    ) -> Result<ChangeBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(self.kinds.len()));
        let kinds = std::mem::take(&mut self.kinds);
        (self.settled, self.bytes, self.reserved) = (0, 0, false);
        let batch = self
            .root
            .finish_columns()
            .and_then(|columns| {
                RecordBatch::try_new_with_options(SchemaRef::clone(&self.schema), columns, &options)
            })
            .map_err(|e| {
                Error::new(ErrorKind::Unexpected, "cannot build a batch of decoded changes")
                    .with_operation("kafka.decode")
                    .with_source(e)
            })?;
        ChangeBatch::try_new(more(batch)?, RowKinds::from_kinds(&kinds))
    }
}
