//! A table that rows are written into.

use std::{collections::HashMap, sync::Arc};

use connector_core::{
    ChangeBatch, Error, ErrorKind, Result, RowKind, TableId,
    arrow::{
        array::{RecordBatch, UInt32Array},
        compute::take_record_batch,
    },
};
use fluss::{
    client::{AppendWriter, UpsertWriter, WriteResultFuture},
    error::Error as ClientError,
    metadata::{RowType, TableInfo},
    row::ColumnarRow,
};
use hashbrown::HashSet;

use super::{
    Inner,
    lanes::Routing,
    metrics::SinkMetrics,
    rows::{Op, ops},
};
use crate::{
    client::{Client, table_of},
    connection::Connection,
    error::from_client,
    options::{DistributionMode, FlussOptions},
    source::plan::check_format,
    types::{Missing, PartitionValues, Partitioner, Target},
};

const OPERATION: &str = "fluss.write";

/// Refuses tables that the client would write wrongly, and options that the table cannot keep.
pub(crate) fn check(info: &TableInfo, options: &FlussOptions) -> Result<()> {
    check_format(info)?;
    let refuse = |text: String| Err(Error::new(ErrorKind::Unsupported, text));
    let property = |key: &str| info.get_properties().get(key).map(String::as_str);
    let zstd =
        property("table.log.arrow.compression.type").is_none_or(|kind| kind.eq_ignore_ascii_case("ZSTD"));
    if let Some(level) =
        property("table.log.arrow.compression.zstd.level").filter(|level| zstd && *level != "3")
    {
        return refuse(format!(
            "the table's log is compressed at level {level} (table.log.arrow.compression.zstd.level), and the client can write level 3 only"
        ));
    }
    let engine = property("table.merge-engine").map(str::to_ascii_lowercase);
    if options.require_primary_key && (!info.has_primary_key() || engine.as_deref() == Some("aggregation")) {
        let text = "sink.require-primary-key: the table has no primary key, or aggregates its rows, so a repeated row would change it";
        return refuse(text.to_owned());
    }
    if options.partial_update {
        if !info.has_primary_key() {
            return refuse("sink.partial-update needs a table with a primary key".to_owned());
        }
        if let Some(engine) = engine.filter(|engine| ["first_row", "versioned"].contains(&engine.as_str())) {
            return refuse(format!(
                "sink.partial-update: a table with table.merge-engine `{engine}` takes whole rows only"
            ));
        }
    }
    if options.distribution() == DistributionMode::PartitionDynamic
        && (info.has_primary_key() || !info.is_partitioned())
    {
        let text = "sink.distribution-mode PARTITION_DYNAMIC is for partitioned tables without a primary key";
        return refuse(text.to_owned());
    }
    Ok(())
}

/// The client's writers of a table on one connection.
struct Lane {
    client: Arc<Client>,
    connection: Arc<Connection>,
    append: Option<Arc<AppendWriter>>,
    /// By the columns that they write; the empty list is all.
    upsert: HashMap<Vec<String>, Arc<UpsertWriter>>,
}

/// What of a batch goes through one lane.
struct Load {
    lane: usize,
    rows: RecordBatch,
    ops: Vec<Op>,
}

/// A table and everything needed to write into it.
pub(crate) struct Table {
    id: TableId,
    pub(crate) info: TableInfo,
    options: FlussOptions,
    target: Target,
    row_type: Arc<RowType>,
    key: Vec<usize>,
    partitioner: Option<Partitioner>,
    /// Partitions that are there.
    partitions: HashSet<PartitionValues>,
    routing: Routing,
    lanes: HashMap<usize, Lane>,
    own_lane: usize,
    lane_count: usize,
}

impl Table {
    pub(crate) fn new(
        id: &TableId,
        info: TableInfo,
        options: FlussOptions,
        own_lane: usize,
        lane_count: usize,
    ) -> Result<Self> {
        check(&info, &options)?;
        let key =
            info.get_primary_keys().iter().filter_map(|name| info.row_type().get_field_index(name)).collect();
        Ok(Self {
            id: id.clone(),
            target: Target::new(&info)?,
            row_type: Arc::new(info.row_type().clone()),
            key,
            partitioner: Partitioner::new(&info),
            partitions: HashSet::new(),
            routing: Routing::new(&info, &options, lane_count)?,
            lanes: HashMap::new(),
            own_lane,
            lane_count,
            info,
            options,
        })
    }

