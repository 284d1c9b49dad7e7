//! CREATE TABLE: from the statement to a definition that keeps the dialect's rules.

use connector_bytehouse_common::native::ChType;
use uuid::Uuid;

use super::{
    catalog::{Behaviour, Column, DELETE_FLAG, TableDef, UPDATE_COLUMNS},
    eval::{Context, Scope},
    settings::check_table_settings,
    value::{arrow_type, plain},
};
use crate::{
    exception::{Result, exception},
    sql::ast::{ColumnDecl, CreateTable, DefaultKind, EngineDecl, Expr},
};

/// Columns whose keys may be unique, as ByteHouse's documents list them.
fn can_be_unique(ty: &ChType) -> bool {
    match ty {
        ChType::LowCardinality(inner) => can_be_unique(inner),
        ChType::Decimal { precision, .. } => *precision <= 18,
        ChType::String
        | ChType::FixedString(_)
        | ChType::Int8
        | ChType::Int16
        | ChType::Int32
        | ChType::Int64
        | ChType::UInt8
        | ChType::UInt16
        | ChType::UInt32
        | ChType::UInt64
        | ChType::Bool
        | ChType::Date
        | ChType::Date32
        | ChType::DateTime(_)
        | ChType::DateTime64(..)
        | ChType::Time
        | ChType::Time64 { .. } => true,
        _ => false,
    }
}

/// The type of a declared column.
pub(crate) fn column_type(column: &ColumnDecl, scope: &Scope<'_>) -> Result<ChType> {
    let Some(text) = &column.type_text else {
        let Some((_, expr)) = &column.default else {
            return Err(exception!(SYNTAX_ERROR, "column {} has neither a type nor a default", column.name));
        };
        return Ok(scope.eval(expr)?.ty);
    };
    let ty: ChType = text.parse().map_err(|_| exception!(UNKNOWN_TYPE, "Unknown data type {text}"))?;
    if let Some(unknown) = ty.unknown() {
        return Err(exception!(UNKNOWN_TYPE, "Unknown data type family: {unknown}"));
    }
    let ty = match column.nullable {
        Some(true) => {
            let nullable = ty.clone().into_nullable();
            if !nullable.is_nullable() {
                return Err(exception!(
                    ILLEGAL_TYPE_OF_ARGUMENT,
                    "Nested type {ty} cannot be inside Nullable type"
                ));
            }
            nullable
        }
        _ => ty,
    };
    arrow_type(&ty)?;
    Ok(ty)
}

/// Columns from their declarations, defaults checked against the others.
pub(crate) fn columns_of(declared: &[ColumnDecl], context: &Context) -> Result<Vec<Column>> {
    let mut columns: Vec<Column> = Vec::with_capacity(declared.len());
    for column in declared {
        if columns.iter().any(|known| known.name == column.name) {
            return Err(exception!(
                ILLEGAL_COLUMN,
                "Cannot add column {}: column with this name already exists",
                column.name
            ));
        }
        let ty = column_type(column, &Scope::empty_of(&columns, context)?)?;
        columns.push(Column {
            name: column.name.clone(),
            ty,
            default: column.default.clone(),
            comment: column.comment.clone(),
            codec: column.codec.clone(),
        });
    }
    let scope = Scope::empty_of(&columns, context)?;
    for column in &columns {
        if let Some((_, expr)) = &column.default {
            scope
                .eval_as(expr, &column.ty)
                .map_err(|e| exception_in(e, &format!("in the default of column {}", column.name)))?;
        }
    }
    Ok(columns)
}

fn exception_in(error: crate::Exception, place: &str) -> crate::Exception {
    crate::Exception::new(error.code(), format!("{} ({place})", error.message()))
}

