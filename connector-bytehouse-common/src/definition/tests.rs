use proptest::prelude::*;

use super::*;
use crate::catalog::{DefaultKind, DescribedColumn};

fn column(name: &str) -> KeyPart {
    KeyPart::Column(name.into())
}

fn expression(text: &str) -> KeyPart {
    KeyPart::Expression(text.into())
}

#[test]
fn cnch_with_a_unique_key() {
    let table = TableDefinition::parse(
        "CREATE TABLE app.orders\n(\n    `id` UInt64 NOT NULL COMMENT 'ENGINE = Fake ORDER BY (x)',\n    `d` Date,\n    `v` UInt32,\n    \
         `engine` String,\n    INDEX i `d` TYPE minmax GRANULARITY 1\n)\nENGINE = CnchMergeTree(v)\nPARTITION BY toYYYYMM(d) -- by month\n\
         CLUSTER BY EXPRESSION cityHash64V2(id) % 8 INTO 8 BUCKETS\nPRIMARY KEY id\nUNIQUE KEY (id, toDate(`d`), `we\\`ird`)\nORDER BY (id, d)\n\
         SAMPLE BY id\nTTL d + toIntervalDay(30)\nSETTINGS storage_policy = 'cnch_default_s3', partition_level_unique_keys = 0, \
         index_granularity = 8192\nCOMMENT 'orders, (all) of them'",
    )
    .unwrap();
    assert_eq!(
        (table.engine.as_str(), table.engine_args.as_slice()),
        ("CnchMergeTree", &["v".to_owned()][..])
    );
    assert_eq!(table.version(), Some(column("v")));
    assert_eq!(table.partition_by.as_deref(), Some("toYYYYMM(d)"));
    assert_eq!(table.cluster_by.as_deref(), Some("EXPRESSION cityHash64V2(id) % 8 INTO 8 BUCKETS"));
    assert_eq!(table.primary_key, [column("id")]);
    assert_eq!(table.unique_key, [column("id"), expression("toDate(`d`)"), column("we`ird")]);
    assert_eq!(table.order_by, [column("id"), column("d")]);
    assert_eq!(table.sample_by.as_deref(), Some("id"));
    assert_eq!(table.ttl.as_deref(), Some("d + toIntervalDay(30)"));
    assert_eq!(table.comment.as_deref(), Some("orders, (all) of them"));
    assert_eq!(table.settings["storage_policy"], "cnch_default_s3");
    assert_eq!(table.settings["partition_level_unique_keys"], "0");
    assert_eq!(table.settings.len(), 3);
}

#[test]
fn engines_and_their_versions() {
    for (engine, args, version, is_deleted) in [
        ("ReplacingMergeTree(ver, is_deleted)", 2, Some(column("ver")), Some(column("is_deleted"))),
        ("ReplacingMergeTree(`ve r`)", 1, Some(column("ve r")), None),
        ("ReplacingMergeTree", 0, None, None),
        ("ReplacingMergeTree()", 0, None, None),
        (
            "ReplicatedReplacingMergeTree('/clickhouse/{shard}/a,(b', '{replica}', ver)",
            3,
            Some(column("ver")),
            None,
        ),
        ("ReplicatedReplacingMergeTree('/p', 'r', ver, del)", 4, Some(column("ver")), Some(column("del"))),
        (
            "HaUniqueMergeTree('/clickhouse/x/{shard}', '{replica}', toUInt32(v))",
            3,
            Some(expression("toUInt32(v)")),
            None,
        ),
        ("HaMergeTree('/p', 'r')", 2, None, None),
        ("MergeTree", 0, None, None),
        ("SummingMergeTree((a, b))", 1, None, None),
    ] {
        let table = TableDefinition::parse(&format!("CREATE TABLE t (a UInt8) ENGINE = {engine} ORDER BY a"))
            .unwrap();
        assert_eq!(table.engine, engine.split('(').next().unwrap());
        assert_eq!(table.engine_args.len(), args, "{engine}");
        assert_eq!((table.version(), table.is_deleted()), (version, is_deleted), "{engine}");
        assert_eq!(table.order_by, [column("a")]);
        assert!(table.primary_key.is_empty() && table.partition_by.is_none() && table.settings.is_empty());
    }
}

