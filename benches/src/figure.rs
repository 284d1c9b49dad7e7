//! The figures: what of ours is compared with what of whom, and what it should come to.

use crate::{
    measure::{Outcome, count},
    way::{Program, Target, Way},
};

/// What of a run counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Metric {
    /// Rows in a second.
    Speed,
    /// MiB of records in a second.
    Volume,
    /// Seconds of CPU of the client.
    ClientCpu,
    /// Seconds of CPU of the server that is written to.
    ServerCpu,
    /// Seconds from the start of the process to the first row that can be seen.
    FirstRow,
    /// MiB of memory at most.
    Memory,
}

/// What a figure should come to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Goal {
    /// Ours divided by the other, at least.
    RatioAtLeast(f64),
    /// Ours divided by the other, at most.
    RatioAtMost(f64),
    /// Ours, at most.
    AtMost(f64),
    /// None: it is told for information.
    Told,
}

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) metric: Metric,
    pub(crate) ours: Way,
    /// Of several the slower one counts.
    pub(crate) others: &'static [Way],
    pub(crate) goal: Goal,
}

const READ: Way = Way::new(Program::ReadOurs, Target::Nowhere);
const DECODE: Way = Way::new(Program::DecodeOurs, Target::Nowhere);
const ARROW_JSON: Way = Way::new(Program::DecodeArrow, Target::Nowhere);
const NULL: Way = Way::new(Program::InsertOurs, Target::Null);
const OLD_NULL: Way = Way::new(Program::InsertOurs, Target::OldNull);
const MERGE_TREE: Way = Way::new(Program::InsertOurs, Target::MergeTree);
const PIPELINE: Way = Way::new(Program::PipelineOurs, Target::Orders);
const COMPOSE: &[Way] = &[Way::new(Program::Compose, Target::Orders)];

/// All figures, in the order of the table.
pub(crate) const FIGURES: &[Figure] = &[
    figure(
        "kafka-read",
        Metric::Speed,
        READ,
        &[Way::new(Program::ReadBare, Target::Nowhere), ARROW_JSON],
        Goal::RatioAtLeast(0.9),
    ),
    figure("json-decode", Metric::Speed, DECODE, &[ARROW_JSON], Goal::RatioAtLeast(0.9)),
    figure(
        "debezium",
        Metric::Volume,
        Way::new(Program::ReadDebezium, Target::Nowhere),
        &[READ],
        Goal::RatioAtLeast(0.5),
    ),
    figure(
        "avro",
        Metric::Speed,
        Way::new(Program::ReadAvro, Target::Nowhere),
        &[READ],
        Goal::RatioAtLeast(0.9),
    ),
    figure(
        "kafka-group",
        Metric::Speed,
        Way::new(Program::ReadGroup, Target::Nowhere),
        &[Way::new(Program::ReadUnbounded, Target::Nowhere)],
        Goal::RatioAtLeast(0.95),
    ),
    figure(
        "kafka-write",
        Metric::Speed,
        Way::new(Program::WriteOurs, Target::Nowhere),
        &[Way::new(Program::WriteBare, Target::Nowhere)],
        Goal::RatioAtLeast(0.9),
    ),
    figure(
        "fluss-append",
        Metric::Speed,
        Way::new(Program::FlussAppend, Target::Nowhere),
        &[Way::new(Program::FlussAppendBare, Target::Nowhere)],
        Goal::RatioAtLeast(0.9),
    ),
    figure(
        "fluss-scan",
        Metric::Speed,
        Way::new(Program::FlussScan, Target::Nowhere),
        &[Way::new(Program::FlussScanBare, Target::Nowhere)],
        Goal::RatioAtLeast(0.9),
    ),
    figure(
        "fluss-lookup",
        Metric::Speed,
        Way::new(Program::FlussLookup, Target::Nowhere),
        &[Way::new(Program::FlussLookupBare, Target::Nowhere)],
        Goal::RatioAtLeast(0.9),
    ),
    figure(
        "insert-null",
        Metric::Speed,
        NULL,
        &[Way::new(Program::InsertPrebuilt, Target::Null)],
        Goal::RatioAtLeast(0.9),
    ),
    figure(
        "insert-null-18",
        Metric::Speed,
        OLD_NULL,
        &[Way::new(Program::InsertPrebuilt, Target::OldNull)],
        Goal::RatioAtLeast(0.9),
    ),
    figure(
        "insert-mergetree",
        Metric::Speed,
        MERGE_TREE,
        &[Way::new(Program::InsertPrebuilt, Target::MergeTree)],
        Goal::RatioAtLeast(0.9),
    ),
    figure(
        "insert-cpu",
        Metric::ClientCpu,
        NULL,
        &[Way::new(Program::InsertClient, Target::Null)],
        Goal::RatioAtMost(0.333),
    ),
    figure(
        "insert-klickhouse",
        Metric::Speed,
        MERGE_TREE,
        &[Way::new(Program::InsertKlickhouse, Target::MergeTree)],
        Goal::RatioAtLeast(2.0),
    ),
    figure(
        "insert-rowbinary",
        Metric::Speed,
        MERGE_TREE,
        &[Way::new(Program::InsertRowBinary, Target::MergeTree)],
        Goal::RatioAtLeast(1.0),
    ),
    figure(
        "insert-rowbinary-null",
        Metric::Speed,
        NULL,
        &[Way::new(Program::InsertRowBinary, Target::Null)],
        Goal::RatioAtLeast(1.0),
    ),
    figure(
        "insert-arrowstream",
        Metric::Speed,
        MERGE_TREE,
        &[Way::new(Program::InsertArrowStream, Target::MergeTree)],
        Goal::RatioAtLeast(1.0),
    ),
    figure(
        "insert-arrowstream-null",
        Metric::Speed,
        NULL,
        &[Way::new(Program::InsertArrowStream, Target::Null)],
        Goal::RatioAtLeast(1.0),
    ),
    figure(
        "upsert",
        Metric::Speed,
        Way::new(Program::UpsertFlushes, Target::Replacing),
        &[Way::new(Program::InsertFlushes, Target::Replacing)],
        Goal::RatioAtLeast(0.8),
    ),
    figure("pipeline", Metric::Speed, PIPELINE, COMPOSE, Goal::RatioAtLeast(1.0)),
    figure("pipeline-cpu", Metric::ClientCpu, PIPELINE, COMPOSE, Goal::RatioAtMost(1.25)),
    figure("pipeline-server-cpu", Metric::ServerCpu, PIPELINE, COMPOSE, Goal::RatioAtMost(1.2)),
    figure("pipeline-first-row", Metric::FirstRow, PIPELINE, COMPOSE, Goal::AtMost(2.0)),
    figure("pipeline-rss", Metric::Memory, PIPELINE, COMPOSE, Goal::AtMost(200.0)),
    figure(
        "pipeline-rss-slow",
        Metric::Memory,
        Way::new(Program::PipelineSlow, Target::Orders),
        COMPOSE,
        Goal::AtMost(200.0),
    ),
    figure(
        "pipeline-rss-rows",
        Metric::Memory,
        PIPELINE,
        &[Way::new(Program::PipelineHalf, Target::Orders)],
        Goal::RatioAtMost(1.1),
    ),
    figure(
        "pipeline-50k",
        Metric::Speed,
        Way::new(Program::PipelineDefault, Target::Orders),
        COMPOSE,
        Goal::Told,
    ),
];

