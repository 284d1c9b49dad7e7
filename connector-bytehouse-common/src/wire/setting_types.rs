//! The types of settings, for the typed form of settings.

/// How the typed form writes a setting's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SettingType {
    /// A whole number from 0: numbers, switches, times in seconds or milliseconds.
    Unsigned,
    /// A whole number that may be negative. ByConity and current ClickHouse read it in the typed form and
    /// keep their own value; ClickHouse 18.16 and the text form take it.
    Signed,
    /// A number with a fraction, as text.
    Float,
    /// Text, and names of modes.
    Text,
}

/// The type of a known setting.
///
/// Complete for what is not a plain number in ClickHouse 18.16 and ByConity; of plain numbers it
/// holds those of 18.16 and the ones that inserts and queries use.
pub fn setting_type(name: &str) -> Option<SettingType> {
    [
        (TEXT, SettingType::Text),
        (UNSIGNED, SettingType::Unsigned),
        (FLOAT, SettingType::Float),
        (SIGNED, SettingType::Signed),
    ]
    .into_iter()
    .find_map(|(names, kind)| names.binary_search(&name).is_ok().then_some(kind))
}

/// Texts and modes.
#[rustfmt::skip]
const TEXT: &[&str] = &[
    "ab_test_profile", "access_table_names", "accessible_table_names", "active_role",
    "backup_virtual_warehouse", "backup_vw_mode", "blacklist_for_merge_task_regex",
    "blocklist_for_merge_thread_regex", "bool_false_representation", "bool_true_representation",
    "count_distinct_implementation", "cte_mode", "date_time_input_format", "date_time_output_format",
    "date_time_overflow_behavior", "dedup_key_mode", "default_catalog", "default_database_engine",
    "dialect_type", "disk_cache_mode", "disk_shuffle_files_codec", "distinct_overflow_mode",
    "distributed_ddl_output_mode", "distributed_product_mode", "eager_agg_join_id_blocklist",
    "eager_agg_join_id_whitelist", "enable_push_partial_block_list", "except_default_mode",
    "exchange_shuffle_method_name", "expand_mode", "explicit_main_table", "force_data_skipping_indices",
    "format_avro_schema_registry_url", "format_csv_delimiter", "format_custom_escaping_rule",
    "format_custom_field_delimiter", "format_custom_result_after_delimiter",
    "format_custom_result_before_delimiter", "format_custom_row_after_delimiter",
    "format_custom_row_before_delimiter", "format_custom_row_between_delimiter",
    "format_custom_schema_path", "format_regexp", "format_regexp_escaping_rule", "format_schema",
    "format_template_resultset", "format_template_row", "format_template_rows_between_delimiter",
    "function_implementation", "geoip_asn_file", "geoip_city_file", "geoip_isp_file", "graphviz_path",
    "group_by_overflow_mode", "handle_kafka_error_mode", "hive_move_to_prewhere_method",
    "insert_deduplication_token", "insertion_label", "intersect_default_mode", "ip2geo_local_path",
    "ip2geo_local_path_oversea", "ipv4_file", "ipv6_file", "join_algorithm", "join_default_strictness",
    "join_overflow_mode", "lasfs_access_key", "lasfs_endpoint", "lasfs_identity_id", "lasfs_identity_type",
    "lasfs_region", "lasfs_secret_key", "lasfs_service_name", "lasfs_session_token", "load_balancing",
    "local_filesystem_read_method", "log_comment", "log_explain_analyze_type", "log_queries_min_type",
    "materialized_view_consistency_check_method", "metrics_perf_events_list", "mutation_query_id",
    "mysql_datatypes_support_level", "network_compression_method", "on_duplicate_action", "oss_access_key",
    "oss_endpoint", "oss_region", "oss_secret_key", "oss_security_token", "output_format_avro_codec",
    "output_format_parquet_compression_method", "output_format_parquet_version",
    "output_format_pretty_grid_charset", "output_format_tsv_null_representation", "point_lookup_profile",
    "prewhere_skip_functions", "query_dry_run_mode", "query_logs_level", "queue_name", "read_overflow_mode",
    "read_overflow_mode_leaf", "read_overflow_mode_local", "remote_filesystem_read_method",
    "result_overflow_mode", "runtime_filter_black_list", "s3_access_key_id", "s3_access_key_secret",
    "s3_ak_id", "s3_ak_secret", "s3_endpoint", "s3_region", "scheduler_mode", "schema_inference_mode",
    "send_logs_level", "session_timezone", "set_overflow_mode", "short_circuit_function_evaluation",
    "skip_shard_list", "sort_overflow_mode", "spill_mode", "statistics_accurate_sample_ndv",
    "statistics_cache_policy", "statistics_exclude_tables_regex", "storage_policy", "temporary_files_codec",
    "tenant_id", "text_case_option", "timeout_overflow_mode",
    "topn_filtering_algorithm_for_unsorted_stream", "tos_access_key", "tos_endpoint", "tos_region",
    "tos_secret_key", "tos_security_token", "totals_mode", "transfer_overflow_mode", "union_default_mode",
    "use_snapshot", "username_for_internal_communication", "utc_time_interval_allow_clone",
    "utc_time_interval_stop_clone", "virtual_warehouse", "virtual_warehouse_write", "vw",
    "vw_load_balancing", "vw_queue_mode", "vw_schedule_algo", "workload",
];

