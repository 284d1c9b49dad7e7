//! The sink against the in-process double.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod atomic;
mod conformance;
mod evolution;
mod faults;
mod insert;
mod options;
mod support;
mod tables;
mod upsert;
