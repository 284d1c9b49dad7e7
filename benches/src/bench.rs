//! The bench itself: prepares the data, lets the ways take turns, checks every table, and reports.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    process::Stdio,
};

use anyhow::{Context as _, Result, ensure};
use connector_tests::{
    orders::Aggregates,
    services::{Clickhouse, Version},
    unique_name,
};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::{
    cli::{Job, Options},
    figure::{FIGURES, Figure},
    measure::{Outcome, machine_cpu, own_cpu},
    pipeline, report, rows, services,
    way::{GROUPS, Program, Target, Way},
    ways::read::PARTITIONS,
};

/// The outcomes of each way, one a round.
pub(crate) type Outcomes = BTreeMap<Way, Vec<Outcome>>;

/// Runs the figures that are asked for and prints them.
///
/// # Errors
/// When a server is missing, a way fails, or a table does not hold what it has to. Never because of a time.
pub(crate) async fn run(options: &Options) -> Result<()> {
    let figures: Vec<&Figure> = FIGURES.iter().filter(|figure| options.wants(figure.name)).collect();
    let wanted: Vec<Way> = figures.iter().flat_map(|figure| figure.ways()).collect();
    let mut bench = Bench::prepare(options, &wanted).await?;
    let ran = bench.rounds(options.rounds, &wanted).await;
    let cleaned = bench.clean_up().await;
    ran.and(cleaned)?;
    let text = if options.tsv {
        report::tsv(&figures, &bench.outcomes)
    } else {
        report::text(&figures, &bench.outcomes, &bench.strangers)
    };
    print!("{text}");
    Ok(())
}

struct Bench {
    rows: u64,
    /// Empty when no way reads Kafka.
    topic: String,
    databases: BTreeMap<Place, String>,
    folder: TempDir,
    sums: Vec<String>,
    outcomes: Outcomes,
    /// Processors that neither we nor the servers used, run by run.
    strangers: Vec<f64>,
}

/// Which server; [`Version`] has no order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Old,
    Current,
}

impl Place {
    fn of(target: Target) -> Option<Self> {
        match target.version()? {
            Version::V18 => Some(Self::Old),
            Version::Current => Some(Self::Current),
        }
    }

    fn server(self) -> Result<Clickhouse> {
        services::clickhouse(match self {
            Self::Old => Version::V18,
            Self::Current => Version::Current,
        })
    }
}

impl Bench {
    async fn prepare(options: &Options, wanted: &[Way]) -> Result<Self> {
        let mut bench = Self {
            rows: options.rows,
            topic: String::new(),
            databases: BTreeMap::new(),
            folder: tempfile::tempdir()?,
            sums: Vec::new(),
            outcomes: Outcomes::new(),
            strangers: Vec::new(),
        };
        for place in wanted.iter().filter_map(|way| Place::of(way.target)) {
            if let Entry::Vacant(vacant) = bench.databases.entry(place) {
                vacant.insert(place.server()?.create_database().await);
            }
        }
        if wanted.iter().any(|way| matches!(way.target, Target::MergeTree | Target::Replacing)) {
            bench.sums = rows::sums(bench.rows);
        }
        if wanted.iter().any(|way| way.reads_kafka()) {
            eprintln!("writing {} orders to Kafka", bench.rows);
            let kafka = services::kafka()?;
            bench.topic = unique_name("bench");
            kafka.create_topic(&bench.topic, PARTITIONS, &[]).await;
            kafka.produce_orders(&bench.topic, 0..bench.rows, PARTITIONS).await;
        }
        Ok(bench)
    }

    async fn rounds(&mut self, rounds: usize, wanted: &[Way]) -> Result<()> {
        for group in GROUPS {
            let ways: Vec<Way> = group.iter().copied().filter(|way| wanted.contains(way)).collect();
            for round in 1..=rounds {
                for way in &ways {
                    let outcome = self.run(*way).await.with_context(|| way.name())?;
                    eprintln!("round {round} of {rounds}  {}", report::line(*way, &outcome));
                    self.outcomes.entry(*way).or_default().push(outcome);
                }
            }
        }
        Ok(())
    }

