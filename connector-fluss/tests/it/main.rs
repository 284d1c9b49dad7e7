//! Tests of the connector that need no cluster; those that do are in `tests/tests/it`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod options;
