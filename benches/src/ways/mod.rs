//! What the processes of the bench do, one module a kind of work.

pub(crate) mod avro;
pub(crate) mod client;
pub(crate) mod compose;
pub(crate) mod decode;
pub(crate) mod fluss;
pub(crate) mod insert;
pub(crate) mod peers;
pub(crate) mod pipeline;
pub(crate) mod read;
pub(crate) mod write;

use anyhow::{Context as _, Result};
use connector_core::arrow::{array::AsArray as _, array::RecordBatch, compute::sum, datatypes::UInt64Type};

use crate::{cli::Job, orders};

/// Counts orders and adds up their ids, as they are read.
#[derive(Debug, Default)]
struct Tally {
    rows: u64,
    ids: u64,
}

impl Tally {
    fn add(&mut self, batch: &RecordBatch) {
        self.rows += batch.num_rows() as u64;
        self.ids += sum(batch.column(0).as_primitive::<UInt64Type>()).unwrap_or(0);
    }

    /// Fails unless exactly the orders with the ids from 0 on were read.
    fn check(&self, rows: u64) -> Result<()> {
        let expected = (rows, orders::id_sum(rows));
        anyhow::ensure!(
            (self.rows, self.ids) == expected,
            "wrong rows were read: {} with a sum of ids of {} instead of {expected:?}",
            self.rows,
            self.ids
        );
        Ok(())
    }
}

/// The native address that a job writes to.
fn address(job: &Job) -> Result<String> {
    job.address.clone().map_or_else(|| Ok(job.way.target.server()?.tcp), Ok)
}

/// Host and port of an address.
fn host_and_port(address: &str) -> Result<(String, u16)> {
    let (host, port) = address.rsplit_once(':').with_context(|| format!("`{address}` has no port"))?;
    Ok((host.to_owned(), port.parse()?))
}
