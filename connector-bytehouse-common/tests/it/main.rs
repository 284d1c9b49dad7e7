//! The wire client against servers that follow a script.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests fail the test")]

mod insert;
mod login;
mod peer;
mod query;
mod tls;
