//! The sink against the in-process double.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod conformance;
mod faults;
mod insert;
mod options;
mod support;
mod upsert;
