//! What schema changes and announcements make of a writer.

use connector_core::{
    ChangeBatch, Result, SchemaChange, TableId,
    arrow::datatypes::{Schema, SchemaRef},
    schema::TableSchema,
};

use super::{delivery::wait, evolution, target::Target, writer::BytehouseCdwWriter};

impl BytehouseCdwWriter {
    /// Checks or creates an announced table, as often as the retry policy says, and makes it ready for rows.
    pub(super) async fn announce(&mut self, table: &TableId, schema: &TableSchema) -> Result<()> {
        let known =
            self.buffers.get(table).is_some_and(|buffer| buffer.route.columns.source == schema.columns);
        if known {
            return Ok(());
        }
        self.let_go(table).await?;
        let mut backoffs = self.config.retry.backoffs();
        let target = loop {
            match self.tables.announce(&mut self.session, table, schema, &self.config).await {
                Err(error) if error.is_transient() => wait(error, backoffs.next()).await?,
                outcome => break outcome?,
            }
        };
        let Some(target) = target else { return Ok(()) };
        let known = target.known_schema(&schema.columns, self.config.case_insensitive)?;
        let complete = known.fields().len() == schema.columns.fields().len();
        let buffer = self.buffer(target, &known).await?;
        if complete || self.leaves_out_columns {
            self.buffers.insert(table.clone(), buffer);
        } else {
            // A change that was applied right before a crash comes again behind the announcement, and no row with
            // the missing columns before it. Rows that bring them are refused.
            tracing::warn!(%table, "the table lacks announced columns; rows that bring them will be refused");
        }
        Ok(())
    }

    /// Alters a table, as often as the retry policy says. The next rows meet it as it is then.
    pub(super) async fn evolve(&mut self, table: &TableId, change: &SchemaChange) -> Result<()> {
        self.let_go(table).await?;
        let mut backoffs = self.config.retry.backoffs();
        loop {
            match evolution::apply(&mut self.session, table, change, &self.config).await {
                Err(error) if error.is_transient() => wait(error, backoffs.next()).await?,
                outcome => break outcome?,
            }
        }
        if matches!(change, SchemaChange::DropTable { .. }) {
            self.tables.forget(table);
        }
        Ok(())
    }

    /// Forgets what is known of a table's columns; rows that wait are written before.
    pub(super) async fn let_go(&mut self, table: &TableId) -> Result<()> {
        if !self.holds {
            self.dispatch(table, None).await?;
            self.lanes.wait_for_table(table).await?;
        }
        self.buffers.remove(table);
        Ok(())
    }
}

impl Target {
    /// The rows' columns that the table has, by their place.
    fn known_columns(&self, rows: &Schema, case_insensitive: bool) -> Vec<usize> {
        let known = |(at, field): (usize, &std::sync::Arc<connector_core::arrow::datatypes::Field>)| {
            self.column(field.name(), case_insensitive).map(|_| at)
        };
        rows.fields().iter().enumerate().filter_map(known).collect()
    }

    /// The rows' schema without the columns that the table lacks.
    pub(super) fn known_schema(&self, rows: &SchemaRef, case_insensitive: bool) -> Result<SchemaRef> {
        let known = self.known_columns(rows, case_insensitive);
        if known.len() == rows.fields().len() {
            return Ok(SchemaRef::clone(rows));
        }
        rows.project(&known).map(SchemaRef::new).map_err(cannot_project)
    }

    /// The rows without the columns that the table lacks, and the names of these.
    pub(super) fn known_rows(
        &self,
        rows: ChangeBatch,
        case_insensitive: bool,
    ) -> Result<(ChangeBatch, Vec<String>)> {
        let known = self.known_columns(rows.rows().schema_ref(), case_insensitive);
        let schema = rows.rows().schema();
        if known.len() == schema.fields().len() {
            return Ok((rows, Vec::new()));
        }
        let left_out = (0..schema.fields().len()).filter(|at| !known.contains(at));
        let names = left_out.map(|at| schema.field(at).name().clone()).collect();
        let (columns, kinds) = rows.into_parts();
        let rows = ChangeBatch::try_new(columns.project(&known).map_err(cannot_project)?, kinds)?;
        Ok((rows, names))
    }
}

fn cannot_project(error: connector_core::arrow::error::ArrowError) -> connector_core::Error {
    connector_core::Error::new(connector_core::ErrorKind::Unexpected, "cannot leave out columns")
        .with_source(error)
}
