//! Expressions over the rows of a batch.

use std::borrow::Cow;

use connector_bytehouse_common::native::ChType;
use connector_core::arrow::array::{ArrayRef, RecordBatch, new_empty_array};
use jiff::Timestamp;

use super::{
    aggregate,
    catalog::{Column, TableDef},
    functions,
    value::{Value, Zone, arrow_type, build_array, convert, literal_value, plain, values_of},
};
use crate::{
    exception::{Exception, Result, exception},
    sql::ast::{DefaultKind, Expr, Literal},
};

/// ALIAS columns may refer to each other this deep.
const MAX_ALIAS_DEPTH: usize = 16;

/// What expressions may ask about their surroundings; the same for all rows of a statement.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) zone: Zone,
    pub(crate) zone_name: String,
    pub(crate) now: Timestamp,
    pub(crate) database: String,
    pub(crate) user: String,
    pub(crate) version: String,
}

/// What an expression evaluates to.
#[derive(Debug, Clone)]
pub(crate) struct Evaluated {
    pub(crate) ty: ChType,
    pub(crate) data: Data,
}

/// The values of an expression: one for all rows, or one per row in either form.
#[derive(Debug, Clone)]
pub(crate) enum Data {
    Const(Value),
    Array(ArrayRef),
    Values(Vec<Value>),
}

impl Evaluated {
    pub(crate) fn constant(value: Value, ty: ChType) -> Self {
        Self { ty, data: Data::Const(value) }
    }

    /// A value per row; a constant stays one value.
    pub(crate) fn values(&self) -> Result<Cow<'_, [Value]>> {
        Ok(match &self.data {
            Data::Const(value) => Cow::Borrowed(std::slice::from_ref(value)),
            Data::Array(array) => Cow::Owned(values_of(array, &self.ty)?),
            Data::Values(values) => Cow::Borrowed(values),
        })
    }

    pub(crate) fn is_const(&self) -> bool {
        matches!(self.data, Data::Const(_))
    }

    /// The constant, where it is one.
    pub(crate) fn const_value(&self) -> Option<&Value> {
        match &self.data {
            Data::Const(value) => Some(value),
            _ => None,
        }
    }

    /// The values as an array of `rows` rows.
    pub(crate) fn into_array(self, rows: usize) -> Result<ArrayRef> {
        match self.data {
            Data::Const(value) => {
                if rows == 0 {
                    return Ok(new_empty_array(&arrow_type(&self.ty)?));
                }
                repeat(&build_array(&self.ty, std::slice::from_ref(&value))?, rows)
            }
            Data::Array(array) => Ok(array),
            Data::Values(values) => build_array(&self.ty, &values),
        }
    }

    /// The same values as type `to`.
    pub(crate) fn cast(self, to: &ChType, zone: &Zone) -> Result<Self> {
        if self.ty == *to {
            return Ok(self);
        }
        // `Nullable(T)` and `LowCardinality(T)` may share their array type with `T`: no value to look at then.
        if let Data::Array(array) = &self.data {
            let same = super::create::same_family(&self.ty, to) && *array.data_type() == arrow_type(to)?;
            if same && (to.is_nullable() || array.null_count() == 0) {
                return Ok(Self { ty: to.clone(), data: self.data });
            }
        }
        let one = |value: &Value| convert(value, &self.ty, to, zone);
        let data = match &self.data {
            Data::Const(value) => Data::Const(one(value)?),
            _ => Data::Values(self.values()?.iter().map(one).collect::<Result<_>>()?),
        };
        Ok(Self { ty: to.clone(), data })
    }
}

fn repeat(one: &ArrayRef, rows: usize) -> Result<ArrayRef> {
    let indices = connector_core::arrow::array::UInt32Array::from(vec![0u32; rows]);
    connector_core::arrow::compute::take(one, &indices, None).map_err(internal)
}

/// An error of the double's own making: something that no statement should lead to.
#[allow(clippy::needless_pass_by_value, reason = "fits map_err")]
pub(crate) fn internal(error: impl std::fmt::Display) -> Exception {
    exception!(LOGICAL_ERROR, "the double cannot go on: {error}")
}

/// A column that expressions can name.
#[derive(Debug, Clone)]
pub(crate) struct ScopeColumn {
    pub(crate) name: String,
    pub(crate) ty: ChType,
    pub(crate) array: ArrayRef,
}

/// The rows that an expression is evaluated over.
#[derive(Debug)]
pub(crate) struct Scope<'a> {
    pub(crate) context: &'a Context,
    pub(crate) columns: Vec<ScopeColumn>,
    pub(crate) rows: usize,
    aliases: Vec<Column>,
}

