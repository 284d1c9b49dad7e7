//! SELECT.

use std::sync::Arc;

use connector_bytehouse_common::native::{ChType, ColumnDef};
use connector_core::arrow::{
    array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array},
    compute::{SortOptions, take},
    datatypes::{Field, Schema},
};
use hashbrown::HashMap;

use super::{
    Session,
    aggregate::{self, Groups},
    catalog::{Catalog, DELETE_FLAG, TableDef, UPDATE_COLUMNS, resolve},
    eval::{Context, Data, Evaluated, Scope, internal},
    keys::{row_bytes, row_bytes_by},
    replacing, system,
};
use crate::{
    exception::{Result, exception},
    options::DoubleOptions,
    sql::ast::{Expr, From, Select, TableName},
};

/// The rows of a query.
#[derive(Debug, Clone)]
pub(crate) struct ResultSet {
    pub(crate) columns: Vec<ColumnDef>,
    pub(crate) rows: RecordBatch,
    /// Rows that were read to find them.
    pub(crate) read_rows: usize,
    /// Rows that there were before LIMIT, where there was one.
    pub(crate) before_limit: Option<usize>,
}

impl ResultSet {
    /// Rows from columns.
    pub(crate) fn new(columns: Vec<(String, ChType, ArrayRef)>, rows: usize) -> Result<Self> {
        let mut defs = Vec::with_capacity(columns.len());
        let mut fields = Vec::with_capacity(columns.len());
        let mut arrays = Vec::with_capacity(columns.len());
        for (name, ty, array) in columns {
            fields.push(Field::new(
                &name,
                array.data_type().clone(),
                ty.is_nullable() || array.null_count() > 0,
            ));
            defs.push(ColumnDef::new(name, ty));
            arrays.push(array);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
            .map_err(internal)?;
        Ok(Self { columns: defs, rows: batch, read_rows: rows, before_limit: None })
    }
}

/// What a query may look at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) session: &'a Session,
    pub(crate) options: &'a DoubleOptions,
    pub(crate) context: &'a Context,
}

/// Runs a query.
pub(crate) fn select(select: &Select, view: View<'_>) -> Result<ResultSet> {
    let select = substitute_aliases(select);
    let mut scope = source(&select, view)?;
    let read_rows = scope.rows;
    let projection = expand(&select, &scope, view)?;
    if let Some(filter) = &select.filter {
        let keep = condition(filter, &scope)?;
        scope = rows_at(scope, &keep)?;
    }
    let mut calls = Vec::new();
    projection.iter().for_each(|(expr, _)| aggregate::collect(expr, &mut calls));
    select.having.iter().for_each(|expr| aggregate::collect(expr, &mut calls));
    select.order_by.iter().for_each(|item| aggregate::collect(&item.expr, &mut calls));
    let grouped = !select.group_by.is_empty() || !calls.is_empty();
    let rewrite = |expr: &Expr| if grouped { regroup(expr, &select.group_by) } else { Ok(expr.clone()) };
    if grouped {
        scope = group(&select.group_by, &calls, scope)?;
    }
    if let Some(having) = &select.having {
        if !grouped {
            return Err(exception!(NOT_IMPLEMENTED, "HAVING without aggregation is not known to the double"));
        }
        let keep = condition(&rewrite(having)?, &scope)?;
        scope = rows_at(scope, &keep)?;
    }
    let mut columns = Vec::with_capacity(projection.len());
    for (expr, name) in &projection {
        let value = scope.eval(&rewrite(expr)?)?;
        columns.push((name.clone(), value.ty.clone(), value.into_array(scope.rows)?));
    }
    let mut order = (0..u32::try_from(scope.rows).map_err(internal)?).collect::<Vec<u32>>();
    if !select.order_by.is_empty() {
        sort(&select, &scope, &rewrite, &mut order)?;
    }
    if select.distinct {
        order = distinct(&columns, order)?;
    }
    let before_limit = order.len();
    let offset = usize::try_from(select.offset).unwrap_or(usize::MAX).min(order.len());
    let end = select
        .limit
        .and_then(|limit| usize::try_from(limit).ok())
        .map_or(order.len(), |limit| offset.saturating_add(limit).min(order.len()));
    let kept = &order[offset..end];
    if kept.len() != scope.rows || !select.order_by.is_empty() {
        let indices = UInt32Array::from(kept.to_vec());
        for (_, _, array) in &mut columns {
            *array = take(array, &indices, None).map_err(internal)?;
        }
    }
    let mut result = ResultSet::new(columns, kept.len())?;
    result.read_rows = read_rows;
    result.before_limit = select.limit.map(|_| before_limit);
    Ok(result)
}

