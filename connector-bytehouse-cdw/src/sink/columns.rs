//! Rows as the table wants them: its names, and the columns that the sink fills in itself.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use connector_bytehouse_common::native::ChType;
use connector_core::{
    Error, ErrorKind, Result,
    arrow::{
        array::{
            Array, ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, Scalar, UInt8Array,
            UInt64Array,
        },
        compute::{cast, kernels::zip::zip},
        datatypes::{DataType, Field, FieldRef, Schema, SchemaRef},
        error::ArrowError,
    },
};

use super::{
    compact::{Identity, Piece},
    target::{DELETE_FLAG, Target, Upsert},
};
use crate::config::{SinkConfig, SinkMode};

/// Hidden column that names the columns a row of a partial update changes.
pub(crate) const UPDATE_COLUMNS: &str = "_update_columns_";

/// How rows of one shape become rows of the table.
#[derive(Debug, Clone)]
pub(super) struct Columns {
    /// The rows' own schema.
    pub(super) source: SchemaRef,
    /// What goes over the wire.
    pub(super) sent: SchemaRef,
    /// Which rows are the same; `None` in mode insert.
    pub(super) identity: Option<Identity>,
    /// Columns that a delete needs as well, by their names on the wire.
    needed: Vec<String>,
    /// Columns that decide about a row's partition, by their names on the wire.
    pub(super) partition: Vec<String>,
    /// What came first must be there first. False where nothing is replaced, or the sink's own versions say what replaces
    /// what.
    pub(super) in_order: bool,
    /// Fill the version column.
    version: bool,
    /// Fill the delete column.
    delete: bool,
    /// The sink says which rows are deleted, not a column that they bring.
    pub(super) deletes: bool,
}

impl Columns {
    pub(super) fn new(target: &Target, source: &SchemaRef, config: &SinkConfig) -> Result<Self> {
        let names = names_of(target, source, config)?;
        let renamed = |(field, name): (&FieldRef, &String)| Arc::new(field.as_ref().clone().with_name(name));
        let mut fields: Vec<FieldRef> = source.fields().iter().zip(&names).map(renamed).collect();
        let brought = |name: &str| names.iter().any(|n| n == name);
        let (version, delete) = match &target.upsert {
            None => (None, None),
            Some(Upsert::UniqueKey) => (None, config.mode.deletes().then_some(DELETE_FLAG)),
            Some(Upsert::Replacing { version, is_deleted }) => (
                Some(version.as_str()).filter(|name| !brought(name)),
                is_deleted.as_deref().filter(|name| !brought(name)),
            ),
        };
        fields.extend(version.map(|name| Arc::new(Field::new(name, DataType::UInt64, false))));
        fields.extend(delete.map(|name| Arc::new(Field::new(name, DataType::UInt8, false))));
        let deletes = match &target.upsert {
            // Rows that bring the column say themselves what is deleted.
            Some(Upsert::Replacing { .. }) => delete.is_some(),
            Some(Upsert::UniqueKey) => true,
            None => false,
        };
        let layout = &target.layout;
        let partition = layout.partition.iter().filter(|name| brought(name)).cloned().collect();
        let mut columns = Self {
            source: Arc::clone(source),
            sent: Arc::new(Schema::new(fields)),
            identity: None,
            needed: Vec::new(),
            partition,
            in_order: target.upsert.is_some() && (version.is_none() || layout.forgets_deletes),
            version: version.is_some(),
            delete: delete.is_some(),
            deletes,
        };
        // A table without a key is appended to, whatever the mode.
        if target.upsert.is_some() {
            columns.key(target, &names, config).map_err(|e| e.with_context("table", &target.table))?;
        }
        Ok(columns)
    }

