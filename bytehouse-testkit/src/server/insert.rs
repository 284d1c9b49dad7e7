//! An INSERT whose rows come as blocks.

use connector_bytehouse_common::{
    native::Block,
    wire::{
        io::read_varuint,
        protocol::{ClientPacket, Query, TableColumns, put_pong, put_table_columns, revision},
    },
};
use connector_core::{
    Error, ErrorKind, Result,
    arrow::{array::RecordBatch, datatypes::Field, datatypes::Schema},
};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    connection::{Connection, Next, killed, swallow},
    reply::BlockWriter,
};
use crate::{
    engine::{InsertPlan, Staged},
    exception::{Exception, exception},
    fault::{Effect, Point},
    log::Outcome as LogOutcome,
};

/// What came instead of the next block.
enum End {
    /// The empty block: all rows are here.
    Complete,
    Cancelled,
    /// The connection ended between two blocks.
    Closed,
    /// The connection ended, or must end, inside a block or by a fault.
    Broken,
    /// The client was told why; it goes on with other statements.
    Refused,
    /// The client was told why, and nothing it says after that can be understood.
    RefusedForGood,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Connection<'_, S> {
    pub(super) async fn insert(
        &mut self,
        query: &Query,
        plan: InsertPlan,
        mut writer: BlockWriter,
        describe: bool,
        number: usize,
    ) -> Result<Next> {
        if describe && self.revision >= revision::TABLE_COLUMNS {
            let columns = TableColumns { table: String::new(), description: plan.columns_text() };
            put_table_columns(&mut self.out, &columns);
        }
        let sent = header(&plan).and_then(|rows| writer.put(&mut self.out, &plan.columns, &rows));
        if let Err(error) = sent {
            self.out.clear();
            return self.fail(number, &error).await.map(|()| Next::Goes);
        }
        self.send().await?;
        let mut staged = Vec::new();
        let end = self.blocks(query, &plan, &mut staged, number).await?;
        let keeps = self.shared.options.store_broken_inserts;
        match end {
            End::Complete => self.store(query, &plan, staged, number).await,
            End::Refused => Ok(Next::Goes),
            End::RefusedForGood => Ok(Next::Closes),
            End::Cancelled if keeps => self.store(query, &plan, staged, number).await,
            End::Cancelled => self.fail(number, &killed()).await.map(|()| Next::Goes),
            End::Closed if keeps => {
                let stored = self.shared.engine.commit(&plan, staged).is_ok();
                let outcome = if stored { LogOutcome::BrokenButStored } else { LogOutcome::Broken };
                self.shared.log.update(number, |entry| entry.outcome = outcome);
                Ok(Next::Closes)
            }
            End::Closed | End::Broken => {
                self.shared.log.update(number, |entry| entry.outcome = LogOutcome::Broken);
                Ok(Next::Closes)
            }
        }
    }

