//! [`FlussCatalog`]: databases, tables and partitions.

use std::{collections::HashMap, fmt, sync::Arc};

use connector_core::{
    Error, ErrorKind, Result, TableId, TableSchema, arrow::datatypes::Field, schema::metadata,
};
use fluss::metadata::{
    AddColumn, AlterTableChanges, ColumnPositionType, JsonSerde as _, PartitionSpec, Schema, TableDescriptor,
    TableInfo,
};

use crate::{
    client::{Client, path},
    error::from_client,
    options::{FlussOptions, persisted, table_properties},
    source::FlussPartition,
    types::{arrow_schema, fluss_type},
};

/// Makes, shows and drops databases, tables and partitions of a cluster.
///
/// Clones share one connection. Every call ends within `client.request-timeout`.
#[derive(Clone)]
pub struct FlussCatalog {
    client: Arc<Client>,
    options: FlussOptions,
}

impl fmt::Debug for FlussCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlussCatalog").field("client", &self.client).finish_non_exhaustive()
    }
}

impl FlussCatalog {
    /// A catalog of the cluster of the options. Storage options among them hold for every table that is made.
    pub fn new(options: FlussOptions) -> Self {
        Self { client: Arc::new(Client::new(&options)), options }
    }

    pub(crate) fn with_client(client: Arc<Client>, options: FlussOptions) -> Self {
        Self { client, options }
    }

    /// The names of all databases.
    ///
    /// # Errors
    /// As every call to the cluster.
    pub async fn databases(&self) -> Result<Vec<String>> {
        self.client.ask("fluss.list", |admin| async move { admin.list_databases().await }).await
    }

    /// Makes a database; does nothing when there is one of that name.
    ///
    /// # Errors
    /// `OptionInvalid` for a name that is none.
    pub async fn create_database(&self, name: &str) -> Result<()> {
        let made = self
            .client
            .ask("fluss.create", |admin| async move { admin.create_database(name, None, true).await });
        made.await.map_err(|e| e.with_context("database", name))
    }

    /// Drops a database, and its tables where `with_tables`; does nothing when there is none.
    ///
    /// # Errors
    /// `Conflict` when it has tables.
    pub async fn drop_database(&self, name: &str, with_tables: bool) -> Result<()> {
        let gone = self
            .client
            .ask("fluss.drop", |admin| async move { admin.drop_database(name, true, with_tables).await });
        gone.await.map_err(|e| e.with_context("database", name))
    }

    /// The names of the tables of a database.
    ///
    /// # Errors
    /// `NotFound` for a database that is not there.
    pub async fn tables(&self, database: &str) -> Result<Vec<String>> {
        let list = self.client.ask("fluss.list", |admin| async move { admin.list_tables(database).await });
        list.await.map_err(|e| e.with_context("database", database))
    }

