//! What happens behind the protocol: statements against the catalogue.

mod aggregate;
mod alter;
mod catalog;
mod create;
mod eval;
mod functions;
mod insert;
mod keys;
mod partial;
mod partition;
mod replacing;
mod select;
mod settings;
mod storage;
mod system;
mod unique;
mod value;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use connector_bytehouse_common::native::ChType;
use connector_core::arrow::array::RecordBatch;
use jiff::Timestamp;

use self::{
    catalog::{Catalog, Table, TableDef, resolve},
    eval::{Context, Scope},
    select::View,
    storage::TableData,
    value::{Value, Zone, build_array},
};
pub(crate) use self::{
    insert::{InsertPlan, Staged},
    select::ResultSet,
    value::arrow_type,
};
use crate::{
    exception::{Result, exception},
    options::DoubleOptions,
    sql::{
        ast::{Insert, InsertSource, Statement, TableName},
        parse_statement,
    },
};

/// A client's session.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) user: String,
    pub(crate) database: String,
    pub(crate) read_only: bool,
    /// What `SET` set.
    settings: BTreeMap<String, String>,
    /// What came with the statement at hand.
    query_settings: BTreeMap<String, String>,
}

impl Session {
    pub(crate) fn new(user: &str, database: &str, read_only: bool) -> Self {
        Self {
            user: user.to_owned(),
            database: if database.is_empty() { "default".to_owned() } else { database.to_owned() },
            read_only,
            settings: BTreeMap::new(),
            query_settings: BTreeMap::new(),
        }
    }

    /// Replaces the settings of the statement at hand.
    pub(crate) fn begin(&mut self, settings: impl IntoIterator<Item = (String, String)>) {
        self.query_settings = settings.into_iter().collect();
    }

    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        self.query_settings.get(name).or_else(|| self.settings.get(name)).map(String::as_str)
    }

    pub(crate) fn number(&self, name: &str, default: usize) -> usize {
        match self.setting(name) {
            Some("true") => 1,
            Some("false") => 0,
            Some(text) => text.parse().unwrap_or(default),
            None => default,
        }
    }
}

/// What a statement leads to.
#[derive(Debug)]
pub(crate) enum Outcome {
    Rows(ResultSet),
    Done,
    /// Another query is to end.
    Kill(String),
    /// Blocks are to follow.
    Insert(Box<InsertPlan>),
}

/// The catalogue and the rules.
#[derive(Debug)]
pub(crate) struct Engine {
    options: Arc<DoubleOptions>,
    zone: Zone,
    catalog: Mutex<Catalog>,
}

impl Engine {
    pub(crate) fn new(options: Arc<DoubleOptions>) -> Result<Self> {
        let mut catalog = Catalog::default();
        for database in &options.databases {
            catalog.create_database(database, true)?;
        }
        let zone = Zone::named(&options.timezone)?;
        Ok(Self { options, zone, catalog: Mutex::new(catalog) })
    }

    fn catalog(&self) -> MutexGuard<'_, Catalog> {
        self.catalog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn has_database(&self, name: &str) -> bool {
        name == "system" || self.catalog().has_database(name)
    }

    fn context(&self, session: &Session) -> Result<Context> {
        let zone_name = session.setting("session_timezone").filter(|zone| !zone.is_empty());
        let version = self.options.version;
        Ok(Context {
            zone: zone_name.map_or_else(|| Ok(self.zone.clone()), Zone::named)?,
            zone_name: zone_name.unwrap_or(&self.options.timezone).to_owned(),
            now: Timestamp::now(),
            database: session.database.clone(),
            user: session.user.clone(),
            version: version.map(|part| part.to_string()).join("."),
        })
    }

    /// Refuses a setting that no server has, where the options say so.
    pub(crate) fn check_setting(&self, name: &str, important: bool) -> Result<()> {
        if self.options.strict_settings && important && !settings::is_known(name) {
            return Err(exception!(UNKNOWN_SETTING, "Unknown setting {name}"));
        }
        Ok(())
    }

