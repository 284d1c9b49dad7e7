//! Events in, rows of tables and changes of tables out.

use std::{fmt, sync::Arc};

use connector_core::{
    Result, RowKind, SchemaChange, TableId, TableSchema,
    arrow::datatypes::{Field, Fields, Schema},
    schema::metadata::SOURCE_TYPE,
};
use hashbrown::HashMap;

use super::{
    Changes, Dialect, Registry, UnknownTables,
    avro::{self, Schemas},
    canal,
    debezium::{self, Layouts},
    maxwell,
    rows::Rows,
    types::folded,
};
use crate::format::{
    json::{JsonError, JsonErrorKind, SCALE, cursor::Cursor, decoder::not_utf8, error::Fault, fold_case},
    metadata::{Facts, MetadataColumns, MetadataRows},
    record::{Output, Refusal, Taken},
};

/// So many layouts of a table are read alike before its rows are begun anew.
const MOST_LAYOUTS: usize = 16;

/// The columns that an event tells.
#[derive(Debug)]
pub(super) struct Layout {
    /// Tells layouts apart; never 0.
    pub(super) fingerprint: u64,
    pub(super) fields: Fields,
    pub(super) key: Vec<String>,
}

/// Which table an event belongs to.
#[derive(Debug, Clone, Copy)]
enum Place {
    Table(usize),
    /// None that is asked for.
    Foreign,
}

/// A table with its rows under construction.
struct Table {
    id: TableId,
    /// Its columns were declared.
    fixed: bool,
    schema: TableSchema,
    /// `None` until its columns are known.
    rows: Option<Rows>,
    /// The layouts that the rows are read by, the fields that they are read as, what the last layout told, and what the registry
    /// knew then.
    layouts: Vec<u64>,
    read: Fields,
    told: Fields,
    version: u64,
    epoch: u64,
    announced: bool,
    metadata: Option<MetadataRows>,
}

/// Whether rows of a table can be appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ready {
    Yes,
    /// What was read before has to be handed over first, and then what [`ChangeDecoder::take_changes`] gives.
    HandOver,
}

/// Decodes the events of one split.
pub(crate) struct ChangeDecoder {
    pub(super) format: Changes,
    registry: Arc<Registry>,
    /// The table of all rows, where it is one.
    home: TableId,
    /// The table in the source system that the home table's columns come from.
    origin: Option<String>,
    tables: Vec<Table>,
    index: HashMap<String, Place>,
    pub(super) layouts: Layouts,
    /// The text of the types that Canal told last of each table, and the layout that it stands for.
    pub(super) types_met: HashMap<usize, (Vec<u8>, u64)>,
    /// Holds the name that is being looked up.
    name: String,
    /// Changes of tables that wait to be taken; with `true` an announcement, needed only where none was made yet.
    changes: Vec<(SchemaChange, bool)>,
    /// The table of the last record.
    last: usize,
    columns: MetadataColumns,
    /// Of records in Avro.
    pub(super) schemas: Option<Schemas>,
    /// Why not only the record at hand cannot be read.
    pub(super) halt: Option<Refusal>,
}

impl fmt::Debug for ChangeDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeDecoder").field("tables", &self.tables.len()).finish_non_exhaustive()
    }
}

impl ChangeDecoder {
    pub(crate) fn new(
        format: &Changes,
        home: TableId,
        registry: Arc<Registry>,
        columns: MetadataColumns,
    ) -> Self {
        Self {
            format: format.clone(),
            registry,
            home,
            origin: None,
            tables: Vec::new(),
            index: HashMap::new(),
            layouts: Layouts::default(),
            types_met: HashMap::new(),
            name: String::new(),
            changes: Vec::new(),
            last: 0,
            columns,
            schemas: format.registry.clone().map(Schemas::new),
            halt: None,
        }
    }

    pub(super) fn fold(&self) -> bool {
        self.format.options.case_insensitive
    }

    /// Takes one event.
    pub(crate) fn decode(&mut self, key: Option<&[u8]>, value: &[u8]) -> Result<Taken, Refusal> {
        match self.append(key, value) {
            Ok(taken) => Ok(taken),
            Err(error) => {
                for table in &mut self.tables {
                    if let Some(rows) = &mut table.rows {
                        rows.roll_back();
                    }
                }
                Err(self.halt.take().unwrap_or(Refusal::Record(error)))
            }
        }
    }

