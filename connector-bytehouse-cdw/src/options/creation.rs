//! Options of created tables, in both spellings.

use connector_core::{option_enum, options::Problems};

use crate::sink::Keyless;

option_enum! {
    /// What to do in an upsert mode with a table that has no key upstream.
    pub enum KeylessStrategy {
        /// It is not created; its rows are dropped and counted.
        Skip = "SKIP",
        /// It is created without a key and appended to.
        CreateAsAppend = "CREATE_AS_APPEND",
    }
}

impl From<KeylessStrategy> for Keyless {
    fn from(strategy: KeylessStrategy) -> Self {
        match strategy {
            KeylessStrategy::Skip => Self::Skip,
            KeylessStrategy::CreateAsAppend => Self::Append,
        }
    }
}

/// Reports a number of buckets without columns to spread by, and the reverse; `CLUSTER BY` is ByteHouse's own.
pub(super) fn check_buckets(
    columns: Option<&Vec<String>>,
    buckets: Option<u32>,
    cnch: bool,
    problems: &mut Problems,
) {
    let columns = columns.is_some_and(|columns| !columns.is_empty());
    if columns != buckets.is_some() {
        problems.push(
            "job.writer.ddl_create_table_buckets",
            "`job.writer.ddl_create_table_cluster_by_fields` and `job.writer.ddl_create_table_buckets` belong together; give both",
        );
    }
    if buckets == Some(0) {
        problems.push(
            "job.writer.ddl_create_table_buckets",
            "`job.writer.ddl_create_table_buckets` must be at least 1",
        );
    }
    if columns && !cnch {
        problems.push(
            "job.writer.ddl_create_table_cluster_by_fields",
            "`job.writer.ddl_create_table_cluster_by_fields` needs ByteHouse: an open-source ClickHouse has no CLUSTER BY",
        );
    }
}

/// Reports settings whose names are none.
pub(super) fn check_settings(
    key: &str,
    settings: &connector_core::options::SettingsList,
    problems: &mut Problems,
) {
    for setting in settings.iter() {
        if let Err(error) = connector_bytehouse_common::sql::setting_assignment(&setting.name, &setting.value)
        {
            problems.push(key, format!("`{key}`: {}", error.message()));
        }
    }
}
