//! The ways of doing the work: ours, the raw clients and the peers.

use connector_tests::services::{Clickhouse, Version};

use crate::{rows, services};

/// What a run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Program {
    /// Our Fluss sink, from Arrow batches.
    FlussAppend,
    /// The writer of fluss-rs over the same batches.
    FlussAppendBare,
    /// Our Fluss source, whole batches of a log table.
    FlussScan,
    /// The scanner of fluss-rs over the same table.
    FlussScanBare,
    /// Our lookups by primary key.
    FlussLookup,
    /// Those of fluss-rs, as many at a time.
    FlussLookupBare,
    /// Our Kafka source into Arrow batches.
    ReadOurs,
    /// The same as a member of a group, until all have come.
    ReadGroup,
    /// The same without a group.
    ReadUnbounded,
    /// The same orders as events of Debezium.
    ReadDebezium,
    /// The same orders in Avro, with a schema registry.
    ReadAvro,
    /// librdkafka's consumer in a loop that counts bytes.
    ReadBare,
    /// Our Kafka sink, from Arrow batches.
    WriteOurs,
    /// librdkafka's producer in a loop over the same records.
    WriteBare,
    /// Our JSON decoder over records in memory.
    DecodeOurs,
    /// The one of arrow-json.
    DecodeArrow,
    /// Our sink's writer over batches in memory.
    InsertOurs,
    /// Our sink's writer in mode insert, with flushes of 500,000 rows.
    InsertFlushes,
    /// The same in mode upsert, every key once.
    UpsertFlushes,
    /// Blocks that were encoded before, into the socket.
    InsertPrebuilt,
    /// `clickhouse-client` with a file of the same blocks.
    InsertClient,
    /// The crate klickhouse.
    InsertKlickhouse,
    /// The crate clickhouse, rows of a struct.
    InsertRowBinary,
    /// The crate clickhouse, Arrow over HTTP.
    InsertArrowStream,
    /// Our pipeline, with flushes of 500,000 rows.
    PipelineOurs,
    /// Our pipeline as it comes.
    PipelineDefault,
    /// Ours behind a slow network.
    PipelineSlow,
    /// Ours on the first half of the records.
    PipelineHalf,
    /// librdkafka, arrow-json and native blocks on two threads.
    Compose,
}

/// Where rows go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    /// No server.
    Nowhere,
    /// A current ClickHouse, a table that drops its rows.
    Null,
    /// A current ClickHouse, MergeTree ORDER BY id.
    MergeTree,
    /// A current ClickHouse, ReplacingMergeTree ORDER BY id.
    Replacing,
    /// ClickHouse 18.16, a table that drops its rows.
    OldNull,
    /// A current ClickHouse, orders in MergeTree ORDER BY id.
    Orders,
}

/// A program and its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Way {
    pub(crate) program: Program,
    pub(crate) target: Target,
}

/// Ways that are compared take turns: all ways of a group run once in each round.
pub(crate) const GROUPS: [&[Way]; 10] = [
    &[
        Way::new(Program::ReadOurs, Target::Nowhere),
        Way::new(Program::ReadGroup, Target::Nowhere),
        Way::new(Program::ReadUnbounded, Target::Nowhere),
        Way::new(Program::ReadDebezium, Target::Nowhere),
        Way::new(Program::ReadAvro, Target::Nowhere),
        Way::new(Program::ReadBare, Target::Nowhere),
        Way::new(Program::DecodeOurs, Target::Nowhere),
        Way::new(Program::DecodeArrow, Target::Nowhere),
    ],
    &[Way::new(Program::WriteOurs, Target::Nowhere), Way::new(Program::WriteBare, Target::Nowhere)],
    &[
        Way::new(Program::InsertOurs, Target::Null),
        Way::new(Program::InsertPrebuilt, Target::Null),
        Way::new(Program::InsertClient, Target::Null),
        Way::new(Program::InsertRowBinary, Target::Null),
        Way::new(Program::InsertArrowStream, Target::Null),
    ],
    &[
        Way::new(Program::InsertOurs, Target::MergeTree),
        Way::new(Program::InsertPrebuilt, Target::MergeTree),
        Way::new(Program::InsertKlickhouse, Target::MergeTree),
        Way::new(Program::InsertRowBinary, Target::MergeTree),
        Way::new(Program::InsertArrowStream, Target::MergeTree),
    ],
    &[
        Way::new(Program::InsertFlushes, Target::Replacing),
        Way::new(Program::UpsertFlushes, Target::Replacing),
    ],
    &[Way::new(Program::FlussAppend, Target::Nowhere), Way::new(Program::FlussAppendBare, Target::Nowhere)],
    &[Way::new(Program::FlussScan, Target::Nowhere), Way::new(Program::FlussScanBare, Target::Nowhere)],
    &[Way::new(Program::FlussLookup, Target::Nowhere), Way::new(Program::FlussLookupBare, Target::Nowhere)],
    &[Way::new(Program::InsertOurs, Target::OldNull), Way::new(Program::InsertPrebuilt, Target::OldNull)],
    &[
        Way::new(Program::PipelineOurs, Target::Orders),
        Way::new(Program::Compose, Target::Orders),
        Way::new(Program::PipelineDefault, Target::Orders),
        Way::new(Program::PipelineHalf, Target::Orders),
        Way::new(Program::PipelineSlow, Target::Orders),
    ],
];