    /// A table's columns, keys, comment and stored options.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn table(&self, table: &TableId) -> Result<TableSchema> {
        let info = self.client.table("fluss.describe", table).await?;
        let comments: HashMap<&str, &str> =
            info.get_schema().columns().iter().filter_map(|c| Some((c.name(), c.comment()?))).collect();
        let mut schema = TableSchema::new(arrow_schema(info.row_type(), &comments)?);
        schema.primary_key = info.get_primary_keys().clone();
        schema.partition_keys = info.get_partition_keys().to_vec();
        schema.comment = info.get_comment().map(str::to_owned);
        schema.options.extend(info.get_properties().clone());
        schema.options.extend(info.get_custom_properties().clone());
        schema.options.insert("bucket.num".to_owned(), info.get_num_buckets().to_string());
        if info.has_bucket_key() {
            schema.options.insert("bucket.key".to_owned(), info.get_bucket_keys().join(","));
        }
        Ok(schema)
    }

    /// Makes a table; does nothing when there is one of that name. The options of `schema` go before those of the
    /// catalog: what says how the table is stored is checked and becomes its properties, and what says how it is used
    /// is stored with it and holds for whoever gives nothing else.
    ///
    /// # Errors
    /// `NotFound` without the database; `SchemaMismatch` for columns that Fluss has no type for; `OptionInvalid` for options that
    /// contradict each other, and for those that the cluster does not know, by its own words.
    pub async fn create_table(&self, table: &TableId, schema: &TableSchema) -> Result<()> {
        let named = |e: Error| e.with_context("table", table);
        let descriptor = self.descriptor(schema).map_err(named)?;
        let path = path(table);
        let made = self
            .client
            .ask("fluss.create", |admin| async move { admin.create_table(&path, &descriptor, true).await });
        made.await.map_err(named)
    }

    fn descriptor(&self, table: &TableSchema) -> Result<TableDescriptor> {
        let given = persisted(&table.options);
        if !given.unknown.is_empty() {
            tracing::warn!(options = ?given.unknown, "options of a table that Fluss does not have are left out");
        }
        let options = self.options.with_storage(given.storage)?;
        let mut schema = Schema::builder();
        for field in table.columns.fields() {
            let is_key = table.primary_key.contains(field.name());
            let field = Field::clone(field).with_nullable(field.is_nullable() && !is_key);
            schema = schema.column(field.name(), fluss_type(&field)?);
            if let Some(comment) = field.metadata().get(metadata::COMMENT) {
                schema = schema.with_comment(comment);
            }
        }
        let refused = |e| from_client(&e).with_operation("fluss.create");
        if !table.primary_key.is_empty() {
            schema = schema.primary_key(table.primary_key.clone()).map_err(refused)?;
        }
        let bucket_key = options.bucket_key.clone().unwrap_or_default();
        check_bucket_key(&bucket_key, table)?;
        let mut descriptor = TableDescriptor::builder()
            .schema(schema.build().map_err(refused)?)
            .partitioned_by(table.partition_keys.clone())
            .properties(table_properties(&options).into_iter().collect::<HashMap<_, _>>())
            .custom_properties(given.kept.into_iter().collect::<HashMap<_, _>>());
        if options.bucket_num.is_some() || !bucket_key.is_empty() {
            descriptor = descriptor.distributed_by(options.bucket_num, bucket_key);
        }
        if let Some(comment) = &table.comment {
            descriptor = descriptor.comment(comment);
        }
        descriptor.build().map_err(refused)
    }

    /// Drops a table; does nothing when there is none.
    ///
    /// # Errors
    /// As every call to the cluster.
    pub async fn drop_table(&self, table: &TableId) -> Result<()> {
        let path = path(table);
        let gone = self.client.ask("fluss.drop", |admin| async move { admin.drop_table(&path, true).await });
        gone.await.map_err(|e| e.with_context("table", table))
    }

    /// Adds a column that may be null behind all others.
    ///
    /// # Errors
    /// `SchemaMismatch` for a column that Fluss has no type for.
    pub(crate) async fn add_column(&self, table: &TableId, column: &Field) -> Result<()> {
        let named = |e: Error| e.with_context("table", table).with_context("column", column.name());
        let kind = fluss_type(column).map_err(named)?;
        let json = kind.serialize_json().map_err(|e| named(from_client(&e)))?;
        let changes = AlterTableChanges {
            add_columns: vec![AddColumn {
                column_name: column.name().clone(),
                data_type_json: json.to_string().into_bytes(),
                comment: column.metadata().get(metadata::COMMENT).cloned(),
                position: ColumnPositionType::Last,
            }],
            ..AlterTableChanges::default()
        };
        let path = path(table);
        let altered = self
            .client
            .ask("fluss.alter", |admin| async move { admin.alter_table(&path, false, changes).await });
        altered.await.map_err(named)
    }

    /// The partitions of a table; none for a table without.
    ///
    /// # Errors
    /// `NotFound` for a table that is not there.
    pub async fn partitions(&self, table: &TableId) -> Result<Vec<FlussPartition>> {
        if !self.client.table("fluss.list", table).await?.is_partitioned() {
            return Ok(Vec::new());
        }
        let path = path(table);
        let list =
            self.client.ask("fluss.list", |admin| async move { admin.list_partition_infos(&path).await });
        let found = list.await.map_err(|e| e.with_context("table", table))?;
        let named =
            found.iter().map(|p| FlussPartition { id: p.get_partition_id(), name: p.get_partition_name() });
        Ok(named.collect())
    }

    /// Makes a partition of these values of the partition keys; does nothing when it is there.
    ///
    /// # Errors
    /// `NotFound`, `DataInvalid` for values that are none of the table's, `Conflict` when there are too many.
    pub async fn create_partition(&self, table: &TableId, values: &HashMap<String, String>) -> Result<()> {
        let (path, spec) = (path(table), PartitionSpec::new(values.clone()));
        let made = self
            .client
            .ask("fluss.create", |admin| async move { admin.create_partition(&path, &spec, true).await });
        made.await.map_err(|e| e.with_context("table", table))
    }

    /// Drops the partition of these values; does nothing when there is none.
    ///
    /// # Errors
    /// `NotFound` for a table that is not there.
    pub async fn drop_partition(&self, table: &TableId, values: &HashMap<String, String>) -> Result<()> {
        let (path, spec) = (path(table), PartitionSpec::new(values.clone()));
        let gone = self
            .client
            .ask("fluss.drop", |admin| async move { admin.drop_partition(&path, &spec, true).await });
        gone.await.map_err(|e| e.with_context("table", table))
    }

    pub(crate) async fn info(&self, operation: &'static str, table: &TableId) -> Result<TableInfo> {
        self.client.table(operation, table).await
    }
}

fn check_bucket_key(key: &[String], table: &TableSchema) -> Result<()> {
    let wrong = |text: &str, column: &String| {
        Err(Error::new(ErrorKind::OptionInvalid, format!("`bucket.key` {text}"))
            .with_operation("fluss.create")
            .with_context("column", column))
    };
    for column in key {
        if table.columns.column_with_name(column).is_none() {
            return wrong("names a column that the table does not have", column);
        }
        if table.partition_keys.contains(column) {
            return wrong("must not name a partition key", column);
        }
        if !table.primary_key.is_empty() && !table.primary_key.contains(column) {
            return wrong("must be a part of the primary key", column);
        }
    }
    Ok(())
}
