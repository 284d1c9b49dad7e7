#![doc = include_str!("../README.md")]

mod client;
mod config;
pub mod metrics;
pub mod options;
mod sink;

pub use options::{
    BytehouseCdwSinkBuilder, BytehouseCdwSinkOptions, BytehouseCdwWriterOptions, CompressionName,
    SinkModeName,
};
pub use sink::{BytehouseCdwSink, BytehouseCdwWriter};