impl Way {
    pub(crate) const fn new(program: Program, target: Target) -> Self {
        Self { program, target }
    }

    /// All ways.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        GROUPS.into_iter().flatten().copied()
    }

    /// The way of this name.
    pub(crate) fn find(name: &str) -> Option<Self> {
        Self::all().find(|way| way.name() == name)
    }

    /// A name for the command line and the report.
    pub(crate) fn name(self) -> String {
        let program = match self.program {
            Program::FlussAppend => "fluss-append-ours",
            Program::FlussAppendBare => "fluss-append-client",
            Program::FlussScan => "fluss-scan-ours",
            Program::FlussScanBare => "fluss-scan-client",
            Program::FlussLookup => "fluss-lookup-ours",
            Program::FlussLookupBare => "fluss-lookup-client",
            Program::ReadOurs => "read-ours",
            Program::ReadGroup => "read-ours-group",
            Program::ReadUnbounded => "read-ours-unbounded",
            Program::ReadDebezium => "read-ours-debezium",
            Program::ReadAvro => "read-ours-avro",
            Program::ReadBare => "read-librdkafka",
            Program::WriteOurs => "write-ours",
            Program::WriteBare => "write-librdkafka",
            Program::DecodeOurs => "decode-ours",
            Program::DecodeArrow => "decode-arrow-json",
            Program::InsertOurs => "insert-ours",
            Program::InsertFlushes => "insert-ours-500k",
            Program::UpsertFlushes => "upsert-ours-500k",
            Program::InsertPrebuilt => "insert-prebuilt",
            Program::InsertClient => "insert-clickhouse-client",
            Program::InsertKlickhouse => "insert-klickhouse",
            Program::InsertRowBinary => "insert-rowbinary",
            Program::InsertArrowStream => "insert-arrowstream",
            Program::PipelineOurs => "pipeline-ours",
            Program::PipelineDefault => "pipeline-ours-50k",
            Program::PipelineSlow => "pipeline-ours-slow-sink",
            Program::PipelineHalf => "pipeline-ours-half",
            Program::Compose => "pipeline-compose",
        };
        let target = match self.target {
            Target::Nowhere | Target::Orders => "",
            Target::Null => ":null",
            Target::MergeTree => ":mergetree",
            Target::Replacing => ":replacing",
            Target::OldNull => ":null-18",
        };
        format!("{program}{target}")
    }

    /// Whether it reads the topic.
    pub(crate) fn reads_kafka(self) -> bool {
        matches!(self.program, Program::ReadOurs | Program::ReadGroup | Program::ReadBare)
            || self.is_pipeline()
    }

    /// Whether the whole process is measured from its start, from outside.
    pub(crate) fn is_pipeline(self) -> bool {
        self.target == Target::Orders
    }
}

impl Target {
    /// Which server it is on.
    pub(crate) fn version(self) -> Option<Version> {
        match self {
            Self::Nowhere => None,
            Self::OldNull => Some(Version::V18),
            Self::Null | Self::MergeTree | Self::Replacing | Self::Orders => Some(Version::Current),
        }
    }

    /// The server.
    pub(crate) fn server(self) -> anyhow::Result<Clickhouse> {
        services::clickhouse(self.version().unwrap_or(Version::Current))
    }

    /// Columns and engine, for `CREATE TABLE`.
    pub(crate) fn definition(self) -> String {
        let upsert = format!("{}, version UInt64, is_deleted UInt8", rows::COLUMNS);
        let (columns, engine) = match self {
            Self::Replacing => (upsert.as_str(), "ReplacingMergeTree(version, is_deleted) ORDER BY id"),
            Self::Nowhere | Self::Null | Self::OldNull => (rows::COLUMNS, "Null"),
            Self::MergeTree => (rows::COLUMNS, "MergeTree ORDER BY id"),
            Self::Orders => (connector_tests::orders::columns(Version::Current), "MergeTree ORDER BY id"),
        };
        format!("({columns}) ENGINE = {engine}")
    }

    /// Whether the rows can be looked at afterwards.
    pub(crate) fn keeps_rows(self) -> bool {
        matches!(self, Self::MergeTree | Self::Replacing | Self::Orders)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_find_their_ways() {
        let names: BTreeSet<String> = Way::all().map(Way::name).collect();
        assert_eq!(names.len(), Way::all().count());
        for way in Way::all() {
            assert_eq!(Way::find(&way.name()), Some(way));
        }
    }
}
