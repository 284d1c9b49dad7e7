//! Every option of every connector: `./dev options`, or `./dev options --tsv` for a table of tab-separated values.

use connector_bytehouse_cdw::{BytehouseCdwSinkOptions, BytehouseCdwWriterOptions};
use connector_core::options::{markdown, tsv};
use connector_kafka::{KafkaSinkOptions, KafkaSourceOptions};

fn main() {
    let sets = [
        KafkaSourceOptions::OPTIONS,
        KafkaSinkOptions::OPTIONS,
        BytehouseCdwWriterOptions::OPTIONS,
        BytehouseCdwSinkOptions::OPTIONS,
    ];
    if std::env::args().any(|argument| argument == "--tsv") {
        print!("{}", tsv(&sets));
    } else {
        print!("{}", markdown(&sets));
    }
}
