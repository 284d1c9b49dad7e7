#![doc = include_str!("../README.md")]

mod client;
mod date_pattern;
mod error;
pub mod format;
pub mod options;
mod properties;
mod schema_registry;
pub mod sink;
pub mod source;
mod tokens;

pub use format::{Avro, Changes, Csv, Format, Json, MetadataColumn, Raw};
pub use options::{Assignment, AutoOffsetReset, FormatType, JobType, KafkaSourceOptions, StartupMode};
pub use schema_registry::{SchemaRegistry, SchemaRegistryBuilder};
pub use sink::{KafkaSink, KafkaSinkBuilder, KafkaSinkOptions, KafkaWriter, KeyFormat};
pub use source::{KafkaOffset, KafkaReader, KafkaSource, KafkaSourceBuilder, KafkaSplit};
pub use tokens::{OauthToken, OauthTokenProvider};
