//! The servers that the environment names, and what their processes cost.

use std::{env, fs, path::Path};

use anyhow::{Context as _, Result};
use connector_tests::services::{self, Clickhouse, Fluss, Kafka, Service, Version};

use crate::measure::process_cpu;

/// The Kafka of this run.
pub(crate) fn kafka() -> Result<Kafka> {
    services::kafka().context("Kafka does not run; use ./dev bench, or ./dev services start")
}

/// The Fluss cluster of this run.
pub(crate) fn fluss() -> Result<Fluss> {
    services::fluss().context("Fluss does not run; use ./dev bench, or ./dev services start")
}

/// A ClickHouse of this run.
pub(crate) fn clickhouse(version: Version) -> Result<Clickhouse> {
    match version {
        Version::V18 => services::clickhouse_18(),
        Version::Current => services::clickhouse_current(),
    }
    .context("ClickHouse does not run; use ./dev bench, or ./dev services start")
}

/// Seconds of CPU of a server so far; `None` where the environment does not tell its process.
pub(crate) fn server_cpu(service: Service) -> Option<f64> {
    process_cpu(process_of(service)?).ok()
}

/// Seconds of CPU of all servers so far.
pub(crate) fn all_servers_cpu() -> f64 {
    [Service::Kafka, Service::Clickhouse18, Service::ClickhouseCurrent]
        .into_iter()
        .filter_map(server_cpu)
        .sum()
}

/// The process that a start script has noted.
fn process_of(service: Service) -> Option<u32> {
    let run = env::var_os("CONNECTOR_TEST_RUN_DIR")?;
    let note = fs::read_to_string(Path::new(&run).join(service.name()).join("pid")).ok()?;
    note.split_whitespace().next()?.parse().ok()
}