    /// Reads blocks until they end, one way or another.
    async fn blocks(
        &mut self,
        query: &Query,
        plan: &InsertPlan,
        staged: &mut Vec<Staged>,
        number: usize,
    ) -> Result<End> {
        loop {
            let cut = match self.shared.faults.take(Point::Block(staged.len()), &query.sql) {
                Some(Effect::Fail(error)) => return self.fail(number, &error).await.map(|()| End::Refused),
                Some(Effect::Cut) => true,
                Some(Effect::Stall(duration)) => {
                    if self.shared.stall(duration, &query.query_id).await {
                        return self.fail(number, &killed()).await.map(|()| End::RefusedForGood);
                    }
                    false
                }
                Some(Effect::Throttle { bytes_per_second }) => {
                    self.incoming.pace = Some(bytes_per_second);
                    false
                }
                None => false,
            };
            let id = match read_varuint(&mut self.incoming).await {
                Err(error) if error.kind() == ErrorKind::Closed => return Ok(End::Closed),
                other => other?,
            };
            match ClientPacket::from_id(id) {
                Some(ClientPacket::Data) if cut => {
                    swallow(&mut self.incoming, 8).await;
                    return Ok(End::Broken);
                }
                Some(ClientPacket::Data) => {}
                Some(ClientPacket::Cancel) => return Ok(End::Cancelled),
                Some(ClientPacket::Ping) => {
                    put_pong(&mut self.out);
                    self.send().await?;
                    continue;
                }
                _ => {
                    let error = exception!(UNEXPECTED_PACKET, "Unexpected packet {id} received from client");
                    return self.fail(number, &error).await.map(|()| End::RefusedForGood);
                }
            }
            let block = match self.block(query.compression).await {
                Ok(block) => block,
                Err(error) => return self.unreadable(&error, number).await,
            };
            if block.columns.is_empty() {
                return Ok(End::Complete);
            }
            match stage(plan, &block) {
                Ok(block) => {
                    self.shared.log.update(number, |entry| {
                        entry.blocks += 1;
                        entry.rows += block.rows();
                    });
                    staged.push(block);
                }
                Err(error) => return self.fail(number, &error).await.map(|()| End::Refused),
            }
        }
    }

    async fn unreadable(&mut self, error: &Error, number: usize) -> Result<End> {
        if error.kind() == ErrorKind::Closed {
            return Ok(End::Broken);
        }
        let error = exception!(INCORRECT_DATA, "Cannot read a block: {error}");
        self.fail(number, &error).await.map(|()| End::RefusedForGood)
    }

    /// Makes the rows visible and tells the client.
    async fn store(
        &mut self,
        query: &Query,
        plan: &InsertPlan,
        staged: Vec<Staged>,
        number: usize,
    ) -> Result<Next> {
        match self.shared.faults.take(Point::BeforeStore, &query.sql) {
            Some(Effect::Fail(error)) => return self.fail(number, &error).await.map(|()| Next::Goes),
            Some(Effect::Cut) => {
                self.shared.log.update(number, |entry| entry.outcome = LogOutcome::Broken);
                return Ok(Next::Closes);
            }
            Some(Effect::Stall(duration)) => {
                let ended = self.shared.stall(duration, &query.query_id).await;
                if ended {
                    return self.fail(number, &killed()).await.map(|()| Next::Goes);
                }
            }
            Some(Effect::Throttle { bytes_per_second }) => self.incoming.pace = Some(bytes_per_second),
            None => {}
        }
        let written = match self.shared.engine.commit(plan, staged) {
            Ok(written) => written,
            Err(error) => return self.fail(number, &error).await.map(|()| Next::Goes),
        };
        tracing::debug!(table = %plan.table(), rows = written, "an insert is stored");
        match self.shared.faults.take(Point::AfterStore, &query.sql) {
            Some(Effect::Fail(error)) => return self.fail(number, &error).await.map(|()| Next::Goes),
            Some(Effect::Cut) => {
                self.shared.log.update(number, |entry| entry.outcome = LogOutcome::BrokenButStored);
                return Ok(Next::Closes);
            }
            Some(Effect::Stall(duration)) => tokio::time::sleep(duration).await,
            Some(Effect::Throttle { bytes_per_second }) => self.incoming.pace = Some(bytes_per_second),
            None => {}
        }
        self.finish(number).await.map(|()| Next::Goes)
    }
}

fn stage(plan: &InsertPlan, block: &Block) -> Result<Staged, Exception> {
    plan.stage(&block.columns, &block.rows)
}

/// No rows of the insert's columns.
fn header(plan: &InsertPlan) -> Result<RecordBatch, Exception> {
    let mut fields = Vec::with_capacity(plan.columns.len());
    for column in &plan.columns {
        let data_type = crate::engine::arrow_type(&column.ty)?;
        fields.push(Field::new(&column.name, data_type, column.ty.is_nullable()));
    }
    Ok(RecordBatch::new_empty(std::sync::Arc::new(Schema::new(fields))))
}