    /// Runs a statement up to its end, or to where blocks must follow.
    pub(crate) fn execute(&self, session: &mut Session, sql: &str) -> Result<Outcome> {
        let statement = parse_statement(sql)?;
        self.apply_clause_settings(&statement, session)?;
        self.check_rights(&statement, session)?;
        self.check_warehouse(&statement, session)?;
        let context = self.context(session)?;
        match statement {
            Statement::Select(query) => {
                let catalog = self.catalog();
                let view = View { catalog: &catalog, session, options: &self.options, context: &context };
                select::select(&query, view).map(Outcome::Rows)
            }
            Statement::Insert(insert) => self.insert(*insert, session, context),
            Statement::Use(database) => {
                if !self.has_database(&database) {
                    return Err(exception!(UNKNOWN_DATABASE, "Database {database} doesn't exist"));
                }
                session.database = database;
                Ok(Outcome::Done)
            }
            Statement::Set(pairs) => {
                for (name, value) in pairs {
                    self.check_setting(&name, true)?;
                    session.settings.insert(name, value.setting_text());
                }
                Ok(Outcome::Done)
            }
            Statement::SetWarehouse(name) => {
                self.known_warehouse(&name)?;
                session.settings.insert("virtual_warehouse".to_owned(), name);
                Ok(Outcome::Done)
            }
            Statement::KillQuery(query_id) => Ok(Outcome::Kill(query_id)),
            Statement::ResumeWarehouse(name) => self.known_warehouse(&name).map(|()| Outcome::Done),
            other => self.change_or_show(other, session, &context),
        }
    }

    fn change_or_show(&self, statement: Statement, session: &Session, context: &Context) -> Result<Outcome> {
        let mut catalog = self.catalog();
        let current = session.database.as_str();
        match statement {
            Statement::CreateDatabase { name, if_not_exists } => {
                catalog.create_database(&name, if_not_exists).map(|()| Outcome::Done)
            }
            Statement::DropDatabase { name, if_exists } => {
                catalog.drop_database(&name, if_exists).map(|()| Outcome::Done)
            }
            Statement::CreateTable(create) => create_table(&mut catalog, &create, current, context),
            Statement::DropTable { name, if_exists } => {
                let (database, table) = resolve(&name, current);
                catalog.remove(database, table, if_exists).map(|_| Outcome::Done)
            }
            Statement::TruncateTable { name, if_exists } => {
                let (database, table) = resolve(&name, current);
                match catalog.table_mut(database, table) {
                    Ok(table) => table.data.truncate(),
                    Err(_) if if_exists => {}
                    Err(error) => return Err(error),
                }
                Ok(Outcome::Done)
            }
            Statement::RenameTable(pairs) => rename(&mut catalog, &pairs, current),
            Statement::AlterPartition { name, action, partition } => {
                partition::run(&mut catalog, &name, &action, &partition, current, context)
                    .map(|()| Outcome::Done)
            }
            Statement::AlterTable { name, actions } => {
                let (database, table) = resolve(&name, current);
                alter::alter(catalog.table_mut(database, table)?, &actions, context).map(|()| Outcome::Done)
            }
            Statement::OptimizeTable { name } => {
                let (database, table) = resolve(&name, current);
                let table = catalog.table_mut(database, table)?;
                replacing::optimize(&Arc::clone(&table.def), &mut table.data, context).map(|()| Outcome::Done)
            }
            Statement::DeleteFrom { name, filter } => {
                let (database, table) = resolve(&name, current);
                delete_from(catalog.table_mut(database, table)?, &filter, context)
            }
            other => self.show(&catalog, other, session),
        }
    }

    fn show(&self, catalog: &Catalog, statement: Statement, session: &Session) -> Result<Outcome> {
        let current = session.database.as_str();
        match statement {
            Statement::ShowCreateTable(name) => {
                let (database, table) = resolve(&name, current);
                texts("statement", [catalog.table(database, table)?.def.create_query()])
            }
            Statement::Describe(name) => {
                let (database, table) = resolve(&name, current);
                let (names, rows) = system::describe(&catalog.table(database, table)?.def);
                let columns = names.into_iter().enumerate().map(|(i, name)| {
                    let values: Vec<Value> = rows.iter().filter_map(|row| row.get(i).cloned()).collect();
                    Ok((name.to_owned(), ChType::String, build_array(&ChType::String, &values)?))
                });
                ResultSet::new(columns.collect::<Result<_>>()?, rows.len()).map(Outcome::Rows)
            }
            Statement::ExistsTable(name) => {
                let (database, table) = resolve(&name, current);
                let there = if database == "system" {
                    system::exists(table)
                } else {
                    catalog.table(database, table).is_ok()
                };
                flag(there)
            }
            Statement::ExistsDatabase(name) => flag(name == "system" || catalog.has_database(&name)),
            Statement::ShowTables { database, like } => {
                let database = database.as_deref().unwrap_or(current);
                let names: Vec<String> = if database == "system" {
                    system::names().map(str::to_owned).collect()
                } else {
                    catalog.tables(database)?.keys().cloned().collect()
                };
                texts("name", matching(names, like.as_deref()))
            }
            Statement::ShowDatabases { like } => {
                let names = catalog.databases().cloned().chain(["system".to_owned()]).collect();
                texts("name", matching(names, like.as_deref()))
            }
            Statement::ShowWarehouses => self.show_warehouses(),
            Statement::ShowDefaultSettings => self.show_default_settings(session),
            _ => Err(exception!(NOT_IMPLEMENTED, "the double does not know this statement")),
        }
    }

