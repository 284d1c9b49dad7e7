//! The listening side: connections and the handle that users hold.

mod connection;
mod insert;
mod reply;
mod socket;
#[cfg(feature = "tls")]
mod tls;

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use connector_core::{
    Error, ErrorKind, Result,
    arrow::{
        array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StringArray},
        datatypes::{DataType, Field, Schema},
    },
};
use tokio::{net::TcpListener, sync::Notify, task::JoinSet};

use crate::{
    engine::{Engine, Outcome, Session},
    exception::{Exception, exception},
    fault::{Fault, Faults},
    log::{Log, LogEntry},
    options::{DoubleOptions, Tls},
    sql::parse_table_name,
};

/// What all connections of a double share.
#[derive(Debug)]
pub(crate) struct Shared {
    options: Arc<DoubleOptions>,
    engine: Engine,
    faults: Faults,
    log: Log,
    accepted: AtomicU64,
    open: AtomicU64,
    /// Queries under way, by id, and how they hear that they are to end.
    running: Mutex<HashMap<String, Arc<Notify>>>,
}

impl Shared {
    fn running(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Notify>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks a query id as running; false when it is already.
    fn begin(&self, query_id: &str) -> bool {
        let mut running = self.running();
        if query_id.is_empty() {
            return true;
        }
        if running.contains_key(query_id) {
            return false;
        }
        running.insert(query_id.to_owned(), Arc::new(Notify::new()));
        true
    }

    /// Tells a query to end, if it runs.
    fn kill(&self, query_id: &str) {
        if let Some(query) = self.running().get(query_id) {
            query.notify_one();
        }
    }

    /// Does nothing for a while; true when the query was told to end meanwhile.
    async fn stall(&self, duration: std::time::Duration, query_id: &str) -> bool {
        let told = self.running().get(query_id).map(Arc::clone);
        let Some(told) = told else {
            tokio::time::sleep(duration).await;
            return false;
        };
        tokio::select! {
            () = tokio::time::sleep(duration) => false,
            () = told.notified() => true,
        }
    }

    fn end(&self, query_id: &str) {
        self.running().remove(query_id);
    }
}

/// A ByteHouse server in this process, for tests.
///
/// It listens on a free port of 127.0.0.1 and runs in tasks of the tokio runtime that started it.
/// Dropping it closes its port and all its connections.
#[derive(Debug)]
pub struct BytehouseDouble {
    shared: Arc<Shared>,
    addr: SocketAddr,
    ca_pem: Option<String>,
    tasks: JoinSet<()>,
}

impl BytehouseDouble {
    /// Starts a double.
    ///
    /// # Errors
    /// `OptionInvalid` when the options make no sense (an unknown time zone); `Unavailable` when no
    /// port can be had; `Unexpected` when no certificate can be made.
    pub async fn start(options: DoubleOptions) -> Result<Self> {
        let options = Arc::new(options);
        let engine = Engine::new(Arc::clone(&options))
            .map_err(|e| Error::new(ErrorKind::OptionInvalid, e.message().to_owned()))?;
        let (acceptor, ca_pem) = acceptor(&options.tls)?;
        let unavailable = |e: std::io::Error| {
            Error::new(ErrorKind::Unavailable, "the double cannot listen on 127.0.0.1").with_source(e)
        };
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(unavailable)?;
        let addr = listener.local_addr().map_err(unavailable)?;
        let shared = Arc::new(Shared {
            options,
            engine,
            faults: Faults::default(),
            log: Log::default(),
            accepted: AtomicU64::new(0),
            open: AtomicU64::new(0),
            running: Mutex::new(HashMap::new()),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&shared), acceptor));
        Ok(Self { shared, addr, ca_pem, tasks })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The authority that clients must trust, as PEM; `None` unless [`Tls::SelfSigned`] is on.
    pub fn ca_pem(&self) -> Option<&str> {
        self.ca_pem.as_deref()
    }