    /// What keyed modes need beside the columns.
    fn key(&mut self, target: &Target, names: &[String], config: &SinkConfig) -> Result<()> {
        let layout = &target.layout;
        let own = |name: &String| {
            let at = names.iter().position(|n| n == name);
            at.map_or_else(|| name.clone(), |at| self.source.field(at).name().clone())
        };
        let brings_all = target.columns.iter().all(|column| names.contains(&column.name));
        let named = names.iter().find(|name| *name == UPDATE_COLUMNS).cloned();
        let partial = layout.partial_update && (named.is_some() || !brings_all);
        let mut same = target.key.clone();
        if layout.partition_is_identity {
            same.extend(self.partition.iter().filter(|name| !target.key.contains(name)).cloned());
        }
        let version = layout.version.clone().filter(|name| names.contains(name));
        self.needed = same.clone();
        // A row that a partition depends on beside the key must be there for a delete to find it.
        self.needed.extend(self.partition.iter().filter(|name| !same.contains(name)).cloned());
        self.needed.extend(named.iter().cloned());
        self.needed.extend(version.iter().cloned());
        self.identity = Some(Identity {
            mode: config.mode,
            columns: same.iter().map(own).collect(),
            version: version.as_ref().map(own),
            forced_deletes: layout.forced_deletes,
            partial: partial.then(|| named.as_ref().map(own)),
        });
        self.check_deletes(target, config)?;
        if config.mode == SinkMode::UpsertWithDeleteToNull {
            self.check_nulls(target, partial, config)?;
        }
        Ok(())
    }

    /// A delete has to find the row's partition.
    fn check_deletes(&self, target: &Target, config: &SinkConfig) -> Result<()> {
        let moves = config.mode.deletes() || config.mode == SinkMode::UpsertWithDeleteToNull;
        let missing = target.layout.partition.iter().find(|name| !self.partition.contains(name));
        match missing {
            Some(name) if moves && target.layout.partition_is_identity => Err(Error::new(
                ErrorKind::SchemaMismatch,
                format!(
                    "the rows lack `{name}`, which decides about a row's partition: a delete would not find the row; \
                     bring the column, or use mode upsert-no-delete"
                ),
            )),
            _ => Ok(()),
        }
    }

    /// What is to become null has to be able to.
    fn check_nulls(&self, target: &Target, partial: bool, config: &SinkConfig) -> Result<()> {
        let refuse = |text: String| Err(Error::new(ErrorKind::Unsupported, text));
        if partial || (target.layout.partial_update && target.layout.null_keeps_value) {
            return refuse(
                "mode upsert-with-delete-to-null cannot set columns to null that a partial update leaves as they are; \
                 bring every column of the table, or switch partial updates off by the option"
                    .to_owned(),
            );
        }
        if config.rules.null_as_default {
            return Ok(());
        }
        for field in self.sent.fields().iter().filter(|field| self.is_optional(field.name())) {
            let column = target.columns.iter().find(|column| column.name == *field.name());
            let Some(column) = column else { continue };
            if !column.type_text.parse::<ChType>().is_ok_and(|ty| ty.is_nullable()) {
                return refuse(format!(
                    "mode upsert-with-delete-to-null needs nullable columns beside the key, and `{}` is {}; make it \
                     nullable, or let the option for null as default write the type's default",
                    column.name, column.type_text
                ));
            }
        }
        Ok(())
    }

    /// True for columns that do not matter in a delete.
    pub(super) fn is_optional(&self, name: &str) -> bool {
        let filled = self.sent.fields().len() - self.source.fields().len();
        let filled = &self.sent.fields()[self.sent.fields().len() - filled..];
        !self.needed.iter().any(|needed| needed == name) && !filled.iter().any(|field| field.name() == name)
    }

    /// The column whose highest value has to be known before the sink fills it.
    pub(super) fn fills_version(&self) -> bool {
        self.version
    }

    /// Rows for the wire that are all to be appended.
    pub(super) fn appended(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        self.complete(rows, 0, |_| false)
    }

    /// Rows for the wire. Their versions go up from `version`.
    pub(super) fn build(&self, piece: &Piece, version: u64) -> Result<RecordBatch> {
        let is_delete = |row| piece.fates.is_delete(row);
        match self.identity.as_ref().filter(|identity| identity.forced_deletes) {
            Some(Identity { version: Some(name), .. }) => {
                let rows = with_versions(&piece.rows, name, is_delete)?;
                self.complete(&rows, version, is_delete)
            }
            _ => self.complete(&piece.rows, version, is_delete),
        }
    }