/// Numbers with a fraction.
#[rustfmt::skip]
const FLOAT: &[&str] = &[
    "ab_test_traffic_factor", "adjust_range_set_filter_rate", "agg_push_down_threshold",
    "bsp_shuffle_reduce_locality_fraction", "cost_calculator_aggregating_weight",
    "cost_calculator_byte_size_weight", "cost_calculator_cpu_cost_ratio", "cost_calculator_cte_weight",
    "cost_calculator_cte_weight_for_join_build_side", "cost_calculator_join_build_weight",
    "cost_calculator_join_output_weight", "cost_calculator_join_probe_weight",
    "cost_calculator_mem_cost_ratio", "cost_calculator_net_cost_ratio", "cost_calculator_projection_weight",
    "cost_calculator_table_scan_weight", "exception_threshold_for_timeout_query",
    "input_format_allow_errors_ratio", "magic_set_filter_factor", "magic_set_rows_factor",
    "max_active_prewhere_selectivity", "max_streams_multiplier_for_merge_tables",
    "max_streams_to_max_threads_ratio", "memory_profiler_sample_probability",
    "memory_tracker_fault_probability", "multi_agg_keys_correlated_coefficient",
    "multi_join_keys_correlated_coefficient", "opentelemetry_start_trace_probability", "pk_selectivity",
    "remerge_sort_lowered_memory_bytes_ratio", "runtime_filter_min_filter_factor",
    "runtime_filter_min_filter_factor_for_non_table_scan", "spill_triger_threshold",
    "statistics_expand_to_current_histogram_ratio", "statistics_sample_ratio",
    "statistics_simplify_histogram_ndv_density_threshold",
    "statistics_simplify_histogram_range_density_threshold", "stats_estimator_anti_join_filter_coefficient",
    "stats_estimator_first_agg_key_filter_coefficient", "stats_estimator_join_filter_selectivity",
    "stats_estimator_like_selectivity", "stats_estimator_remaining_agg_keys_filter_coefficient",
    "stats_estimator_unknown_filter_selectivity", "stats_estimator_unknown_in_filter_selectivity",
    "streaming_agg_local_ratio", "totals_auto_threshold",
];

/// Whole numbers that may be negative.
#[rustfmt::skip]
const SIGNED: &[&str] = &[
    "distributed_ddl_task_timeout", "final_order_by_all_direction", "http_zlib_compression_level",
    "input_format_orc_row_batch_size", "max_buffer_size_for_deadlock_cte", "max_partitions_to_read",
    "network_zstd_compression_level", "os_thread_priority", "remote_fs_read_failed_injection",
    "remote_fs_write_failed_injection", "statistics_ignore_modified_timestamp_older_than",
];

