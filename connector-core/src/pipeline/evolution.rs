//! Schema changes on their way through a pipeline: the policy, and the gate that drains all chains.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
};

use arrow::datatypes::{Field, FieldRef, Schema};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock, watch};

use crate::{
    error::{Error, ErrorKind, Result},
    schema::{ColumnPosition, SchemaChange, SchemaChangeKind, TableId, TableSchema},
    sink::UnknownColumns,
};

/// What happens to schema changes; the names are Flink CDC's. Announcements of tables pass under every one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SchemaChangeBehavior {
    /// They are dropped and counted; rows go on with the old columns.
    Ignore,
    /// They are applied so that nothing is lost: columns are added nullable and at the end, a renamed
    /// column becomes a new one, a dropped one becomes nullable, truncating and dropping tables is left out.
    Lenient,
    /// They are applied; where that fails, a warning, and rows go on.
    TryEvolve,
    /// They are applied; a failure ends the pipeline.
    #[default]
    Evolve,
    /// The first one ends the pipeline.
    Exception,
}

impl SchemaChangeBehavior {
    const ALL: [(Self, &str); 5] = [
        (Self::Ignore, "ignore"),
        (Self::Lenient, "lenient"),
        (Self::TryEvolve, "try_evolve"),
        (Self::Evolve, "evolve"),
        (Self::Exception, "exception"),
    ];
}

impl fmt::Display for SchemaChangeBehavior {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(behavior, _)| behavior == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

impl FromStr for SchemaChangeBehavior {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL
            .iter()
            .find(|(_, name)| name.eq_ignore_ascii_case(text))
            .map(|(behavior, _)| *behavior)
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::OptionInvalid,
                    format!("`{text}` is not one of ignore, lenient, try_evolve, evolve, exception"),
                )
            })
    }
}

/// [`SchemaChangeBehavior`] and the kinds of change that it concerns.
#[derive(Debug, Clone, Default)]
pub struct SchemaChangePolicy {
    /// What happens to a change.
    pub behavior: SchemaChangeBehavior,
    /// Only these kinds; empty for all.
    pub include: BTreeSet<SchemaChangeKind>,
    /// Not these kinds.
    pub exclude: BTreeSet<SchemaChangeKind>,
}

impl From<SchemaChangeBehavior> for SchemaChangePolicy {
    fn from(behavior: SchemaChangeBehavior) -> Self {
        Self { behavior, ..Self::default() }
    }
}

impl SchemaChangePolicy {
    /// What is to be applied for `change`; nothing when it is dropped.
    ///
    /// # Errors
    /// `Unsupported` under `exception`.
    fn plan(&self, change: &SchemaChange, schema: Option<&TableSchema>) -> Result<Vec<SchemaChange>> {
        let kind = change.kind();
        if kind == SchemaChangeKind::CreateTable {
            return Ok(vec![change.clone()]);
        }
        let wanted =
            (self.include.is_empty() || self.include.contains(&kind)) && !self.exclude.contains(&kind);
        match self.behavior {
            SchemaChangeBehavior::Exception => Err(Error::new(
                ErrorKind::Unsupported,
                format!("a {} came in, and schema.change.behavior is `exception`", kind.as_str()),
            )
            .with_context("table", change.table())),
            _ if !wanted => Ok(Vec::new()),
            SchemaChangeBehavior::Ignore => Ok(Vec::new()),
            SchemaChangeBehavior::Lenient => Ok(lenient(change, schema)),
            SchemaChangeBehavior::TryEvolve | SchemaChangeBehavior::Evolve => Ok(vec![change.clone()]),
        }
    }
}

/// The form of a change in which no data is lost.
fn lenient(change: &SchemaChange, schema: Option<&TableSchema>) -> Vec<SchemaChange> {
    let column_of = |name: &str| schema.and_then(|schema| schema.columns.field_with_name(name).ok());
    match change {
        // A column that is there already, of another type: the table's takes the values of both if it can.
        SchemaChange::AddColumn { table, column, .. } if column_of(column.name()).is_some() => {
            vec![SchemaChange::AlterColumnType {
                table: table.clone(),
                column: column.name().clone(),
                data_type: column.data_type().clone(),
                nullable: true,
            }]
        }
        SchemaChange::AddColumn { table, column, .. } => vec![SchemaChange::AddColumn {
            table: table.clone(),
            column: Arc::new(column.as_ref().clone().with_nullable(true)),
            position: ColumnPosition::Last,
        }],
        SchemaChange::RenameColumn { table, from, to } => column_of(from)
            .map(|field| SchemaChange::AddColumn {
                table: table.clone(),
                column: Arc::new(field.clone().with_name(to).with_nullable(true)),
                position: ColumnPosition::Last,
            })
            .into_iter()
            .chain(nullable(table, from, column_of(from)))
            .collect(),
        SchemaChange::DropColumn { table, column } => {
            nullable(table, column, column_of(column)).into_iter().collect()
        }
        SchemaChange::TruncateTable { .. } | SchemaChange::DropTable { .. } => Vec::new(),
        other => vec![other.clone()],
    }
}