/// As ClickHouse 18.16 prints a table.
#[test]
fn one_line_and_the_old_form_of_engines() {
    let table = TableDefinition::parse(
        "CREATE TABLE default.d ( id UInt64,  a String DEFAULT 'x\\ny',  `we\\`ird\\\\name` UInt8) ENGINE = ReplacingMergeTree(id) \
         PARTITION BY toYYYYMM(ttl) ORDER BY (id, `we\\`ird\\\\name`) SETTINGS index_granularity = 1024",
    )
    .unwrap();
    assert_eq!(table.order_by, [column("id"), column("we`ird\\name")]);
    assert_eq!(table.settings["index_granularity"], "1024");
    let old = TableDefinition::parse(
        "CREATE TABLE t (d Date, k UInt8, v UInt8) ENGINE = ReplacingMergeTree(d, (k, v), 8192, v)",
    );
    let old = old.unwrap();
    assert_eq!((old.order_by, old.engine_args.len()), (vec![column("k"), column("v")], 4));
    let old = TableDefinition::parse(
        "CREATE TABLE t (d Date) ENGINE = ReplicatedReplacingMergeTree('/p', 'r', d, k, 8192, v)",
    )
    .unwrap();
    assert_eq!((old.version(), old.order_by), (Some(column("v")), vec![column("k")]));
    let old = TableDefinition::parse("CREATE TABLE t (d Date) ENGINE = MergeTree(d, k, 8192)").unwrap();
    assert_eq!((old.version(), old.order_by), (None, vec![column("k")]));
}

#[test]
fn columns_named_like_clauses() {
    let table = TableDefinition::parse(
        "create table t (ttl Date, settings UInt8, comment String) engine MergeTree order by ttl partition by (settings, comment) \
         primary key comment settings comment = 1, x = 'a = b, c'",
    )
    .unwrap();
    assert_eq!(table.order_by, [column("ttl")]);
    assert_eq!(table.partition_by.as_deref(), Some("(settings, comment)"));
    assert_eq!(table.primary_key, [column("comment")]);
    assert_eq!(table.settings["x"], "a = b, c");
    assert_eq!(table.settings["comment"], "1");
}

#[test]
fn keys_without_columns_and_with_expressions() {
    let parse = |key: &str| {
        TableDefinition::parse(&format!("CREATE TABLE t (a UInt8) ENGINE = MergeTree {key}")).unwrap()
    };
    assert!(parse("ORDER BY tuple()").order_by.is_empty());
    assert!(parse("ORDER BY ()").order_by.is_empty());
    assert_eq!(parse("PARTITION BY tuple() ORDER BY tuple()").partition_by, None);
    assert_eq!(parse("ORDER BY tuple(a, b)").order_by, [column("a"), column("b")]);
    assert_eq!(parse("ORDER BY (a + b) * 2").order_by, [expression("(a + b) * 2")]);
    assert_eq!(
        parse("ORDER BY (a, (b, c), f(d, 1), -e, 'x', 1)").order_by,
        [
            column("a"),
            expression("(b, c)"),
            expression("f(d, 1)"),
            expression("-e"),
            expression("'x'"),
            expression("1"),
        ]
    );
    assert_eq!(parse("ORDER BY \"a b\"").order_by, [column("a b")]);
    assert_eq!(parse("ORDER /* x ORDER BY y */ BY\n a;").order_by, [column("a")]);
}

