//! What programs that tests start and kill have in common: their options, their log, their end.

use std::{collections::BTreeMap, error::Error, fmt::Display, future::Future, str::FromStr, time::Duration};

use connector_core::{CancellationToken, Pipeline, Report, Sink, Source};
use tokio::signal::unix::{SignalKind, signal};

/// What a program ends with.
pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The arguments `KEY=VALUE` of a program.
#[derive(Debug, Clone)]
pub struct Options(BTreeMap<String, String>);

impl Options {
    /// The value of a key.
    ///
    /// # Errors
    /// When it is missing.
    pub fn get(&self, key: &str) -> Outcome<&str> {
        Ok(self.0.get(key).ok_or_else(|| format!("`{key}` is missing"))?)
    }

    /// The value of a key, or `default`.
    ///
    /// # Errors
    /// When it is none of its type.
    pub fn or<T: FromStr<Err: Display>>(&self, key: &str, default: T) -> Outcome<T> {
        let Some(text) = self.0.get(key) else { return Ok(default) };
        text.parse().map_err(|e| format!("`{key}`: {e}").into())
    }

    /// A number of milliseconds, or `default`.
    ///
    /// # Errors
    /// When it is no number.
    pub fn millis(&self, key: &str, default: u64) -> Outcome<Duration> {
        self.or(key, default).map(Duration::from_millis)
    }
}

/// Runs a program: logs to standard error what `filter` lets through, and runs `run` on two threads.
///
/// # Errors
/// What `run` ends with.
pub fn run<F: Future<Output = Outcome>>(filter: &str, run: impl FnOnce(Options) -> F) -> Outcome {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).with_env_filter(filter).init();
    let options = std::env::args()
        .skip(1)
        .filter_map(|a| a.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned())))
        .collect();
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?
        .block_on(run(Options(options)))
}

/// Runs a pipeline until it ends or the program is asked to (SIGTERM).
///
/// # Errors
/// Those of the pipeline; a server that starts again right now is no reason to give up.
pub async fn until_asked<S: Source, K: Sink>(pipeline: Pipeline<S, K>) -> Outcome<Report> {
    while let Err(error) = pipeline.check().await {
        if !error.is_transient() {
            return Err(error.into());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let stop = CancellationToken::new();
    let mut asked = signal(SignalKind::terminate())?;
    let mut run = std::pin::pin!(pipeline.run(stop.clone()));
    Ok(tokio::select! {
        report = &mut run => report?,
        _ = asked.recv() => {
            stop.cancel();
            run.await?
        }
    })
}

/// Prints the line that says that all is done, with the figures.
pub fn print_done(report: &Report) {
    println!(
        "done read={} written={} checkpoints={} resumed={}",
        report.rows_read, report.rows_written, report.checkpoints, report.resumed
    );
}
