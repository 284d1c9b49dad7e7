//! Rows as the table wants them: its names, and the columns that the sink fills in itself.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use connector_core::{
    Error, ErrorKind, Result,
    arrow::{
        array::{ArrayRef, RecordBatch, UInt8Array, UInt64Array},
        datatypes::{DataType, Field, FieldRef, Schema, SchemaRef},
    },
};

use super::target::{DELETE_FLAG, Target, Upsert};

/// How rows of one shape become rows of the table.
#[derive(Debug, Clone)]
pub(super) struct Columns {
    /// The rows' own schema.
    pub(super) source: SchemaRef,
    /// What goes over the wire.
    pub(super) sent: SchemaRef,
    /// Fill the version column.
    version: bool,
    /// Fill the delete column.
    delete: bool,
    /// The table has a way to delete at all.
    pub(super) deletes: bool,
}

impl Columns {
    pub(super) fn new(target: &Target, source: &SchemaRef, case_insensitive: bool) -> Result<Self> {
        let names = target.match_columns(source, case_insensitive)?;
        let renamed = |(field, name): (&FieldRef, &String)| Arc::new(field.as_ref().clone().with_name(name));
        let mut fields: Vec<FieldRef> = source.fields().iter().zip(&names).map(renamed).collect();
        let (version, delete) = match &target.upsert {
            None => (None, None),
            Some(Upsert::UniqueKey) => (None, Some(DELETE_FLAG)),
            Some(Upsert::Replacing { version, is_deleted }) => (
                Some(version.as_str()).filter(|name| !names.iter().any(|n| n == name)),
                is_deleted.as_deref().filter(|name| !names.iter().any(|n| n == name)),
            ),
        };
        fields.extend(version.map(|name| Arc::new(Field::new(name, DataType::UInt64, false))));
        fields.extend(delete.map(|name| Arc::new(Field::new(name, DataType::UInt8, false))));
        let deletes = match &target.upsert {
            Some(Upsert::Replacing { is_deleted, .. }) => is_deleted.is_some(),
            Some(Upsert::UniqueKey) => true,
            None => false,
        };
        Ok(Self {
            source: Arc::clone(source),
            sent: Arc::new(Schema::new(fields)),
            version: version.is_some(),
            delete: delete.is_some(),
            deletes,
        })
    }

    /// The column whose highest value has to be known before the sink fills it.
    pub(super) fn fills_version(&self) -> bool {
        self.version
    }

    /// Rows for the wire.
    pub(super) fn build(&self, rows: &RecordBatch, version: u64, delete: bool) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> = rows.columns().to_vec();
        if self.version {
            columns.push(Arc::new(UInt64Array::from_value(version, rows.num_rows())));
        }
        if self.delete {
            columns.push(Arc::new(UInt8Array::from_value(u8::from(delete), rows.num_rows())));
        }
        RecordBatch::try_new(Arc::clone(&self.sent), columns)
            .map_err(|e| Error::new(ErrorKind::Unexpected, "cannot build the rows to send").with_source(e))
    }
}

/// Versions that only grow: microseconds since 1970, and more than any version seen.
#[derive(Debug, Default)]
pub(super) struct Versions {
    last: u64,
}

impl Versions {
    /// No version up to `seen` is given out.
    pub(super) fn beyond(&mut self, seen: u64) {
        self.last = self.last.max(seen);
    }

    pub(super) fn next(&mut self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros());
        self.last = u64::try_from(now).unwrap_or(u64::MAX).max(self.last.saturating_add(1));
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_grow_whatever_the_clock_says() {
        let mut versions = Versions::default();
        let first = versions.next();
        assert!(first > 1_700_000_000_000_000);
        versions.beyond(first + 1_000_000_000);
        assert_eq!(versions.next(), first + 1_000_000_001);
        assert_eq!(versions.next(), first + 1_000_000_002);
    }
}
