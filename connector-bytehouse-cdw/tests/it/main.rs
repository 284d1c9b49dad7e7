//! The sink against the in-process double.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod conformance;
mod faults;
mod in_flight;
mod insert;
mod model;
mod modes;
mod options;
mod partial;
mod server_options;
mod splitting;
mod support;
mod upsert;
mod values;