    fn append(&mut self, key: Option<&[u8]>, value: &[u8]) -> Result<Taken, JsonError> {
        let text = || simdutf8::basic::from_utf8(value).map_err(|_| not_utf8(value));
        let taken = match self.format.dialect {
            Dialect::Debezium => text().and_then(|text| debezium::decode(self, key, text)),
            Dialect::Canal => text().and_then(|text| canal::decode(self, text)),
            Dialect::Maxwell => text().and_then(|text| maxwell::decode(self, text)),
            Dialect::DebeziumAvro | Dialect::AvroRows => return avro::decode(self, key, value),
        };
        taken.map_err(|fault| fault.into_error(value))
    }

    /// Whether records are in Avro.
    pub(super) fn is_avro(&self) -> bool {
        self.schemas.is_some()
    }

    /// Whether it matters which table an event is of.
    pub(super) fn needs_name(&self) -> bool {
        self.format.multi || self.format.include.is_some() || self.format.table.is_none()
    }

    /// The table of an event; `None` for one that is not asked for.
    pub(super) fn locate(&mut self, database: &str, table: &str, at: usize) -> Result<Option<usize>, Fault> {
        self.name.clear();
        if self.format.options.case_insensitive {
            self.name.push_str(&fold_case(database));
            self.name.push('\0');
            self.name.push_str(&fold_case(table));
        } else {
            self.name.push_str(database);
            self.name.push('\0');
            self.name.push_str(table);
        }
        let place = match self.index.get(self.name.as_str()) {
            Some(place) => *place,
            None => self.meet(database, table, at)?,
        };
        Ok(match place {
            Place::Table(index) => Some(index),
            Place::Foreign => None,
        })
    }

    /// A table that was not met before.
    #[cold]
    fn meet(&mut self, database: &str, table: &str, at: usize) -> Result<Place, Fault> {
        let fold = self.fold();
        let id = TableId::new(folded(database, fold), folded(table, fold));
        if !self.format.includes(&id) {
            tracing::debug!(table = %id, "events of a table that is not asked for are left out");
            return Ok(self.remember(Place::Foreign));
        }
        if !self.format.multi {
            return self.meet_home(&id, at);
        }
        let same = |known: &TableId| {
            folded(&known.database, fold) == id.database && folded(&known.table, fold) == id.table
        };
        let declared = self.format.tables.iter().find(|(known, _)| same(known));
        let (id, schema) = match (declared, self.format.unknown) {
            (Some((id, schema)), _) => (id.clone(), Some(schema.clone())),
            (None, UnknownTables::Create) => (id, None),
            (None, UnknownTables::Ignore) => {
                tracing::warn!(table = %id, "events of a table that was not declared are left out");
                return Ok(self.remember(Place::Foreign));
            }
            (None, UnknownTables::Fail) => {
                let expected = format!("an event of a declared table, and not of `{id}`");
                return Err(Fault::new(JsonErrorKind::Unexpected, at, expected));
            }
        };
        let index = self.add_table(id, schema);
        Ok(self.remember(Place::Table(index)))
    }

    /// Where all rows belong to one table. Without columns of its own it can be one table of the source only.
    fn meet_home(&mut self, id: &TableId, at: usize) -> Result<Place, Fault> {
        let declared = self.format.table.clone();
        if declared.is_none() {
            let origin = self.origin.get_or_insert_with(|| id.to_string());
            if *origin != id.to_string() {
                let expected = format!(
                    "an event of `{origin}`, and not of `{id}`: declare the table's columns to read several tables into one, \
                     or set use_multi_table_record"
                );
                return Err(Fault::new(JsonErrorKind::Unexpected, at, expected));
            }
        }
        let index = self.home();
        Ok(self.remember(Place::Table(index)))
    }

    /// The one table.
    pub(super) fn home(&mut self) -> usize {
        if self.tables.is_empty() {
            let (id, declared) = (self.home.clone(), self.format.table.clone());
            self.add_table(id, declared);
        }
        0
    }

    fn remember(&mut self, place: Place) -> Place {
        self.index.insert(self.name.clone(), place);
        place
    }