/// Puts the expressions behind names that the select list gives, where names may be used.
fn substitute_aliases(select: &Select) -> Select {
    let aliases: Vec<(String, Expr)> = select
        .projection
        .iter()
        .filter_map(|(expr, alias)| alias.as_ref().map(|alias| (alias.clone(), expr.clone())))
        .collect();
    if aliases.is_empty() {
        return select.clone();
    }
    let mut out = select.clone();
    let replace = |expr: &Expr| replace_names(expr, &aliases, None);
    out.filter = select.filter.as_ref().map(replace);
    out.having = select.having.as_ref().map(replace);
    out.group_by = select.group_by.iter().map(replace).collect();
    for item in &mut out.order_by {
        item.expr = replace(&item.expr);
    }
    for (expr, alias) in &mut out.projection {
        *expr = replace_names(expr, &aliases, alias.as_deref().or(Some("")));
    }
    out
}

/// `own` is the name of the expression itself, which means a column inside of it.
fn replace_names(expr: &Expr, aliases: &[(String, Expr)], own: Option<&str>) -> Expr {
    match expr {
        Expr::Column(name) if own != Some(name) => match aliases.iter().find(|(alias, _)| alias == name) {
            Some((_, meant)) if *meant != *expr => {
                // Names inside may be aliases again, but not this one: `x + 1 AS x` means the column.
                let others: Vec<_> = aliases.iter().filter(|(alias, _)| alias != name).cloned().collect();
                replace_names(meant, &others, None)
            }
            _ => expr.clone(),
        },
        Expr::Call { name, args, distinct } => Expr::Call {
            name: name.clone(),
            args: args.iter().map(|arg| replace_names(arg, aliases, own)).collect(),
            distinct: *distinct,
        },
        _ => expr.clone(),
    }
}

/// The rows that the query reads.
fn source<'a>(select: &Select, view: View<'a>) -> Result<Scope<'a>> {
    match &select.from {
        None => Ok(Scope::bare(view.context, 1)),
        Some(From::Query(inner)) => {
            let result = self::select(inner, view)?;
            let mut scope = Scope::bare(view.context, result.rows.num_rows());
            for (column, array) in result.columns.iter().zip(result.rows.columns()) {
                scope.push(&column.name, column.ty.clone(), Arc::clone(array));
            }
            Ok(scope)
        }
        Some(From::Numbers { start, count }) => system::numbers(*start, *count, view.context),
        Some(From::Table { name, last }) => table(select, name, *last, view),
    }
}

fn table<'a>(select: &Select, name: &TableName, last: bool, view: View<'a>) -> Result<Scope<'a>> {
    let (database, table) = resolve(name, &view.session.database);
    if database == "system" {
        if table == "numbers" {
            let rows = select.limit.filter(|_| {
                select.filter.is_none() && select.group_by.is_empty() && select.order_by.is_empty()
            });
            let rows = rows.ok_or_else(|| {
                exception!(NOT_IMPLEMENTED, "system.numbers without a plain LIMIT never ends")
            })?;
            return system::numbers(0, rows.saturating_add(select.offset), view.context);
        }
        return system::table(table, view);
    }
    let table = view.catalog.table(database, table)?;
    let def = &table.def;
    if last && !replacing::supports_final(def) {
        return Err(exception!(ILLEGAL_FINAL, "Storage {} doesn't support FINAL", def.engine.name));
    }
    refuse_hidden(select)?;
    let needed = needed_columns(select, def);
    let batch = if last && !def.is_unique() {
        replacing::last_rows(def, &table.data, view.context)?
    } else {
        let places: Vec<usize> = def
            .stored()
            .enumerate()
            .filter(|(_, column)| needed.contains(&column.name))
            .map(|(i, _)| i)
            .collect();
        table.data.visible(Some(&places))?
    };
    Ok(Scope::of_table(def, &batch, view.context))
}

