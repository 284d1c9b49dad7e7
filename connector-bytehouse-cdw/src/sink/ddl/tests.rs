use std::sync::Arc;

use connector_core::{
    SchemaChange,
    arrow::datatypes::{DataType, Field, Schema, TimeUnit},
};

use super::*;
use crate::{BytehouseCdwSink, sink::evolution};

const CNCH: Dialect = Dialect { cnch: true, version: (21, 8) };
const CURRENT: Dialect = Dialect { cnch: false, version: (26, 7) };
const OLD: Dialect = Dialect { cnch: false, version: (18, 16) };

/// The configuration of options in DataSail's spelling.
fn config(cnch: bool, mode: &str, more: &[(&str, &str)]) -> SinkConfig {
    let base = [
        ("job.writer.host", "h"),
        ("job.writer.token", "t"),
        ("job.writer.virtual_warehouse", "vw"),
        ("job.writer.db_name", "app"),
        ("job.writer.table_name", "orders"),
        ("job.writer.write_mode", mode),
        ("job.writer.cnch_engine", if cnch { "true" } else { "false" }),
    ];
    let options = base.iter().chain(more).map(|(k, v)| (*k, *v));
    SinkConfig::clone(&BytehouseCdwSink::from_options(options).unwrap().config)
}

fn schema(key: &[&str]) -> TableSchema {
    let with = |field: Field, key: &str, value: &str| {
        let mut metadata = field.metadata().clone();
        metadata.insert(key.to_owned(), value.to_owned());
        field.with_metadata(metadata)
    };
    let fields = vec![
        Field::new("id", DataType::Int64, true),
        with(
            with(Field::new("name", DataType::Utf8, false), metadata::DEFAULT, "'it''s'"),
            metadata::COMMENT,
            "a 'name', \\ of it",
        ),
        with(
            Field::new("at", DataType::Timestamp(TimeUnit::Microsecond, None), true),
            metadata::PRECISION,
            "3",
        ),
        Field::new("day", DataType::Date32, true),
        Field::new("ok", DataType::Boolean, true),
        Field::new("t", DataType::Time64(TimeUnit::Microsecond), true),
    ];
    let mut schema =
        TableSchema::new(Arc::new(Schema::new(fields))).with_primary_key(key.iter().copied()).unwrap();
    schema.comment = Some("orders; DROP TABLE 'x'".to_owned());
    schema
}

fn sql(schema: &TableSchema, config: &SinkConfig, dialect: Dialect) -> String {
    let table = TableId::new("app", "or`ders");
    CreateTable::new(&table, schema, config, dialect).unwrap().sql(true)
}

#[test]
fn a_keyed_table_of_bytehouse_with_every_clause() {
    let options = [
        ("job.writer.ddl_create_table_order_by_fields", "ID,day"),
        ("job.writer.ddl_create_table_partition_by_fields", "day"),
        ("job.writer.ddl_create_table_cluster_by_fields", "id"),
        ("job.writer.ddl_create_table_buckets", "16"),
        ("job.writer.ddl_create_table_sample_by_expression", "id"),
        ("job.writer.ddl_create_table_ttl_expression", "day + toIntervalDay(30)"),
        (
            "job.writer.ddl_create_table_settings",
            r#"{"index_granularity": 1024, "storage_policy": "a', b = 'c"}"#,
        ),
    ];
    let config = config(true, "UPSERT", &options);
    let mut schema = schema(&["id"]);
    schema.options.insert("index_granularity".to_owned(), "4096".to_owned());
    assert_eq!(
        sql(&schema, &config, CNCH),
        "CREATE TABLE `app`.`or\\`ders`\n(\n    `id` Int64,\n    `name` String DEFAULT 'it\\'s' COMMENT 'a \\'name\\', \\\\ of it',\n    \
         `at` Nullable(DateTime64(3)),\n    `day` Date32,\n    `ok` Nullable(Bool),\n    `t` Nullable(Time(6))\n)\n\
         ENGINE = CnchMergeTree\nPARTITION BY `day`\nCLUSTER BY `id` INTO 16 BUCKETS\nORDER BY (`id`, `day`)\nUNIQUE KEY `id`\n\
         SAMPLE BY id\nTTL day + toIntervalDay(30)\nSETTINGS storage_policy = 'a\\', b = \\'c', index_granularity = 4096\n\
         COMMENT 'orders; DROP TABLE \\'x\\''"
    );
}