    fn add_table(&mut self, id: TableId, declared: Option<TableSchema>) -> usize {
        let fixed = declared.is_some();
        let schema = declared.unwrap_or_else(|| TableSchema::new(Arc::new(Schema::empty())));
        let metadata = self.columns.rows();
        self.tables.push(Table {
            id,
            fixed,
            schema,
            rows: None,
            layouts: Vec::new(),
            read: Fields::empty(),
            told: Fields::empty(),
            version: 0,
            epoch: 0,
            announced: false,
            metadata,
        });
        self.tables.len() - 1
    }

    pub(super) fn id(&self, index: usize) -> &TableId {
        &self.tables[index].id
    }

    pub(super) fn primary_key(&self, index: usize) -> &[String] {
        &self.tables[index].schema.primary_key
    }

    /// Whether a table is read by this layout already.
    #[inline]
    pub(super) fn is_read_by(&self, index: usize, fingerprint: u64) -> bool {
        let table = &self.tables[index];
        table.rows.is_some()
            && table.layouts.contains(&fingerprint)
            && (table.fixed || table.epoch == self.registry.epoch())
    }

    /// Sees to it that the next rows of a table are read by a layout; without one as the rows before them, or by the
    /// columns that are known.
    pub(super) fn prepare(
        &mut self,
        index: usize,
        layout: Option<&Layout>,
        at: usize,
    ) -> Result<Ready, Fault> {
        let table = &mut self.tables[index];
        let epoch = self.registry.epoch();
        let is_read =
            table.rows.is_some() && layout.is_none_or(|layout| table.layouts.contains(&layout.fingerprint));
        if is_read
            && (table.fixed || table.epoch == epoch || self.registry.version(&table.id) == table.version)
        {
            // Where anything changed it was another table.
            table.epoch = epoch;
            return Ok(Ready::Yes);
        }
        if table.rows.as_ref().is_some_and(|rows| rows.len() > 0) {
            return Ok(Ready::HandOver);
        }
        if !table.fixed {
            table.epoch = self.registry.epoch();
            if let Some(layout) = layout {
                let mut seen = TableSchema::new(Arc::new(Schema::new(layout.fields.clone())));
                seen.primary_key = layout
                    .key
                    .iter()
                    .filter(|name| seen.columns.column_with_name(name).is_some())
                    .cloned()
                    .collect();
                if let Some((before, changes)) = self.registry.adopt(&table.id, layout.fingerprint, &seen) {
                    if !table.announced {
                        table.schema = before;
                        self.changes.extend(announcement(table));
                    }
                    self.changes.extend(changes.into_iter().map(|change| (change, false)));
                }
            }
            let Some((schema, version)) = self.registry.schema(&table.id) else {
                return Err(unknown_columns(&table.id, at));
            };
            table.epoch = self.registry.epoch();
            if table.version != version {
                (table.schema, table.version) = (schema, version);
                table.rows = None;
            }
        }
        if table.rows.is_none() || !is_read {
            if let Some(layout) = layout {
                table.told = layout.fields.clone();
            }
            let fields = read_as(&table.schema, &table.told, self.format.options.case_insensitive);
            // Producers of an old and a new layout may take turns: where their rows are read alike, the rows stay together.
            let is_alike = table.rows.is_some() && fields == table.read && table.layouts.len() < MOST_LAYOUTS;
            if !is_alike {
                let clash = self.columns.check(&table.schema.columns);
                match clash.and_then(|()| {
                    Rows::new(Arc::clone(&table.schema.columns), &fields, &self.format.options)
                }) {
                    Ok(rows) => table.rows = Some(rows),
                    Err(error) => {
                        self.halt = Some(Refusal::Fatal(error.with_context("table", &table.id)));
                        return Err(Fault::new(JsonErrorKind::Unexpected, at, "columns that can be read"));
                    }
                }
                table.read = fields;
                table.layouts.clear();
            }
            table.layouts.extend(layout.map(|layout| layout.fingerprint));
        }
        Ok(if self.changes.is_empty() { Ready::Yes } else { Ready::HandOver })
    }

