//! Tests against real servers, in one binary. `docs/testing.md` tells how to run them.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail the test"
)]

mod atomic;
mod bad_input;
mod bounded;
#[path = "../../../connector-bytehouse-cdw/tests/it/model.rs"]
mod cdw_model;
mod cdw_modes;
mod cdw_types;
mod clickhouse;
mod columns;
mod conformance;
mod crashes;
mod drivers;
mod faults_clickhouse;
mod faults_kafka;
mod fluss;
mod fluss_faults;
mod fluss_full;
mod fluss_lookup;
mod fluss_types;
mod groups;
mod kafka;
mod kafka_avro;
mod kafka_cluster;
mod kafka_exactly_once;
mod kafka_fluss_clickhouse;
mod kafka_interop;
mod kafka_rights;
mod kafka_sink;
mod kafka_source;
mod kafka_to_clickhouse;
mod observability;
mod options;
mod outages;
mod owned;
mod proxy;
mod refusals;
mod secure;
mod tables;
mod types;
mod values;
