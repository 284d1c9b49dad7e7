//! How the columns of tables change, as far as the messages tell, for all readers of one source.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use connector_core::{
    SchemaChange, TableId, TableSchema,
    arrow::datatypes::{DataType, Field, FieldRef, Schema},
    schema::ColumnPosition,
};

/// A table as the source knows it.
#[derive(Debug, Default)]
struct Known {
    schema: Option<TableSchema>,
    /// Layouts of messages that were taken up: one that comes again, from a partition that is behind, changes nothing.
    layouts: HashSet<u64>,
    /// Grows with every change to the columns.
    version: u64,
}

/// The tables of a source. Shared, because the changes of one table come through many partitions.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    tables: Mutex<BTreeMap<TableId, Known>>,
    /// Grows with every change to any table, so that most looks need no lock.
    epoch: AtomicU64,
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<TableId, Known>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The columns as they are now, and a number that grows with every change to them.
    pub(super) fn schema(&self, table: &TableId) -> Option<(TableSchema, u64)> {
        let tables = self.lock();
        let known = tables.get(table)?;
        Some((known.schema.clone()?, known.version))
    }

    /// A number that grows with every change to any table.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    fn changed(&self, known: &mut Known) {
        known.version += 1;
        self.epoch.fetch_add(1, Ordering::Release);
    }

    /// A number that grows with every change to the table's columns.
    pub(super) fn version(&self, table: &TableId) -> u64 {
        self.lock().get(table).map_or(0, |known| known.version)
    }

    /// Takes up the columns that a message has, and tells what is new about them. Nothing is ever taken away so: a
    /// message without a column may be an old one. The columns as they were before stand beside it.
    pub(super) fn adopt(
        &self,
        table: &TableId,
        layout: u64,
        schema: &TableSchema,
    ) -> Option<(TableSchema, Vec<SchemaChange>)> {
        let mut tables = self.lock();
        let known = tables.entry(table.clone()).or_default();
        if !known.layouts.insert(layout) {
            return None;
        }
        let Some(present) = &mut known.schema else {
            known.schema = Some(schema.clone());
            self.changed(known);
            return None;
        };
        let before = present.clone();
        let changes = widened(table, present, schema);
        for change in &changes {
            apply(present, change);
        }
        if present.primary_key.is_empty() {
            present.primary_key.clone_from(&schema.primary_key);
        }
        if changes.is_empty() {
            return None;
        }
        self.changed(known);
        Some((before, changes))
    }

    /// Replaces what is known of a table, as a statement told it.
    pub(super) fn replace(&self, table: &TableId, schema: Option<TableSchema>) {
        let mut tables = self.lock();
        let known = tables.entry(table.clone()).or_default();
        known.schema = schema;
        self.changed(known);
    }

    /// Applies what a statement told. True where the table is known.
    pub(super) fn apply(&self, change: &SchemaChange) -> bool {
        let mut tables = self.lock();
        let Some(known) = tables.get_mut(change.table()) else { return false };
        let Some(schema) = &mut known.schema else { return false };
        apply(schema, change);
        self.changed(known);
        true
    }
}

fn rebuilt(schema: &mut TableSchema, fields: Vec<FieldRef>) {
    schema.columns = Arc::new(Schema::new(fields));
}

/// Follows a change to the columns of one table.
pub(super) fn apply(schema: &mut TableSchema, change: &SchemaChange) {
    let mut fields: Vec<FieldRef> = schema.columns.fields().iter().cloned().collect();
    match change {
        SchemaChange::AddColumn { column, position, .. } => {
            if fields.iter().any(|field| field.name() == column.name()) {
                return;
            }
            let at = match position {
                ColumnPosition::Last => fields.len(),
                ColumnPosition::First => 0,
                ColumnPosition::After(name) => {
                    fields.iter().position(|field| field.name() == name).map_or(fields.len(), |at| at + 1)
                }
            };
            fields.insert(at, Arc::clone(column));
        }
        SchemaChange::AlterColumnType { column, data_type, nullable, .. } => {
            for field in fields.iter_mut().filter(|field| field.name() == column) {
                *field = Arc::new(Field::new(column, data_type.clone(), *nullable));
            }
        }
        SchemaChange::RenameColumn { from, to, .. } => {
            for field in fields.iter_mut().filter(|field| field.name() == from) {
                *field = Arc::new(field.as_ref().clone().with_name(to));
            }
            for name in schema.primary_key.iter_mut().filter(|name| *name == from) {
                name.clone_from(to);
            }
        }
        SchemaChange::DropColumn { column, .. } => fields.retain(|field| field.name() != column),
        _ => return,
    }
    rebuilt(schema, fields);
}

