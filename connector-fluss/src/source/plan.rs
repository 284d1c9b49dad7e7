//! What a read needs to know of its table.

use std::{collections::HashMap, sync::Arc};

use connector_core::{
    Error, ErrorKind, Result, TableId, TableSchema,
    arrow::{array::RecordBatch, datatypes::SchemaRef},
};
use fluss::{
    client::{FlussConnection, TableScan},
    metadata::{KvFormat, LogFormat, TableBucket, TableInfo},
};

use super::split::FlussSplit;
use crate::{
    client::{Client, table_of},
    error::from_client,
    options::{FlussOptions, Given, StartupMode},
    types::arrow_schema,
};

/// The schema that a table is created with.
const FIRST_SCHEMA: i32 = 1;

/// A table to read and how.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) table: TableId,
    pub(crate) client: Arc<Client>,
    pub(crate) options: FlussOptions,
    pub(crate) info: TableInfo,
    /// Columns as they are handed out.
    pub(crate) schema: SchemaRef,
    /// Names of the columns to fetch: those, and in a full read the key's.
    pub(crate) fetched: Option<Vec<String>>,
    /// Where the handed-out columns stand among the fetched ones, where that differs.
    handed_out: Option<Vec<usize>>,
    /// Where the key's columns stand among the fetched ones.
    pub(crate) key: Vec<usize>,
}

impl Plan {
    /// Asks the cluster for the table.
    ///
    /// # Errors
    /// `NotFound`; `Unsupported` for tables that the client cannot read; `SchemaMismatch` for unknown columns.
    pub(crate) async fn make(
        operation: &'static str,
        given: &Given,
        client: &Arc<Client>,
        table: &TableId,
    ) -> Result<Self> {
        let info = client.table(operation, table).await?;
        let options = given.over(info.get_custom_properties()).map_err(|e| e.with_context("table", table))?;
        let client =
            if options == given.options { Arc::clone(client) } else { Arc::new(Client::new(&options)) };
        Self::of(table, client, options, info)
            .map_err(|error| error.with_operation(operation).with_context("table", table))
    }

    fn of(table: &TableId, client: Arc<Client>, options: FlussOptions, info: TableInfo) -> Result<Self> {
        check_format(&info)?;
        let comments: HashMap<&str, &str> = info
            .get_schema()
            .columns()
            .iter()
            .filter_map(|column| Some((column.name(), column.comment()?)))
            .collect();
        let full = arrow_schema(info.row_type(), &comments)?;
        let place = |schema: &SchemaRef, name: &str| {
            schema.index_of(name).map_err(|_| {
                Error::new(
                    ErrorKind::SchemaMismatch,
                    "`scan.columns` names a column that the table does not have",
                )
                .with_context("column", name)
            })
        };
        let Some(columns) = &options.scan_columns else {
            let key = info.get_primary_keys().iter().map(|name| place(&full, name)).collect::<Result<_>>()?;
            return Ok(Self {
                table: table.clone(),
                client,
                options,
                schema: full,
                fetched: None,
                handed_out: None,
                key,
                info,
            });
        };
        let places = columns.iter().map(|name| place(&full, name)).collect::<Result<Vec<_>>>()?;
        let schema = Arc::new(
            full.project(&places)
                .map_err(|e| Error::new(ErrorKind::Unexpected, "cannot choose columns").with_source(e))?,
        );
        if info.get_schema_id() > FIRST_SCHEMA {
            // Servers cannot choose columns of batches that are older than the columns: all are fetched then.
            let key = info.get_primary_keys().iter().map(|name| place(&full, name)).collect::<Result<_>>()?;
            let table = table.clone();
            return Ok(Self {
                table,
                client,
                options,
                schema,
                fetched: None,
                handed_out: Some(places),
                key,
                info,
            });
        }
        let mut fetched = columns.clone();
        if options.startup_mode == StartupMode::Full {
            fetched.extend(info.get_primary_keys().iter().filter(|name| !columns.contains(name)).cloned());
        }
        let key = info
            .get_primary_keys()
            .iter()
            .filter_map(|name| fetched.iter().position(|other| other == name))
            .collect();
        let handed_out = (fetched.len() > columns.len()).then(|| (0..columns.len()).collect());
        Ok(Self {
            table: table.clone(),
            client,
            options,
            schema,
            fetched: Some(fetched),
            handed_out,
            key,
            info,
        })
    }

    /// What is announced of the table.
    pub(crate) fn announcement(&self) -> TableSchema {
        let has = |name: &String| self.schema.column_with_name(name).is_some();
        let whole = |names: &[String]| if names.iter().all(has) { names.to_vec() } else { Vec::new() };
        let mut schema = TableSchema::new(Arc::clone(&self.schema));
        schema.primary_key = whole(self.info.get_primary_keys());
        schema.partition_keys = whole(self.info.get_partition_keys());
        schema.comment = self.info.get_comment().map(str::to_owned);
        schema
    }

    pub(crate) fn is_keyed(&self) -> bool {
        self.info.has_primary_key()
    }

    /// True where a read begins with the rows of the table as they are.
    pub(crate) fn begins_with_rows(&self) -> bool {
        self.is_keyed() && self.options.startup_mode == StartupMode::Full
    }

    pub(crate) fn bucket(&self, split: &FlussSplit) -> TableBucket {
        let partition = split.partition.as_ref().map(|partition| partition.id);
        TableBucket::new_with_partition(self.info.get_table_id(), partition, split.bucket)
    }

    /// Makes a scan of the fetched columns.
    pub(crate) fn scan<T>(
        &self,
        connection: &FlussConnection,
        make: impl FnOnce(TableScan<'_>) -> fluss::error::Result<T>,
    ) -> Result<T> {
        let table = table_of(connection, &self.info);
        let scan = table.new_scan();
        let made = self.client.with_metrics(|| match &self.fetched {
            Some(names) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                scan.project_by_name(&names).and_then(make)
            }
            None => make(scan),
        });
        made.map_err(|e| from_client(&e))
    }

    /// Fetched rows as they are handed out.
    pub(crate) fn hand_out(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let columns = match &self.handed_out {
            Some(places) => places.iter().map(|place| Arc::clone(rows.column(*place))).collect(),
            None => rows.columns().to_vec(),
        };
        RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(|e| {
            Error::new(ErrorKind::DataInvalid, "rows do not have the columns of their table").with_source(e)
        })
    }
}

/// Refuses what the client would write or read wrongly.
pub(crate) fn check_format(info: &TableInfo) -> Result<()> {
    let refuse = |text: &'static str| Err(Error::new(ErrorKind::Unsupported, text));
    if !matches!(info.get_table_config().get_log_format(), Ok(LogFormat::ARROW)) {
        return refuse(
            "the table's log is stored in rows (table.log.format is INDEXED), which the client can neither read nor write",
        );
    }
    if info.has_primary_key() && !matches!(info.get_table_config().get_kv_format(), Ok(KvFormat::COMPACTED)) {
        return refuse(
            "the table's rows are stored INDEXED (table.kv.format), which the client can neither read nor write",
        );
    }
    Ok(())
}