    /// [`Self::prepare`] by a layout that is made only where the rows are not read by it yet.
    #[inline]
    pub(super) fn prepare_by(
        &mut self,
        index: usize,
        fingerprint: u64,
        at: usize,
        layout: impl FnOnce(&mut Self) -> Result<Layout, Fault>,
    ) -> Result<Ready, Fault> {
        if self.is_read_by(index, fingerprint) {
            return Ok(Ready::Yes);
        }
        let layout = layout(self)?;
        if layout.fields.is_empty() {
            return Err(unexpected(at, "a schema with the fields of `after`"));
        }
        self.prepare(index, Some(&layout), at)
    }

    /// The rows of a table that [`Self::prepare`] has said yes to.
    pub(super) fn rows(&mut self, index: usize, bytes: usize) -> Result<&mut Rows, Fault> {
        self.last = index;
        let rows = self.tables.get_mut(index).and_then(|table| table.rows.as_mut());
        let rows = rows.ok_or_else(|| Fault::new(JsonErrorKind::Unexpected, 0, "a table with columns"))?;
        rows.make_room(bytes)?;
        Ok(rows)
    }

    /// Ends a record that was read to its end.
    pub(super) fn settle(&mut self, index: usize, bytes: usize) -> Taken {
        let rows = self.tables.get_mut(index).and_then(|table| table.rows.as_mut());
        Taken::Rows(rows.map_or(0, |rows| rows.settle(bytes)))
    }

    /// Takes up what a statement told about a table. `old` is how the table was before, where the message says it.
    pub(super) fn tell(
        &mut self,
        index: usize,
        old: Option<TableSchema>,
        new: Option<TableSchema>,
        changes: Vec<SchemaChange>,
    ) -> Taken {
        let table = &mut self.tables[index];
        let rows_only = |change: &SchemaChange| matches!(change, SchemaChange::TruncateTable { .. });
        let changes: Vec<SchemaChange> =
            changes.into_iter().filter(|change| !table.fixed || rows_only(change)).collect();
        if changes.is_empty() {
            return Taken::Nothing;
        }
        let known = table.fixed || self.registry.schema(&table.id).is_some();
        if !known && let Some(old) = &old {
            self.registry.replace(&table.id, Some(old.clone()));
        }
        let of_columns = |change: &SchemaChange| {
            !matches!(
                change,
                SchemaChange::CreateTable { .. }
                    | SchemaChange::TruncateTable { .. }
                    | SchemaChange::DropTable { .. }
            )
        };
        if changes.iter().any(of_columns) {
            let Some((schema, _)) = self.registry.schema(&table.id) else {
                tracing::warn!(
                    table = %table.id,
                    "a statement changes columns of a table of which none came yet; it is left out, and the next event tells its columns"
                );
                return Taken::Nothing;
            };
            if !table.announced {
                table.schema = schema;
                self.changes.extend(announcement(table));
            }
        }
        for change in &changes {
            self.registry.apply(change);
            match change {
                SchemaChange::CreateTable { schema, .. } => {
                    self.registry.replace(&table.id, Some(schema.clone()));
                    table.schema = schema.clone();
                }
                SchemaChange::DropTable { .. } => self.registry.replace(&table.id, None),
                _ => {}
            }
            self.changes.push((change.clone(), false));
        }
        if let Some(new) = new.filter(|_| !table.fixed) {
            self.registry.replace(&table.id, Some(new));
        }
        Taken::Changes { again: false }
    }

    /// The columns of a table as they are known.
    pub(super) fn known_schema(&self, index: usize) -> Option<TableSchema> {
        self.registry.schema(&self.tables[index].id).map(|(schema, _)| schema)
    }

    /// Changes of tables that come behind what was handed over, and before what is decoded next.
    pub(crate) fn take_changes(&mut self) -> Vec<SchemaChange> {
        let mut taken = Vec::new();
        for (mut change, is_announcement) in std::mem::take(&mut self.changes) {
            let known = self.tables.iter_mut().find(|known| known.id == *change.table());
            let announced = known.map(|table| &mut table.announced);
            match &mut change {
                SchemaChange::CreateTable { schema, .. } => {
                    if let Some(announced) = announced
                        && std::mem::replace(announced, true)
                        && is_announcement
                    {
                        continue;
                    }
                    *schema = self.columns.added_to(schema);
                }
                SchemaChange::DropTable { .. } => {
                    if let Some(announced) = announced {
                        *announced = false;
                    }
                }
                _ => {}
            }
            taken.push(change);
        }
        taken
    }