    /// Runs a statement as the double itself would for a client, without a connection, rights or
    /// faults: to set a test up and to look at what came of it. `String` columns are `Utf8`, or
    /// `Binary` where a value is not UTF-8. A statement without a result gives a batch without columns.
    ///
    /// # Errors
    /// The exception that a client would get.
    pub fn execute(&self, sql: &str) -> Result<RecordBatch, Exception> {
        let mut session = Session::new("double", "", false);
        match self.shared.engine.execute(&mut session, sql)? {
            Outcome::Rows(result) => readable(&result.rows),
            Outcome::Done | Outcome::Kill(_) => Ok(RecordBatch::new_empty(Arc::new(Schema::empty()))),
            Outcome::Insert(_) => {
                Err(exception!(NOT_IMPLEMENTED, "give the rows in the statement: INSERT INTO … VALUES (…)"))
            }
        }
    }

    /// The visible rows of a table, in the order in which they came, with all stored columns: what a
    /// `SELECT` without `FINAL` sees.
    /// `db.t`, or `t` for the database `default`; names may stand in backticks.
    ///
    /// # Errors
    /// Codes 60 and 81 when there is no such table or database.
    pub fn table(&self, name: &str) -> Result<RecordBatch, Exception> {
        readable(&self.shared.engine.rows_of(&parse_table_name(name)?)?)
    }

    /// The statements that clients sent so far, in order.
    pub fn log(&self) -> Vec<LogEntry> {
        self.shared.log.entries()
    }

    /// Adds a fault.
    pub fn inject(&self, fault: Fault) {
        self.shared.faults.add(fault);
    }

    /// Takes back all faults that have not struck.
    pub fn clear_faults(&self) {
        self.shared.faults.clear();
    }

    /// How many faults have not struck as often as they should.
    pub fn faults_waiting(&self) -> usize {
        self.shared.faults.waiting()
    }

    /// How many connections were accepted so far.
    pub fn connections(&self) -> u64 {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// How many connections are open now.
    pub fn open_connections(&self) -> u64 {
        self.shared.open.load(Ordering::Relaxed)
    }

    /// Closes the port and all connections, and waits until they are closed. Rows and log go with it.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

/// Texts as `Utf8` where they are.
fn readable(rows: &RecordBatch) -> Result<RecordBatch, Exception> {
    let mut fields = Vec::with_capacity(rows.num_columns());
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(rows.num_columns());
    for (field, column) in rows.schema().fields().iter().zip(rows.columns()) {
        let text = match field.data_type() {
            DataType::Binary => StringArray::try_from_binary(column.as_binary::<i32>().clone()).ok(),
            _ => None,
        };
        let column: ArrayRef = match text {
            Some(text) => Arc::new(text),
            None => Arc::clone(column),
        };
        fields.push(Field::new(field.name(), column.data_type().clone(), field.is_nullable()));
        columns.push(column);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
        .map_err(|e| exception!(LOGICAL_ERROR, "{e}"))
}

#[cfg(feature = "tls")]
type Acceptor = Option<tokio_rustls::TlsAcceptor>;
#[cfg(not(feature = "tls"))]
type Acceptor = ();

#[cfg(feature = "tls")]
fn acceptor(tls: &Tls) -> Result<(Acceptor, Option<String>)> {
    Ok(match tls {
        Tls::Off => (None, None),
        Tls::SelfSigned => {
            let (config, pem) = tls::self_signed()?;
            (Some(config.into()), Some(pem))
        }
        Tls::Config(config) => (Some(Arc::clone(config).into()), None),
    })
}

#[cfg(not(feature = "tls"))]
fn acceptor(tls: &Tls) -> Result<(Acceptor, Option<String>)> {
    let Tls::Off = tls;
    Ok(((), None))
}

/// Accepts connections until it is dropped, and all of them with it.
async fn accept(listener: TcpListener, shared: Arc<Shared>, acceptor: Acceptor) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let number = shared.accepted.fetch_add(1, Ordering::Relaxed) + 1;
                    let shared = Arc::clone(&shared);
                    let acceptor = acceptor.clone();
                    connections.spawn(async move {
                        let _open = Open::new(&shared);
                        let end = Box::pin(connection::serve(stream, number, &shared, acceptor)).await;
                        if let Err(error) = end {
                            tracing::debug!(connection = number, %error, "a client's connection ended");
                        }
                    });
                }
                Err(error) => tracing::warn!(%error, "the double cannot accept a connection"),
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Counts a connection as open while it lives.
struct Open<'a>(&'a Shared);

impl<'a> Open<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.open.fetch_add(1, Ordering::Relaxed);
        Self(shared)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}
