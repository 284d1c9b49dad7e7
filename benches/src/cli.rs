//! The command line.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};

use crate::{figure::FIGURES, way::Way};

pub(crate) const USAGE: &str = "\
usage: connector-benches [--tsv] [--rounds N] [--only NAME...] [--rows N]

  --tsv           one line a figure: name, ours, other, ratio, goal
  --rounds N      how often each way runs; the median counts (5)
  --only NAME...  only these figures; NAME also means NAME-anything
  --rows N        rows or records of each run (2000000), at least 1000

The servers are those in the environment, as ./dev bench and ./dev services set it.
";

/// What is asked for.
#[derive(Debug)]
pub(crate) enum Command {
    Help,
    Bench(Options),
    /// One way, in a process of its own; the bench starts these itself.
    Child(Job),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) tsv: bool,
    pub(crate) rounds: usize,
    /// Empty for all.
    pub(crate) only: Vec<String>,
    pub(crate) rows: u64,
}

/// One way and what it needs to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) way: Way,
    pub(crate) rows: u64,
    /// Where records are read from.
    pub(crate) topic: String,
    /// Where rows are written to, as `database.table`.
    pub(crate) table: String,
    /// The server's native address where it is not the one of the environment: a proxy in front of it.
    pub(crate) address: Option<String>,
    /// A folder of the run's own.
    pub(crate) folder: PathBuf,
}

impl Job {
    /// The arguments that [`Command::from_arguments`] makes this job of.
    pub(crate) fn to_arguments(&self) -> Vec<String> {
        let mut arguments = vec!["child".to_owned(), self.way.name()];
        let mut push = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
        push("--rows", self.rows.to_string());
        push("--topic", self.topic.clone());
        push("--table", self.table.clone());
        push("--folder", self.folder.to_string_lossy().into_owned());
        if let Some(address) = &self.address {
            push("--address", address.clone());
        }
        arguments
    }
}

impl Command {
    pub(crate) fn from_arguments(arguments: impl IntoIterator<Item = String>) -> Result<Self> {
        let mut arguments = arguments.into_iter().peekable();
        if arguments.next_if(|first| first == "child").is_some() {
            return Ok(Self::Child(job(arguments)?));
        }
        let mut options = Options { tsv: false, rounds: 5, only: Vec::new(), rows: 2_000_000 };
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "-h" | "--help" => return Ok(Self::Help),
                "--tsv" => options.tsv = true,
                "--rounds" => options.rounds = number::<usize>(&argument, arguments.next())?.max(1),
                "--rows" => options.rows = number::<u64>(&argument, arguments.next())?.max(1000),
                "--only" => {
                    let before = options.only.len();
                    while let Some(name) = arguments.next_if(|next| !next.starts_with('-')) {
                        options.only.push(known(name)?);
                    }
                    if options.only.len() == before {
                        bail!("--only needs the name of a figure");
                    }
                }
                _ => bail!("unknown argument `{argument}`"),
            }
        }
        Ok(Self::Bench(options))
    }
}

impl Options {
    /// True when the figure of this name is asked for.
    pub(crate) fn wants(&self, figure: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| covers(name, figure))
    }
}

/// `insert` covers `insert` and `insert-null`.
fn covers(name: &str, figure: &str) -> bool {
    figure.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

fn known(name: String) -> Result<String> {
    if FIGURES.iter().any(|figure| covers(&name, figure.name)) {
        return Ok(name);
    }
    let names: Vec<&str> = FIGURES.iter().map(|figure| figure.name).collect();
    bail!("there is no figure `{name}`; there are: {}", names.join(", "))
}

fn job(mut arguments: impl Iterator<Item = String>) -> Result<Job> {
    let name = arguments.next().context("which way?")?;
    let way = Way::find(&name).with_context(|| format!("there is no way `{name}`"))?;
    let mut job = Job {
        way,
        rows: 2_000_000,
        topic: String::new(),
        table: String::new(),
        address: None,
        folder: std::env::temp_dir(),
    };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--rows" => job.rows = number(&argument, arguments.next())?,
            "--topic" => job.topic = value()?,
            "--table" => job.table = value()?,
            "--address" => job.address = Some(value()?),
            "--folder" => job.folder = value()?.into(),
            _ => bail!("unknown argument `{argument}`"),
        }
    }
    Ok(job)
}

fn number<N: std::str::FromStr>(name: &str, value: Option<String>) -> Result<N> {
    let value = value.with_context(|| format!("{name} needs a number"))?;
    value.replace('_', "").parse().ok().with_context(|| format!("{name}: `{value}` is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command> {
        Command::from_arguments(line.split_whitespace().map(str::to_owned))
    }

    fn options(line: &str) -> Options {
        match parse(line) {
            Ok(Command::Bench(options)) => options,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn arguments_are_read() {
        assert_eq!(options(""), Options { tsv: false, rounds: 5, only: vec![], rows: 2_000_000 });
        let all = options("--only json-decode insert --tsv --rows 1_500 --rounds 3");
        assert_eq!((all.tsv, all.rounds, all.rows), (true, 3, 1500));
        assert_eq!(all.only, ["json-decode", "insert"]);
        assert!(all.wants("insert-null") && all.wants("json-decode"));
        assert!(!all.wants("kafka-read"));
        assert!(options("").wants("kafka-read"));
    }

    #[test]
    fn mistakes_are_told() {
        for (line, word) in [
            ("--row 5", "--row"),
            ("--only", "--only"),
            ("--only nothing", "kafka-read"),
            ("--only inser", "insert-null"),
            ("--rows many", "many"),
            ("child", "which"),
            ("child nothing", "nothing"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(format!("{error:#}").contains(word), "{line}: {error:#}");
        }
    }

    #[test]
    fn a_job_goes_through_a_command_line() {
        for way in Way::all() {
            let job = Job {
                way,
                rows: 7,
                topic: "t".to_owned(),
                table: "d.t".to_owned(),
                address: Some("h:1".to_owned()),
                folder: PathBuf::from("a folder"),
            };
            let Ok(Command::Child(read)) = Command::from_arguments(job.to_arguments()) else {
                panic!("{job:?}");
            };
            assert_eq!(read, job);
        }
    }
}
