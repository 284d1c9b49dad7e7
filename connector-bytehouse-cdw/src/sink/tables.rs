//! How a writer comes to know a table: it looks, checks, and creates what is announced and not there.

use std::collections::{BTreeMap, BTreeSet};

use connector_bytehouse_common::{
    catalog::table_definition, definition::TableDefinition, error::server_code, sql::quote_ident,
    wire::Settings,
};
use connector_core::{Error, ErrorKind, Result, TableId, schema::TableSchema};

use super::{
    ddl::{CreateTable, Dialect, Keyless},
    target::Target,
};
use crate::{
    client::Session,
    config::{SinkConfig, SinkMode},
};

const SYNTAX_ERROR: i32 = 62;
const TABLE_ALREADY_EXISTS: i32 = 57;
const UNKNOWN_DATABASE: i32 = 81;

/// What a writer remembers of tables beside their columns.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// The tables of each database, asked for once: who is not among them is created at once.
    names: BTreeMap<String, BTreeSet<String>>,
    /// Announced without a key, and left out by option.
    skipped: BTreeSet<TableId>,
    /// Announced without a key, and appended to by option.
    appended: BTreeSet<TableId>,
}

impl Tables {
    /// True for a table whose rows are left out, because it has no key.
    pub(super) fn is_skipped(&self, table: &TableId) -> bool {
        self.skipped.contains(table)
    }

    /// Takes a source's word of a table: checks the one that is there, or creates it. One round trip, and one
    /// for each database. `None` when the table is left out.
    ///
    /// # Errors
    /// `NotFound` when the table is not there and none may be created; `SchemaMismatch` when the one that is
    /// there does not fit; else what the server says.
    pub(super) async fn announce(
        &mut self,
        session: &mut Session,
        table: &TableId,
        schema: &TableSchema,
        config: &SinkConfig,
    ) -> Result<Option<Target>> {
        let keyless =
            config.mode != SinkMode::Insert && schema.primary_key.is_empty() && config.unique_keys.is_empty();
        let found = self.look(session, table, config).await?;
        let own_key = found.as_ref().is_some_and(|definition| Target::has_key(definition, config));
        if keyless && !own_key && config.creation.keyless == Keyless::Skip {
            if self.skipped.insert(table.clone()) {
                tracing::warn!(
                    %table,
                    "the table has no key upstream: it is not created and its rows are dropped and counted; \
                     name a key in `unique_keys`, or set table_without_primary_key_strategy to CREATE_AS_APPEND"
                );
            }
            return Ok(None);
        }
        self.skipped.remove(table);
        if keyless && !own_key {
            self.appended.insert(table.clone());
        } else {
            self.appended.remove(table);
        }
        let definition = match found {
            Some(definition) => definition,
            None => self.create(session, table, schema, config).await?,
        };
        let target = self.target_of(table, definition, config)?;
        if !keyless {
            target.expect_key(&schema.primary_key, config)?;
        }
        Ok(Some(target))
    }