/// Whole numbers, switches and times.
#[rustfmt::skip]
const UNSIGNED: &[&str] = &[
    "access_entity_ttl", "add_http_cors_header", "aggregation_memory_efficient_merge_threads", "allow_ddl",
    "allow_distributed_ddl", "allow_experimental_bigint_types", "allow_experimental_database_atomic",
    "allow_experimental_low_cardinality_type", "allow_experimental_map_type",
    "allow_nondeterministic_mutations", "allow_nullable_key", "asterisk_left_columns_only", "async_insert",
    "async_insert_deduplicate", "background_pool_size", "background_schedule_pool_size",
    "broadcast_manifest_timeout", "brpc_data_parts_timeout_ms", "calculate_text_stack_trace",
    "cast_keep_nullable", "cnch_fetch_parts_timeout", "cnch_lock_manager_txn_checker_schedule_seconds",
    "cnch_parallel_preloading", "cnch_txn_lock_expire_duration_seconds", "compile", "compile_expressions",
    "connect_timeout", "connect_timeout_with_failover_ms", "connect_timeout_with_failover_secure_ms",
    "connection_pool_max_wait_ms", "connections_with_failover_max_tries", "data_type_default_nullable",
    "decimal_check_overflow", "dedup_worker_heartbeat_ms",
    "deduplicate_blocks_in_dependent_materialized_views", "distributed_aggregation_memory_efficient",
    "distributed_connections_pool_size", "distributed_directory_monitor_batch_inserts",
    "distributed_directory_monitor_max_sleep_time_ms", "distributed_directory_monitor_sleep_time_ms",
    "distributed_group_by_no_merge", "distributed_replica_error_half_life",
    "drop_range_memory_lock_timeout", "empty_result_for_aggregation_by_empty_set", "enable_async_execution",
    "enable_debug_queries", "enable_distributed_output", "enable_http_compression",
    "enable_insert_squashing", "enable_optimize_predicate_expression", "enable_optimizer",
    "enable_staging_area_for_write", "enable_unique_partial_update",
    "enable_unique_table_attach_without_dedup", "enable_unique_table_detach_ignore_delete_bitmap",
    "extremes", "fallback_to_stale_replicas_for_distributed_queries", "final", "force_index_by_date",
    "force_primary_key", "format_csv_allow_double_quotes", "format_csv_allow_single_quotes",
    "fsync_metadata", "group_by_two_level_threshold", "group_by_two_level_threshold_bytes",
    "hedged_connection_timeout_ms", "http_connection_timeout", "http_headers_progress_interval_ms",
    "http_max_multipart_form_data_size", "http_native_compression_disable_checksumming_on_decompress",
    "http_receive_timeout", "http_send_timeout", "ignore_duplicate_insertion_label",
    "ingest_column_memory_lock_timeout", "input_format_allow_errors_num",
    "input_format_defaults_for_omitted_fields", "input_format_import_nested_json",
    "input_format_null_as_default", "input_format_skip_unknown_fields",
    "input_format_values_interpret_expressions", "insert_allow_materialized_columns", "insert_deduplicate",
    "insert_distributed_one_random_shard", "insert_distributed_sync", "insert_distributed_timeout",
    "insert_if_not_exists", "insert_null_as_default", "insert_quorum", "insert_quorum_parallel",
    "insert_quorum_timeout", "insert_sample_with_metadata", "interactive_delay", "join_use_nulls",
    "kafka_max_wait_ms", "kafka_session_timeout_ms", "late_shard_relax_time",
    "live_view_heartbeat_interval", "lock_acquire_timeout", "log_profile_events", "log_queries",
    "log_queries_cut_to_length", "log_queries_min_query_duration_ms", "log_query_settings",
    "log_query_threads", "low_cardinality_allow_in_native_format", "low_cardinality_max_dictionary_size",
    "low_cardinality_use_single_dictionary_for_part", "manifest_cache_min_lifetime",
    "mark_cache_min_lifetime", "max_alter_threads", "max_ast_depth", "max_ast_elements", "max_block_size",
    "max_bytes_before_external_group_by", "max_bytes_before_external_sort", "max_bytes_before_remerge_sort",
    "max_bytes_in_distinct", "max_bytes_in_join", "max_bytes_in_set", "max_bytes_to_read",
    "max_bytes_to_sort", "max_bytes_to_transfer", "max_columns_to_read", "max_compress_block_size",
    "max_concurrent_queries_for_user", "max_dedup_execution_time", "max_dedup_retry_time",
    "max_distributed_connections", "max_download_threads", "max_execution_time",
    "max_expanded_ast_elements", "max_fetch_partition_retries_count", "max_insert_block_size",
    "max_insert_threads", "max_memory_usage", "max_memory_usage_for_all_queries",
    "max_memory_usage_for_user", "max_network_bandwidth", "max_network_bandwidth_for_all_users",
    "max_network_bandwidth_for_user", "max_network_bytes", "max_parallel_replicas", "max_parsing_threads",
    "max_partitions_per_insert_block", "max_pipeline_depth", "max_query_size", "max_read_buffer_size",
    "max_replica_delay_for_distributed_queries", "max_result_bytes", "max_result_rows",
    "max_rows_in_distinct", "max_rows_in_join", "max_rows_in_set", "max_rows_to_group_by",
    "max_rows_to_read", "max_rows_to_sort", "max_rows_to_transfer", "max_string_size_for_unique_key",
    "max_subquery_depth", "max_temporary_columns", "max_temporary_non_const_columns", "max_threads",
    "merge_tree_coarse_index_granularity", "merge_tree_max_rows_to_use_cache",
    "merge_tree_min_rows_for_concurrent_read", "merge_tree_min_rows_for_seek",
    "merge_tree_uniform_read_distribution", "meta_sync_task_interval_ms", "min_bytes_to_use_direct_io",
    "min_compress_block_size", "min_count_to_compile", "min_execution_speed", "min_insert_block_size_bytes",
    "min_insert_block_size_bytes_for_materialized_views", "min_insert_block_size_rows",
    "min_insert_block_size_rows_for_materialized_views", "mutations_sync", "mysql_max_rows_to_insert",
    "odbc_max_field_size", "optimize_min_equality_disjunction_chain_length", "optimize_move_to_prewhere",
    "optimize_on_insert", "optimize_throw_if_noop", "optimize_unique_table_write",
    "output_format_json_escape_forward_slashes", "output_format_json_quote_64bit_integers",
    "output_format_json_quote_denormals", "output_format_pretty_color",
    "output_format_pretty_max_column_pad_width", "output_format_pretty_max_rows",
    "output_format_write_statistics", "parallel_replica_offset", "parallel_replicas_count",
    "parallel_view_processing", "periodic_live_view_refresh", "poll_interval", "prefer_localhost_replica",
    "preferred_block_size_bytes", "preferred_max_column_in_block_size_bytes", "priority",
    "query_cache_min_query_duration", "query_cache_ttl", "query_shard_timeout_time", "queue_max_wait_ms",
    "rabbitmq_max_wait_ms", "read_backoff_max_throughput", "read_backoff_min_events",
    "read_backoff_min_interval_between_events_ms", "read_backoff_min_latency_ms", "readonly",
    "receive_data_timeout_ms", "receive_timeout", "replace_running_query",
    "replace_running_query_max_wait_ms", "replication_alter_columns_timeout",
    "replication_alter_partitions_sync", "select_sequential_consistency", "send_plan_segment_timeout_ms",
    "send_progress_in_http_headers", "send_timeout", "skip_unavailable_shards", "sleep_in_send_data_ms",
    "sleep_in_send_ingest_to_worker_ms", "sleep_in_send_tables_status_ms", "snapshot_clean_interval",
    "stream_flush_interval_ms", "stream_poll_timeout_ms", "table_function_remote_max_addresses",
    "tcp_keep_alive_timeout", "temporary_live_view_timeout", "timeout_before_checking_execution_speed",
    "topology_lease_life_ms", "topology_lease_renew_interval_ms", "topology_refresh_interval_ms",
    "topology_retry_interval_ms", "topology_session_restart_check_ms", "unique_acquire_write_lock_timeout",
    "unique_key_attach_partition_timeout", "unique_sleep_seconds_after_acquire_lock",
    "use_client_time_zone", "use_index_for_in_with_subqueries", "use_query_cache", "use_uncompressed_cache",
    "wait_for_async_insert", "wait_intermediate_result_cache",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_sorted_and_disjoint() {
        for names in [TEXT, FLOAT, SIGNED, UNSIGNED] {
            assert!(names.is_sorted_by(|a, b| a < b));
        }
        let mut all: Vec<_> = [TEXT, FLOAT, SIGNED, UNSIGNED].concat();
        all.sort_unstable();
        assert!(all.is_sorted_by(|a, b| a < b), "a name stands in two lists");
    }

    #[test]
    fn names_that_decide_about_rows_are_known() {
        for (name, kind) in [
            ("virtual_warehouse", SettingType::Text),
            ("insert_deduplication_token", SettingType::Text),
            ("insertion_label", SettingType::Text),
            ("dedup_key_mode", SettingType::Text),
            ("max_partitions_per_insert_block", SettingType::Unsigned),
            ("max_execution_time", SettingType::Unsigned),
            ("enable_unique_partial_update", SettingType::Unsigned),
            ("distributed_ddl_task_timeout", SettingType::Signed),
            ("totals_auto_threshold", SettingType::Float),
        ] {
            assert_eq!(setting_type(name), Some(kind), "{name}");
        }
        assert_eq!(setting_type("no_such_setting"), None);
    }
}
