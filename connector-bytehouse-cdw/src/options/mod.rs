//! The sink's options in both spellings, and the builder.
//!
//! [`BytehouseCdwSinkOptions`] has the keys of Flink CDC's YAML (`sink.buffer-flush.interval`),
//! [`BytehouseCdwWriterOptions`] those of DataSail (`job.writer.flush_interval`). Both come down to one
//! configuration; [`BytehouseCdwSink::from_options`] finds out which one a map speaks.

mod builder;
mod connection;
mod creation;
mod datasail;
mod flink;

use connector_bytehouse_common::wire::Compression;
use connector_core::{
    Error, ErrorKind, Result, option_enum,
    options::{Problems, RawOptions, RawValue, detect_dialect},
};

pub use self::{
    builder::BytehouseCdwSinkBuilder,
    creation::KeylessStrategy,
    datasail::{BytehouseCdwWriterOptions, BytehouseCdwWriterOptionsBuilder},
    flink::{BytehouseCdwSinkOptions, BytehouseCdwSinkOptionsBuilder},
};
use crate::{config::SinkMode, sink::BytehouseCdwSink};

option_enum! {
    /// Which rows the sink takes, by the names of Flink CDC's `sink.mode`.
    pub enum SinkModeName {
        /// `+I` rows are appended.
        Insert = "insert",
        /// Rows replace or delete the row of their key.
        Upsert = "upsert",
        /// As upsert, deletes left out.
        UpsertNoDelete = "upsert-no-delete",
        /// All four kinds.
        UpsertAll = "upsert-all",
        /// All kinds but deletes; an update that moves a row deletes the old one.
        UpsertAllNoDelete = "upsert-all-no-delete",
        /// A delete sets every column beside the key to null.
        UpsertWithDeleteToNull = "upsert-with-delete-to-null",
        /// Deletes only.
        DeleteOnly = "delete-only",
    }
}

impl From<SinkModeName> for SinkMode {
    fn from(name: SinkModeName) -> Self {
        match name {
            SinkModeName::Insert => Self::Insert,
            SinkModeName::Upsert => Self::Upsert,
            SinkModeName::UpsertNoDelete => Self::UpsertNoDelete,
            SinkModeName::UpsertAll => Self::UpsertAll,
            SinkModeName::UpsertAllNoDelete => Self::UpsertAllNoDelete,
            SinkModeName::UpsertWithDeleteToNull => Self::UpsertWithDeleteToNull,
            SinkModeName::DeleteOnly => Self::DeleteOnly,
        }
    }
}

option_enum! {
    /// How blocks are compressed on the wire.
    pub enum CompressionName {
        /// Not at all: fastest where the network is faster than about 300 MB/s.
        None = "none",
        /// LZ4.
        Lz4 = "lz4",
        /// Zstandard.
        Zstd = "zstd",
    }
}

impl From<CompressionName> for Compression {
    fn from(name: CompressionName) -> Self {
        match name {
            CompressionName::None => Self::None,
            CompressionName::Lz4 => Self::Lz4,
            CompressionName::Zstd => Self::Zstd,
        }
    }
}

impl BytehouseCdwSink {
    /// A sink from keys and values in either spelling.
    ///
    /// ```
    /// use connector_bytehouse_cdw::BytehouseCdwSink;
    ///
    /// BytehouseCdwSink::from_options([
    ///     ("host", "tenant-1.bytehouse.example"),
    ///     ("virtual-warehouse", "vw_load"),
    ///     ("api-token", "secret"),
    ///     ("sink.mode", "insert"),
    /// ])?;
    /// BytehouseCdwSink::from_options([
    ///     ("job.writer.host", "tenant-1.bytehouse.example"),
    ///     ("job.writer.virtual_warehouse", "vw_load"),
    ///     ("job.writer.token", "secret"),
    ///     ("job.writer.db_name", "app"),
    ///     ("job.writer.table_name", "orders"),
    /// ])?;
    /// # Ok::<_, connector_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// `OptionInvalid` with everything that is wrong, also when both spellings are mixed.
    pub fn from_options<K, V>(options: impl IntoIterator<Item = (K, V)>) -> Result<Self>
    where
        K: Into<String>,
        V: Into<RawValue>,
    {
        let raw: RawOptions = options.into_iter().collect();
        let set = detect_dialect(&[BytehouseCdwSinkOptions::SET, BytehouseCdwWriterOptions::SET], &raw)?;
        if set.dialect == BytehouseCdwSinkOptions::SET.dialect {
            BytehouseCdwSinkOptions::from_raw(raw)?.try_into()
        } else {
            BytehouseCdwWriterOptions::from_raw(raw)?.try_into()
        }
    }
}

/// Settings that would be the same with every INSERT, and must not be, or whose rows could get lost.
fn check_settings<'a>(
    key: &str,
    settings: impl Iterator<Item = (&'a str, &'a str)>,
    problems: &mut Problems,
) {
    for (name, value) in settings {
        let reason = match name {
            "insert_deduplication_token" | "insertion_label" => {
                "with the same value in every INSERT the server would keep the first one only; the sink makes tokens \
                 itself, and labels where the option for them is on"
            }
            "wait_for_async_insert" if matches!(value, "0" | "false") => {
                "the server would confirm rows that it has not stored"
            }
            _ => continue,
        };
        problems.push(key, format!("`{key}` sets `{name}`: {reason}; leave it out"));
    }
}

/// Options that have no meaning without keys.
fn check_keys(key: &str, keys: Option<&Vec<String>>, mode: SinkMode, problems: &mut Problems) {
    if !mode.is_keyed() && keys.is_some_and(|keys| !keys.is_empty()) {
        problems.push(key, format!("`{key}` has no meaning in mode insert; use upsert or leave it out"));
    }
}

/// A table name given in an option.
fn table(key: &str, text: &str) -> Result<connector_core::TableId> {
    text.parse().map_err(|e: Error| Error::new(ErrorKind::OptionInvalid, format!("`{key}`: {}", e.message())))
}

#[cfg(test)]
mod tests;
