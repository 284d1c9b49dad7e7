//! What the decoder takes, what it refuses, and what it says then.

mod bugs;
mod keys;
mod nested;
mod properties;
mod rollback;
mod scalars;
mod syntax;
mod times;

use std::sync::Arc;

use connector_core::arrow::{
    array::{ArrayRef, RecordBatch},
    datatypes::{DataType, Field, Schema, SchemaRef},
};

use super::{Json, JsonDecoder, JsonError, JsonErrorKind, JsonOptions};

fn schema(fields: impl IntoIterator<Item = (&'static str, DataType, bool)>) -> SchemaRef {
    let fields = fields.into_iter().map(|(name, data_type, nullable)| Field::new(name, data_type, nullable));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn decoder(schema: &SchemaRef, options: JsonOptions) -> JsonDecoder {
    JsonDecoder::new(Arc::clone(schema), options).unwrap()
}

/// Decodes records, all of which have to be good.
fn batch(schema: &SchemaRef, options: JsonOptions, records: &[&str]) -> RecordBatch {
    let mut decoder = decoder(schema, options);
    for record in records {
        decoder.decode(record.as_bytes()).unwrap_or_else(|e| panic!("{record}: {e}"));
    }
    assert_eq!(decoder.len(), records.len());
    let batch = decoder.finish().unwrap();
    assert!(decoder.is_empty());
    batch
}

/// Decodes `value` as the only field `v`, which may not be null.
fn value_with(data_type: &DataType, options: JsonOptions, value: &str) -> Result<ArrayRef, JsonError> {
    let schema = schema([("v", data_type.clone(), false)]);
    let mut decoder = decoder(&schema, options);
    let result = decoder.decode(format!(r#"{{"v":{value}}}"#).as_bytes());
    let batch = decoder.finish().unwrap();
    assert_eq!(batch.num_rows(), usize::from(result.is_ok()));
    result.map(|()| Arc::clone(batch.column(0)))
}

fn value(data_type: &DataType, value: &str) -> Result<ArrayRef, JsonError> {
    value_with(data_type, JsonOptions::default(), value)
}

/// The kind of error that `text` gives in a column of this type.
fn refusal(data_type: &DataType, text: &str) -> JsonErrorKind {
    match value(data_type, text) {
        Ok(array) => panic!("{text} was taken as {array:?}"),
        Err(error) => {
            assert_eq!(error.path(), "v", "{error}");
            error.kind()
        }
    }
}

#[test]
fn a_format_names_its_table_and_makes_decoders() {
    let columns = schema([("id", DataType::Int64, false), ("name", DataType::Utf8, true)]);
    let json = Json::with_schema(Arc::clone(&columns)).primary_key(["id"]).unwrap().coerce_to_text(true);
    assert_eq!(json.table_schema().primary_key, ["id"]);
    let mut decoder = json.decoder().unwrap();
    assert_eq!(decoder.schema(), &columns);
    assert!(decoder.options().coerce_to_text);
    decoder.decode(br#"{"id":1,"name":2}"#).unwrap();
    assert_eq!(decoder.finish().unwrap().schema(), columns);

    let format = crate::format::Format::from(json);
    assert_eq!((format.name(), &format.table_schema().unwrap().columns), ("json", &columns));
    let error = Json::with_schema(columns).primary_key(["none"]).unwrap_err();
    assert_eq!(error.kind(), connector_core::ErrorKind::SchemaMismatch);
}
