//! Which settings there are, of sessions and of tables.

use connector_bytehouse_common::{
    native::ChType,
    wire::settings::{SettingType, setting_type},
};

use super::catalog::{Behaviour, TableDef};
use crate::{
    exception::{Result, exception},
    sql::ast::DefaultKind,
};

/// Settings that tests and connectors look at in `system.settings`.
const SHOWN: [&str; 17] = [
    "dedup_key_mode",
    "dialect_type",
    "enable_unique_partial_update",
    "insert_deduplicate",
    "insert_deduplication_token",
    "insertion_label",
    "max_block_size",
    "max_execution_time",
    "max_insert_block_size",
    "max_partitions_per_insert_block",
    "max_threads",
    "network_compression_method",
    "readonly",
    "receive_timeout",
    "send_timeout",
    "session_timezone",
    "virtual_warehouse",
];

/// Settings that the wire's table does not have, because it holds those of older servers only.
const NEWER: [&str; 9] = [
    "allow_experimental_object_type",
    "async_insert",
    "async_insert_deduplicate",
    "date_time_output_format",
    "input_format_null_as_default",
    "insert_deduplicate",
    "wait_for_async_insert",
    "output_format_native_write_json_as_string",
    "virtual_warehouse_write",
];

/// Name and type of the settings that `system.settings` shows.
pub(crate) fn known() -> impl Iterator<Item = (&'static str, &'static str)> {
    SHOWN.into_iter().map(|name| {
        let kind = match setting_type(name) {
            Some(SettingType::Text) | None => "String",
            Some(SettingType::Float) => "Float",
            Some(SettingType::Signed) => "Int64",
            Some(SettingType::Unsigned) => "UInt64",
        };
        (name, kind)
    })
}

/// True for a setting that a server has.
pub(crate) fn is_known(name: &str) -> bool {
    setting_type(name).is_some() || NEWER.contains(&name) || SHOWN.contains(&name)
}

const TABLE_SETTINGS: [&str; 55] = [
    "allow_nullable_key",
    "cloud_enable_staging_area",
    "cnch_merge_enable_batch_select",
    "cnch_vw_default",
    "cnch_vw_read",
    "cnch_vw_task",
    "cnch_vw_write",
    "dedup_impl_version",
    "enable_bucket_level_unique_keys",
    "enable_cache_warm_up",
    "enable_disk_based_unique_key_index",
    "enable_local_disk_cache",
    "enable_mixed_granularity_parts",
    "enable_nullable_sorting_key",
    "enable_parts_sync_preload",
    "enable_preload_parts",
    "enable_unique_partial_update",
    "enable_unique_row_store",
    "enable_vertical_merge_algorithm",
    "index_granularity",
    "index_granularity_bytes",
    "insertion_label_ttl",
    "max_bytes_to_merge_at_max_space_in_pool",
    "max_delay_to_insert",
    "max_parts_in_total",
    "max_partitions_to_read",
    "max_staged_part_number_per_task",
    "max_staged_part_rows_per_task",
    "max_string_size_for_unique_key",
    "max_suspicious_broken_parts",
    "merge_max_block_size",
    "merge_with_ttl_timeout",
    "min_bytes_for_compact_part",
    "min_bytes_for_wide_part",
    "min_merge_bytes_to_use_direct_io",
    "min_rows_for_compact_part",
    "min_rows_for_wide_part",
    "allow_experimental_replacing_merge_with_cleanup",
    "clean_deleted_rows",
    "enable_replacing_merge_with_cleanup_for_min_age_to_force_merge",
    "non_replicated_deduplication_window",
    "old_parts_lifetime",
    "partial_update_enable_merge_map",
    "partial_update_enable_specify_update_columns",
    "partial_update_replace_if_not_null",
    "partition_level_unique_keys",
    "parts_preload_level",
    "parts_to_delay_insert",
    "parts_to_throw_insert",
    "replicated_deduplication_window",
    "storage_dialect_type",
    "storage_policy",
    "ttl_only_drop_parts",
    "unique_acquire_write_lock_timeout",
    "write_final_mark",
];

/// Refuses table settings that do not exist, and those whose meaning the double does not have.
pub(crate) fn check_table_settings(def: &TableDef) -> Result<()> {
    let merge_tree = def.engine.name.ends_with("MergeTree");
    for (name, _) in &def.settings {
        if !merge_tree || !TABLE_SETTINGS.contains(&name.as_str()) {
            return Err(exception!(
                UNKNOWN_SETTING,
                "Unknown setting {name} for storage {}",
                def.engine.name
            ));
        }
    }
    if def.setting_number("enable_unique_partial_update", 0) != 0 {
        if def.setting_number("partition_level_unique_keys", 1) == 0 {
            return Err(exception!(
                BAD_ARGUMENTS,
                "partial update cannot be enabled with table level uniqueness"
            ));
        }
        check_partial_updates(def)?;
    }
    if def.setting_number("cloud_enable_staging_area", 0) != 0 {
        return Err(exception!(NOT_IMPLEMENTED, "the staging area is not known to the double"));
    }
    if def.setting("storage_dialect_type").is_some_and(|dialect| !dialect.eq_ignore_ascii_case("CLICKHOUSE"))
    {
        return Err(exception!(
            NOT_IMPLEMENTED,
            "dialects other than CLICKHOUSE are not known to the double"
        ));
    }
    Ok(())
}

/// Refuses what the double does not do with partial updates.
fn check_partial_updates(def: &TableDef) -> Result<()> {
    let maps = def.columns.iter().any(|column| matches!(column.ty, ChType::Map(..)));
    if maps && def.setting_number("partial_update_enable_merge_map", 1) != 0 {
        return Err(exception!(
            NOT_IMPLEMENTED,
            "merging maps in partial updates is not known to the double: set partial_update_enable_merge_map = 0"
        ));
    }
    if matches!(def.behaviour, Behaviour::Unique { version: Some(_) }) {
        return Err(exception!(
            NOT_IMPLEMENTED,
            "partial updates of tables with a version are not known to the double"
        ));
    }
    if def.columns.iter().any(|column| column.kind() == Some(DefaultKind::Materialized)) {
        return Err(exception!(
            NOT_IMPLEMENTED,
            "partial updates of tables with MATERIALIZED columns are not known to the double"
        ));
    }
    Ok(())
}