fn refuse_hidden(select: &Select) -> Result<()> {
    let mut found = None;
    for_each_expr(select, &mut |expr| {
        expr.columns(&mut |name| {
            if name == DELETE_FLAG || name == UPDATE_COLUMNS {
                found = Some(name.to_owned());
            }
        });
    });
    match found {
        Some(name) => Err(exception!(UNKNOWN_IDENTIFIER, "Missing columns: '{name}' while processing query")),
        None => Ok(()),
    }
}

fn for_each_expr(select: &Select, visit: &mut dyn FnMut(&Expr)) {
    select.projection.iter().for_each(|(expr, _)| visit(expr));
    select.filter.iter().for_each(&mut *visit);
    select.group_by.iter().for_each(&mut *visit);
    select.having.iter().for_each(&mut *visit);
    select.order_by.iter().for_each(|item| visit(&item.expr));
}

/// The table's columns that the query needs, those behind ALIAS columns too.
fn needed_columns(select: &Select, def: &TableDef) -> Vec<String> {
    let mut needed: Vec<String> = Vec::new();
    let mut add = |name: &str| {
        for name in [Some(name), name.split_once('.').map(|(_, rest)| rest)].into_iter().flatten() {
            if !needed.iter().any(|known| known == name) {
                needed.push(name.to_owned());
            }
        }
    };
    for_each_expr(select, &mut |expr| expr.columns(&mut add));
    if select.projection.iter().any(|(expr, _)| *expr == Expr::Star) {
        def.columns.iter().for_each(|column| add(&column.name));
    }
    let mut at = 0;
    while let Some(name) = needed.get(at).cloned() {
        if let Some((_, expr)) = def.column(&name).filter(|c| !c.is_stored()).and_then(|c| c.default.as_ref())
        {
            expr.columns(&mut |name| {
                if !needed.iter().any(|known| known == name) {
                    needed.push(name.to_owned());
                }
            });
        }
        at += 1;
    }
    needed
}

/// The select list with its names; `*` stands for the columns that are neither computed nor aliases.
fn expand(select: &Select, scope: &Scope<'_>, view: View<'_>) -> Result<Vec<(Expr, String)>> {
    let mut out = Vec::new();
    for (expr, alias) in &select.projection {
        if *expr == Expr::Star {
            let names: Vec<String> = match &select.from {
                Some(From::Table { name, .. }) if resolve(name, &view.session.database).0 != "system" => {
                    let (database, table) = resolve(name, &view.session.database);
                    let def = &view.catalog.table(database, table)?.def;
                    def.columns
                        .iter()
                        .filter(|column| column.is_insertable())
                        .map(|c| c.name.clone())
                        .collect()
                }
                None => return Err(exception!(SYNTAX_ERROR, "an asterisk needs a table")),
                _ => scope.columns.iter().map(|column| column.name.clone()).collect(),
            };
            out.extend(names.into_iter().map(|name| (Expr::Column(name.clone()), name)));
            continue;
        }
        let name = match (alias, expr) {
            (Some(alias), _) => alias.clone(),
            (None, Expr::Column(name)) if !scope.has(name) => {
                name.split_once('.').map_or(name.clone(), |(_, rest)| rest.to_owned())
            }
            (None, other) => other.column_name(),
        };
        out.push((expr.clone(), name));
    }
    Ok(out)
}

/// The rows for which a condition is true.
pub(crate) fn condition(filter: &Expr, scope: &Scope<'_>) -> Result<Vec<u32>> {
    let value = scope.eval(filter)?;
    let values = value.values()?;
    let rows = u32::try_from(scope.rows).map_err(internal)?;
    Ok(match value.const_value() {
        Some(constant) => {
            if constant.is_true() {
                (0..rows).collect()
            } else {
                Vec::new()
            }
        }
        None => (0..rows)
            .filter(|row| values.get(*row as usize).is_some_and(super::value::Value::is_true))
            .collect(),
    })
}

/// The scope with the rows at `indices` only.
fn rows_at<'a>(mut scope: Scope<'a>, indices: &[u32]) -> Result<Scope<'a>> {
    if indices.len() == scope.rows {
        return Ok(scope);
    }
    let taken = UInt32Array::from(indices.to_vec());
    for column in &mut scope.columns {
        column.array = take(&column.array, &taken, None).map_err(internal)?;
    }
    scope.rows = indices.len();
    Ok(scope)
}