/// Makes a definition of a statement. `like` is the table of `CREATE TABLE … AS`.
pub(crate) fn define(
    create: &CreateTable,
    database: &str,
    like: Option<&TableDef>,
    context: &Context,
) -> Result<TableDef> {
    let columns = match like {
        Some(like) if create.columns.is_empty() => like.columns.clone(),
        _ => columns_of(&create.columns, context)?,
    };
    if columns.is_empty() {
        return Err(exception!(EMPTY_LIST_OF_COLUMNS, "the table {} has no columns", create.name.table));
    }
    let settings: Vec<(String, String)> =
        create.settings.iter().map(|(n, v)| (n.clone(), v.to_sql())).collect();
    let mut def = TableDef {
        database: database.to_owned(),
        name: create.name.table.clone(),
        uuid: Uuid::new_v4(),
        columns,
        indexes: create.indexes.clone(),
        engine: EngineDecl::default(),
        behaviour: Behaviour::Append,
        order_by: create.order_by.clone(),
        partition_by: create.partition_by.clone(),
        primary_key: create.primary_key.clone(),
        unique_key: create.unique_key.clone(),
        cluster_by: create.cluster_by.clone(),
        sample_by: create.sample_by.clone(),
        ttl: create.ttl.clone(),
        settings,
        comment: create.comment.clone(),
    };
    match (&create.engine, like) {
        (Some(engine), _) => def.engine = engine.clone(),
        (None, Some(like)) => {
            let fresh = def;
            def = TableDef { database: fresh.database, name: fresh.name, uuid: fresh.uuid, ..like.clone() };
        }
        (None, None) => {
            return Err(exception!(ENGINE_REQUIRED, "ENGINE is required for the table {}", def.full_name()));
        }
    }
    check_engine(&mut def)?;
    check_keys(&def, context)?;
    check_unique(&def, context)?;
    check_table_settings(&def)?;
    Ok(def)
}

fn check_engine(def: &mut TableDef) -> Result<()> {
    let EngineDecl { name, args } = def.engine.clone();
    let arg_column = |i: usize| match args.get(i) {
        None => Ok(None),
        Some(Expr::Column(column)) => def.column(column).map(|found| Some(found.clone())).ok_or_else(|| {
            exception!(NO_SUCH_COLUMN, "the engine's column {column} does not exist in the table")
        }),
        Some(_) => Err(exception!(BAD_ARGUMENTS, "arguments of {name} must be columns")),
    };
    let at_most = |count: usize| {
        if args.len() <= count {
            return Ok(());
        }
        Err(exception!(WRONG_ARGUMENT_COUNT, "Engine {name} takes at most {count} arguments"))
    };
    def.behaviour = match name.as_str() {
        "CnchMergeTree" => {
            at_most(1)?;
            check_version(def, &args)?;
            match &def.unique_key {
                Some(_) => Behaviour::Unique { version: args.first().cloned() },
                None => Behaviour::Append,
            }
        }
        "ReplacingMergeTree" => {
            at_most(2)?;
            let version = arg_column(0)?;
            let is_deleted = arg_column(1)?;
            if is_deleted.as_ref().is_some_and(|column| column.ty != ChType::UInt8) {
                return Err(exception!(BAD_ARGUMENTS, "The is_deleted column must be of type UInt8"));
            }
            Behaviour::Replacing { version: version.map(|c| c.name), is_deleted: is_deleted.map(|c| c.name) }
        }
        "MergeTree" | "Memory" => {
            at_most(0)?;
            Behaviour::Append
        }
        "Null" => {
            at_most(0)?;
            Behaviour::Discard
        }
        other => return Err(exception!(UNKNOWN_STORAGE, "Unknown table engine {other}")),
    };
    check_clauses(def)
}

/// The version of a CNCH table: a column of the right type, or the partition expression.
fn check_version(def: &TableDef, args: &[Expr]) -> Result<()> {
    let Some(version) = args.first() else { return Ok(()) };
    let column = if let Expr::Column(name) = version { def.column(name) } else { None };
    match column.map(|column| &column.ty) {
        Some(
            ChType::UInt8
            | ChType::UInt16
            | ChType::UInt32
            | ChType::UInt64
            | ChType::Date
            | ChType::DateTime(_),
        ) => Ok(()),
        Some(ty) => Err(exception!(
            BAD_ARGUMENTS,
            "The version column must be an unsigned integer, Date or DateTime, not {ty}"
        )),
        None if def.partition_by.as_ref() == Some(version) => Ok(()),
        None => Err(exception!(
            BAD_ARGUMENTS,
            "The version must be a column of the table or its partition expression"
        )),
    }
}

/// Which clauses the engine takes, and which it needs.
fn check_clauses(def: &TableDef) -> Result<()> {
    let name = &def.engine.name;
    let cnch = name == "CnchMergeTree";
    if def.unique_key.is_some() && !cnch {
        return Err(exception!(BAD_ARGUMENTS, "Engine {name} doesn't support UNIQUE KEY clause"));
    }
    if def.cluster_by.is_some() && !cnch {
        return Err(exception!(BAD_ARGUMENTS, "Engine {name} doesn't support CLUSTER BY clause"));
    }
    let merge_tree = name.ends_with("MergeTree");
    let keys = [&def.order_by, &def.partition_by, &def.primary_key, &def.sample_by];
    if !merge_tree && (keys.iter().any(|key| key.is_some()) || def.ttl.is_some()) {
        return Err(exception!(
            BAD_ARGUMENTS,
            "Engine {name} doesn't support PARTITION_BY, PRIMARY_KEY, ORDER_BY, SAMPLE_BY or TTL clauses"
        ));
    }
    if merge_tree && def.order_by.is_none() && def.primary_key.is_none() {
        return Err(exception!(
            BAD_ARGUMENTS,
            "You must provide an ORDER BY or PRIMARY KEY expression in the table definition. If you don't want this table to be sorted, use ORDER BY/PRIMARY KEY tuple()"
        ));
    }
    Ok(())
}

