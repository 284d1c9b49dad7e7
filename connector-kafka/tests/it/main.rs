//! The source against librdkafka's in-process mock cluster: no service is needed.
//!
//! What the mock cannot do (times, transactions, compaction, TLS, logins) is tested against a real
//! broker elsewhere.

mod bad_records;
mod bounded;
mod common;
mod discovery;
mod faults;
mod lifecycle;
mod options;
mod reading;
mod startup;
