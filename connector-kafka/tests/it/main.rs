//! The source and the sink against librdkafka's in-process mock cluster: no service is needed.
//!
//! What the mock cannot do (times, transactions, compaction, TLS, logins) is tested against a real
//! broker elsewhere.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by a panic")]

mod avro;
mod bad_records;
mod bounded;
mod common;
mod discovery;
mod faults;
mod formats;
mod groups;
mod lifecycle;
mod metadata;
mod options;
mod reading;
mod sink;
mod sink_formats;
mod sink_options;
mod startup;
mod waiting;
