//! Runs a statement over the native protocol and prints its rows, tab by tab.
//!
//! ```text
//! BYTEHOUSE_PASSWORD=token cargo run -p connector-bytehouse-common --example native_client -- \
//!     --host tenant-1.bytehouse.example --tls verify-full --user bytehouse --setting virtual_warehouse=vw_load \
//!     "SELECT * FROM app.orders LIMIT 10"
//! ```
//!
//! `--into TABLE` inserts the rows into a table instead (the columns by their names), `--limit N` cancels the
//! query after N rows, `--ping` asks for a sign of life only, `--describe TABLE` prints a table's columns and keys.

use std::{error::Error, time::Duration};

use connector_bytehouse_common::{
    catalog::{describe_table, table_definition},
    native::{BlockEncoder, EncodeRules},
    sql::{quote_idents, quote_table},
    wire::{Client, ClientOptions, Compression, Pem, Settings, TlsOptions, Verify},
};
use connector_core::{
    Secret, TableId,
    arrow::{
        array::RecordBatch,
        util::display::{ArrayFormatter, FormatOptions},
    },
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const USAGE: &str = "native_client [--host H] [--port P] [--user U] [--database D] [--revision R]
    [--tls verify-full|verify-ca|none] [--ca FILE] [--compression none|lz4|zstd] [--setting NAME=VALUE]...
    [--timeout SECONDS] [--ping | --describe TABLE | [--limit ROWS | --into TABLE] SQL]
The password comes from the environment variable BYTEHOUSE_PASSWORD.";

enum Task {
    Ping,
    Describe(TableId),
    Print { sql: String, limit: Option<usize> },
    Copy { sql: String, into: TableId },
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let (options, task) = arguments()?;
    let mut client = Client::connect(options.clone()).await?;
    let server = client.server_info();
    eprintln!(
        "{} {} ({}), time zone {}, revision {} of {}",
        server.name,
        server.version(),
        server.display_name,
        server.timezone,
        client.revision(),
        server.revision
    );
    match task {
        Task::Ping => client.ping().await?,
        Task::Describe(table) => describe(&mut client, &table).await?,
        Task::Print { sql, limit } => print(&mut client, &sql, limit).await?,
        Task::Copy { sql, into } => copy(&mut client, options, &sql, &into).await?,
    }
    Ok(())
}

async fn print(client: &mut Client, sql: &str, limit: Option<usize>) -> Result<()> {
    let mut stream = client.query(sql, &Settings::new()).await?;
    let mut rows = 0;
    while let Some(block) = stream.next_block().await? {
        if rows == 0 {
            let names: Vec<_> = block.columns.iter().map(|column| column.name.as_str()).collect();
            println!("{}", names.join("\t"));
        }
        let here = limit.map_or(usize::MAX, |limit| limit - rows).min(block.rows.num_rows());
        print_rows(&block.rows.slice(0, here))?;
        rows += here;
        if Some(rows) == limit {
            stream.cancel().await?;
            eprintln!(
                "cancelled after {rows} rows; the connection is {}",
                if client.is_usable() { "free" } else { "closed" }
            );
            return Ok(());
        }
    }
    let summary = stream.summary();
    eprintln!("{rows} rows in {:?}; the server read {} rows", summary.elapsed, summary.progress.read_rows);
    Ok(())
}

fn print_rows(rows: &RecordBatch) -> Result<()> {
    let options = FormatOptions::default().with_null("\\N");
    let columns: Vec<_> = rows
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column, &options))
        .collect::<std::result::Result<_, _>>()?;
    for row in 0..rows.num_rows() {
        let values: Vec<_> = columns.iter().map(|column| column.value(row).to_string()).collect();
        println!("{}", values.join("\t"));
    }
    Ok(())
}

/// Reads on one connection and inserts on another; nothing is stored when the reading fails.
async fn copy(source: &mut Client, options: ClientOptions, sql: &str, into: &TableId) -> Result<()> {
    let mut stream = source.query(sql, &Settings::new()).await?;
    let Some(first) = stream.next_block().await? else {
        eprintln!("no rows");
        return Ok(());
    };
    let names = quote_idents(first.columns.iter().map(|column| column.name.as_str()));
    let mut target = Client::connect(options).await?;
    let statement = format!("INSERT INTO {} ({names}) VALUES", quote_table(into));
    let mut insert = target.begin_insert(&statement, &Settings::new(), None).await?;
    let encoder = BlockEncoder::new(&first.rows.schema(), insert.columns(), &EncodeRules::default())?;
    let mut bytes = Vec::new();
    let mut rows = 0;
    let mut next = Some(first);
    while let Some(block) = next {
        bytes.clear();
        encoder.encode(&block.rows, &mut bytes)?;
        insert.send(&bytes).await?;
        rows += block.rows.num_rows();
        next = stream.next_block().await?;
    }
    let summary = insert.finish().await?;
    eprintln!(
        "{rows} rows in {} blocks, {} bytes ({} on the wire), confirmed after {:?}",
        summary.blocks, summary.bytes, summary.bytes_on_wire, summary.elapsed
    );
    Ok(())
}

async fn describe(client: &mut Client, table: &TableId) -> Result<()> {
    for column in describe_table(client, table).await? {
        let kind = format!("{:?}", column.default_kind);
        println!(
            "{}\t{}\t{kind}\t{}\t{}",
            column.name, column.type_text, column.default_expression, column.comment
        );
    }
    println!("{:#?}", table_definition(client, table).await?);
    Ok(())
}

fn arguments() -> Result<(ClientOptions, Task)> {
    let mut options = ClientOptions::new("127.0.0.1", 9000);
    options.password = Secret::new(std::env::var("BYTEHOUSE_PASSWORD").unwrap_or_default());
    let (mut sql, mut limit, mut into, mut task) = (None, None, None, None);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        if arg == "--ping" {
            task = Some(Task::Ping);
            continue;
        }
        if !arg.starts_with("--") {
            sql = Some(arg);
            continue;
        }
        let value = args.next().ok_or(USAGE)?;
        match arg.as_str() {
            "--host" => options.host = value,
            "--port" => options.port = value.parse()?,
            "--user" => options.user = value,
            "--database" => options.database = value,
            "--revision" => options.revision = value.parse()?,
            "--timeout" => options.query_timeout = Some(Duration::from_secs(value.parse()?)),
            "--tls" => options.tls.get_or_insert_default().verify = value.parse::<Verify>()?,
            "--ca" => {
                options.tls.get_or_insert_with(TlsOptions::default).root_certificate =
                    Some(Pem::File(value.into()))
            }
            "--compression" => {
                options.compression = match value.as_str() {
                    "none" => Compression::None,
                    "lz4" => Compression::Lz4,
                    "zstd" => Compression::Zstd,
                    _ => return Err(USAGE.into()),
                }
            }
            "--setting" => {
                let (name, value) = value.split_once('=').ok_or(USAGE)?;
                options.settings.set(name, value);
            }
            "--limit" => limit = Some(value.parse()?),
            "--into" => into = Some(value.parse()?),
            "--describe" => task = Some(Task::Describe(value.parse()?)),
            _ => return Err(USAGE.into()),
        }
    }
    let task = match (task, sql, into) {
        (Some(task), ..) => task,
        (None, Some(sql), Some(into)) => Task::Copy { sql, into },
        (None, Some(sql), None) => Task::Print { sql, limit },
        (None, None, _) => return Err(USAGE.into()),
    };
    Ok((options, task))
}