/// One row per group: its keys and its aggregates, each under the name of its expression.
fn group<'a>(keys: &[Expr], calls: &[&Expr], scope: Scope<'a>) -> Result<Scope<'a>> {
    let mut arrays = Vec::with_capacity(keys.len());
    let mut types = Vec::with_capacity(keys.len());
    for key in keys {
        let value = scope.eval(key)?;
        types.push(value.ty.clone());
        arrays.push(value.into_array(scope.rows)?);
    }
    let mut firsts: Vec<u32> = Vec::new();
    let groups = if keys.is_empty() {
        Groups { count: 1, of_row: Vec::new() }
    } else {
        let bytes = row_bytes(&arrays)?;
        let mut known: HashMap<&[u8], u32> = HashMap::new();
        let mut of_row = Vec::with_capacity(scope.rows);
        for row in 0..scope.rows {
            let next = u32::try_from(firsts.len()).map_err(internal)?;
            let number = *known.entry(bytes.row(row).data()).or_insert(next);
            if number == next {
                firsts.push(u32::try_from(row).map_err(internal)?);
            }
            of_row.push(number);
        }
        Groups { count: firsts.len(), of_row }
    };
    let mut out = Scope::bare(scope.context, groups.count);
    let firsts = UInt32Array::from(firsts);
    for ((key, ty), array) in keys.iter().zip(types).zip(&arrays) {
        out.push(&group_name(key), ty, take(array, &firsts, None).map_err(internal)?);
    }
    for call in calls {
        let value = aggregate::run(call, &scope, &groups)?;
        out.push(&group_name(call), value.ty.clone(), value.into_array(groups.count)?);
    }
    Ok(out)
}

/// A name that no column has.
fn group_name(expr: &Expr) -> String {
    format!("\u{0}{}", expr.column_name())
}

/// The expression over groups: keys and aggregates become columns, any other column is an error.
fn regroup(expr: &Expr, keys: &[Expr]) -> Result<Expr> {
    if keys.contains(expr) {
        return Ok(Expr::Column(group_name(expr)));
    }
    match expr {
        Expr::Call { name, .. } if aggregate::is_aggregate(name) => Ok(Expr::Column(group_name(expr))),
        Expr::Call { name, args, distinct } => {
            let args: Result<Vec<Expr>> = args.iter().map(|arg| regroup(arg, keys)).collect();
            Ok(Expr::Call { name: name.clone(), args: args?, distinct: *distinct })
        }
        Expr::Column(name) => Err(exception!(
            NOT_AN_AGGREGATE,
            "Column {name} is not under aggregate function and not in GROUP BY"
        )),
        other => Ok(other.clone()),
    }
}

fn sort(
    select: &Select,
    scope: &Scope<'_>,
    rewrite: &dyn Fn(&Expr) -> Result<Expr>,
    order: &mut [u32],
) -> Result<()> {
    let mut arrays = Vec::with_capacity(select.order_by.len());
    let mut options = Vec::with_capacity(select.order_by.len());
    for item in &select.order_by {
        let value: Evaluated = scope.eval(&rewrite(&item.expr)?)?;
        if let Data::Const(_) = value.data {
            continue;
        }
        arrays.push(value.into_array(scope.rows)?);
        // Nulls come last both ways unless the statement says otherwise.
        options.push(SortOptions {
            descending: item.descending,
            nulls_first: item.nulls_first.unwrap_or(false),
        });
    }
    if arrays.is_empty() {
        return Ok(());
    }
    let bytes = row_bytes_by(&arrays, &options)?;
    order.sort_by(|a, b| bytes.row(*a as usize).cmp(&bytes.row(*b as usize)));
    Ok(())
}

fn distinct(columns: &[(String, ChType, ArrayRef)], order: Vec<u32>) -> Result<Vec<u32>> {
    let arrays: Vec<ArrayRef> = columns.iter().map(|(_, _, array)| Arc::clone(array)).collect();
    let bytes = row_bytes(&arrays)?;
    let mut seen = hashbrown::HashSet::new();
    Ok(order.into_iter().filter(|row| seen.insert(bytes.row(*row as usize).data())).collect())
}
