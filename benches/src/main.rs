//! Throughput of the connectors against raw clients and peers that do the same work, in one run on one machine.
//!
//! `./dev bench` starts the servers and runs this. Every measured way of doing the work runs in a process of its
//! own, and the ways that are compared take turns; `docs/benchmarks.md` tells what the figures mean.

mod bench;
mod child;
mod cli;
mod figure;
mod measure;
mod orders;
mod pipeline;
mod raw;
mod report;
mod rows;
mod services;
mod way;
mod ways;

use std::process::ExitCode;

use cli::Command;

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match Command::from_arguments(std::env::args().skip(1)) {
        Ok(Command::Help) => {
            print!("{}", cli::USAGE);
            Ok(())
        }
        Ok(Command::Bench(options)) => bench::run(&options).await,
        Ok(Command::Child(job)) => child::run(&job).await,
        Err(error) => Err(error.context("see connector-benches --help")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("connector-benches: {error:#}");
            ExitCode::FAILURE
        }
    }
}
