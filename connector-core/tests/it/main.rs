//! Integration tests of connector-core.
mod change;
mod checkpoint;
mod conformance;
mod options;
mod pipeline;
mod schema_changes;
