//! Tests against real servers, in one binary. `docs/testing.md` tells how to run them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod clickhouse;
mod kafka;
mod owned;
mod proxy;