    /// Looks at the one table that the options name, before a source says what it brings. `None` where only
    /// the announcement can tell: the table is to be created, or has no key and may be appended to.
    ///
    /// # Errors
    /// As [`Self::announce`].
    pub(super) async fn check(
        &mut self,
        session: &mut Session,
        table: &TableId,
        config: &SinkConfig,
    ) -> Result<Option<Target>> {
        let definition = match table_definition(session.client().await?, table).await {
            Ok(definition) => definition,
            Err(error) if config.creation.enabled && is_absent(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let appends = config.mode != SinkMode::Insert
            && config.creation.keyless == Keyless::Append
            && config.unique_keys.is_empty()
            && !Target::has_key(&definition, config);
        if appends { Ok(None) } else { self.target_of(table, definition, config).map(Some) }
    }

    /// A table as the server describes it.
    ///
    /// # Errors
    /// `NotFound` when it is not there.
    pub(super) async fn target(
        &mut self,
        session: &mut Session,
        table: &TableId,
        config: &SinkConfig,
    ) -> Result<Target> {
        let definition = table_definition(session.client().await?, table).await.map_err(|error| {
            let absent = is_absent(&error);
            let error = error.with_context("table", table);
            if absent {
                return Error::new(
                    ErrorKind::NotFound,
                    "the table is not there, and rows came without an announcement of its columns and key; create it first",
                )
                .with_context("table", table)
                .with_source(error);
            }
            error
        })?;
        self.target_of(table, definition, config)
    }

    fn target_of(&self, table: &TableId, definition: TableDefinition, config: &SinkConfig) -> Result<Target> {
        Target::new(table.clone(), definition, config, self.appended.contains(table))
    }

    /// Forgets a table that was dropped.
    pub(super) fn forget(&mut self, table: &TableId) {
        if let Some(names) = self.names.get_mut(&table.database) {
            names.remove(&table.table);
        }
        self.appended.remove(table);
    }

    /// The definition of a table that may not be there.
    async fn look(
        &mut self,
        session: &mut Session,
        table: &TableId,
        config: &SinkConfig,
    ) -> Result<Option<TableDefinition>> {
        if config.creation.enabled && !self.names(session, &table.database).await?.contains(&table.table) {
            return Ok(None);
        }
        match table_definition(session.client().await?, table).await {
            Ok(definition) => Ok(Some(definition)),
            Err(error) if is_absent(&error) && config.creation.enabled => Ok(None),
            Err(error) if is_absent(&error) => Err(error.with_context(
                "hint",
                "creating tables is switched off; create it first, or set table.create.enabled",
            )),
            Err(error) => Err(error),
        }
    }

    /// The tables of a database, which is created when it is not there.
    async fn names(&mut self, session: &mut Session, database: &str) -> Result<&mut BTreeSet<String>> {
        if !self.names.contains_key(database) {
            let sql = if database.is_empty() {
                "SHOW TABLES".to_owned()
            } else {
                format!("SHOW TABLES FROM {}", quote_ident(database))
            };
            let names = match session.texts(&sql).await {
                Ok(names) => names,
                Err(error) if server_code(&error) == Some(UNKNOWN_DATABASE) && !database.is_empty() => {
                    let sql = format!("CREATE DATABASE IF NOT EXISTS {}", quote_ident(database));
                    session.execute(&sql).await.map_err(|e| e.with_context("database", database))?;
                    tracing::info!(database, "created the database");
                    Vec::new()
                }
                Err(error) => return Err(error.with_context("database", database)),
            };
            self.names.insert(database.to_owned(), names.into_iter().collect());
        }
        Ok(self.names.entry(database.to_owned()).or_default())
    }

    /// Creates a table. When another writer was faster, its table is looked at instead.
    async fn create(
        &mut self,
        session: &mut Session,
        table: &TableId,
        schema: &TableSchema,
        config: &SinkConfig,
    ) -> Result<TableDefinition> {
        let located =
            |error: Error| error.with_operation("bytehouse.create_table").with_context("table", table);
        let dialect = session.dialect(config).await?;
        let statement = CreateTable::new(table, schema, config, dialect).map_err(located)?;
        let created = statement.definition()?;
        // A table that the mode cannot be used with is not even made.
        self.target_of(table, created.clone(), config).map_err(located)?;
        let mut outcome = session.execute(&statement.sql(true)).await;
        if statement.has_comment() && outcome.as_ref().is_err_and(|e| server_code(e) == Some(SYNTAX_ERROR)) {
            tracing::warn!(%table, "the server takes no comments of tables; the table is created without one");
            outcome = session.execute(&statement.sql(false)).await;
        }
        let definition = match outcome {
            Ok(()) => {
                tracing::info!(%table, key = ?schema.primary_key, "created the table");
                created
            }
            Err(error) if server_code(&error) == Some(TABLE_ALREADY_EXISTS) => {
                table_definition(session.client().await?, table).await?
            }
            Err(error) => return Err(located(error)),
        };
        self.names(session, &table.database).await?.insert(table.table.clone());
        Ok(definition)
    }
}

impl Session {
    /// Runs a statement that gives no rows.
    pub(crate) async fn execute(&mut self, sql: &str) -> Result<()> {
        self.client().await?.execute(sql, &Settings::new()).await.map(|_| ())
    }

    pub(super) async fn dialect(&mut self, config: &SinkConfig) -> Result<Dialect> {
        Ok(Dialect::of(config, self.client().await?.server_info()))
    }
}

/// The server knows no such table or database. An 18.16 that is asked for the definition says 390.
pub(super) fn is_absent(error: &Error) -> bool {
    matches!(server_code(error), Some(60 | UNKNOWN_DATABASE | 218 | 390))
}
