//! What all tests use.

use std::sync::Arc;

use bytehouse_testkit::{BytehouseDouble, DoubleOptions};
use connector_bytehouse_common::{
    error::server_code,
    native::{BlockEncoder, EncodeRules},
    wire::{Client, ClientOptions, InsertSummary, Settings},
};
use connector_core::{
    Result, Secret,
    arrow::{
        array::{ArrayRef, RecordBatch},
        datatypes::{Field, Schema},
        util::display::array_value_to_string,
    },
};

/// A double with its defaults.
pub(crate) async fn start() -> BytehouseDouble {
    BytehouseDouble::start(DoubleOptions::default()).await.unwrap()
}

/// A double with these statements run.
pub(crate) async fn start_with(statements: &[&str]) -> BytehouseDouble {
    let double = start().await;
    for sql in statements {
        double.execute(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
    double
}

/// How to reach a double with its default token.
pub(crate) fn options(double: &BytehouseDouble) -> ClientOptions {
    let mut options = ClientOptions::new("127.0.0.1", double.addr().port());
    options.user = "bytehouse".into();
    options.password = Secret::new(DoubleOptions::TOKEN);
    options
}

pub(crate) async fn client(double: &BytehouseDouble) -> Client {
    Client::connect(options(double)).await.unwrap()
}

/// The cells of a batch as text.
pub(crate) fn cells(batch: &RecordBatch) -> Vec<Vec<String>> {
    (0..batch.num_rows())
        .map(|row| batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap()).collect())
        .collect()
}

/// What the double itself answers, as text.
pub(crate) fn ask(double: &BytehouseDouble, sql: &str) -> Vec<Vec<String>> {
    cells(&double.execute(sql).unwrap_or_else(|e| panic!("{sql}: {e}")))
}

/// A single row of the double's answer, joined by blanks.
pub(crate) fn line(double: &BytehouseDouble, sql: &str) -> String {
    let rows = ask(double, sql);
    assert_eq!(rows.len(), 1, "{sql}: {rows:?}");
    rows[0].join(" ")
}

/// The code of the exception that the double answers with.
pub(crate) fn refused(double: &BytehouseDouble, sql: &str) -> i32 {
    match double.execute(sql) {
        Ok(_) => panic!("{sql} went through"),
        Err(error) => error.code(),
    }
}

/// What a client gets, as text.
pub(crate) async fn fetch(client: &mut Client, sql: &str) -> Result<Vec<Vec<String>>> {
    let mut stream = client.query(sql, &Settings::new()).await?;
    let mut rows = Vec::new();
    while let Some(block) = stream.next_block().await? {
        rows.extend(cells(&block.rows));
    }
    Ok(rows)
}

/// The code of an exception that came over the wire.
pub(crate) fn code(error: &connector_core::Error) -> Option<i32> {
    server_code(error)
}

pub(crate) fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let fields: Vec<Field> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

/// Sends batches as the blocks of one INSERT.
pub(crate) async fn insert(
    client: &mut Client,
    sql: &str,
    batches: &[RecordBatch],
    settings: &Settings,
) -> Result<InsertSummary> {
    let mut stream = client.begin_insert(sql, settings, None).await?;
    for batch in batches {
        let block = encode(batch, stream.columns());
        stream.send(&block).await?;
    }
    stream.finish().await
}

pub(crate) fn encode(
    batch: &RecordBatch,
    columns: &[connector_bytehouse_common::native::ColumnDef],
) -> Vec<u8> {
    let mut block = Vec::new();
    let encoder = BlockEncoder::new(&batch.schema(), columns, &EncodeRules::default()).unwrap();
    encoder.encode(batch, &mut block).unwrap();
    block
}
