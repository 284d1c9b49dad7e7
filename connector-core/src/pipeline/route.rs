//! What happens to tables and rows between source and sink: [`Route`] and [`Transform`].

use std::{collections::BTreeMap, fmt, sync::Arc};

use arrow::{
    array::{BooleanArray, RecordBatch},
    compute::filter_record_batch,
    datatypes::Schema,
};
use regex::Regex;

use crate::{
    change::{ChangeBatch, RowKind, RowKinds},
    error::{Error, ErrorKind, Result},
    options::{IntoValue, SettingsList},
    schema::{SchemaChange, TableId, TableSchema},
};

/// Compiles a pattern that has to match a whole `database.table`.
fn whole(pattern: &str) -> Result<Regex> {
    Regex::new(&format!("^(?:{pattern})$")).map_err(|e| {
        Error::new(
            ErrorKind::OptionInvalid,
            format!("`{pattern}` is not a regular expression of a table name"),
        )
        .with_source(e)
    })
}

/// Maps tables of the source to tables of the sink, as Flink CDC's `route` does.
#[derive(Debug, Clone)]
pub struct Route {
    pattern: Regex,
    sink_table: String,
    replace_symbol: Option<String>,
}

impl Route {
    /// Rows of every table whose whole name matches `source_table`, a regular expression over
    /// `database.table`, go to `sink_table`. The first route that matches wins.
    ///
    /// # Errors
    /// `OptionInvalid` when the expression or the sink table is not valid.
    pub fn new(source_table: &str, sink_table: impl Into<String>) -> Result<Self> {
        let sink_table = sink_table.into();
        sink_table.parse::<TableId>()?;
        Ok(Self { pattern: whole(source_table)?, sink_table, replace_symbol: None })
    }

    /// The text in `sink_table` that stands for the source table's name, such as `<>`.
    #[must_use]
    pub fn with_replace_symbol(mut self, symbol: impl Into<String>) -> Self {
        self.replace_symbol = Some(symbol.into());
        self
    }

    fn target(&self, table: &TableId) -> Result<Option<TableId>> {
        if !self.pattern.is_match(&table.to_string()) {
            return Ok(None);
        }
        match &self.replace_symbol {
            Some(symbol) => self.sink_table.replace(symbol.as_str(), &table.table).parse().map(Some),
            None => self.sink_table.parse().map(Some),
        }
    }
}

type Filter = Arc<dyn Fn(&RecordBatch) -> Result<BooleanArray> + Send + Sync>;

/// Changes the rows of tables on their way: which columns, which rows, which options of a created table.
#[derive(Clone)]
pub struct Transform {
    pattern: Regex,
    columns: Option<Vec<String>>,
    filter: Option<Filter>,
    table_options: BTreeMap<String, String>,
}

impl fmt::Debug for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transform")
            .field("source_table", &self.pattern.as_str())
            .field("columns", &self.columns)
            .field("filter", &self.filter.is_some())
            .field("table_options", &self.table_options)
            .finish()
    }
}

impl Transform {
    /// A transform of every table whose whole name matches `source_table`. The first that matches wins.
    ///
    /// # Errors
    /// `OptionInvalid` when the expression is not valid.
    pub fn new(source_table: &str) -> Result<Self> {
        Ok(Self {
            pattern: whole(source_table)?,
            columns: None,
            filter: None,
            table_options: BTreeMap::new(),
        })
    }

    /// Only these columns, in this order.
    #[must_use]
    pub fn project<I: Into<String>>(mut self, columns: impl IntoIterator<Item = I>) -> Self {
        self.columns = Some(columns.into_iter().map(Into::into).collect());
        self
    }

    /// Only the rows for which `filter` says true. Where it parts a `-U` from its `+U`, the row that
    /// stays becomes a `-D` or a `+I`: it leaves or enters the filtered table.
    #[must_use]
    pub fn filter(
        mut self,
        filter: impl Fn(&RecordBatch) -> Result<BooleanArray> + Send + Sync + 'static,
    ) -> Self {
        self.filter = Some(Arc::new(filter));
        self
    }

    /// Options added to the table's own where the sink creates it (Flink CDC's `table-options`).
    #[must_use]
    pub fn table_options<K: Into<String>, V: Into<String>>(
        mut self,
        options: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        self.table_options = options.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        self
    }

    /// As [`Self::table_options`], from the text of Flink CDC's `table-options`: `name=1,other='text, with comma'`.
    ///
    /// # Errors
    /// `OptionInvalid` when it is no such list.
    pub fn table_options_list(self, list: &str) -> Result<Self> {
        let list: SettingsList = list
            .into_value()
            .map_err(|reason| Error::new(ErrorKind::OptionInvalid, format!("`table-options` {reason}")))?;
        Ok(self.table_options(list.iter().map(|setting| (setting.name.clone(), setting.value.clone()))))
    }

    fn indices(&self, schema: &Schema) -> Result<Option<Vec<usize>>> {
        let Some(columns) = &self.columns else { return Ok(None) };
        let index = |name: &String| {
            schema.index_of(name).map_err(|_| {
                Error::new(
                    ErrorKind::SchemaMismatch,
                    format!("the transform names the column `{name}`, which the table lacks"),
                )
            })
        };
        columns.iter().map(index).collect::<Result<Vec<_>>>().map(Some)
    }