    /// Name in column 1 and state in column 6, where the vendor's Python driver looks for them.
    fn show_warehouses(&self) -> Result<Outcome> {
        let names = ["id", "name", "type", "size", "min", "max", "status"];
        let rows = &self.options.warehouses;
        let columns = names.into_iter().map(|column| {
            let cell = |(i, warehouse): (usize, &String)| match column {
                "id" => Value::text(i.to_string()),
                "name" => Value::text(warehouse),
                "status" => Value::text("up"),
                "type" => Value::text("default"),
                _ => Value::text("1"),
            };
            let values: Vec<Value> = rows.iter().enumerate().map(cell).collect();
            Ok((column.to_owned(), ChType::String, build_array(&ChType::String, &values)?))
        });
        ResultSet::new(columns.collect::<Result<_>>()?, rows.len()).map(Outcome::Rows)
    }

    /// The default warehouse in column 4 of the first row, where the vendor's Python driver looks for it.
    fn show_default_settings(&self, session: &Session) -> Result<Outcome> {
        let warehouse = self.options.warehouses.first().map_or("", String::as_str);
        let cells = [
            ("id", "0"),
            ("account", ""),
            ("user", &session.user),
            ("role", ""),
            ("virtual_warehouse", warehouse),
        ];
        let columns = cells.into_iter().map(|(name, text)| {
            Ok((name.to_owned(), ChType::String, build_array(&ChType::String, &[Value::text(text)])?))
        });
        ResultSet::new(columns.collect::<Result<_>>()?, 1).map(Outcome::Rows)
    }

    fn apply_clause_settings(&self, statement: &Statement, session: &mut Session) -> Result<()> {
        let pairs = match statement {
            Statement::Select(select) => &select.settings,
            Statement::Insert(insert) => &insert.settings,
            _ => return Ok(()),
        };
        for (name, value) in pairs {
            self.check_setting(name, true)?;
            session.query_settings.insert(name.clone(), value.setting_text());
        }
        Ok(())
    }

    fn check_rights(&self, statement: &Statement, session: &Session) -> Result<()> {
        let writes = matches!(
            statement,
            Statement::Insert(_)
                | Statement::CreateDatabase { .. }
                | Statement::DropDatabase { .. }
                | Statement::CreateTable(_)
                | Statement::DropTable { .. }
                | Statement::TruncateTable { .. }
                | Statement::RenameTable(_)
                | Statement::AlterTable { .. }
                | Statement::AlterPartition { .. }
                | Statement::OptimizeTable { .. }
                | Statement::DeleteFrom { .. }
        );
        if writes && (session.read_only || session.number("readonly", 0) != 0) {
            return Err(exception!(READONLY, "{}: Cannot execute query in readonly mode", session.user));
        }
        Ok(())
    }

    fn known_warehouse(&self, name: &str) -> Result<()> {
        if self.options.warehouses.is_empty() || self.options.warehouses.iter().any(|known| known == name) {
            return Ok(());
        }
        Err(exception!(VIRTUAL_WAREHOUSE_NOT_FOUND, "Virtual warehouse {name} not found"))
    }

    /// Reads and writes of tables run in a warehouse.
    fn check_warehouse(&self, statement: &Statement, session: &Session) -> Result<()> {
        let needed = match statement {
            Statement::Insert(_) | Statement::DeleteFrom { .. } => true,
            Statement::Select(select) => match &select.from {
                Some(crate::sql::ast::From::Table { name, .. }) => {
                    resolve(name, &session.database).0 != "system"
                }
                _ => false,
            },
            _ => false,
        };
        match session.setting("virtual_warehouse").filter(|name| !name.is_empty()) {
            Some(name) => self.known_warehouse(name),
            None if needed && self.options.require_warehouse => Err(exception!(
                VIRTUAL_WAREHOUSE_NOT_FOUND,
                "No virtual warehouse is given: set virtual_warehouse"
            )),
            None => Ok(()),
        }
    }

