//! Schema changes as `ALTER TABLE`: each looks at the table first, so that repeating one changes nothing.

use connector_bytehouse_common::{
    catalog::{DefaultKind, DescribedColumn, table_definition},
    definition::{KeyPart, TableDefinition},
    native::ChType,
    sql::{quote_ident, quote_table},
};
use connector_core::{
    Error, ErrorKind, Result, SchemaChange, TableId,
    arrow::datatypes::{DataType, Field},
    schema::ColumnPosition,
};

use super::{
    ddl::{Dialect, column_declaration, column_type},
    tables::is_absent,
};
use crate::{client::Session, config::SinkConfig};

/// Makes `table` what `change` says. Does nothing where it is so already.
///
/// # Errors
/// `Unsupported` for a change that the engine or server cannot make, or that would lose values; `SchemaMismatch`
/// when another column is in the way; `NotFound` when the table or column is not there; else what the server says.
pub(super) async fn apply(
    session: &mut Session,
    table: &TableId,
    change: &SchemaChange,
    config: &SinkConfig,
) -> Result<()> {
    let outcome = match change {
        SchemaChange::TruncateTable { .. } => {
            session.execute(&format!("TRUNCATE TABLE {}", quote_table(table))).await
        }
        SchemaChange::DropTable { .. } => {
            session.execute(&format!("DROP TABLE IF EXISTS {}", quote_table(table))).await
        }
        _ => alter(session, table, change, config).await,
    };
    outcome.map_err(|error| {
        let error = error.with_operation("bytehouse.alter").with_context("table", table);
        if is_absent(&error) {
            return Error::new(
                ErrorKind::NotFound,
                format!(
                    "a {} came for a table that is not there and was not announced",
                    change.kind().as_str()
                ),
            )
            .with_context("table", table)
            .with_source(error);
        }
        error
    })
}

async fn alter(
    session: &mut Session,
    table: &TableId,
    change: &SchemaChange,
    config: &SinkConfig,
) -> Result<()> {
    let definition = table_definition(session.client().await?, table).await?;
    let dialect = session.dialect(config).await?;
    let plan = Alteration { definition: &definition, dialect, case_insensitive: config.case_insensitive };
    let Some(action) = plan.action(change)? else {
        tracing::info!(%table, kind = change.kind().as_str(), "the table is as the change wants it already");
        return Ok(());
    };
    let sql = format!("ALTER TABLE {} {action}", quote_table(table));
    session.execute(&sql).await?;
    tracing::info!(%table, %action, "altered the table");
    Ok(())
}

/// What has to be done to a table as it stands.
struct Alteration<'a> {
    definition: &'a TableDefinition,
    dialect: Dialect,
    case_insensitive: bool,
}

