//! `clickhouse-client` with a file in its standard input.

use std::{
    fs::File,
    io::{BufWriter, Write as _},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context as _, Result, ensure};

use super::{address, host_and_port};
use crate::{
    cli::Job,
    measure::{Outcome, children_cpu},
    raw::put_native,
    rows,
};

/// Pipes a file of the format Native. What it costs to start the client is taken off: it is measured with a
/// query that does nothing.
pub(crate) fn run(job: &Job) -> Result<Outcome> {
    let path = job.folder.join("rows.native");
    let mut file = BufWriter::new(File::create(&path)?);
    let mut block = Vec::new();
    for batch in rows::batches(job.rows)? {
        block.clear();
        put_native(&mut block, &batch, &rows::TYPES)?;
        file.write_all(&block)?;
    }
    file.flush()?;
    drop(file);
    let address = address(job)?;
    let start = query(&address, "SELECT 1 FORMAT Null", Stdio::null())?;
    let statement = format!("INSERT INTO {} {} FORMAT Native", job.table, rows::NAMES);
    let insert = query(&address, &statement, File::open(&path)?.into())?;
    Outcome::of_process(job.rows, insert.0 - start.0, insert.1 - start.1)
}

/// Seconds of time and CPU that one call of the client takes.
fn query(address: &str, sql: &str, input: Stdio) -> Result<(f64, f64)> {
    let (host, port) = host_and_port(address)?;
    let (began, before) = (Instant::now(), children_cpu()?);
    let status = Command::new("clickhouse-client")
        .args(["--host", &host, "--port", &port.to_string(), "--query", sql])
        .stdin(input)
        .stdout(Stdio::null())
        .status()
        .context("clickhouse-client cannot be run; ./dev bench installs it")?;
    ensure!(status.success(), "clickhouse-client: {status}");
    Ok((began.elapsed().as_secs_f64(), children_cpu()? - before))
}