impl<'a> Scope<'a> {
    /// `rows` rows without columns.
    pub(crate) fn bare(context: &'a Context, rows: usize) -> Self {
        Self { context, columns: Vec::new(), rows, aliases: Vec::new() }
    }

    /// No rows of these columns: enough to type expressions and to refuse wrong ones.
    pub(crate) fn empty_of(columns: &[Column], context: &'a Context) -> Result<Self> {
        let mut scope = Self::bare(context, 0);
        for column in columns {
            if column.is_stored() {
                let array = new_empty_array(&arrow_type(&column.ty)?);
                scope.push(&column.name, column.ty.clone(), array);
            } else {
                scope.aliases.push(column.clone());
            }
        }
        Ok(scope)
    }

    /// The rows of a batch of the table's stored columns.
    pub(crate) fn of_table(def: &TableDef, batch: &RecordBatch, context: &'a Context) -> Self {
        let mut scope = Self::bare(context, batch.num_rows());
        for column in &def.columns {
            if column.kind() == Some(DefaultKind::Alias) {
                scope.aliases.push(column.clone());
            } else if let Some(array) = batch.column_by_name(&column.name) {
                scope.push(&column.name, column.ty.clone(), std::sync::Arc::clone(array));
            }
        }
        scope
    }

    pub(crate) fn push(&mut self, name: &str, ty: ChType, array: ArrayRef) {
        self.columns.push(ScopeColumn { name: name.to_owned(), ty, array });
    }

    pub(crate) fn find(&self, name: &str) -> Option<&ScopeColumn> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The type of a column, ALIAS columns too.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.find(name).is_some() || self.aliases.iter().any(|alias| alias.name == name)
    }

    /// Evaluates over all rows.
    pub(crate) fn eval(&self, expr: &Expr) -> Result<Evaluated> {
        self.eval_at(expr, 0)
    }

    /// Evaluates and converts to a column's type.
    pub(crate) fn eval_as(&self, expr: &Expr, ty: &ChType) -> Result<Evaluated> {
        // A number for a decimal column keeps all its digits; by itself it would be a floating-point number.
        if let (Expr::Literal(Literal::Number(text)), ChType::Decimal { .. }) = (expr, plain(ty)) {
            return Evaluated::constant(Value::text(text), ChType::String).cast(ty, &self.context.zone);
        }
        self.eval(expr)?.cast(ty, &self.context.zone)
    }

    fn eval_at(&self, expr: &Expr, alias_depth: usize) -> Result<Evaluated> {
        match expr {
            Expr::Literal(literal) => {
                let (value, ty) = literal_value(literal)?;
                Ok(Evaluated::constant(value, ty))
            }
            Expr::Column(name) => self.column(name, alias_depth),
            Expr::Star => Err(exception!(SYNTAX_ERROR, "an asterisk makes no sense here")),
            Expr::Call { name, args, .. } => {
                if aggregate::is_aggregate(name) {
                    let name = expr.column_name();
                    return Err(exception!(
                        ILLEGAL_AGGREGATION,
                        "Aggregate function {name} is found in wrong place in query"
                    ));
                }
                let args: Result<Vec<Evaluated>> =
                    args.iter().map(|arg| self.eval_at(arg, alias_depth)).collect();
                functions::call(name, &args?, self)
            }
        }
    }

    fn column(&self, name: &str, alias_depth: usize) -> Result<Evaluated> {
        if let Some(column) = self.find(name) {
            return Ok(Evaluated {
                ty: column.ty.clone(),
                data: Data::Array(std::sync::Arc::clone(&column.array)),
            });
        }
        if let Some((alias, (_, expr))) =
            self.aliases.iter().find(|c| c.name == name).and_then(|c| Some((c, c.default.as_ref()?)))
        {
            if alias_depth == MAX_ALIAS_DEPTH {
                return Err(exception!(TOO_DEEP_RECURSION, "the ALIAS column {name} refers to itself"));
            }
            return self.eval_at(expr, alias_depth + 1)?.cast(&alias.ty, &self.context.zone);
        }
        // `t.column`: there is one table only, so what stands before the last dot is its name.
        match name.split_once('.') {
            Some((_, rest)) if self.has(rest) => self.column(rest, alias_depth),
            _ => Err(exception!(UNKNOWN_IDENTIFIER, "Missing columns: '{name}' while processing query")),
        }
    }
}
