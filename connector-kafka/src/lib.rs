#![doc = include_str!("../README.md")]

mod client;
mod date_pattern;
mod error;
pub mod format;
pub mod options;
mod properties;
pub mod sink;
pub mod source;
mod tokens;

pub use format::{Changes, Csv, Format, Json, MetadataColumn, Raw};
pub use options::{Assignment, AutoOffsetReset, FormatType, JobType, KafkaSourceOptions, StartupMode};
pub use sink::{KafkaSink, KafkaSinkBuilder, KafkaSinkOptions, KafkaWriter, KeyFormat};
pub use source::{KafkaOffset, KafkaReader, KafkaSource, KafkaSourceBuilder, KafkaSplit};
pub use tokens::{OauthToken, OauthTokenProvider};
