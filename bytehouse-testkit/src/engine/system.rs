//! The `system` tables.

use connector_bytehouse_common::native::ChType;
use connector_core::arrow::array::UInt64Array;

use super::{
    catalog::{Table, TableDef},
    eval::{Context, Scope},
    select::View,
    settings,
    value::{Value, build_array},
};
use crate::{
    exception::{Result, exception},
    sql::ast::{DefaultKind, Expr},
};

/// The names of the tables.
const TABLES: [&str; 11] = [
    "cnch_detached_parts",
    "cnch_parts",
    "columns",
    "databases",
    "detached_parts",
    "numbers",
    "one",
    "parts",
    "settings",
    "tables",
    "virtual_warehouses",
];

/// `count` numbers from `start` on.
pub(crate) fn numbers(start: u64, count: u64, context: &Context) -> Result<Scope<'_>> {
    const LIMIT: u64 = 100_000_000;
    if count > LIMIT {
        return Err(exception!(NOT_IMPLEMENTED, "the double makes at most {LIMIT} numbers"));
    }
    let array = UInt64Array::from_iter_values((0..count).map(|i| start.wrapping_add(i)));
    let mut scope = Scope::bare(context, array.values().len());
    scope.push("number", ChType::UInt64, std::sync::Arc::new(array));
    Ok(scope)
}

/// The rows of a system table.
pub(crate) fn table<'a>(name: &str, view: View<'a>) -> Result<Scope<'a>> {
    let mut rows = Rows::default();
    match name {
        "one" => {
            rows.row([("dummy", Value::int(0))]);
            rows.into_scope(&[("dummy", ChType::UInt8)], view.context)
        }
        "databases" => {
            let names = view.catalog.databases().map(String::as_str).chain(["system"]);
            for name in names {
                let engine = if name == "system" { "System" } else { "Cnch" };
                rows.row([("name", Value::text(name)), ("engine", Value::text(engine))]);
            }
            rows.into_scope(&[("name", ChType::String), ("engine", ChType::String)], view.context)
        }
        "tables" => tables(view),
        "columns" => columns(view),
        "parts" | "cnch_parts" => parts(view),
        "detached_parts" | "cnch_detached_parts" => {
            for Table { def, data } in view.catalog.all() {
                for (number, (partition, _)) in data.detached.iter().enumerate() {
                    rows.row([
                        ("database", Value::text(&def.database)),
                        ("table", Value::text(&def.name)),
                        // As servers of the family have it: the value, not the id.
                        ("partition_id", Value::text(&partition.text)),
                        ("name", Value::text(format!("{}_{n}_{n}_0", partition.id, n = number + 1))),
                    ]);
                }
            }
            let text = || ChType::String;
            let types = [("database", text()), ("table", text()), ("partition_id", text()), ("name", text())];
            rows.into_scope(&types, view.context)
        }
        "settings" => {
            for (name, kind) in settings::known() {
                let value = view.session.setting(name);
                rows.row([
                    ("name", Value::text(name)),
                    ("value", Value::text(value.unwrap_or(""))),
                    ("changed", Value::int(u8::from(value.is_some()))),
                    ("type", Value::text(kind)),
                ]);
            }
            let types = [
                ("name", ChType::String),
                ("value", ChType::String),
                ("changed", ChType::UInt8),
                ("type", ChType::String),
            ];
            rows.into_scope(&types, view.context)
        }
        "virtual_warehouses" => {
            for name in &view.options.warehouses {
                rows.row([("name", Value::text(name))]);
            }
            rows.into_scope(&[("name", ChType::String)], view.context)
        }
        _ => Err(exception!(UNKNOWN_TABLE, "Table system.{name} doesn't exist.")),
    }
}

/// True for the tables that `system` has.
pub(crate) fn exists(name: &str) -> bool {
    TABLES.contains(&name)
}

pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    TABLES.into_iter()
}

