//! The sink against the in-process double.

mod conformance;
mod faults;
mod insert;
mod options;
mod support;
mod upsert;
