//! INSERT: from a block to rows of the table, and when they become visible.

use std::{collections::HashMap, sync::Arc};

use connector_bytehouse_common::native::{ChType, ColumnDef};
use connector_core::arrow::{
    array::{ArrayRef, RecordBatch, RecordBatchOptions},
    datatypes::SchemaRef,
};

use super::{
    Session,
    catalog::{Catalog, Column, DELETE_FLAG, TableDef, UPDATE_COLUMNS},
    eval::{Context, Data, Evaluated, Scope, internal},
    keys::{Partitions, hash_text, partitions},
    partial::Partial,
    storage::{RowPlace, take_rows},
    unique::{BlockKeys, block_keys},
    value::{Value, default_value},
};
use crate::{
    exception::{Result, exception},
    sql::ast::{DefaultKind, Insert, TableName},
};

/// An INSERT whose table and columns are known, and whose rows are still to come.
#[derive(Debug, Clone)]
pub(crate) struct InsertPlan {
    def: Arc<TableDef>,
    schema: SchemaRef,
    /// The columns of its blocks, hidden ones too, in the statement's order.
    pub(crate) columns: Vec<ColumnDef>,
    pub(crate) context: Context,
    max_partitions: usize,
    /// Columns that it does not name keep their values.
    partial: bool,
    deduplicate: bool,
    token: Option<String>,
    label: Option<String>,
}

/// A block that is ready to become visible.
#[derive(Debug)]
pub(crate) struct Staged {
    rows: RecordBatch,
    partitions: Partitions,
    keys: Option<BlockKeys>,
    partial: Option<Partial>,
    /// A text that is the same for the same rows.
    content: Option<String>,
}

impl Staged {
    pub(crate) fn rows(&self) -> usize {
        self.rows.num_rows()
    }
}