    /// Notes what is known of the record that gave `rows` rows.
    pub(crate) fn note(&mut self, facts: &Facts<'_>, rows: usize) {
        if let Some(metadata) = self.tables.get_mut(self.last).and_then(|table| table.metadata.as_mut()) {
            metadata.push(facts, rows);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.tables.iter().filter_map(|table| table.rows.as_ref()).map(Rows::len).sum()
    }

    pub(crate) fn memory_size(&self) -> usize {
        let size = |table: &Table| {
            let rows = table.rows.as_ref().filter(|rows| rows.len() > 0).map_or(0, Rows::memory_size);
            rows + table.metadata.as_ref().map_or(0, MetadataRows::memory_size)
        };
        self.tables.iter().map(size).sum()
    }

    /// Takes the rows of all tables.
    pub(crate) fn finish(&mut self) -> Result<Vec<Output>> {
        let mut outputs = Vec::new();
        for table in &mut self.tables {
            let Some(rows) = table.rows.as_mut().filter(|rows| rows.len() > 0) else { continue };
            let metadata = &mut table.metadata;
            let rows = rows.finish(|batch| match metadata {
                Some(metadata) => metadata.finish(batch),
                None => Ok(batch),
            })?;
            let announce =
                (!std::mem::replace(&mut table.announced, true)).then(|| SchemaChange::CreateTable {
                    table: table.id.clone(),
                    schema: self.columns.added_to(&table.schema),
                });
            outputs.push(Output { announce, table: table.id.clone(), rows });
        }
        Ok(outputs)
    }
}

/// The announcement of a table as it is; `take_changes` marks it as made.
fn announcement(table: &Table) -> Option<(SchemaChange, bool)> {
    let change = || SchemaChange::CreateTable { table: table.id.clone(), schema: table.schema.clone() };
    (!table.announced).then(|| (change(), true))
}

/// The fields of a table with the forms that a layout tells of them.
fn read_as(schema: &TableSchema, told: &Fields, fold: bool) -> Fields {
    let told: HashMap<String, &Arc<Field>> =
        told.iter().map(|field| (folded(field.name(), fold), field)).collect();
    let fields = schema.columns.fields().iter().map(|field| {
        let Some(told) = told.get(&folded(field.name(), fold)) else { return Arc::clone(field) };
        let mut metadata = field.metadata().clone();
        for key in [SOURCE_TYPE, SCALE] {
            match told.metadata().get(key) {
                Some(value) => metadata.insert(key.to_owned(), value.clone()),
                None => metadata.remove(key),
            };
        }
        Arc::new(field.as_ref().clone().with_metadata(metadata))
    });
    fields.collect()
}

#[cold]
fn unknown_columns(table: &TableId, at: usize) -> Fault {
    let expected = format!(
        "an event that tells the columns of `{table}`, or one after such an event: declare the table, or let the source send its \
         schema or its statements"
    );
    Fault::new(JsonErrorKind::Unexpected, at, expected)
}

/// Reads the value at a place once more.
pub(super) fn cursor_at(text: &str, at: usize) -> Cursor<'_> {
    let mut cursor = Cursor::new(text);
    cursor.set_pos(at);
    cursor
}

/// Refuses what follows a message.
pub(super) fn at_end(cursor: &mut Cursor<'_>) -> Result<(), Fault> {
    cursor.skip_space();
    if cursor.rest().is_empty() { Ok(()) } else { Err(cursor.malformed("one object and nothing after it")) }
}

/// An update with a whole row of after, and the columns that had other values before: two rows, or a deletion and an
/// insertion where the key is among them.
pub(super) fn push_update(
    rows: &mut Rows,
    key_changed: bool,
    before_images: bool,
    old: &mut Cursor<'_>,
    new: &Cursor<'_>,
) -> Result<(), Fault> {
    let (before, after) = if key_changed {
        (RowKind::Delete, RowKind::Insert)
    } else {
        (RowKind::UpdateBefore, RowKind::UpdateAfter)
    };
    if key_changed || before_images {
        rows.push_over(before, old, &mut new.clone())?;
    }
    rows.push(after, &mut new.clone())
}

/// Where a message is not what its format says.
pub(super) fn unexpected(at: usize, expected: impl Into<std::borrow::Cow<'static, str>>) -> Fault {
    Fault::new(JsonErrorKind::Unexpected, at, expected)
}
