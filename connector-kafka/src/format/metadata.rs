//! What a record has besides its value, as columns.

use std::sync::Arc;

use connector_core::{
    Error, ErrorKind, Result, TableSchema,
    arrow::{
        array::{
            ArrayRef, BinaryBuilder, Int32Builder, Int64Builder, ListBuilder, RecordBatch, StringBuilder,
            StructBuilder, TimestampMillisecondBuilder,
        },
        datatypes::{DataType, Field, FieldRef, Fields, Schema, TimeUnit},
    },
    option_enum,
};

option_enum! {
    /// A column that the record itself gives, beside those of its value.
    pub enum MetadataColumn {
        /// The record's time, as a timestamp in milliseconds in UTC; null where it has none.
        Timestamp = "timestamp",
        /// Its offset.
        Offset = "offset",
        /// Its key in bytes; null where it has none.
        Key = "key",
        /// Its whole value in bytes.
        Value = "value",
        /// Its topic.
        Topic = "topic",
        /// Its partition.
        Partition = "partition",
        /// Its headers in their order, as a list of `key` and `value`: names may stand twice, values may be null.
        Headers = "headers",
    }
}

/// The parts of a header.
fn header_fields() -> Fields {
    Fields::from(vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Binary, true)])
}

impl MetadataColumn {
    /// The column, named as the option value is.
    pub fn field(self) -> Field {
        let (data_type, nullable) = match self {
            Self::Timestamp => (DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())), true),
            Self::Offset => (DataType::Int64, false),
            Self::Key | Self::Value => (DataType::Binary, true),
            Self::Topic => (DataType::Utf8, false),
            Self::Partition => (DataType::Int32, false),
            Self::Headers => {
                let item = Field::new_list_field(DataType::Struct(header_fields()), false);
                (DataType::List(Arc::new(item)), false)
            }
        };
        Field::new(self.as_str(), data_type, nullable)
    }
}

/// Name and value of a header.
pub(crate) type Header = (String, Option<Vec<u8>>);

/// What is known of a record besides its value's columns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub(crate) topic: &'a str,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) timestamp: Option<i64>,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) headers: &'a [Header],
}

/// The columns that were asked for, in this order.
#[derive(Debug, Clone, Default)]
pub(crate) struct MetadataColumns(Arc<[MetadataColumn]>);