impl InsertPlan {
    /// Looks at the statement: table, columns, settings.
    pub(crate) fn new(
        insert: &Insert,
        catalog: &Catalog,
        session: &Session,
        context: Context,
    ) -> Result<Self> {
        let TableName { database, table } = &insert.table;
        let database = database.as_deref().unwrap_or(&session.database);
        if database == "system" {
            return Err(exception!(
                NOT_IMPLEMENTED,
                "Method write is not supported by storage of system tables"
            ));
        }
        let table = catalog.table(database, table)?;
        let columns = columns_of(&table.def, &insert.columns)?;
        let partial =
            table.def.allows_partial_updates() && session.number("enable_unique_partial_update", 1) != 0;
        let setting = |name: &str| session.setting(name).filter(|value| !value.is_empty()).map(str::to_owned);
        let label = setting("insertion_label");
        if let Some(label) = &label {
            if !label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
                return Err(exception!(
                    BAD_ARGUMENTS,
                    "insertion_label may hold letters, digits and dashes only"
                ));
            }
            if table.data.labels.contains(label) {
                return Err(exception!(
                    INSERTION_LABEL_ALREADY_EXISTS,
                    "Insertion label {label} already exists"
                ));
            }
        }
        Ok(Self {
            def: Arc::clone(&table.def),
            schema: Arc::clone(&table.data.schema),
            columns,
            context,
            partial,
            max_partitions: session.number("max_partitions_per_insert_block", 100),
            deduplicate: session.number("insert_deduplicate", 1) != 0,
            token: setting("insert_deduplication_token"),
            label,
        })
    }

    /// The table's columns as text, for clients that fill in defaults themselves.
    pub(crate) fn columns_text(&self) -> String {
        self.def.columns_text()
    }

    pub(crate) fn table(&self) -> String {
        self.def.full_name()
    }

    /// Makes a block's rows rows of the table: types, defaults, computed columns, partitions, keys.
    pub(crate) fn stage(&self, columns: &[ColumnDef], block: &RecordBatch) -> Result<Staged> {
        let rows = block.num_rows();
        let mut given: HashMap<&str, ArrayRef> = HashMap::with_capacity(columns.len());
        for (column, array) in columns.iter().zip(block.columns()) {
            let Some(target) = self.columns.iter().find(|target| target.name == column.name) else {
                let name = &column.name;
                return Err(exception!(
                    NOT_FOUND_COLUMN_IN_BLOCK,
                    "Not found column {name} in block. There are only columns: {}",
                    self.names()
                ));
            };
            let value = Evaluated { ty: column.ty.clone(), data: Data::Array(Arc::clone(array)) };
            let value = value.cast(&target.ty, &self.context.zone).map_err(|e| {
                crate::Exception::new(
                    e.code(),
                    format!("{}: while converting column {}", e.message(), column.name),
                )
            })?;
            if given.insert(&target.name, value.into_array(rows)?).is_some() {
                return Err(exception!(DUPLICATE_COLUMN, "Column {} stands in the block twice", column.name));
            }
        }
        if let Some(missing) = self.columns.iter().find(|column| !given.contains_key(column.name.as_str())) {
            return Err(exception!(NOT_FOUND_COLUMN_IN_BLOCK, "Not found column {} in block", missing.name));
        }
        let delete_flag = given.remove(DELETE_FLAG);
        let update_columns = given.remove(UPDATE_COLUMNS);
        let batch = self.complete(given, rows)?;
        let scope = Scope::of_table(&self.def, &batch, &self.context);
        let partitions = partitions(self.def.partition_by.as_ref(), &scope)?;
        if self.max_partitions > 0 && partitions.list.len() > self.max_partitions {
            let limit = self.max_partitions;
            return Err(exception!(
                TOO_MANY_PARTS,
                "Too many partitions for single INSERT block (more than {limit}). The limit is controlled by 'max_partitions_per_insert_block' setting. Large number of partitions is a common misconception."
            ));
        }
        let keys = block_keys(&self.def, &batch, delete_flag.as_ref(), &partitions, &self.context)?;
        let content = self.content_hash(&batch)?;
        let partial = if self.partial {
            let named: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
            Some(Partial::new(&self.def, &named, update_columns.as_ref(), rows)?)
        } else {
            None
        };
        Ok(Staged { rows: batch, partitions, keys, partial, content })
    }

    fn names(&self) -> String {
        self.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Adds the columns that the block does not have: defaults, then what is computed from all others.
    fn complete(&self, mut given: HashMap<&str, ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let mut scope = Scope::bare(&self.context, rows);
        for column in self.def.stored() {
            if let Some(array) = given.remove(column.name.as_str()) {
                scope.push(&column.name, column.ty.clone(), array);
            }
        }
        // A default may refer to another column that is missing too: as often round as there are columns.
        let mut missing: Vec<&Column> =
            self.def.stored().filter(|column| scope.find(&column.name).is_none()).collect();
        while !missing.is_empty() {
            let before = missing.len();
            let mut later = Vec::new();
            for column in missing {
                let ready = column.default.as_ref().is_none_or(|(_, expr)| {
                    let mut ready = true;
                    expr.columns(&mut |name| {
                        ready &=
                            scope.find(name).is_some() || self.def.column(name).is_none_or(|c| !c.is_stored())
                    });
                    ready
                });
                if !ready {
                    later.push(column);
                    continue;
                }
                let value = match &column.default {
                    Some((_, expr)) => scope.eval_as(expr, &column.ty)?,
                    None => Evaluated::constant(default_value(&column.ty), column.ty.clone()),
                };
                let array = value.into_array(rows)?;
                scope.push(&column.name, column.ty.clone(), array);
            }
            if later.len() == before {
                return Err(exception!(
                    BAD_ARGUMENTS,
                    "the defaults of {} refer to each other in a circle",
                    later[0].name
                ));
            }
            missing = later;
        }
        let columns: Result<Vec<ArrayRef>> = self
            .def
            .stored()
            .map(|column| {
                let found = scope
                    .find(&column.name)
                    .ok_or_else(|| internal(format!("column {} got lost", column.name)))?;
                Ok(Arc::clone(&found.array))
            })
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns?, &options).map_err(internal)
    }

    fn window(&self) -> usize {
        usize::try_from(self.def.setting_number("non_replicated_deduplication_window", 0))
            .unwrap_or(usize::MAX)
    }

    fn content_hash(&self, batch: &RecordBatch) -> Result<Option<String>> {
        if !self.deduplicate || self.window() == 0 || self.token.is_some() {
            return Ok(None);
        }
        let rows = super::keys::row_bytes(batch.columns())?;
        let mut bytes = Vec::new();
        for row in &rows {
            bytes.extend_from_slice(row.data());
        }
        Ok(Some(hash_text(&bytes)))
    }

    /// The id under which a block is remembered, if it is.
    fn block_id(&self, staged: &Staged, number: usize) -> Option<String> {
        if !self.deduplicate || self.window() == 0 {
            return None;
        }
        match &self.token {
            // Servers tell the blocks of one insert apart by a counter behind the token.
            Some(token) => Some(format!("{token}_{number}")),
            None => staged.content.clone(),
        }
    }

    /// Makes all blocks visible at once. Returns the number of rows that were taken, without those
    /// of blocks that had been there before.
    pub(crate) fn commit(&self, catalog: &mut Catalog, blocks: Vec<Staged>) -> Result<usize> {
        let table = catalog
            .table_by_uuid(self.def.uuid)
            .ok_or_else(|| exception!(UNKNOWN_TABLE, "Table {} doesn't exist.", self.def.full_name()))?;
        if !Arc::ptr_eq(&table.def, &self.def) {
            return Err(exception!(
                INCOMPATIBLE_COLUMNS,
                "the table {} was altered during the insert",
                self.def.full_name()
            ));
        }
        let data = &mut table.data;
        if let Some(label) = &self.label
            && !data.labels.insert(label.clone())
        {
            return Err(exception!(INSERTION_LABEL_ALREADY_EXISTS, "Insertion label {label} already exists"));
        }
        let discard = self.def.behaviour == super::catalog::Behaviour::Discard;
        let mut taken = 0;
        for (number, block) in blocks.into_iter().enumerate() {
            if let Some(id) = self.block_id(&block, number) {
                if data.block_ids.contains(&id) {
                    continue;
                }
                data.block_ids.push_back(id);
                while data.block_ids.len() > self.window() {
                    data.block_ids.pop_front();
                }
            }
            taken += block.rows();
            if !discard && block.rows() > 0 {
                add_block(data, block)?;
            }
        }
        Ok(taken)
    }
}

