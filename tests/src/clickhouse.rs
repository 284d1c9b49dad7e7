//! A look into a ClickHouse server that shares no code with the connectors: SQL over plain HTTP, rows as text.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use tokio::time::sleep;
use ureq::Agent;

use crate::orders::Aggregates;
use crate::services::Clickhouse;
use crate::unique_name;

/// How a NULL shows in a row of text; no text in the tests looks like it.
pub const NULL: &str = "ᴺᵁᴸᴸ";

/// What the server answered instead of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryError {
    /// ClickHouse's error code, where the answer has one.
    pub code: Option<i32>,
    /// The whole answer.
    pub text: String,
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for QueryError {}

impl Clickhouse {
    /// Runs a statement as the user `default` and returns its rows. Columns are text; NULL is [`NULL`].
    ///
    /// # Errors
    /// The server's answer, when it is an error, and failures of the connection.
    pub async fn query(&self, sql: &str) -> Result<Vec<Vec<String>>, QueryError> {
        self.query_as(("default", ""), sql).await
    }

    /// Runs a statement as another user, given with the password.
    ///
    /// # Errors
    /// As [`Clickhouse::query`].
    pub async fn query_as(&self, login: (&str, &str), sql: &str) -> Result<Vec<Vec<String>>, QueryError> {
        let url = format!("http://{}/", self.http);
        let (user, password, sql) = (login.0.to_owned(), login.1.to_owned(), sql.to_owned());
        tokio::task::spawn_blocking(move || post(&url, &user, &password, &sql))
            .await
            .expect("the query does not panic")
    }

    /// Runs a statement that has to succeed, such as `CREATE TABLE`.
    ///
    /// # Panics
    /// When it does not.
    pub async fn execute(&self, sql: &str) {
        self.query(sql).await.unwrap_or_else(|error| panic!("{}: {error}", beginning(sql)));
    }

    /// The single value that a query gives.
    ///
    /// # Panics
    /// When the query fails or gives something else.
    pub async fn value<T: FromStr>(&self, sql: &str) -> T {
        let rows = self.query(sql).await.unwrap_or_else(|error| panic!("{}: {error}", beginning(sql)));
        match rows.as_slice() {
            [row] if row.len() == 1 => {
                row[0].parse().unwrap_or_else(|_| panic!("{sql}: unexpected {:?}", row[0]))
            }
            _ => panic!("{sql}: one value expected, got {rows:?}"),
        }
    }

    /// The number of rows of a table.
    ///
    /// # Panics
    /// When the query fails.
    pub async fn count(&self, table: &str) -> u64 {
        self.value(&format!("SELECT count() FROM {table}")).await
    }

    /// Waits until a table has at least this many rows, and returns how many it has. The server may be down for a
    /// while.
    ///
    /// # Panics
    /// When it has fewer after `limit`.
    pub async fn wait_until_rows(&self, table: &str, rows: u64, limit: Duration) -> u64 {
        let deadline = Instant::now() + limit;
        loop {
            let answer = self.query(&format!("SELECT count() FROM {table}")).await;
            let found = answer.as_ref().ok().and_then(|answer| answer.first()?.first()?.parse().ok());
            match found {
                Some(found) if found >= rows => return found,
                _ => assert!(
                    Instant::now() < deadline,
                    "{table} has not {rows} rows after {limit:?}: {answer:?}"
                ),
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// What the orders in a table add up to; `from` as in [`Aggregates::query`].
    ///
    /// # Panics
    /// When the query fails.
    pub async fn order_aggregates(&self, from: &str) -> Aggregates {
        let sql = Aggregates::query(from, self.version);
        let rows = self.query(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        Aggregates::from_row(&rows[0])
    }

    /// Makes a database that no other test uses and returns its name.
    ///
    /// # Panics
    /// When the server refuses it.
    pub async fn create_database(&self) -> String {
        let name = unique_name("test");
        self.execute(&format!("CREATE DATABASE {name}")).await;
        name
    }
}

/// Enough of a statement to know it by: one with data can be long.
fn beginning(sql: &str) -> String {
    sql.chars().take(200).collect()
}

fn post(url: &str, user: &str, password: &str, sql: &str) -> Result<Vec<Vec<String>>, QueryError> {
    let failed = |error: ureq::Error| QueryError { code: None, text: error.to_string() };
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(120)))
        .build();
    let mut response = Agent::new_with_config(config)
        .post(url)
        .query("user", user)
        .query("password", password)
        .query("default_format", "TabSeparated")
        // The status says whether the whole query succeeded, not only its beginning.
        .query("wait_end_of_query", "1")
        .send(sql)
        .map_err(failed)?;
    let success = response.status().is_success();
    let body = response.body_mut().with_config().limit(1 << 30).read_to_vec().map_err(failed)?;
    let text = String::from_utf8_lossy(&body);
    if !success {
        return Err(QueryError { code: error_code(&text), text: text.trim().to_owned() });
    }
    Ok(text.lines().map(|line| line.split('\t').map(unescape).collect()).collect())
}

/// "Code: 60, e.displayText() = …" of old servers, "Code: 60. DB::Exception: …" of new ones.
fn error_code(text: &str) -> Option<i32> {
    let rest = text.trim_start().strip_prefix("Code: ")?;
    rest[..rest.find(|c: char| !c.is_ascii_digit())?].parse().ok()
}

fn unescape(cell: &str) -> String {
    if cell == "\\N" {
        return NULL.to_owned();
    }
    let mut text = String::with_capacity(cell.len());
    let mut characters = cell.chars();
    while let Some(character) = characters.next() {
        let escaped = if character == '\\' { characters.next() } else { None };
        text.push(match escaped {
            None => character,
            Some('t') => '\t',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('0') => '\0',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some(other) => other,
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_unescaped() {
        assert_eq!(unescape("a\\tb\\nc\\\\d\\'e"), "a\tb\nc\\d'e");
        assert_eq!(unescape("\\N"), NULL);
        assert_eq!(unescape("\\\\N"), "\\N");
    }

    #[test]
    fn error_codes_of_both_versions_are_read() {
        assert_eq!(error_code("Code: 60, e.displayText() = DB::Exception: Table x"), Some(60));
        assert_eq!(error_code("Code: 164. DB::Exception: reader"), Some(164));
        assert_eq!(error_code("Ok."), None);
    }
}
