//! The sink against the in-process double.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod atomic;
mod conformance;
mod evolution;
mod faults;
mod in_flight;
mod insert;
mod many_tables;
mod model;
mod modes;
mod options;
mod partial;
mod server_options;
mod splitting;
mod support;
mod tables;
mod upsert;
mod values;