#[test]
fn distributed_and_what_is_no_table() {
    let table = TableDefinition::parse(
        "CREATE TABLE d.t (id UInt64) ENGINE = Distributed('ce', 'd', 't_local', cityHash64(id)) SETTINGS remote_table_is_ha_unique = 1",
    )
    .unwrap();
    assert_eq!(table.engine, "Distributed");
    assert_eq!(unquote(&table.engine_args[2]).as_deref(), Some("t_local"));
    assert_eq!(table.engine_args[3], "cityHash64(id)");
    let view = TableDefinition::parse("CREATE VIEW v AS SELECT engine FROM system.tables").unwrap_err();
    assert_eq!(view.kind(), ErrorKind::Unsupported);
    for broken in
        ["CREATE TABLE t (a UInt8", "CREATE TABLE t (a) ENGINE = M ORDER BY 'x", "a) b", "x /* y", "`a\\"]
    {
        assert_eq!(TableDefinition::parse(broken).unwrap_err().kind(), ErrorKind::Unexpected, "{broken}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "(CREATE TABLE|ENGINE|=|ORDER BY|SETTINGS|TTL|[(){},;'`\"\\\\/*-]|[a-zé]{1,3}|[0-9]| ){0,40}") {
        let _either = TableDefinition::parse(&text);
    }

    #[test]
    fn names_come_back(names in proptest::collection::vec("\\PC{1,12}", 1..4)) {
        let key = crate::sql::quote_idents(names.iter().map(String::as_str));
        let table = TableDefinition::parse(&format!("CREATE TABLE t (a UInt8) ENGINE = X ORDER BY ({key}) SETTINGS a = 1")).unwrap();
        prop_assert_eq!(table.order_by.iter().filter_map(KeyPart::column).collect::<Vec<_>>(), names);
    }
}

fn columns_of(statement: &str) -> Vec<(String, String, DefaultKind, String, String)> {
    let columns = TableDefinition::parse(statement).unwrap().columns;
    let parts = |c: DescribedColumn| (c.name, c.type_text, c.default_kind, c.default_expression, c.comment);
    columns.into_iter().map(parts).collect()
}

#[test]
fn columns_with_everything_that_may_follow_a_name() {
    let statement = "CREATE TABLE app.`t` UUID '0'\n(\n    `id` UInt64 NOT NULL COMMENT 'the (key), really',\n    \
         `n` Nullable(Decimal(18, 4)) DEFAULT CAST('0.0', 'Decimal(18, 4)') COMMENT 'it\\'s' CODEC(ZSTD(1)),\n    \
         `a.b` Array(Tuple(x String, `default` UInt8)), m Map(String, String) KV,\n    \
         `day` Date MATERIALIZED toDate(d), twice UInt8 ALIAS id * 2 TTL day + toIntervalDay(1), \
         e String EPHEMERAL, `comment` String DEFAULT NULL IS NOT NULL, INDEX ix id TYPE minmax GRANULARITY 3, \
         PRIMARY KEY id, CONSTRAINT c CHECK id > 1, PROJECTION p (SELECT id), index String, nest.el Array(UInt8)\n)\n\
         ENGINE = MergeTree ORDER BY id";
    let row = |name: &str, ty: &str, kind, expression: &str, comment: &str| {
        (name.to_owned(), ty.to_owned(), kind, expression.to_owned(), comment.to_owned())
    };
    assert_eq!(
        columns_of(statement),
        [
            row("id", "UInt64", DefaultKind::None, "", "the (key), really"),
            row(
                "n",
                "Nullable(Decimal(18, 4))",
                DefaultKind::Default,
                "CAST('0.0', 'Decimal(18, 4)')",
                "it's"
            ),
            row("a.b", "Array(Tuple(x String, `default` UInt8))", DefaultKind::None, "", ""),
            row("m", "Map(String, String)", DefaultKind::None, "", ""),
            row("day", "Date", DefaultKind::Materialized, "toDate(d)", ""),
            row("twice", "UInt8", DefaultKind::Alias, "id * 2", ""),
            row("e", "String", DefaultKind::Ephemeral, "", ""),
            row("comment", "String", DefaultKind::Default, "NULL IS NOT NULL", ""),
            row("index", "String", DefaultKind::None, "", ""),
            row("nest.el", "Array(UInt8)", DefaultKind::None, "", ""),
        ]
    );
    assert!(TableDefinition::parse("CREATE TABLE a AS b ENGINE = Memory").is_err());
}

proptest! {
    #[test]
    fn any_names_and_comments_come_back(names in proptest::collection::vec("\\PC{1,6}|[`'\"\\\\(),]{1,4}", 1..5), comment in "\\PC*|[`'\"\\\\(),]{0,8}") {
        let list: Vec<String> = names.iter().map(|name| {
            format!("{} Nullable(Decimal(9, 2)) COMMENT {}", crate::sql::quote_ident(name), crate::sql::quote_literal(&comment))
        }).collect();
        let statement = format!("CREATE TABLE t ({}) ENGINE = MergeTree ORDER BY tuple()", list.join(", "));
        let columns = TableDefinition::parse(&statement).unwrap().columns;
        prop_assert_eq!(columns.iter().map(|c| c.name.clone()).collect::<Vec<_>>(), names);
        prop_assert!(columns.iter().all(|c| c.type_text == "Nullable(Decimal(9, 2))" && c.comment == comment));
    }
}