impl Alteration<'_> {
    /// The action of `ALTER TABLE`; `None` where nothing is to be done.
    fn action(&self, change: &SchemaChange) -> Result<Option<String>> {
        match change {
            SchemaChange::AddColumn { column, position, .. } => self.add(column, position),
            SchemaChange::DropColumn { column, .. } => self.drop(column),
            SchemaChange::RenameColumn { from, to, .. } => self.rename(from, to),
            SchemaChange::AlterColumnType { column, data_type, nullable, .. } => {
                self.alter_type(column, data_type, *nullable)
            }
            other => Err(Error::new(
                ErrorKind::Unsupported,
                format!("the sink cannot apply a {}; change the table yourself", other.kind().as_str()),
            )),
        }
    }

    fn column(&self, name: &str) -> Option<&DescribedColumn> {
        let columns = &self.definition.columns;
        columns.iter().find(|column| column.name == name).or_else(|| {
            let lower = name.to_lowercase();
            columns.iter().find(|column| self.case_insensitive && column.name.to_lowercase() == lower)
        })
    }

    fn add(&self, field: &Field, position: &ColumnPosition) -> Result<Option<String>> {
        if let Some(there) = self.column(field.name()) {
            let wanted = column_type(field, false, self.dialect)?;
            let found = type_of(there)?;
            if holds(&found, &wanted)
                || holds(&found, plain(&wanted)) && self.needed_by(&there.name).is_some()
            {
                return Ok(None);
            }
            return Err(Error::new(
                ErrorKind::SchemaMismatch,
                format!(
                    "a column `{}` of type {wanted} is to be added, and the table has one of type {found}, which does not hold its values",
                    there.name
                ),
            ));
        }
        let place = match position {
            ColumnPosition::First if self.dialect.places_first() => " FIRST".to_owned(),
            // Old servers know no such place; columns are found by name anyway.
            ColumnPosition::First => String::new(),
            // A neighbour that only the source has says nothing about the place.
            ColumnPosition::After(name) => self
                .column(name)
                .map_or_else(String::new, |column| format!(" AFTER {}", quote_ident(&column.name))),
            ColumnPosition::Last => String::new(),
        };
        Ok(Some(format!("ADD COLUMN {}{place}", column_declaration(field, false, self.dialect)?)))
    }

    fn drop(&self, name: &str) -> Result<Option<String>> {
        let Some(column) = self.column(name) else { return Ok(None) };
        self.expect_free(&column.name, "dropped")?;
        Ok(Some(format!("DROP COLUMN {}", quote_ident(&column.name))))
    }

    fn rename(&self, from: &str, to: &str) -> Result<Option<String>> {
        let exact = |name: &str| self.definition.columns.iter().find(|column| column.name == name);
        let (old, new) = (exact(from).or_else(|| self.column(from).filter(|c| c.name != to)), exact(to));
        match (old, new) {
            (None, Some(_)) => Ok(None),
            // At the source `to` was free. So this was done before, and the old name was given again since.
            (Some(_), Some(_)) => {
                tracing::warn!(from, to, "the table has columns of both names: the renaming counts as done");
                Ok(None)
            }
            (None, None) => Err(Error::new(
                ErrorKind::NotFound,
                format!("column `{from}` is to be renamed to `{to}`, and the table has neither"),
            )),
            (Some(old), None) => {
                self.expect_free(&old.name, "renamed")?;
                if !self.dialect.renames_columns() {
                    return Err(Error::new(
                        ErrorKind::Unsupported,
                        format!(
                            "column `{from}` is to be renamed to `{to}`, which this server cannot do; it takes ClickHouse 20.4 or newer"
                        ),
                    ));
                }
                Ok(Some(format!("RENAME COLUMN {} TO {}", quote_ident(&old.name), quote_ident(to))))
            }
        }
    }

    fn alter_type(&self, name: &str, data_type: &DataType, nullable: bool) -> Result<Option<String>> {
        let column = self.column(name).ok_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                format!("the type of column `{name}` is to change, and the table has no such column"),
            )
        })?;
        let found = type_of(column)?;
        let key = self.needed_by(&column.name);
        // Nulls that are there stay; those of a key column never come.
        let nullable = (nullable || found.is_nullable()) && key.is_none();
        let wanted =
            column_type(&Field::new(name, data_type.clone(), nullable), key.is_some(), self.dialect)?;
        if holds(&found, &wanted) {
            return Ok(None);
        }
        if !converts(&wanted, &found) {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "column `{}` would change from {found} to {wanted}, which does not hold all values of the old type; \
                     widen the type, or change the table yourself",
                    column.name
                ),
            ));
        }
        self.expect_free(&column.name, "changed")?;
        let mut action = format!("MODIFY COLUMN {} {wanted}", quote_ident(&column.name));
        // Some servers forget the default of a column whose type is given without it.
        if column.default_kind == DefaultKind::Default {
            action.push_str(&format!(" DEFAULT {}", column.default_expression));
        }
        Ok(Some(action))
    }

    /// Refuses to touch what the engine is built on.
    fn expect_free(&self, column: &str, what: &str) -> Result<()> {
        let Some(clause) = self.needed_by(column) else { return Ok(()) };
        Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "column `{column}` is part of {clause} and cannot be {what}; make a new table and copy the rows"
            ),
        ))
    }

    /// The clause that needs a column.
    fn needed_by(&self, column: &str) -> Option<&'static str> {
        let definition = self.definition;
        let in_key = |key: &[KeyPart]| key.iter().any(|part| mentions(part, column));
        let in_text = |text: &Option<String>| text.as_ref().is_some_and(|text| text_mentions(text, column));
        let engine = definition.version().into_iter().chain(definition.is_deleted()).collect::<Vec<_>>();
        [
            ("the UNIQUE KEY", in_key(&definition.unique_key)),
            ("ORDER BY", in_key(&definition.order_by)),
            ("the PRIMARY KEY", in_key(&definition.primary_key)),
            ("PARTITION BY", in_text(&definition.partition_by)),
            ("CLUSTER BY", in_text(&definition.cluster_by)),
            ("SAMPLE BY", in_text(&definition.sample_by)),
            ("the engine", in_key(&engine)),
        ]
        .into_iter()
        .find_map(|(clause, found)| found.then_some(clause))
    }
}

fn mentions(part: &KeyPart, column: &str) -> bool {
    match part {
        KeyPart::Column(name) => name == column,
        KeyPart::Expression(text) => text_mentions(text, column),
    }
}