    /// Runs a way once, in a process and a table of its own.
    async fn run(&mut self, way: Way) -> Result<Outcome> {
        let folder = tempfile::tempdir_in(self.folder.path())?;
        let table = self.create_table(way.target).await?;
        let job = Job {
            way,
            rows: self.rows_of(way),
            topic: self.topic.clone(),
            table: table.clone(),
            address: None,
            folder: folder.path().to_owned(),
        };
        let busy = (machine_cpu()?, services::all_servers_cpu() + own_cpu()?);
        let began = std::time::Instant::now();
        let outcome =
            if way.is_pipeline() { pipeline::run(&job).await? } else { finish(start(&job)?).await? };
        let ours = services::all_servers_cpu() + own_cpu()? - busy.1 + outcome.process_cpu;
        self.strangers.push((machine_cpu()? - busy.0 - ours).max(0.0) / began.elapsed().as_secs_f64());
        let outcome = outcome.outcome;
        if way.target.keeps_rows() {
            self.check_table(way, &table, job.rows).await?;
        }
        self.drop_table(way.target, &table).await?;
        Ok(outcome)
    }

    fn rows_of(&self, way: Way) -> u64 {
        let partitions = u64::from(PARTITIONS.unsigned_abs());
        match way.program {
            Program::PipelineHalf => self.rows / 2 / partitions * partitions,
            _ => self.rows,
        }
    }

    async fn create_table(&self, target: Target) -> Result<String> {
        let Some(place) = Place::of(target) else { return Ok(String::new()) };
        let database = self.databases.get(&place).context("there is no database for the table")?;
        let table = format!("{database}.{}", unique_name("rows"));
        place.server()?.execute(&format!("CREATE TABLE {table} {}", target.definition())).await;
        Ok(table)
    }

    /// Sums of all columns, and the hash of all rows, against what was generated.
    async fn check_table(&self, way: Way, table: &str, count: u64) -> Result<()> {
        let server = way.target.server()?;
        if way.target == Target::Orders {
            let (found, expected) = (server.order_aggregates(table).await, Aggregates::of(0..count));
            ensure!(found == expected, "the table holds other rows: {found:?} instead of {expected:?}");
            return Ok(());
        }
        let found = server.query(&rows::sums_query(table)).await?;
        ensure!(
            found.as_slice() == [self.sums.as_slice()],
            "the table holds other rows: {found:?} instead of {:?}",
            self.sums
        );
        Ok(())
    }

    /// Without waiting for the rest of its life: merges of a table that nobody needs cost the next run.
    async fn drop_table(&self, target: Target, table: &str) -> Result<()> {
        match Place::of(target) {
            Some(Place::Current) => target.server()?.execute(&format!("DROP TABLE {table} SYNC")).await,
            Some(Place::Old) => target.server()?.execute(&format!("DROP TABLE {table}")).await,
            None => {}
        }
        Ok(())
    }

    async fn clean_up(&self) -> Result<()> {
        for (place, database) in &self.databases {
            place.server()?.execute(&format!("DROP DATABASE {database}")).await;
        }
        if !self.topic.is_empty() {
            services::kafka()?.delete_topic(&self.topic).await;
        }
        Ok(())
    }
}

/// What a process came to, and all the CPU it used.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    pub(crate) process_cpu: f64,
}

/// Starts a process for a way. It is killed when this is dropped.
pub(crate) fn start(job: &Job) -> Result<Child> {
    let program = std::env::current_exe()?;
    let mut command = Command::new(program);
    command.args(job.to_arguments()).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    Ok(command.spawn()?)
}

/// Waits for the end of the process and reads what it came to.
pub(crate) async fn finish(child: Child) -> Result<Ended> {
    let before = crate::measure::children_cpu()?;
    let output = child.wait_with_output().await?;
    ensure!(output.status.success(), "the process failed: {}", output.status);
    let outcome = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("not an outcome: {}", String::from_utf8_lossy(&output.stdout)))?;
    Ok(Ended { outcome, process_cpu: crate::measure::children_cpu()? - before })
}