    /// Gives rows to the client, off the runtime's threads, since the client blocks where its memory is full. Returns
    /// what is to be waited for, and how many rows there are.
    ///
    /// # Errors
    /// As `SinkWriter::write`.
    pub(crate) async fn write(
        &mut self,
        sink: &Inner,
        metrics: &SinkMetrics,
        batch: &ChangeBatch,
    ) -> Result<(Vec<WriteResultFuture>, u64)> {
        let mut batch = std::borrow::Cow::Borrowed(batch);
        if self.options.ignore_delete {
            let kept = batch.filter_kinds(|kind| matches!(kind, RowKind::Insert | RowKind::UpdateAfter))?;
            metrics.rows_dropped.increment((batch.num_rows() - kept.num_rows()) as u64);
            batch = std::borrow::Cow::Owned(kept);
        } else if !self.info.has_primary_key() && !batch.is_append_only() {
            let text = "the table has no primary key, so rows can only be added to it; sink.ignore-delete leaves out deletes and \
                        rows before updates, and adds those after";
            return Err(Error::new(ErrorKind::Unsupported, text).with_operation(OPERATION));
        }
        if batch.num_rows() == 0 {
            return Ok((Vec::new(), 0));
        }
        let columns = self.columns_to_write(batch.rows())?;
        let missing = if columns.is_empty() { Missing::Refuse } else { Missing::Null };
        let rows = self.target.convert(batch.rows(), missing)?;
        let ops = if self.info.has_primary_key() { ops(&batch, &rows, &self.key)? } else { Vec::new() };
        let written = if ops.is_empty() {
            rows.num_rows()
        } else {
            ops.iter().filter(|op| **op != Op::Nothing).count()
        };
        let loads = self.loads(sink, metrics, rows, ops).await?;
        let mut writes = Vec::new();
        for load in loads {
            writes.extend(self.send(sink, load, &columns).await?);
        }
        Ok((writes, written as u64))
    }

    /// The columns of a partial update; none where whole rows are written.
    fn columns_to_write(&self, rows: &RecordBatch) -> Result<Vec<String>> {
        let given = rows.schema();
        let lacking = |name: &&String| given.column_with_name(name).is_none();
        let all: Vec<String> =
            self.info.row_type().fields().iter().map(|field| field.name().to_owned()).collect();
        let counted = self.info.get_schema().auto_increment_col_names();
        let missing: Vec<&String> = all.iter().filter(lacking).collect();
        // The server fills an auto-increment column, and takes no value for it.
        let only_counted = !missing.is_empty() && missing.iter().all(|name| counted.contains(name));
        if missing.is_empty() || !(self.options.partial_update || only_counted) {
            return Ok(Vec::new());
        }
        if let Some(key) = missing.iter().find(|name| self.info.get_primary_keys().contains(name)) {
            return Err(Error::new(ErrorKind::SchemaMismatch, "the rows lack a column of the key")
                .with_context("column", key));
        }
        Ok(all.into_iter().filter(|name| given.column_with_name(name).is_some()).collect())
    }

    async fn loads(
        &mut self,
        sink: &Inner,
        metrics: &SinkMetrics,
        rows: RecordBatch,
        ops: Vec<Op>,
    ) -> Result<Vec<Load>> {
        let Some(partitioner) = self.partitioner.clone() else { return self.by_bucket(rows, ops) };
        let parts = partitioner.split(&rows)?;
        for (values, _) in &parts {
            self.ensure_partition(sink, metrics, &partitioner, values).await?;
        }
        if self.info.has_primary_key() {
            // The client itself finds the partition of each row.
            return self.by_bucket(rows, ops);
        }
        let mut loads = Vec::with_capacity(parts.len());
        for (values, rows) in parts {
            match self.routing {
                Routing::Partition => {
                    let lane = sink.lanes.of_partition(&values, rows.num_rows(), self.lane_count);
                    loads.push(Load { lane, rows, ops: Vec::new() });
                }
                _ => loads.extend(self.by_bucket(rows, Vec::new())?),
            }
        }
        Ok(loads)
    }

    fn by_bucket(&self, rows: RecordBatch, ops: Vec<Op>) -> Result<Vec<Load>> {
        let Routing::Bucket(buckets) = &self.routing else {
            return Ok(vec![Load { lane: self.own_lane, rows, ops }]);
        };
        let lanes = buckets.lanes(&rows, self.lane_count)?;
        let mut loads = Vec::new();
        for lane in 0..self.lane_count {
            let chosen: Vec<usize> = (0..lanes.len()).filter(|row| lanes[*row] == lane).collect();
            if chosen.is_empty() {
                continue;
            }
            let places: UInt32Array =
                chosen.iter().filter_map(|row| u32::try_from(*row).ok()).collect::<Vec<_>>().into();
            let part = take_record_batch(&rows, &places).map_err(|e| {
                Error::new(ErrorKind::Unexpected, "cannot divide rows by their buckets").with_source(e)
            })?;
            loads.push(Load {
                lane,
                rows: part,
                ops: chosen.iter().filter_map(|row| ops.get(*row).copied()).collect(),
            });
        }
        Ok(loads)
    }