const fn figure(name: &'static str, metric: Metric, ours: Way, others: &'static [Way], goal: Goal) -> Figure {
    Figure { name, metric, ours, others, goal }
}

impl Figure {
    /// Everything that has to run for it.
    pub(crate) fn ways(&self) -> impl Iterator<Item = Way> {
        std::iter::once(self.ours).chain(self.others.iter().copied())
    }
}

impl Metric {
    /// The number of a run; `None` where the run could not tell.
    pub(crate) fn of(self, outcome: &Outcome) -> Option<f64> {
        match self {
            Self::Speed => Some(outcome.rows_per_second()),
            Self::Volume => outcome.bytes.map(|bytes| count(bytes) / outcome.wall / f64::from(1 << 20)),
            Self::ClientCpu => Some(outcome.cpu),
            Self::ServerCpu => outcome.server_cpu,
            Self::FirstRow => outcome.first_row,
            Self::Memory => Some(outcome.peak_mib),
        }
    }

    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Speed => "rows/s",
            Self::Volume => "MiB/s",
            Self::ClientCpu | Self::ServerCpu => "s CPU",
            Self::FirstRow => "s",
            Self::Memory => "MiB",
        }
    }
}

impl Goal {
    /// Whether it is met; `None` where there is nothing to meet.
    pub(crate) fn is_met(self, ours: f64, ratio: Option<f64>) -> Option<bool> {
        match self {
            Self::RatioAtLeast(limit) => ratio.map(|ratio| ratio >= limit),
            Self::RatioAtMost(limit) => ratio.map(|ratio| ratio <= limit),
            Self::AtMost(limit) => Some(ours <= limit),
            Self::Told => None,
        }
    }
}

impl std::fmt::Display for Goal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::RatioAtLeast(limit) => write!(f, "ratio >= {limit}"),
            Self::RatioAtMost(limit) => write!(f, "ratio <= {limit}"),
            Self::AtMost(limit) => write!(f, "ours <= {limit}"),
            Self::Told => f.write_str("-"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_belongs_to_a_group_and_serves_a_figure() {
        let known: Vec<Way> = Way::all().collect();
        for figure in FIGURES {
            for way in figure.ways() {
                assert!(known.contains(&way), "{}: {way:?} never runs", figure.name);
            }
        }
        for way in known {
            assert!(
                FIGURES.iter().any(|figure| figure.ways().any(|used| used == way)),
                "{way:?} serves nothing"
            );
        }
    }

    #[test]
    fn goals() {
        assert_eq!(Goal::RatioAtLeast(0.9).is_met(1.0, Some(0.89)), Some(false));
        assert_eq!(Goal::RatioAtMost(1.25).is_met(1.0, Some(1.25)), Some(true));
        assert_eq!(Goal::AtMost(200.0).is_met(201.0, None), Some(false));
        assert_eq!(Goal::RatioAtLeast(0.9).is_met(1.0, None), None);
        assert_eq!(Goal::Told.is_met(1.0, Some(5.0)), None);
        assert_eq!(Goal::RatioAtLeast(0.9).to_string(), "ratio >= 0.9");
    }
}
