//! [`BytehouseCdwSinkBuilder`]: options one by one, by the names of [`BytehouseCdwSinkOptions`].

use std::time::Duration;

use connector_core::{
    BadRecordPolicy, Result, Secret,
    options::{IntoValue, PropertyMap, SettingsList},
};

use super::{
    BytehouseCdwSinkOptions, BytehouseCdwSinkOptionsBuilder, CompressionName, KeylessStrategy, SinkModeName,
};
use crate::sink::BytehouseCdwSink;

/// Builds a [`BytehouseCdwSink`]. Setters do not fail; `build` reports every problem at once.
///
/// ```
/// use connector_bytehouse_cdw::{BytehouseCdwSink, SinkModeName};
/// use connector_core::Secret;
///
/// let sink = BytehouseCdwSink::builder()
///     .host("tenant-1.bytehouse.example")
///     .api_token(Secret::new("token"))
///     .virtual_warehouse("vw_load")
///     .table("app.orders")
///     .mode(SinkModeName::Upsert)
///     .build()?;
/// # Ok::<_, connector_core::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct BytehouseCdwSinkBuilder {
    options: BytehouseCdwSinkOptionsBuilder,
    /// The login has no password; the option itself must not be empty.
    without_token: bool,
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => { $(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, value: impl IntoValue<$type>) -> Self {
            self.options = self.options.$name(value);
            self
        }
    )* };
}

impl BytehouseCdwSinkBuilder {
    setters! {
        /// The gateway's host name.
        host: String;
        /// The gateway's native port (19000).
        port: u16;
        /// The compute group.
        virtual_warehouse: String;
        /// One table for all rows; without it rows go to the tables they name.
        table: String;
        /// Which rows are taken and what becomes of them (upsert).
        mode: SinkModeName;
        /// Key columns in upsert mode, where they are not those of the table.
        unique_keys: Vec<String>;
        /// Creates announced tables that are not there (true).
        create_tables: bool;
        /// SETTINGS of created tables.
        create_settings: SettingsList;
        /// What becomes of a table without a key in an upsert mode (appended to).
        keyless: KeylessStrategy;
        /// The longest time that a row waits for its flush (1 s).
        flush_interval: Duration;
        /// Rows that make a flush (50,000).
        flush_max_rows: usize;
        /// INSERTs that wait for their confirmation at the same time (2).
        max_in_flight: usize;
        /// Whether columns that the rows do not bring keep their values (as the table says).
        partial_update: bool;
        /// Tries after the first one (15); -1 is without end.
        max_retries: i32;
        /// The longest wait between tries (32 s).
        max_retry_backoff: Duration;
        /// What happens to a row that its table cannot hold (fail).
        bad_record_policy: BadRecordPolicy;
        /// How blocks are compressed on the wire (none).
        compression: CompressionName;
        /// The longest time that a query may take (180 s).
        query_timeout: Duration;
        /// TLS (on).
        secure: bool;
        /// False for an open-source ClickHouse (true).
        cnch_engine: bool;
        /// user, password, database, sslmode, sslrootcert and the like.
        connection_properties: PropertyMap;
        /// Settings of every INSERT.
        query_settings: SettingsList;
    }

    /// The API token; at an open-source ClickHouse the user's password.
    #[must_use]
    pub fn api_token(mut self, token: impl IntoValue<Secret>) -> Self {
        self.without_token = false;
        self.options = self.options.api_token(token);
        self
    }

    /// An open-source ClickHouse on plain TCP, as user `default` without a password unless told otherwise.
    #[must_use]
    pub fn clickhouse(self, host: impl IntoValue<String>, port: u16) -> Self {
        let sink = self.host(host).port(port).cnch_engine(false).secure(false);
        // Both options are needed by ByteHouse only, and not sent elsewhere.
        let sink = sink.virtual_warehouse("none").api_token(Secret::new("none"));
        Self { without_token: true, ..sink }
    }

    /// All other options, by their keys.
    #[must_use]
    pub fn options(
        mut self,
        change: impl FnOnce(BytehouseCdwSinkOptionsBuilder) -> BytehouseCdwSinkOptionsBuilder,
    ) -> Self {
        self.options = change(self.options);
        self
    }

    /// Checks everything and gives the sink. Connects to nothing.
    ///
    /// # Errors
    /// `OptionInvalid` with everything that is missing, out of bounds or contradicts something else.
    pub fn build(self) -> Result<BytehouseCdwSink> {
        let mut options: BytehouseCdwSinkOptions = self.options.build()?;
        if self.without_token {
            options.api_token = Secret::new("");
        }
        options.try_into()
    }
}