/// What has to happen so that `present` holds the rows of `seen` too.
fn widened(table: &TableId, present: &TableSchema, seen: &TableSchema) -> Vec<SchemaChange> {
    let mut changes = Vec::new();
    for field in seen.columns.fields() {
        let Ok(known) = present.columns.field_with_name(field.name()) else {
            // Rows that were written before have no value for it.
            let column = Arc::new(field.as_ref().clone().with_nullable(true));
            changes.push(SchemaChange::AddColumn {
                table: table.clone(),
                column,
                position: ColumnPosition::Last,
            });
            continue;
        };
        let data_type = wider(known.data_type(), field.data_type());
        let nullable = known.is_nullable() || field.is_nullable();
        if data_type != *known.data_type() || nullable != known.is_nullable() {
            let (table, column) = (table.clone(), field.name().clone());
            changes.push(SchemaChange::AlterColumnType { table, column, data_type, nullable });
        }
    }
    for field in present.columns.fields() {
        if !field.is_nullable() && seen.columns.field_with_name(field.name()).is_err() {
            changes.push(SchemaChange::AlterColumnType {
                table: table.clone(),
                column: field.name().clone(),
                data_type: field.data_type().clone(),
                nullable: true,
            });
        }
    }
    changes
}

/// Bits that a type of integers has, and whether it has a sign.
fn integer(data_type: &DataType) -> Option<(u32, bool)> {
    Some(match data_type {
        DataType::Int8 => (8, true),
        DataType::Int16 => (16, true),
        DataType::Int32 => (32, true),
        DataType::Int64 => (64, true),
        DataType::UInt8 => (8, false),
        DataType::UInt16 => (16, false),
        DataType::UInt32 => (32, false),
        DataType::UInt64 => (64, false),
        _ => return None,
    })
}

/// The type that holds the values of both; where there is none, the new one.
fn wider(known: &DataType, new: &DataType) -> DataType {
    if known == new {
        return known.clone();
    }
    if let (Some((known_bits, known_sign)), Some((bits, sign))) = (integer(known), integer(new)) {
        let holds = known_bits >= bits && known_sign == sign || known_sign && known_bits > bits;
        return if holds { known.clone() } else { new.clone() };
    }
    match (known, new) {
        (DataType::Float64, DataType::Float32) | (DataType::Utf8, _) => known.clone(),
        (DataType::Decimal128(p1, s1), DataType::Decimal128(p2, s2)) if p1 >= p2 && s1 == s2 => known.clone(),
        (DataType::Timestamp(u1, z1), DataType::Timestamp(u2, z2)) if z1 == z2 && u1 > u2 => known.clone(),
        _ => new.clone(),
    }
}