    /// A write into a partition that is not there would never end, and hold up all others on its connection.
    async fn ensure_partition(
        &mut self,
        sink: &Inner,
        metrics: &SinkMetrics,
        partitioner: &Partitioner,
        values: &PartitionValues,
    ) -> Result<()> {
        if self.partitions.contains(values) {
            return Ok(());
        }
        let spec = partitioner.spec(values)?;
        let name = spec.get_partition_name();
        let path = crate::client::path(&self.id);
        let list = sink.client.ask(OPERATION, |admin| {
            let path = path.clone();
            async move { admin.list_partition_infos(&path).await }
        });
        let there = list.await?;
        if !there.iter().any(|partition| partition.get_partition_name() == name) {
            if !self.options.dynamic_create_partition {
                let text = "rows belong to a partition that the table does not have; make it, or set \
                            client.writer.dynamic-create-partition.enabled";
                return Err(Error::new(ErrorKind::NotFound, text)
                    .with_operation(OPERATION)
                    .with_context("partition", name));
            }
            let spec = spec.to_partition_spec();
            let made = sink
                .client
                .ask(OPERATION, |admin| async move { admin.create_partition(&path, &spec, true).await });
            made.await.map_err(|e| e.with_context("partition", &name))?;
            metrics.partitions.increment(1);
        }
        self.partitions.insert(values.clone());
        Ok(())
    }

    async fn send(&mut self, sink: &Inner, load: Load, columns: &[String]) -> Result<Vec<WriteResultFuture>> {
        let Load { lane, rows, ops } = load;
        self.prepare(sink, lane, columns).await?;
        let Some(writers) = self.lanes.get(&lane) else { return Ok(Vec::new()) };
        let row_type = Arc::clone(&self.row_type);
        let sent = match (&writers.append, writers.upsert.get(columns)) {
            (Some(writer), _) => {
                let writer = Arc::clone(writer);
                tokio::task::spawn_blocking(move || writer.append_arrow_batch(rows).map(|write| vec![write]))
                    .await
            }
            (None, Some(writer)) => {
                let writer = Arc::clone(writer);
                tokio::task::spawn_blocking(move || upsert(&writer, rows, row_type, &ops)).await
            }
            (None, None) => return Ok(Vec::new()),
        };
        let sent = sent.map_err(|e| {
            Error::new(ErrorKind::Unexpected, "the client broke off a write")
                .with_operation(OPERATION)
                .with_source(e)
        })?;
        sent.map_err(|e| from_client(&e).with_operation(OPERATION))
    }

    /// Makes the lane's writers where they are not there.
    async fn prepare(&mut self, sink: &Inner, lane: usize, columns: &[String]) -> Result<()> {
        let keyed = self.info.has_primary_key();
        let there = self.lanes.get(&lane).is_some_and(|lane| {
            if keyed { lane.upsert.contains_key(columns) } else { lane.append.is_some() }
        });
        if there {
            return Ok(());
        }
        let (client, connection) = match self.lanes.get(&lane) {
            Some(lane) => (Arc::clone(&lane.client), Arc::clone(&lane.connection)),
            None => {
                let client = sink.lanes.client(lane, &self.options);
                let connection = client.connection_for(OPERATION, &self.info).await?;
                client
                    .with_metrics(|| connection.start_writers())
                    .map_err(|e| e.with_operation(OPERATION))?;
                (client, connection)
            }
        };
        let refused = |e: ClientError| from_client(&e).with_operation(OPERATION);
        let table = table_of(&connection, &self.info);
        let entry = self.lanes.entry(lane).or_insert_with(|| Lane {
            client: Arc::clone(&client),
            connection: Arc::clone(&connection),
            append: None,
            upsert: HashMap::new(),
        });
        if !keyed {
            let writer = client.with_metrics(|| table.new_append().and_then(|append| append.create_writer()));
            entry.append = Some(Arc::new(writer.map_err(refused)?));
            return Ok(());
        }
        let writer = client.with_metrics(|| {
            let upsert = table.new_upsert()?;
            if columns.is_empty() {
                return upsert.create_writer();
            }
            let names: Vec<&str> = columns.iter().map(String::as_str).collect();
            upsert.partial_update_with_column_names(&names)?.create_writer()
        });
        entry.upsert.insert(columns.to_vec(), Arc::new(writer.map_err(refused)?));
        Ok(())
    }

    /// What rows went through.
    pub(crate) fn connections(&self) -> impl Iterator<Item = (&Arc<Client>, &Arc<Connection>)> {
        self.lanes.values().map(|lane| (&lane.client, &lane.connection))
    }
}

fn upsert(
    writer: &UpsertWriter,
    rows: RecordBatch,
    row_type: Arc<RowType>,
    ops: &[Op],
) -> fluss::error::Result<Vec<WriteResultFuture>> {
    let count = rows.num_rows();
    let mut row = ColumnarRow::new(Arc::new(rows), row_type, 0, None)?;
    let mut writes = Vec::with_capacity(count);
    for (place, op) in ops.iter().enumerate().take(count) {
        row.set_row_id(place);
        match op {
            Op::Put => writes.push(writer.upsert(&row)?),
            Op::Delete => writes.push(writer.delete(&row)?),
            Op::Nothing => {}
        }
    }
    Ok(writes)
}
