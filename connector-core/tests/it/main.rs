//! Integration tests of connector-core.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail the test, and a test awaits the tasks that it spawns"
)]

mod change;
mod checkpoint;
mod conformance;
mod options;
mod pipeline;
mod schema_changes;
mod stored_offsets;