    fn schema(&self, schema: &TableSchema) -> Result<TableSchema> {
        let mut schema = schema.clone();
        if let Some(indices) = self.indices(&schema.columns)? {
            let columns = schema.columns.project(&indices).map_err(cannot_project)?;
            if let Some(key) = schema.primary_key.iter().find(|key| columns.column_with_name(key).is_none()) {
                return Err(Error::new(
                    ErrorKind::SchemaMismatch,
                    format!("the transform leaves out the key column `{key}`; add it to the projection"),
                ));
            }
            schema.partition_keys.retain(|key| columns.column_with_name(key).is_some());
            schema.columns = Arc::new(columns);
        }
        schema.options.extend(self.table_options.clone());
        Ok(schema)
    }

    fn rows(&self, rows: ChangeBatch) -> Result<ChangeBatch> {
        let rows = match &self.filter {
            Some(filter) => filter_rows(&rows, &filter(rows.rows())?)?,
            None => rows,
        };
        let Some(indices) = self.indices(rows.rows().schema_ref())? else { return Ok(rows) };
        let (columns, kinds) = rows.into_parts();
        ChangeBatch::try_new(columns.project(&indices).map_err(cannot_project)?, kinds)
    }
}

fn cannot_project(error: arrow::error::ArrowError) -> Error {
    Error::new(ErrorKind::Unexpected, "cannot project columns").with_source(error)
}

/// Keeps the rows of `mask` and mends the update pairs that it parts.
fn filter_rows(batch: &ChangeBatch, mask: &BooleanArray) -> Result<ChangeBatch> {
    let keep = |row: usize| mask.is_valid_and_true(row);
    let kept = filter_record_batch(batch.rows(), mask)
        .map_err(|e| Error::new(ErrorKind::Unexpected, "cannot filter rows").with_source(e))?;
    if let RowKinds::Uniform(kind) = batch.kinds() {
        return ChangeBatch::try_new(kept, RowKinds::Uniform(*kind));
    }
    let kinds = |row: usize| batch.kinds().get(row);
    let mut out = Vec::with_capacity(kept.num_rows());
    for row in (0..batch.num_rows()).filter(|row| keep(*row)) {
        out.push(match kinds(row) {
            RowKind::UpdateBefore if !keep(row + 1) => RowKind::Delete,
            RowKind::UpdateAfter if row > 0 && kinds(row - 1) == RowKind::UpdateBefore && !keep(row - 1) => {
                RowKind::Insert
            }
            kind => kind,
        });
    }
    ChangeBatch::try_new(kept, RowKinds::from_kinds(&out))
}

trait ValidAndTrue {
    fn is_valid_and_true(&self, row: usize) -> bool;
}

impl ValidAndTrue for BooleanArray {
    fn is_valid_and_true(&self, row: usize) -> bool {
        use arrow::array::Array;
        row < self.len() && self.is_valid(row) && self.value(row)
    }
}

/// All routes and transforms of a pipeline, with what they say of each table remembered.
#[derive(Debug, Clone, Default)]
pub(super) struct Router {
    routes: Vec<Route>,
    transforms: Vec<Transform>,
    known: BTreeMap<TableId, (TableId, Option<usize>)>,
}

impl Router {
    pub(super) fn new(routes: Vec<Route>, transforms: Vec<Transform>) -> Self {
        Self { routes, transforms, known: BTreeMap::new() }
    }

    fn resolve(&mut self, table: &TableId) -> Result<(TableId, Option<usize>)> {
        if let Some(known) = self.known.get(table) {
            return Ok(known.clone());
        }
        let mut target = table.clone();
        for route in &self.routes {
            if let Some(found) = route.target(table)? {
                target = found;
                break;
            }
        }
        let name = table.to_string();
        let transform = self.transforms.iter().position(|transform| transform.pattern.is_match(&name));
        self.known.insert(table.clone(), (target.clone(), transform));
        Ok((target, transform))
    }

    /// The sink's table and rows for rows of a source table.
    pub(super) fn rows(&mut self, table: &TableId, rows: ChangeBatch) -> Result<(TableId, ChangeBatch)> {
        let (target, transform) = self.resolve(table)?;
        let rows = match transform {
            Some(index) => self.transforms[index].rows(rows).map_err(|e| e.with_context("table", table))?,
            None => rows,
        };
        Ok((target, rows))
    }

    /// The sink's form of a change to a source table; `None` when it concerns a column that the
    /// projection leaves out.
    pub(super) fn change(&mut self, change: SchemaChange) -> Result<Option<SchemaChange>> {
        let (target, transform) = self.resolve(change.table())?;
        let transform = transform.map(|index| &self.transforms[index]);
        let projects = |column: &str| {
            transform.and_then(|t| t.columns.as_ref()).is_none_or(|c| c.iter().any(|c| c == column))
        };
        Ok(match change {
            SchemaChange::CreateTable { table, schema } => {
                let schema = match transform {
                    Some(transform) => {
                        transform.schema(&schema).map_err(|e| e.with_context("table", &table))?
                    }
                    None => schema,
                };
                Some(SchemaChange::CreateTable { table: target, schema })
            }
            SchemaChange::AddColumn { column, position, .. } => {
                projects(column.name()).then_some(SchemaChange::AddColumn { table: target, column, position })
            }
            SchemaChange::AlterColumnType { column, data_type, nullable, .. } => projects(&column)
                .then_some(SchemaChange::AlterColumnType { table: target, column, data_type, nullable }),
            SchemaChange::RenameColumn { from, to, .. } => {
                projects(&from).then_some(SchemaChange::RenameColumn { table: target, from, to })
            }
            SchemaChange::DropColumn { column, .. } => {
                projects(&column).then_some(SchemaChange::DropColumn { table: target, column })
            }
            SchemaChange::TruncateTable { .. } => Some(SchemaChange::TruncateTable { table: target }),
            SchemaChange::DropTable { .. } => Some(SchemaChange::DropTable { table: target }),
        })
    }
}
