//! Integration tests of connector-core.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod change;
mod checkpoint;
mod conformance;
mod options;
mod pipeline;
mod schema_changes;
