//! A connection that is checked before it is used and replaced when it is dead.

use std::collections::HashSet;

use connector_bytehouse_common::{
    sql::quote_literal,
    wire::{Client, ClientOptions, QueryStream, Settings},
};
use connector_core::{
    Error, ErrorKind, Result,
    arrow::array::{AsArray, RecordBatch},
};

use crate::config::SinkConfig;

/// At most one connection.
#[derive(Debug)]
pub(crate) struct Session {
    options: ClientOptions,
    client: Option<Client>,
    /// Names of the settings that an open-source server knows; `None` until asked, or at ByteHouse.
    known_settings: Option<HashSet<String>>,
}

impl Session {
    pub(crate) fn new(config: &SinkConfig) -> Self {
        let mut options = config.client.clone();
        options.ping_timeout = config.validity_timeout;
        Self { options, client: None, known_settings: None }
    }

    /// A connection that answered just now.
    pub(crate) async fn client(&mut self) -> Result<&mut Client> {
        let alive = match &mut self.client {
            Some(client) => client.is_usable() && client.ping().await.is_ok(),
            None => false,
        };
        let client = match self.client.take().filter(|_| alive) {
            Some(client) => client,
            None => Client::connect(self.options.clone()).await?,
        };
        Ok(self.client.insert(client))
    }

    /// The connection of [`Self::client`], to be given back by [`Self::put_back`].
    pub(crate) async fn take(&mut self) -> Result<Client> {
        self.client().await?;
        self.client.take().ok_or_else(|| Error::new(ErrorKind::Unexpected, "a connection got lost"))
    }

    pub(crate) fn put_back(&mut self, client: Client) {
        self.client = Some(client);
    }

    /// A session of its own with the same options.
    pub(crate) fn another(&self) -> Self {
        Self { options: self.options.clone(), client: None, known_settings: self.known_settings.clone() }
    }

    /// Ends a query that was given up, so that it does not go on at the server. What comes of it is only logged: the
    /// query may be over.
    pub(crate) async fn kill(&mut self, query_id: Option<&str>) {
        let Some(query_id) = query_id else { return };
        let mut options = self.options.clone();
        let limit = options.ping_timeout;
        (options.connect_timeout, options.query_timeout) = (limit, Some(limit));
        let sql = format!("KILL QUERY WHERE query_id = {} ASYNC", quote_literal(query_id));
        let killed = async {
            let mut client = Client::connect(options).await?;
            client.execute(&sql, &Settings::new()).await
        };
        match killed.await {
            Ok(_) => tracing::warn!(query_id, "the query took too long and was ended at the server"),
            Err(error) => tracing::warn!(
                query_id, %error, "the query took too long, and the server could not be told to end it"
            ),
        }
    }

    pub(crate) fn close(&mut self) {
        if let Some(client) = &mut self.client {
            client.close();
        }
        self.client = None;
    }

    /// All rows of a query.
    pub(crate) async fn rows(&mut self, sql: &str) -> Result<Vec<RecordBatch>> {
        let client = self.client().await?;
        let mut stream: QueryStream<&mut Client> = client.query(sql, &Settings::new()).await?;
        let mut batches = Vec::new();
        while let Some(block) = stream.next_block().await? {
            batches.push(block.rows);
        }
        Ok(batches)
    }

    /// The first column of a query's rows, as text; numbers and nulls are left out.
    pub(crate) async fn texts(&mut self, sql: &str) -> Result<Vec<String>> {
        let batches = self.rows(sql).await?;
        let columns = batches.iter().filter(|batch| batch.num_rows() > 0).map(|batch| batch.column(0));
        Ok(columns
            .filter_map(|column| column.as_string_opt::<i32>())
            .flat_map(|column| column.iter().flatten().map(str::to_owned).collect::<Vec<_>>())
            .collect())
    }

    /// True when the server knows a setting. ByteHouse gateways hide their list, and know those that are
    /// asked for here.
    pub(crate) async fn knows_setting(&mut self, name: &str, config: &SinkConfig) -> Result<bool> {
        if config.cnch_engine {
            return Ok(true);
        }
        if self.known_settings.is_none() {
            let names = self.texts("SELECT name FROM system.settings").await?;
            self.known_settings = Some(names.into_iter().collect());
        }
        Ok(self.known_settings.as_ref().is_some_and(|known| known.contains(name)))
    }
}