fn add_block(data: &mut super::storage::TableData, mut block: Staged) -> Result<()> {
    if let (Some(partial), Some(keys)) = (&block.partial, &block.keys) {
        block.rows = data.merged(&block.rows, keys, partial)?;
    }
    let rows = block.rows.num_rows();
    let mut places = Vec::new();
    if block.partitions.of_row.is_empty() {
        let partition =
            block.partitions.list.into_iter().next().ok_or_else(|| internal("rows without a partition"))?;
        let part = data.add(partition, block.rows);
        places.extend((0..rows).map(|row| RowPlace { part, row }));
    } else {
        let mut indices: Vec<Vec<u32>> = vec![Vec::new(); block.partitions.list.len()];
        for (row, partition) in block.partitions.of_row.iter().enumerate() {
            indices[*partition as usize].push(u32::try_from(row).map_err(internal)?);
        }
        places = vec![RowPlace { part: 0, row: 0 }; rows];
        for (partition, indices) in block.partitions.list.into_iter().zip(&indices) {
            let part = data.add(partition, take_rows(&block.rows, indices)?);
            for (row, index) in indices.iter().enumerate() {
                places[*index as usize] = RowPlace { part, row };
            }
        }
    }
    if let Some(keys) = &block.keys {
        data.apply(keys, &places);
    }
    Ok(())
}