fn check_keys(def: &TableDef, context: &Context) -> Result<()> {
    for column in &def.columns {
        if column.name == DELETE_FLAG || column.name == UPDATE_COLUMNS {
            let name = &column.name;
            return Err(exception!(
                ILLEGAL_COLUMN,
                "the column name {name} is reserved for the table engine"
            ));
        }
    }
    let scope = Scope::empty_of(&def.columns, context)?;
    let nullable_ok = def.setting_number("allow_nullable_key", 0) != 0
        || def.setting_number("enable_nullable_sorting_key", 0) != 0;
    let cluster = def.cluster_by.as_ref().map(|cluster| cluster.expr.clone()).filter(|_| {
        // EXPRESSION may use functions that only place rows in buckets, which the double has none of.
        def.cluster_by.as_ref().is_some_and(|cluster| !cluster.expression)
    });
    let keys = [
        ("sorting", def.order_by.clone(), nullable_ok),
        ("primary", def.primary_key.clone(), nullable_ok),
        ("partition", def.partition_by.clone(), nullable_ok),
        ("cluster", cluster, false),
    ];
    for (what, key, nullable_ok) in keys {
        for expr in key.iter().flat_map(Expr::elements) {
            let ty = scope.eval(&expr)?.ty;
            if ty.is_nullable() && !nullable_ok {
                let name = expr.to_sql();
                return Err(exception!(
                    ILLEGAL_COLUMN,
                    "{what} key cannot contain nullable columns ({name} is {ty}), but merge tree setting `allow_nullable_key` is disabled"
                ));
            }
        }
    }
    if let (Some(primary), Some(order)) = (&def.primary_key, &def.order_by)
        && !order.elements().starts_with(&primary.elements())
    {
        return Err(exception!(BAD_ARGUMENTS, "Primary key must be a prefix of the sorting key"));
    }
    if let Some(sample) = &def.sample_by {
        let ty = scope.eval(sample)?.ty;
        if !matches!(ty, ChType::UInt8 | ChType::UInt16 | ChType::UInt32 | ChType::UInt64) {
            return Err(exception!(
                ILLEGAL_TYPE_OF_ARGUMENT,
                "Invalid sampling column type in storage parameters: {ty}. Must be unsigned integer type"
            ));
        }
    }
    Ok(())
}

fn check_unique(def: &TableDef, context: &Context) -> Result<()> {
    let Some(unique) = &def.unique_key else { return Ok(()) };
    let scope = Scope::empty_of(&def.columns, context)?;
    let elements = unique.elements();
    if elements.is_empty() || elements.len() > 10 {
        return Err(exception!(BAD_ARGUMENTS, "UNIQUE KEY takes 1 to 10 columns"));
    }
    for expr in &elements {
        let ty = scope.eval(expr)?.ty;
        if ty.is_nullable() || !can_be_unique(&ty) {
            let name = expr.to_sql();
            return Err(exception!(ILLEGAL_COLUMN, "UNIQUE KEY cannot contain {name} of type {ty}"));
        }
        if let Expr::Column(name) = expr
            && def.column(name).is_some_and(|column| column.kind() == Some(DefaultKind::Alias))
        {
            return Err(exception!(
                BAD_ARGUMENTS,
                "the ALIAS column {name} cannot be part of the UNIQUE KEY"
            ));
        }
    }
    if let Some(cluster) =
        def.cluster_by.as_ref().filter(|_| def.setting_number("enable_bucket_level_unique_keys", 0) != 0)
    {
        let mut keys = Vec::new();
        unique.columns(&mut |name| keys.push(name.to_owned()));
        let mut outside = None;
        cluster.expr.columns(&mut |name| {
            if !keys.iter().any(|key| key == name) {
                outside = Some(name.to_owned());
            }
        });
        if let Some(name) = outside {
            return Err(exception!(
                BAD_ARGUMENTS,
                "CLUSTER BY column {name} is not part of the UNIQUE KEY, which bucket-level uniqueness needs"
            ));
        }
    }
    Ok(())
}

/// The type is one that a column of a table can have, nullable or not.
pub(crate) fn same_family(left: &ChType, right: &ChType) -> bool {
    plain(left) == plain(right)
}
