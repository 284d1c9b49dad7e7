use std::sync::Arc;

use connector_core::schema::metadata;

use super::*;

const STATEMENT: &str = "CREATE TABLE app.t (`id` UInt64, `day` Date, `note` Nullable(String) DEFAULT 'x', n Int32, m Int32 DEFAULT CAST(5, 'Int32')) \
                         ENGINE = CnchMergeTree PARTITION BY toYYYYMM(day) ORDER BY id UNIQUE KEY id";

fn plan(change: &SchemaChange) -> Result<Option<String>> {
    action_for(&TableDefinition::parse(STATEMENT).unwrap(), super::super::ddl::tests_dialect(true), change)
}

fn table() -> TableId {
    TableId::new("app", "t")
}

fn add(field: Field, position: ColumnPosition) -> SchemaChange {
    SchemaChange::AddColumn { table: table(), column: Arc::new(field), position }
}

fn alter_to(column: &str, data_type: DataType, nullable: bool) -> SchemaChange {
    SchemaChange::AlterColumnType { table: table(), column: column.to_owned(), data_type, nullable }
}

fn rename(from: &str, to: &str) -> SchemaChange {
    SchemaChange::RenameColumn { table: table(), from: from.to_owned(), to: to.to_owned() }
}

#[test]
fn changes_become_one_action_each() {
    let c = Field::new("c`", DataType::Utf8, false)
        .with_metadata([(metadata::DEFAULT.to_owned(), "''".to_owned())].into());
    for (change, wanted) in [
        (add(c, ColumnPosition::After("N".to_owned())), "ADD COLUMN `c\\`` String DEFAULT '' AFTER `n`"),
        (
            add(Field::new("z", DataType::Int32, true), ColumnPosition::First),
            "ADD COLUMN `z` Nullable(Int32) FIRST",
        ),
        (
            add(Field::new("z", DataType::Int32, true), ColumnPosition::After("elsewhere".to_owned())),
            "ADD COLUMN `z` Nullable(Int32)",
        ),
        (SchemaChange::DropColumn { table: table(), column: "note".to_owned() }, "DROP COLUMN `note`"),
        (rename("note", "text"), "RENAME COLUMN `note` TO `text`"),
        (alter_to("n", DataType::Int64, false), "MODIFY COLUMN `n` Int64"),
        (alter_to("n", DataType::Int32, true), "MODIFY COLUMN `n` Nullable(Int32)"),
        (alter_to("m", DataType::Utf8, false), "MODIFY COLUMN `m` String DEFAULT CAST(5, 'Int32')"),
    ] {
        assert_eq!(plan(&change).unwrap().as_deref(), Some(wanted));
    }
}

#[test]
fn what_is_in_place_already_is_left_alone() {
    for change in [
        add(Field::new("n", DataType::Int32, false), ColumnPosition::Last),
        add(Field::new("n", DataType::Int8, false), ColumnPosition::Last),
        add(Field::new("id", DataType::UInt64, true), ColumnPosition::Last),
        SchemaChange::DropColumn { table: table(), column: "gone".to_owned() },
        rename("before", "note"),
        rename("n", "note"),
        alter_to("note", DataType::Utf8, false),
        alter_to("n", DataType::Int16, false),
        alter_to("id", DataType::UInt64, true),
    ] {
        assert_eq!(plan(&change).unwrap(), None, "{change:?}");
    }
}

#[test]
fn what_would_lose_values_or_break_the_engine_is_refused() {
    for (change, kind, text) in [
        (
            add(Field::new("n", DataType::Utf8, true), ColumnPosition::Last),
            ErrorKind::SchemaMismatch,
            "Int32",
        ),
        (
            SchemaChange::DropColumn { table: table(), column: "id".to_owned() },
            ErrorKind::Unsupported,
            "UNIQUE KEY",
        ),
        (
            SchemaChange::DropColumn { table: table(), column: "day".to_owned() },
            ErrorKind::Unsupported,
            "PARTITION BY",
        ),
        (rename("id", "key"), ErrorKind::Unsupported, "UNIQUE KEY"),
        (rename("a", "b"), ErrorKind::NotFound, "neither"),
        (alter_to("note", DataType::Int32, true), ErrorKind::Unsupported, "does not hold"),
        (alter_to("id", DataType::Utf8, false), ErrorKind::Unsupported, "UNIQUE KEY"),
        (alter_to("gone", DataType::Int8, true), ErrorKind::NotFound, "`gone`"),
    ] {
        let error = plan(&change).unwrap_err();
        assert_eq!(error.kind(), kind, "{change:?}");
        assert!(error.message().contains(text), "{error}");
    }
    let old = super::super::ddl::tests_dialect(false);
    let definition = TableDefinition::parse(STATEMENT).unwrap();
    let error = action_for(&definition, old, &rename("note", "text")).unwrap_err();
    assert!(error.message().contains("20.4"), "{error}");
}

#[test]
fn wider_types_hold_narrower_ones_and_no_others() {
    let holds = |wide: &str, narrow: &str| super::holds(&wide.parse().unwrap(), &narrow.parse().unwrap());
    for (wide, narrow) in [
        ("Int64", "Int32"),
        ("Int64", "UInt32"),
        ("UInt8", "Bool"),
        ("Float64", "Int32"),
        ("Decimal(20, 0)", "UInt64"),
        ("Decimal(20, 4)", "Decimal(18, 4)"),
        ("Nullable(Int64)", "Int64"),
        ("LowCardinality(String)", "String"),
        ("Date32", "Date"),
        ("DateTime64(6)", "DateTime64(3)"),
        ("DateTime64(3)", "DateTime"),
        ("Array(Nullable(Int64))", "Array(Int8)"),
        ("Map(String, Int64)", "Map(String, Int32)"),
        ("Time(6)", "Time(3)"),
    ] {
        assert!(holds(wide, narrow), "{wide} holds {narrow}");
        assert!(!holds(narrow, wide) || wide.starts_with("LowCardinality"), "{narrow} does not hold {wide}");
    }
    for (wide, narrow) in [
        ("UInt64", "Int8"),
        ("Int64", "UInt64"),
        ("Float64", "Int64"),
        ("Decimal(18, 5)", "Decimal(18, 4)"),
        ("Decimal(19, 0)", "UInt64"),
        ("Int64", "Nullable(Int8)"),
        ("DateTime64(9)", "DateTime64(3)"),
        ("DateTime", "Date"),
        ("String", "UUID"),
        ("Map(String, Int64)", "Map(Int8, Int64)"),
    ] {
        assert!(!holds(wide, narrow), "{wide} does not hold {narrow}");
    }
    let converts =
        |wide: &str, narrow: &str| super::converts(&wide.parse().unwrap(), &narrow.parse().unwrap());
    for narrow in ["Int32", "Decimal(9, 2)", "Enum8('a' = 1)", "Nullable(UInt64)"] {
        assert!(converts("Nullable(String)", narrow) && !holds("Nullable(String)", narrow), "{narrow}");
    }
    assert!(!converts("String", "Nullable(Int32)") && !converts("Int32", "String"));
}