/// The columns that an INSERT takes.
fn columns_of(def: &TableDef, named: &[String]) -> Result<Vec<ColumnDef>> {
    if named.is_empty() {
        return Ok(def.columns.iter().filter(|column| column.is_insertable()).map(Column::def).collect());
    }
    let mut columns: Vec<ColumnDef> = Vec::with_capacity(named.len());
    for name in named {
        if columns.iter().any(|known| known.name == *name) {
            return Err(exception!(DUPLICATE_COLUMN, "Column {name} specified more than once"));
        }
        if name == DELETE_FLAG {
            if !def.is_unique() {
                return Err(exception!(
                    BAD_ARGUMENTS,
                    "{DELETE_FLAG} can only be used with tables that have a UNIQUE KEY, {} has none",
                    def.full_name()
                ));
            }
            columns.push(ColumnDef::new(DELETE_FLAG, ChType::UInt8));
            continue;
        }
        if name == UPDATE_COLUMNS {
            if !def.allows_partial_updates() {
                return Err(exception!(
                    BAD_ARGUMENTS,
                    "{UPDATE_COLUMNS} can only be used with tables that have enable_unique_partial_update = 1, {} has not",
                    def.full_name()
                ));
            }
            columns.push(ColumnDef::new(UPDATE_COLUMNS, ChType::String));
            continue;
        }
        let column = def.column(name).ok_or_else(|| {
            exception!(NO_SUCH_COLUMN, "No such column {name} in table {}", def.full_name())
        })?;
        match column.kind() {
            Some(kind @ (DefaultKind::Materialized | DefaultKind::Alias)) => {
                return Err(exception!(
                    ILLEGAL_COLUMN,
                    "Cannot insert column {name}, because it is {} column",
                    kind.as_str()
                ));
            }
            _ => columns.push(column.def()),
        }
    }
    Ok(columns)
}

/// The rows of `INSERT … VALUES (…)` as a block of the plan's columns.
pub(crate) fn literal_rows(
    plan: &InsertPlan,
    rows: &[Vec<crate::sql::ast::Expr>],
    null_as_default: bool,
) -> Result<RecordBatch> {
    let scope = Scope::bare(&plan.context, 1);
    let mut columns: Vec<Vec<Value>> = vec![Vec::with_capacity(rows.len()); plan.columns.len()];
    for (number, row) in rows.iter().enumerate() {
        if row.len() != plan.columns.len() {
            return Err(exception!(
                CANNOT_PARSE_INPUT,
                "row {} has {} values for {} columns",
                number + 1,
                row.len(),
                plan.columns.len()
            ));
        }
        for ((expr, column), values) in row.iter().zip(&plan.columns).zip(&mut columns) {
            let null = scope.eval(expr)?.const_value().is_some_and(Value::is_null);
            if null && null_as_default && !column.ty.is_nullable() {
                values.push(plan.default_of(&column.name, &column.ty)?);
                continue;
            }
            let value = scope.eval_as(expr, &column.ty)?;
            values.push(value.values()?.first().cloned().unwrap_or(Value::Null));
        }
    }
    let mut fields = Vec::with_capacity(columns.len());
    let mut arrays = Vec::with_capacity(columns.len());
    for (column, values) in plan.columns.iter().zip(&columns) {
        let array = super::value::build_array(&column.ty, values)?;
        fields.push(connector_core::arrow::datatypes::Field::new(
            &column.name,
            array.data_type().clone(),
            true,
        ));
        arrays.push(array);
    }
    let schema = Arc::new(connector_core::arrow::datatypes::Schema::new(fields));
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(schema, arrays, &options).map_err(internal)
}

impl InsertPlan {
    fn default_of(&self, name: &str, ty: &ChType) -> Result<Value> {
        match self.def.column(name).and_then(|column| column.default.as_ref()) {
            Some((_, expr)) => {
                let scope = Scope::bare(&self.context, 1);
                let value = scope.eval_as(expr, ty)?;
                Ok(value.values()?.first().cloned().unwrap_or(Value::Null))
            }
            None => Ok(default_value(ty)),
        }
    }
}
