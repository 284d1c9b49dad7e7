//! Tests against real servers, in one binary. `docs/testing.md` tells how to run them.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail the test"
)]

mod bad_input;
mod clickhouse;
mod crashes;
mod kafka;
mod kafka_source;
mod kafka_to_clickhouse;
mod options;
mod outages;
mod owned;
mod proxy;
mod refusals;
