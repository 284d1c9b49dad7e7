//! `lookup.insert-if-not-exists`: the client's requests cannot ask servers for it, so a missing key is written with nulls in
//! its other columns, and looked up again. Two programs that do so at once write the same row.

use std::{collections::HashSet, sync::Arc};

use connector_core::{
    Error, ErrorKind, Result, TableId,
    arrow::{
        array::{RecordBatch, UInt32Array},
        compute::take_record_batch,
    },
};
use fluss::{
    metadata::{RowType, TableInfo},
    row::ColumnarRow,
};

use super::OPERATION;
use crate::{
    catalog::FlussCatalog,
    client::{Client, table_of, within},
    error::from_client,
    options::FlussOptions,
    types::{Missing, Partitioner, Target},
};

/// Writes rows of keys alone.
pub(super) struct Inserter {
    info: TableInfo,
    target: Target,
    row_type: Arc<RowType>,
}

impl Inserter {
    /// # Errors
    /// `Unsupported` when a column outside of the key must not be null.
    pub(super) fn new(info: &TableInfo) -> Result<Self> {
        let keys = info.get_primary_keys();
        let strict = info.row_type().fields().iter().find(|field| {
            !keys.iter().any(|key| key == field.name())
                && !field.data_type().is_nullable()
                && !info.get_schema().auto_increment_col_names().iter().any(|name| name == field.name())
        });
        if let Some(field) = strict {
            let text = "lookup.insert-if-not-exists: a column outside of the primary key is NOT NULL, so a key alone is no row";
            return Err(Error::new(ErrorKind::Unsupported, text).with_context("column", field.name()));
        }
        Ok(Self {
            info: info.clone(),
            target: Target::new(info)?,
            row_type: Arc::new(info.row_type().clone()),
        })
    }

    /// Writes the keys at `places`, each once, and waits until they are there.
    pub(super) async fn insert(
        &self,
        client: &Arc<Client>,
        options: &FlussOptions,
        table: &TableId,
        keys: &RecordBatch,
        places: &[usize],
    ) -> Result<()> {
        let mut seen = HashSet::new();
        let columns: Vec<usize> = (0..keys.num_columns()).collect();
        let of = crate::source::changes::Keys::new(keys, &columns)?.of(keys)?;
        let once: UInt32Array = places
            .iter()
            .filter(|row| seen.insert(of.row(**row).data().to_vec()))
            .filter_map(|row| u32::try_from(*row).ok())
            .collect::<Vec<_>>()
            .into();
        let chosen = take_record_batch(keys, &once)
            .map_err(|e| Error::new(ErrorKind::Unexpected, "cannot choose keys").with_source(e))?;
        let rows = self.target.convert(&chosen, Missing::Null)?;
        self.ensure_partitions(client, options, table, &rows).await?;
        let connection = client.connection_for(OPERATION, &self.info).await?;
        client.with_metrics(|| connection.start_writers())?;
        let writer = client.with_metrics(|| {
            let names: Vec<&str> = self.info.get_primary_keys().iter().map(String::as_str).collect();
            table_of(&connection, &self.info)
                .new_upsert()?
                .partial_update_with_column_names(&names)?
                .create_writer()
        });
        let writer = writer.map_err(|e| from_client(&e))?;
        let row_type = Arc::clone(&self.row_type);
        let count = rows.num_rows();
        let writes = tokio::task::spawn_blocking(move || {
            let mut row = ColumnarRow::new(Arc::new(rows), row_type, 0, None)?;
            let write = |place| {
                row.set_row_id(place);
                writer.upsert(&row)
            };
            (0..count).map(write).collect::<Result<Vec<_>, _>>()
        });
        let writes = writes
            .await
            .map_err(|e| Error::new(ErrorKind::Unexpected, "the client broke off a write").with_source(e))?
            .map_err(|e| from_client(&e))?;
        let all = async {
            for write in writes {
                write.await?;
            }
            Ok(())
        };
        let done = within(OPERATION, client.request_timeout(), all).await;
        if done.is_err() {
            client.give_up(&connection);
        }
        done
    }

    async fn ensure_partitions(
        &self,
        client: &Arc<Client>,
        options: &FlussOptions,
        table: &TableId,
        rows: &RecordBatch,
    ) -> Result<()> {
        let Some(partitioner) = Partitioner::new(&self.info) else { return Ok(()) };
        let catalog = FlussCatalog::with_client(Arc::clone(client), options.clone());
        let there = catalog.partitions(table).await?;
        for (values, _) in partitioner.split(rows)? {
            let spec = partitioner.spec(&values)?;
            let name = spec.get_partition_name();
            if there.iter().any(|partition| partition.name == name) {
                continue;
            }
            if !options.dynamic_create_partition {
                let text = "lookup.insert-if-not-exists: the key's partition does not exist; make it, or set \
                            client.writer.dynamic-create-partition.enabled";
                return Err(Error::new(ErrorKind::NotFound, text).with_context("partition", name));
            }
            catalog.create_partition(table, spec.to_partition_spec().get_spec_map()).await?;
        }
        Ok(())
    }
}