impl MetadataColumns {
    /// # Errors
    /// `OptionInvalid` when a column is asked for twice.
    pub(crate) fn new(columns: &[MetadataColumn]) -> Result<Self> {
        for (at, column) in columns.iter().enumerate() {
            if columns[..at].contains(column) {
                let text = format!("metadata_columns: `{column}` stands twice");
                return Err(Error::new(ErrorKind::OptionInvalid, text).with_operation("kafka.options"));
            }
        }
        Ok(Self(columns.into()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the headers are asked for, which costs a little more than the rest.
    pub(crate) fn wants_headers(&self) -> bool {
        self.0.contains(&MetadataColumn::Headers)
    }

    /// Looks for columns of the value that have the name of one of these. Names that differ in case alone clash too.
    ///
    /// # Errors
    /// `SchemaMismatch` that names the column.
    pub(crate) fn check(&self, columns: &Schema) -> Result<()> {
        let taken = |column: &MetadataColumn| {
            columns.fields().iter().find(|field| field.name().eq_ignore_ascii_case(column.as_str()))
        };
        match self.0.iter().find_map(taken) {
            None => Ok(()),
            Some(field) => {
                let name = field.name();
                let text = format!(
                    "metadata_columns: the table has a column `{name}` of its own; leave it out of one of the two"
                );
                Err(Error::new(ErrorKind::SchemaMismatch, text)
                    .with_operation("kafka.options")
                    .with_context("column", name))
            }
        }
    }

    /// The table with these columns behind its own.
    pub(crate) fn added_to(&self, table: &TableSchema) -> TableSchema {
        if self.0.is_empty() {
            return table.clone();
        }
        let own = table.columns.fields().iter().cloned();
        let fields: Vec<FieldRef> = own.chain(self.0.iter().map(|column| Arc::new(column.field()))).collect();
        let columns = Arc::new(Schema::new_with_metadata(fields, table.columns.metadata().clone()));
        TableSchema { columns, ..table.clone() }
    }

    /// Room for their values; `None` where none are asked for.
    pub(crate) fn rows(&self) -> Option<MetadataRows> {
        (!self.0.is_empty()).then(|| MetadataRows {
            columns: self.0.iter().map(|column| (Arc::new(column.field()), Builder::new(*column))).collect(),
            bytes: 0,
        })
    }
}

#[derive(Debug)]
enum Builder {
    Timestamp(TimestampMillisecondBuilder),
    Offset(Int64Builder),
    Key(BinaryBuilder),
    Value(BinaryBuilder),
    Topic(StringBuilder),
    Partition(Int32Builder),
    Headers(Box<ListBuilder<StructBuilder>>),
}

impl Builder {
    fn new(column: MetadataColumn) -> Self {
        match column {
            MetadataColumn::Timestamp => {
                Self::Timestamp(TimestampMillisecondBuilder::new().with_timezone("UTC"))
            }
            MetadataColumn::Offset => Self::Offset(Int64Builder::new()),
            MetadataColumn::Key => Self::Key(BinaryBuilder::new()),
            MetadataColumn::Value => Self::Value(BinaryBuilder::new()),
            MetadataColumn::Topic => Self::Topic(StringBuilder::new()),
            MetadataColumn::Partition => Self::Partition(Int32Builder::new()),
            MetadataColumn::Headers => {
                let pair = StructBuilder::new(
                    header_fields(),
                    vec![Box::new(StringBuilder::new()), Box::new(BinaryBuilder::new())],
                );
                let item = Field::new_list_field(DataType::Struct(header_fields()), false);
                Self::Headers(Box::new(ListBuilder::new(pair).with_field(item)))
            }
        }
    }

    /// Appends the value of one row; the bytes it takes.
    fn push(&mut self, facts: &Facts<'_>) -> usize {
        match self {
            Self::Timestamp(builder) => {
                builder.append_option(facts.timestamp);
                8
            }
            Self::Offset(builder) => {
                builder.append_value(facts.offset);
                8
            }
            Self::Key(builder) => {
                builder.append_option(facts.key);
                facts.key.map_or(4, |key| key.len() + 4)
            }
            Self::Value(builder) => {
                builder.append_option(facts.value);
                facts.value.map_or(4, |value| value.len() + 4)
            }
            Self::Topic(builder) => {
                builder.append_value(facts.topic);
                facts.topic.len() + 4
            }
            Self::Partition(builder) => {
                builder.append_value(facts.partition);
                4
            }
            Self::Headers(builder) => push_headers(builder, facts.headers),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Timestamp(builder) => Arc::new(builder.finish()),
            Self::Offset(builder) => Arc::new(builder.finish()),
            Self::Key(builder) | Self::Value(builder) => Arc::new(builder.finish()),
            Self::Topic(builder) => Arc::new(builder.finish()),
            Self::Partition(builder) => Arc::new(builder.finish()),
            Self::Headers(builder) => Arc::new(builder.finish()),
        }
    }
}

fn push_headers(builder: &mut ListBuilder<StructBuilder>, headers: &[Header]) -> usize {
    let mut bytes = 4;
    for (name, value) in headers {
        let pair = builder.values();
        // Both fields are there: the builder was made with them.
        if let Some(names) = pair.field_builder::<StringBuilder>(0) {
            names.append_value(name);
        }
        if let Some(values) = pair.field_builder::<BinaryBuilder>(1) {
            values.append_option(value.as_deref());
        }
        pair.append(true);
        bytes += name.len() + value.as_ref().map_or(0, Vec::len) + 8;
    }
    builder.append(true);
    bytes
}

/// The values of these columns for the rows of a batch.
#[derive(Debug)]
pub(crate) struct MetadataRows {
    columns: Vec<(FieldRef, Builder)>,
    bytes: usize,
}

impl MetadataRows {
    /// Appends what is known of a record to each of its rows.
    pub(crate) fn push(&mut self, facts: &Facts<'_>, rows: usize) {
        for (_, builder) in &mut self.columns {
            for _ in 0..rows {
                self.bytes += builder.push(facts);
            }
        }
    }

    pub(crate) fn memory_size(&self) -> usize {
        self.bytes
    }

    /// Adds the columns to a batch of these rows.
    ///
    /// # Errors
    /// `Unexpected` when they are not as many as its rows.
    pub(crate) fn finish(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        self.bytes = 0;
        let (schema, mut columns, _) = batch.into_parts();
        let mut fields: Vec<FieldRef> = schema.fields().iter().cloned().collect();
        for (field, builder) in &mut self.columns {
            fields.push(Arc::clone(field));
            columns.push(builder.finish());
        }
        let schema = Schema::new_with_metadata(fields, schema.metadata().clone());
        RecordBatch::try_new(Arc::new(schema), columns).map_err(|e| {
            Error::new(ErrorKind::Unexpected, "cannot add the metadata columns to a batch")
                .with_operation("kafka.decode")
                .with_source(e)
        })
    }
}

#[cfg(test)]
mod tests {
    use connector_core::arrow::{
        array::{Array, AsArray, Int64Array},
        datatypes::{Int32Type, Int64Type, TimestampMillisecondType},
    };

    use super::*;

    fn table() -> TableSchema {
        TableSchema::new(Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)])))
    }

    #[test]
    fn every_column_has_its_type_and_its_value() {
        let columns = MetadataColumns::new(MetadataColumn::ALL).unwrap();
        columns.check(&table().columns).unwrap();
        let mut rows = columns.rows().unwrap();
        let headers = [
            ("trace".to_owned(), Some(b"1".to_vec())),
            ("trace".to_owned(), None),
            ("x".to_owned(), Some(Vec::new())),
        ];
        let first = Facts {
            topic: "orders",
            partition: 3,
            offset: 7,
            timestamp: Some(1_767_225_600_123),
            key: Some(b"k"),
            value: Some(b"{}"),
            headers: &headers,
        };
        rows.push(&first, 2);
        rows.push(&Facts { timestamp: None, key: None, value: None, headers: &[], offset: 8, ..first }, 1);
        assert!(rows.memory_size() > 0);
        let ids = Int64Array::from(vec![1, 2, 3]);
        let batch = RecordBatch::try_new(Arc::clone(&table().columns), vec![Arc::new(ids)]).unwrap();
        let batch = rows.finish(batch).unwrap();
        assert_eq!(batch.schema().fields(), columns.added_to(&table()).columns.fields());
        let column = |name: &str| Arc::clone(batch.column_by_name(name).unwrap());
        assert_eq!(column("offset").as_primitive::<Int64Type>().values().as_ref(), [7, 7, 8]);
        assert_eq!(column("partition").as_primitive::<Int32Type>().values().as_ref(), [3, 3, 3]);
        let times = column("timestamp");
        let times = times.as_primitive::<TimestampMillisecondType>();
        assert_eq!((times.value(0), times.is_null(2)), (1_767_225_600_123, true));
        assert_eq!(column("topic").as_string::<i32>().value(1), "orders");
        assert_eq!((column("key").as_binary::<i32>().value(0), column("key").is_null(2)), (&b"k"[..], true));
        assert_eq!(column("value").as_binary::<i32>().value(1), b"{}");
        let lists = column("headers");
        let lists = lists.as_list::<i32>();
        assert_eq!((lists.value_length(0), lists.value_length(2), lists.is_null(2)), (3, 0, false));
        let pairs = lists.value(0);
        let pairs = pairs.as_struct();
        assert_eq!(pairs.column(0).as_string::<i32>().value(1), "trace");
        let values = pairs.column(1).as_binary::<i32>();
        assert_eq!((values.is_null(1), values.is_null(2), values.value(2)), (true, false, &b""[..]));
    }

    #[test]
    fn clashes_are_refused() {
        let columns = MetadataColumns::new(&[MetadataColumn::Offset]).unwrap();
        let schema = Schema::new(vec![Field::new("Offset", DataType::Int64, false)]);
        let error = columns.check(&schema).unwrap_err();
        assert_eq!(
            (error.kind(), error.context_value("column")),
            (ErrorKind::SchemaMismatch, Some("Offset"))
        );
        // The names are whole: a column that merely holds one is no clash.
        columns.check(&Schema::new(vec![Field::new("event_offset", DataType::Int64, false)])).unwrap();
        let twice = MetadataColumns::new(&[MetadataColumn::Key, MetadataColumn::Key]).unwrap_err();
        assert_eq!(twice.kind(), ErrorKind::OptionInvalid);
    }
}
