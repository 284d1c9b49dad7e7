//! Conformance suites: the contracts of [`Source`](crate::source::Source) and [`Sink`](crate::sink::Sink)
//! as checks that every connector runs against its own system.
//!
//! The functions panic with a text that names the broken contract, as tests do.
#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "these are assertions for tests")]

mod rows;
mod sink;
mod source;

pub use rows::{change_sequence, orders, orders_schema};
pub use sink::{SinkFixture, check_sink};
pub use source::{SourceFixture, check_source};