    fn complete(
        &self,
        rows: &RecordBatch,
        version: u64,
        is_delete: impl Fn(usize) -> bool,
    ) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> = rows.columns().to_vec();
        if self.version {
            let versions = (0..rows.num_rows() as u64).map(|row| version.saturating_add(row));
            columns.push(Arc::new(UInt64Array::from_iter_values(versions)));
        }
        if self.delete {
            let flags = (0..rows.num_rows()).map(|row| u8::from(is_delete(row)));
            columns.push(Arc::new(UInt8Array::from_iter_values(flags)));
        }
        RecordBatch::try_new(Arc::clone(&self.sent), columns)
            .map_err(|e| Error::new(ErrorKind::Unexpected, "cannot build the rows to send").with_source(e))
    }
}

/// The names on the wire of the rows' columns, in the rows' order.
fn names_of(target: &Target, source: &SchemaRef, config: &SinkConfig) -> Result<Vec<String>> {
    let Some(at) = source.fields().iter().position(|field| field.name() == UPDATE_COLUMNS) else {
        return target.match_columns(source, config.case_insensitive);
    };
    if !target.layout.partial_update || !config.mode.is_keyed() {
        return Err(Error::new(
            ErrorKind::SchemaMismatch,
            format!(
                "the rows bring `{UPDATE_COLUMNS}`, which only tables with enable_unique_partial_update=1 know in a mode \
                 with keys, while partial updates are not switched off by the option"
            ),
        )
        .with_context("table", &target.table));
    }
    let others: Vec<FieldRef> = source
        .fields()
        .iter()
        .enumerate()
        .filter(|(place, _)| *place != at)
        .map(|(_, field)| Arc::clone(field))
        .collect();
    let mut names = target.match_columns(&Schema::new(others), config.case_insensitive)?;
    names.insert(at, UPDATE_COLUMNS.to_owned());
    Ok(names)
}

/// The rows with 0 as the version of deletes that have none, which asks the server for no version.
fn with_versions(rows: &RecordBatch, name: &str, is_delete: impl Fn(usize) -> bool) -> Result<RecordBatch> {
    let failed = |e: ArrowError| {
        Error::new(ErrorKind::Unsupported, format!("`{name}` has a type that cannot be a version"))
            .with_source(e)
    };
    let Some(at) = rows.schema().index_of(name).ok().filter(|at| rows.column(*at).null_count() > 0) else {
        return Ok(rows.clone());
    };
    let column = rows.column(at);
    let none: BooleanArray =
        (0..rows.num_rows()).map(|row| Some(column.is_null(row) && is_delete(row))).collect();
    let zero: ArrayRef = match column.data_type() {
        DataType::Date32 => Arc::new(Int32Array::from(vec![0])),
        _ => Arc::new(Int64Array::from(vec![0])),
    };
    let zero = Scalar::new(cast(&zero, column.data_type()).map_err(failed)?);
    let mut columns = rows.columns().to_vec();
    columns[at] = zip(&none, &zero, column).map_err(failed)?;
    RecordBatch::try_new(rows.schema(), columns).map_err(failed)
}

/// Versions that only grow: microseconds since 1970, and more than any version seen.
#[derive(Debug, Clone, Default)]
pub(super) struct Versions {
    last: u64,
}

impl Versions {
    /// No version up to `seen` is given out.
    pub(super) fn beyond(&mut self, seen: u64) {
        self.last = self.last.max(seen);
    }

    /// The last version that was given out or seen.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// The first of `count` versions, one higher than the other.
    pub(super) fn next(&mut self, count: usize) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros());
        let first = u64::try_from(now).unwrap_or(u64::MAX).max(self.last.saturating_add(1));
        self.last = first.saturating_add((count as u64).saturating_sub(1));
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_grow_whatever_the_clock_says() {
        let mut versions = Versions::default();
        let first = versions.next(1);
        assert!(first > 1_700_000_000_000_000);
        versions.beyond(first + 1_000_000_000);
        assert_eq!(versions.next(3), first + 1_000_000_001);
        assert_eq!(versions.next(1), first + 1_000_000_004);
    }
}