    fn insert(&self, insert: Insert, session: &Session, context: Context) -> Result<Outcome> {
        let mut catalog = self.catalog();
        let plan = InsertPlan::new(&insert, &catalog, session, context.clone())?;
        match insert.source {
            InsertSource::Wire => Ok(Outcome::Insert(Box::new(plan))),
            InsertSource::Rows(rows) => {
                let null_as_default = session.number("input_format_null_as_default", 1) != 0;
                let block = insert::literal_rows(&plan, &rows, null_as_default)?;
                let staged = plan.stage(&plan.columns, &block)?;
                plan.commit(&mut catalog, vec![staged]).map(|_| Outcome::Done)
            }
            InsertSource::Select(query) => {
                let view = View { catalog: &catalog, session, options: &self.options, context: &context };
                let result = select::select(&query, view)?;
                if result.columns.len() != plan.columns.len() {
                    return Err(exception!(
                        BAD_ARGUMENTS,
                        "Number of columns doesn't match: {} selected, {} to insert",
                        result.columns.len(),
                        plan.columns.len()
                    ));
                }
                // By place, not by name.
                let columns: Vec<_> = result
                    .columns
                    .iter()
                    .zip(&plan.columns)
                    .map(|(from, to)| {
                        connector_bytehouse_common::native::ColumnDef::new(&to.name, from.ty.clone())
                    })
                    .collect();
                let staged = plan.stage(&columns, &result.rows)?;
                plan.commit(&mut catalog, vec![staged]).map(|_| Outcome::Done)
            }
        }
    }

    /// Makes the blocks of an insert visible, all at once.
    pub(crate) fn commit(&self, plan: &InsertPlan, blocks: Vec<Staged>) -> Result<usize> {
        plan.commit(&mut self.catalog(), blocks)
    }

    /// All visible rows of a table with its stored columns.
    pub(crate) fn rows_of(&self, name: &TableName) -> Result<RecordBatch> {
        let catalog = self.catalog();
        let (database, table) = resolve(name, "default");
        catalog.table(database, table)?.data.visible(None)
    }
}

fn flag(value: bool) -> Result<Outcome> {
    let array = build_array(&ChType::UInt8, &[Value::int(u8::from(value))])?;
    ResultSet::new(vec![("result".to_owned(), ChType::UInt8, array)], 1).map(Outcome::Rows)
}

fn texts(name: &str, values: impl IntoIterator<Item = String>) -> Result<Outcome> {
    let values: Vec<Value> = values.into_iter().map(Value::text).collect();
    let array = build_array(&ChType::String, &values)?;
    ResultSet::new(vec![(name.to_owned(), ChType::String, array)], values.len()).map(Outcome::Rows)
}

fn matching(names: Vec<String>, like: Option<&str>) -> Vec<String> {
    let Some(pattern) = like else { return names };
    names.into_iter().filter(|name| functions::like(name.as_bytes(), pattern.as_bytes())).collect()
}

fn create_table(
    catalog: &mut Catalog,
    create: &crate::sql::ast::CreateTable,
    current: &str,
    context: &Context,
) -> Result<Outcome> {
    let (database, name) = resolve(&create.name, current);
    if database == "system" {
        return Err(exception!(NOT_IMPLEMENTED, "tables cannot be created in the database system"));
    }
    if create.if_not_exists && catalog.tables(database)?.contains_key(name) {
        return Ok(Outcome::Done);
    }
    let like = match &create.like {
        Some(like) => {
            let (database, name) = resolve(like, current);
            Some(Arc::clone(&catalog.table(database, name)?.def))
        }
        None => None,
    };
    let def: TableDef = create::define(create, database, like.as_deref(), context)?;
    let data = TableData::new(def.schema()?);
    catalog.add(Table { def: Arc::new(def), data }, create.if_not_exists)?;
    Ok(Outcome::Done)
}

fn rename(catalog: &mut Catalog, pairs: &[(TableName, TableName)], current: &str) -> Result<Outcome> {
    for (from, to) in pairs {
        let (database, name) = resolve(to, current);
        if catalog.tables(database)?.contains_key(name) {
            return Err(exception!(TABLE_ALREADY_EXISTS, "Table {database}.{name} already exists."));
        }
        let (from_database, from_name) = resolve(from, current);
        let Some(mut table) = catalog.remove(from_database, from_name, false)? else { continue };
        let mut def = (*table.def).clone();
        def.database = database.to_owned();
        def.name = name.to_owned();
        table.def = Arc::new(def);
        catalog.add(table, false)?;
    }
    Ok(Outcome::Done)
}

/// `DELETE FROM`: takes away the rows for which the condition is true.
fn delete_from(table: &mut Table, filter: &crate::sql::ast::Expr, context: &Context) -> Result<Outcome> {
    let mut gone = Vec::new();
    for (number, part) in table.data.parts.iter().enumerate() {
        let scope = Scope::of_table(&table.def, &part.rows, context);
        for row in select::condition(filter, &scope)? {
            let row = usize::try_from(row).unwrap_or(usize::MAX);
            gone.push(storage::RowPlace { part: number, row });
        }
    }
    table.data.remove_rows(&gone);
    Ok(Outcome::Done)
}