#[derive(Default)]
struct Rows {
    rows: Vec<Vec<(&'static str, Value)>>,
}

impl Rows {
    fn row<const N: usize>(&mut self, cells: [(&'static str, Value); N]) {
        self.rows.push(cells.into());
    }

    fn into_scope<'a>(self, types: &[(&'static str, ChType)], context: &'a Context) -> Result<Scope<'a>> {
        let mut scope = Scope::bare(context, self.rows.len());
        for (name, ty) in types {
            let cell = |row: &Vec<(&'static str, Value)>| {
                row.iter().find(|(known, _)| known == name).map_or(Value::Null, |(_, value)| value.clone())
            };
            let values: Vec<Value> = self.rows.iter().map(cell).collect();
            scope.push(name, ty.clone(), build_array(ty, &values)?);
        }
        Ok(scope)
    }
}

fn key_text(key: Option<&Expr>) -> Value {
    Value::text(key.map_or_else(String::new, |key| {
        key.elements().iter().map(Expr::to_sql).collect::<Vec<_>>().join(", ")
    }))
}

fn tables(view: View<'_>) -> Result<Scope<'_>> {
    let mut rows = Rows::default();
    for Table { def, data } in view.catalog.all() {
        rows.row([
            ("database", Value::text(&def.database)),
            ("name", Value::text(&def.name)),
            ("uuid", Value::Uuid(def.uuid.into_bytes())),
            ("engine", Value::text(&def.engine.name)),
            ("is_temporary", Value::int(0)),
            ("create_table_query", Value::text(def.create_query())),
            ("engine_full", Value::text(def.engine_full(" "))),
            ("partition_key", Value::text(def.partition_by.as_ref().map_or_else(String::new, Expr::to_sql))),
            ("sorting_key", key_text(def.order_by.as_ref().or(def.primary_key.as_ref()))),
            ("primary_key", key_text(def.primary_key.as_ref().or(def.order_by.as_ref()))),
            ("unique_key", key_text(def.unique_key.as_ref())),
            ("sampling_key", key_text(def.sample_by.as_ref())),
            ("total_rows", Value::int(data.live_rows() as u64)),
            ("comment", Value::text(&def.comment)),
        ]);
    }
    let text = ChType::String;
    let types = [
        ("database", text.clone()),
        ("name", text.clone()),
        ("uuid", ChType::Uuid),
        ("engine", text.clone()),
        ("is_temporary", ChType::UInt8),
        ("create_table_query", text.clone()),
        ("engine_full", text.clone()),
        ("partition_key", text.clone()),
        ("sorting_key", text.clone()),
        ("primary_key", text.clone()),
        ("unique_key", text.clone()),
        ("sampling_key", text.clone()),
        ("total_rows", ChType::UInt64.into_nullable()),
        ("comment", text),
    ];
    rows.into_scope(&types, view.context)
}

fn columns(view: View<'_>) -> Result<Scope<'_>> {
    let mut rows = Rows::default();
    let in_key = |key: Option<&Expr>, name: &str| {
        let mut found = false;
        if let Some(key) = key {
            key.columns(&mut |column| found |= column == name);
        }
        Value::int(u8::from(found))
    };
    for Table { def, .. } in view.catalog.all() {
        for (position, column) in def.columns.iter().enumerate() {
            let (kind, expr) =
                column.default.as_ref().map_or(("", String::new()), |(k, e)| (k.as_str(), e.to_sql()));
            rows.row([
                ("database", Value::text(&def.database)),
                ("table", Value::text(&def.name)),
                ("name", Value::text(&column.name)),
                ("type", Value::text(column.ty.to_string())),
                ("position", Value::int(position as u64 + 1)),
                ("default_kind", Value::text(kind)),
                ("default_expression", Value::text(expr)),
                ("comment", Value::text(&column.comment)),
                ("is_in_partition_key", in_key(def.partition_by.as_ref(), &column.name)),
                ("is_in_sorting_key", in_key(def.order_by.as_ref(), &column.name)),
                (
                    "is_in_primary_key",
                    in_key(def.primary_key.as_ref().or(def.order_by.as_ref()), &column.name),
                ),
                ("is_in_unique_key", in_key(def.unique_key.as_ref(), &column.name)),
                ("is_in_sampling_key", in_key(def.sample_by.as_ref(), &column.name)),
                ("compression_codec", Value::text(&column.codec)),
            ]);
        }
    }
    let text = ChType::String;
    let types = [
        ("database", text.clone()),
        ("table", text.clone()),
        ("name", text.clone()),
        ("type", text.clone()),
        ("position", ChType::UInt64),
        ("default_kind", text.clone()),
        ("default_expression", text.clone()),
        ("comment", text.clone()),
        ("is_in_partition_key", ChType::UInt8),
        ("is_in_sorting_key", ChType::UInt8),
        ("is_in_primary_key", ChType::UInt8),
        ("is_in_unique_key", ChType::UInt8),
        ("is_in_sampling_key", ChType::UInt8),
        ("compression_codec", text),
    ];
    rows.into_scope(&types, view.context)
}

fn parts(view: View<'_>) -> Result<Scope<'_>> {
    let mut rows = Rows::default();
    for Table { def, data } in view.catalog.all() {
        for part in data.parts.iter().filter(|part| part.live_rows > 0) {
            let bytes = u64::try_from(part.rows.get_array_memory_size()).unwrap_or(u64::MAX);
            rows.row([
                ("database", Value::text(&def.database)),
                ("table", Value::text(&def.name)),
                ("name", Value::text(&part.name)),
                ("partition", Value::text(&part.partition.text)),
                ("partition_id", Value::text(&part.partition.id)),
                ("active", Value::int(1)),
                ("rows", Value::int(part.live_rows as u64)),
                ("bytes_on_disk", Value::int(bytes)),
            ]);
        }
    }
    let text = ChType::String;
    let types = [
        ("database", text.clone()),
        ("table", text.clone()),
        ("name", text.clone()),
        ("partition", text.clone()),
        ("partition_id", text),
        ("active", ChType::UInt8),
        ("rows", ChType::UInt64),
        ("bytes_on_disk", ChType::UInt64),
    ];
    rows.into_scope(&types, view.context)
}

/// The result of `DESCRIBE TABLE`: values by column, with the columns' names.
pub(crate) fn describe(def: &TableDef) -> (Vec<&'static str>, Vec<Vec<Value>>) {
    let names = vec![
        "name",
        "type",
        "default_type",
        "default_expression",
        "comment",
        "codec_expression",
        "ttl_expression",
    ];
    let rows = def
        .columns
        .iter()
        .map(|column| {
            let (kind, expr) = column
                .default
                .as_ref()
                .map_or(("", String::new()), |(k, e): &(DefaultKind, Expr)| (k.as_str(), e.to_sql()));
            [&column.name, &column.ty.to_string(), kind, &expr, &column.comment, &column.codec, ""]
                .map(Value::text)
                .to_vec()
        })
        .collect();
    (names, rows)
}
