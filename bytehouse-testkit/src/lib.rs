#![doc = include_str!("../README.md")]

mod engine;
mod exception;
mod fault;
mod log;
mod options;
mod server;
mod sql;

pub use exception::Exception;
pub use fault::{Fault, Point};
pub use log::{LogEntry, Outcome};
pub use options::{DoubleOptions, Tls, User};
pub use server::BytehouseDouble;