#[test]
fn keyless_tables_and_open_source_engines() {
    let keyless = sql(&schema(&[]), &config(true, "INSERT", &[]), CNCH);
    assert!(keyless.contains("ENGINE = CnchMergeTree\nORDER BY tuple()\nCOMMENT"), "{keyless}");
    assert!(keyless.contains("`id` Nullable(Int64)"), "only key columns lose their nulls: {keyless}");
    let upsert = config(false, "UPSERT", &[]);
    let current = sql(&schema(&["id", "name"]), &upsert, CURRENT);
    assert!(
        current.contains("`_version` UInt64,\n    `_is_deleted` UInt8\n)\nENGINE = ReplacingMergeTree(`_version`, `_is_deleted`)\nORDER BY (`id`, `name`)"),
        "{current}"
    );
    assert!(current.contains("Nullable(Time64(6))"), "{current}");
    let old = sql(&schema(&["id"]), &upsert, OLD);
    assert!(
        old.contains("ENGINE = ReplacingMergeTree(`_version`)\n") && old.contains("`ok` Nullable(UInt8)"),
        "{old}"
    );
    let append = sql(&schema(&["id"]), &config(false, "INSERT", &[]), CURRENT);
    assert!(append.contains("ENGINE = MergeTree\nORDER BY `id`\n"), "{append}");
}

#[test]
fn nulls_in_order_columns_by_setting_only() {
    let order = ("job.writer.ddl_create_table_order_by_fields", "day");
    let plain = sql(&schema(&[]), &config(true, "INSERT", &[order]), CNCH);
    assert!(plain.contains("`day` Date32,"), "{plain}");
    let setting = ("job.writer.ddl_create_table_settings", r#"{"allow_nullable_key": true}"#);
    let nullable = sql(&schema(&[]), &config(true, "INSERT", &[order, setting]), CNCH);
    assert!(
        nullable.contains("`day` Nullable(Date32)") && nullable.contains("SETTINGS allow_nullable_key = 1"),
        "{nullable}"
    );
}

#[test]
fn what_cannot_be_created_is_refused_by_name() {
    let refuse = |schema: &TableSchema, config: &SinkConfig, dialect: Dialect| {
        CreateTable::new(&TableId::new("a", "b"), schema, config, dialect).err().unwrap().to_string()
    };
    for (options, text) in [
        (vec![("job.writer.ddl_create_table_order_by_fields", "nothing")], "`nothing`"),
        (
            vec![("job.writer.ddl_create_table_ttl_expression", "day SETTINGS x = 1")],
            "ddl_create_table_ttl_expression",
        ),
        (
            vec![("job.writer.ddl_create_table_ttl_expression", "day; DROP TABLE x")],
            "ddl_create_table_ttl_expression",
        ),
        (
            vec![("job.writer.ddl_create_table_sample_by_expression", "id TTL day")],
            "ddl_create_table_sample_by_expression",
        ),
        (
            vec![("job.writer.ddl_create_table_sample_by_expression", "(id")],
            "ddl_create_table_sample_by_expression",
        ),
    ] {
        let error = refuse(&schema(&[]), &config(true, "INSERT", &options), CNCH);
        assert!(error.contains(text), "{error}");
    }
    let mut floats = schema(&["id"]);
    floats.columns = Arc::new(Schema::new(vec![Field::new("id", DataType::Float64, false)]));
    let error = refuse(&floats, &config(true, "UPSERT", &[]), CNCH);
    assert!(error.contains("`id`") && error.contains("Float64"), "{error}");
    let order = [("job.writer.ddl_create_table_order_by_fields", "day")];
    let error = refuse(&schema(&["id"]), &config(false, "UPSERT", &order), CURRENT);
    assert!(error.contains("ReplacingMergeTree"), "{error}");
}

#[test]
fn a_created_table_wants_no_change() {
    let config = config(true, "UPSERT", &[]);
    let schema = schema(&["id"]);
    let table = TableId::new("app", "orders");
    let definition = CreateTable::new(&table, &schema, &config, CNCH).unwrap().definition().unwrap();
    for field in schema.columns.fields() {
        let add = SchemaChange::AddColumn {
            table: table.clone(),
            column: Arc::clone(field),
            position: connector_core::schema::ColumnPosition::Last,
        };
        assert_eq!(evolution::action_for(&definition, CNCH, &add).unwrap(), None, "{}", field.name());
    }
}