/// Makes a column nullable that is not.
fn nullable(table: &TableId, column: &str, field: Option<&Field>) -> Option<SchemaChange> {
    let field = field.filter(|field| !field.is_nullable())?;
    Some(SchemaChange::AlterColumnType {
        table: table.clone(),
        column: column.to_owned(),
        data_type: field.data_type().clone(),
        nullable: true,
    })
}

/// Keeps chains from writing while one of them changes a table, and tells each of what the others did.
pub(super) struct SchemaGate {
    policy: SchemaChangePolicy,
    lock: Arc<RwLock<()>>,
    drain: watch::Sender<u64>,
    state: Mutex<GateState>,
}

#[derive(Default)]
struct GateState {
    applied: Vec<SchemaChange>,
    tables: BTreeMap<TableId, TableSchema>,
}

impl SchemaGate {
    pub(super) fn new(policy: SchemaChangePolicy) -> Self {
        Self { policy, lock: Arc::default(), drain: watch::Sender::new(0), state: Mutex::default() }
    }

    /// Held by a chain while it has rows that are not flushed, or that a restart would read again.
    pub(super) async fn enter(&self) -> OwnedRwLockReadGuard<()> {
        Arc::clone(&self.lock).read_owned().await
    }

    /// Asks all chains for a checkpoint, and waits until none holds rows.
    pub(super) async fn drained(&self) -> OwnedRwLockWriteGuard<()> {
        self.drain.send_modify(|count| *count += 1);
        Arc::clone(&self.lock).write_owned().await
    }

    /// Hears of every request to flush.
    pub(super) fn drain_requests(&self) -> watch::Receiver<u64> {
        self.drain.subscribe()
    }

    /// What is to be applied for `change`.
    pub(super) fn plan(&self, change: &SchemaChange) -> Result<Vec<SchemaChange>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.policy.plan(change, state.tables.get(change.table()))
    }

    /// Rows may bring columns that a policy has not let through to the table.
    pub(super) fn unknown_columns(&self) -> UnknownColumns {
        let restricted = !self.policy.include.is_empty() || !self.policy.exclude.is_empty();
        match self.policy.behavior {
            SchemaChangeBehavior::Ignore | SchemaChangeBehavior::TryEvolve => UnknownColumns::LeaveOut,
            _ if restricted => UnknownColumns::LeaveOut,
            _ => UnknownColumns::Refuse,
        }
    }

    /// True when a change that cannot be applied is only worth a warning.
    pub(super) fn tolerates_failure(&self) -> bool {
        self.policy.behavior == SchemaChangeBehavior::TryEvolve
    }

    /// Remembers the columns of an announced table; every chain hears announcements from its own reader.
    pub(super) fn announced(&self, change: &SchemaChange) {
        track(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner).tables, change);
    }

    /// Remembers a change that was applied, for the other chains.
    pub(super) fn applied(&self, change: &SchemaChange) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        track(&mut state.tables, change);
        state.applied.push(change.clone());
    }

    /// The changes applied since the first `seen`.
    pub(super) fn since(&self, seen: usize) -> Vec<SchemaChange> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.applied.get(seen..).map(<[_]>::to_vec).unwrap_or_default()
    }

    /// How many changes were applied.
    pub(super) fn count(&self) -> usize {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).applied.len()
    }
}

/// Follows the columns of each table.
fn track(tables: &mut BTreeMap<TableId, TableSchema>, change: &SchemaChange) {
    let columns =
        |schema: &TableSchema| -> Vec<FieldRef> { schema.columns.fields().iter().cloned().collect() };
    let table = change.table();
    if let SchemaChange::CreateTable { schema, .. } = change {
        tables.insert(table.clone(), schema.clone());
        return;
    }
    let Some(schema) = tables.get_mut(table) else { return };
    let mut fields = columns(schema);
    match change {
        SchemaChange::AddColumn { column, position, .. } => {
            fields.retain(|field| field.name() != column.name());
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
                *field = Arc::new(
                    field.as_ref().clone().with_data_type(data_type.clone()).with_nullable(*nullable),
                );
            }
        }
        SchemaChange::RenameColumn { from, to, .. } => {
            for field in fields.iter_mut().filter(|field| field.name() == from) {
                *field = Arc::new(field.as_ref().clone().with_name(to));
            }
        }
        SchemaChange::DropColumn { column, .. } => fields.retain(|field| field.name() != column),
        SchemaChange::DropTable { .. } => {
            tables.remove(table);
            return;
        }
        _ => {}
    }
    schema.columns = Arc::new(Schema::new(fields));
}