/// What turned `old` into `new`, where both are known whole. `renames` are those that the statement told.
pub(super) fn difference(
    table: &TableId,
    old: &TableSchema,
    new: &TableSchema,
    renames: &[(String, String)],
) -> Vec<SchemaChange> {
    let mut changes = Vec::new();
    let mut present = old.clone();
    for (from, to) in renames {
        let is_rename = old.columns.column_with_name(from).is_some()
            && new.columns.column_with_name(to).is_some()
            && old.columns.column_with_name(to).is_none();
        if is_rename {
            let change =
                SchemaChange::RenameColumn { table: table.clone(), from: from.clone(), to: to.clone() };
            apply(&mut present, &change);
            changes.push(change);
        }
    }
    for field in present.columns.fields() {
        if new.columns.column_with_name(field.name()).is_none() {
            changes.push(SchemaChange::DropColumn { table: table.clone(), column: field.name().clone() });
        }
    }
    let mut before: Option<&str> = None;
    for field in new.columns.fields() {
        match present.columns.field_with_name(field.name()) {
            Err(_) => changes.push(SchemaChange::AddColumn {
                table: table.clone(),
                column: Arc::clone(field),
                position: match before {
                    None => ColumnPosition::First,
                    Some(name) => ColumnPosition::After(name.to_owned()),
                },
            }),
            Ok(known)
                if known.data_type() != field.data_type() || known.is_nullable() != field.is_nullable() =>
            {
                changes.push(SchemaChange::AlterColumnType {
                    table: table.clone(),
                    column: field.name().clone(),
                    data_type: field.data_type().clone(),
                    nullable: field.is_nullable(),
                });
            }
            Ok(_) => {}
        }
        before = Some(field.name());
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(fields: &[(&str, DataType, bool)]) -> TableSchema {
        let fields: Vec<Field> = fields
            .iter()
            .map(|(name, data_type, nullable)| Field::new(*name, data_type.clone(), *nullable))
            .collect();
        TableSchema::new(Arc::new(Schema::new(fields)))
    }

    fn names(changes: &[SchemaChange]) -> Vec<&'static str> {
        changes.iter().map(|change| change.kind().as_str()).collect()
    }

    #[test]
    fn an_old_layout_that_comes_again_changes_nothing() {
        let (registry, table) = (Registry::default(), TableId::new("d", "t"));
        let old = schema(&[("id", DataType::Int32, false), ("gone", DataType::Utf8, false)]);
        let new = schema(&[("id", DataType::Int64, false), ("more", DataType::Utf8, false)]);
        assert!(registry.adopt(&table, 1, &old).is_none());
        let (before, changes) = registry.adopt(&table, 2, &new).unwrap();
        assert_eq!(before, old);
        assert_eq!(names(&changes), ["alter.column.type", "add.column", "alter.column.type"]);
        let (present, version) = registry.schema(&table).unwrap();
        let epoch = registry.epoch();
        assert_eq!(present.columns.fields().len(), 3);
        assert!(present.columns.field_with_name("more").unwrap().is_nullable(), "old rows lack it");
        assert!(present.columns.field_with_name("gone").unwrap().is_nullable(), "new rows lack it");
        assert!(registry.adopt(&table, 1, &old).is_none());
        assert!(registry.adopt(&table, 2, &new).is_none());
        assert_eq!((registry.schema(&table).unwrap().1, registry.epoch()), (version, epoch));
    }

    #[test]
    fn columns_are_widened_and_never_narrowed() {
        use DataType::*;
        assert_eq!(wider(&Int64, &Int32), Int64);
        assert_eq!(wider(&Int32, &UInt32), UInt32);
        assert_eq!(wider(&Int64, &UInt32), Int64);
        assert_eq!(wider(&UInt8, &Int16), Int16);
        assert_eq!(wider(&Utf8, &Int16), Utf8);
        assert_eq!(wider(&Float64, &Float32), Float64);
        assert_eq!(wider(&Decimal128(10, 2), &Decimal128(12, 2)), Decimal128(12, 2));
        assert_eq!(wider(&Decimal128(12, 2), &Decimal128(10, 2)), Decimal128(12, 2));
    }

    #[test]
    fn the_difference_of_two_whole_tables() {
        let table = TableId::new("d", "t");
        let old = schema(&[
            ("id", DataType::Int32, false),
            ("a", DataType::Utf8, true),
            ("b", DataType::Utf8, true),
            ("c", DataType::Utf8, true),
        ]);
        let new = schema(&[
            ("first", DataType::Int8, true),
            ("id", DataType::Int64, false),
            ("x", DataType::Utf8, true),
            ("c", DataType::Utf8, true),
        ]);
        let changes = difference(&table, &old, &new, &[("a".to_owned(), "x".to_owned())]);
        assert_eq!(names(&changes), ["rename.column", "drop.column", "add.column", "alter.column.type"]);
        let mut followed = old;
        for change in &changes {
            apply(&mut followed, change);
        }
        assert_eq!(followed.columns, new.columns);
        assert!(difference(&table, &new, &new, &[]).is_empty());
    }
}
