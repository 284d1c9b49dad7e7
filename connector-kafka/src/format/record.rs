//! What stands between a record and its rows, whatever the format: [`Decoder`].

use std::sync::Arc;

use connector_core::{
    ChangeBatch, Error, Result, SchemaChange, TableId, TableSchema, arrow::datatypes::Schema,
};

use super::{
    Avro, Format, JsonDecoder, JsonError,
    change::{ChangeDecoder, Registry},
    csv::CsvDecoder,
    metadata::{Facts, MetadataColumns, MetadataRows},
    raw::RawDecoder,
};

/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It gave so many rows.
    Rows(usize),
    /// It was read and gives no row.
    Nothing,
    /// What was read before it has to be handed over, and then the changes of tables. With `again` the record was not
    /// taken yet.
    Changes {
        /// Whether the record has to be given once more.
        again: bool,
    },
}

/// Why a record was not taken.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The record is at fault.
    Record(JsonError),
    /// Nobody knows yet: give it once more.
    Later(Error),
    /// No record of its kind can be read.
    Fatal(Error),
}

impl From<JsonError> for Refusal {
    fn from(error: JsonError) -> Self {
        Self::Record(error)
    }
}

/// Rows of one table, with the announcement that has to come before them.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) announce: Option<SchemaChange>,
    pub(crate) table: TableId,
    pub(crate) rows: ChangeBatch,
}

enum Plain {
    Json(Box<JsonDecoder>),
    Csv(Box<CsvDecoder>),
    Raw(RawDecoder),
}

/// Records whose rows are all inserts into one table.
struct Single {
    table: TableId,
    schema: TableSchema,
    announced: bool,
    plain: Plain,
    metadata: Option<MetadataRows>,
}

enum Kind {
    Single(Box<Single>),
    Changes(Box<ChangeDecoder>),
}

/// Decodes the records of one split.
pub(crate) struct Decoder {
    kind: Kind,
    wants_facts: bool,
}

impl Decoder {
    /// A decoder of records of a format; `table` is the table of rows that do not name one.
    ///
    /// # Errors
    /// When the format cannot make the table's columns.
    pub(crate) fn new(
        format: &Format,
        table: TableId,
        columns: &MetadataColumns,
        registry: &Arc<Registry>,
    ) -> Result<Self> {
        let plain = match format {
            Format::Json(json) => Plain::Json(Box::new(json.decoder()?)),
            Format::Csv(csv) => Plain::Csv(Box::new(CsvDecoder::new(csv)?)),
            Format::Raw(raw) => Plain::Raw(RawDecoder::new(raw)),
            Format::Avro(Avro(changes)) | Format::Changes(changes) => {
                let decoder = ChangeDecoder::new(changes, table, Arc::clone(registry), columns.clone());
                return Ok(Self { kind: Kind::Changes(Box::new(decoder)), wants_facts: !columns.is_empty() });
            }
        };
        let value =
            format.table_schema().cloned().unwrap_or_else(|| TableSchema::new(Arc::new(Schema::empty())));
        columns.check(&value.columns)?;
        let single = Single {
            table,
            schema: columns.added_to(&value),
            announced: false,
            plain,
            metadata: columns.rows(),
        };
        Ok(Self { kind: Kind::Single(Box::new(single)), wants_facts: !columns.is_empty() })
    }

    /// Whether a record without a value is a row.
    pub(crate) fn takes_tombstones(&self) -> bool {
        matches!(&self.kind, Kind::Single(single) if matches!(single.plain, Plain::Raw(_)))
    }

    /// Whether [`Self::note`] wants to know of each record.
    pub(crate) fn wants_facts(&self) -> bool {
        self.wants_facts
    }

    /// Takes a record.
    #[inline]
    pub(crate) fn decode(&mut self, key: Option<&[u8]>, value: Option<&[u8]>) -> Result<Taken, Refusal> {
        match &mut self.kind {
            Kind::Single(single) => Ok(Taken::Rows(match &mut single.plain {
                Plain::Json(decoder) => {
                    decoder.decode(value.unwrap_or_default())?;
                    1
                }
                Plain::Csv(decoder) => decoder.decode(value.unwrap_or_default())?,
                Plain::Raw(decoder) => {
                    decoder.decode(value)?;
                    1
                }
            })),
            Kind::Changes(decoder) => decoder.decode(key, value.unwrap_or_default()),
        }
    }

    /// Notes what is known of the record that was just taken and gave `rows` rows.
    pub(crate) fn note(&mut self, facts: &Facts<'_>, rows: usize) {
        match &mut self.kind {
            Kind::Single(single) => {
                if let Some(metadata) = &mut single.metadata {
                    metadata.push(facts, rows);
                }
            }
            Kind::Changes(decoder) => decoder.note(facts, rows),
        }
    }

    /// Rows since the last [`Self::finish`].
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match &self.kind {
            Kind::Single(single) => match &single.plain {
                Plain::Json(decoder) => decoder.len(),
                Plain::Csv(decoder) => decoder.len(),
                Plain::Raw(decoder) => decoder.len(),
            },
            Kind::Changes(decoder) => decoder.len(),
        }
    }

    /// Bytes of these rows.
    pub(crate) fn memory_size(&self) -> usize {
        match &self.kind {
            Kind::Single(single) => {
                let rows = match &single.plain {
                    Plain::Json(decoder) => decoder.memory_size(),
                    Plain::Csv(decoder) => decoder.memory_size(),
                    Plain::Raw(decoder) => decoder.memory_size(),
                };
                rows + single.metadata.as_ref().map_or(0, MetadataRows::memory_size)
            }
            Kind::Changes(decoder) => decoder.memory_size(),
        }
    }

    /// Takes the rows, a batch a table.
    pub(crate) fn finish(&mut self) -> Result<Vec<Output>> {
        let single = match &mut self.kind {
            Kind::Single(single) => single,
            Kind::Changes(decoder) => return decoder.finish(),
        };
        let batch = match &mut single.plain {
            Plain::Json(decoder) => decoder.finish()?,
            Plain::Csv(decoder) => decoder.finish()?,
            Plain::Raw(decoder) => decoder.finish()?,
        };
        if batch.num_rows() == 0 {
            return Ok(Vec::new());
        }
        let batch = match &mut single.metadata {
            Some(metadata) => metadata.finish(batch)?,
            None => batch,
        };
        let announce = (!std::mem::replace(&mut single.announced, true)).then(|| SchemaChange::CreateTable {
            table: single.table.clone(),
            schema: single.schema.clone(),
        });
        Ok(vec![Output { announce, table: single.table.clone(), rows: ChangeBatch::append(batch) }])
    }

    /// Changes of tables that were met, in order.
    pub(crate) fn take_changes(&mut self) -> Vec<SchemaChange> {
        match &mut self.kind {
            Kind::Single(_) => Vec::new(),
            Kind::Changes(decoder) => decoder.take_changes(),
        }
    }
}