/// True when a name stands in an expression, quoted or as a word of its own.
fn text_mentions(text: &str, column: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    text.contains(&quote_ident(column)) || text.split(|c| !word(c)).any(|part| part == column)
}

fn type_of(column: &DescribedColumn) -> Result<ChType> {
    column.type_text.parse().map_err(|e: Error| e.with_context("column", &column.name))
}

fn plain(ty: &ChType) -> &ChType {
    match ty {
        ChType::Nullable(inner) | ChType::LowCardinality(inner) => plain(inner),
        other => other,
    }
}

/// True when `wide` holds every value of `narrow` as it is.
fn holds(wide: &ChType, narrow: &ChType) -> bool {
    let null =
        |ty: &ChType| ty.is_nullable() || matches!(ty, ChType::LowCardinality(inner) if inner.is_nullable());
    if null(narrow) && !null(wide) {
        return false;
    }
    let (wide, narrow) = (plain(wide), plain(narrow));
    if wide == narrow {
        return true;
    }
    match (wide, narrow) {
        (ChType::Array(wide), ChType::Array(narrow)) => holds(wide, narrow),
        (ChType::Map(wide_key, wide), ChType::Map(narrow_key, narrow)) => {
            wide_key == narrow_key && holds(wide, narrow)
        }
        (
            ChType::Decimal { precision, scale },
            ChType::Decimal { precision: narrow_precision, scale: narrow_scale },
        ) => scale >= narrow_scale && precision - scale >= narrow_precision - narrow_scale,
        (ChType::Decimal { precision, scale }, narrow) => {
            whole(narrow).is_some_and(|(_, bits)| precision - scale >= digits(bits))
        }
        (ChType::Float64, ChType::Float32) => true,
        (ChType::Float64, narrow) => whole(narrow).is_some_and(|(_, bits)| bits <= 32),
        (ChType::Float32, narrow) => whole(narrow).is_some_and(|(_, bits)| bits <= 16),
        (ChType::Date32, ChType::Date) => true,
        (ChType::DateTime64(wide, _), ChType::DateTime(_)) => *wide <= 9,
        (ChType::DateTime64(wide, _), ChType::DateTime64(narrow, _)) => {
            wide >= narrow && *wide < 9 || wide == narrow
        }
        (ChType::DateTime(_), ChType::DateTime(_)) => true,
        (ChType::Time64 { .. }, ChType::Time) => true,
        (ChType::Time64 { scale: wide, .. }, ChType::Time64 { scale: narrow, .. }) => wide >= narrow,
        (wide, narrow) => match (whole(wide), whole(narrow)) {
            (Some((true, wide)), Some((true, narrow))) | (Some((false, wide)), Some((false, narrow))) => {
                wide >= narrow
            }
            (Some((true, wide)), Some((false, narrow))) => wide > narrow,
            _ => false,
        },
    }
}

/// True when the server turns every value of `narrow` into one of `wide` that says the same: also numbers and
/// names into text, which the sink itself does not.
fn converts(wide: &ChType, narrow: &ChType) -> bool {
    let text = *plain(wide) == ChType::String
        && (whole(plain(narrow)).is_some()
            || matches!(plain(narrow), ChType::Decimal { .. } | ChType::Enum8(_) | ChType::Enum16(_)));
    holds(wide, narrow) || text && (!narrow.is_nullable() || wide.is_nullable())
}

/// Whether a whole number is signed, and its bits.
fn whole(ty: &ChType) -> Option<(bool, u16)> {
    Some(match ty {
        ChType::Bool => (false, 1),
        ChType::UInt8 => (false, 8),
        ChType::UInt16 => (false, 16),
        ChType::UInt32 => (false, 32),
        ChType::UInt64 => (false, 64),
        ChType::UInt128 => (false, 128),
        ChType::UInt256 => (false, 256),
        ChType::Int8 => (true, 8),
        ChType::Int16 => (true, 16),
        ChType::Int32 => (true, 32),
        ChType::Int64 => (true, 64),
        ChType::Int128 => (true, 128),
        ChType::Int256 => (true, 256),
        _ => return None,
    })
}

/// Decimal digits of the largest number of so many bits.
fn digits(bits: u16) -> u8 {
    match bits {
        0..=8 => 3,
        9..=16 => 5,
        17..=32 => 10,
        33..=64 => 20,
        65..=128 => 39,
        _ => 78,
    }
}

#[cfg(test)]
pub(super) fn action_for(
    definition: &TableDefinition,
    dialect: Dialect,
    change: &SchemaChange,
) -> Result<Option<String>> {
    Alteration { definition, dialect, case_insensitive: true }.action(change)
}

#[cfg(test)]
mod tests;
