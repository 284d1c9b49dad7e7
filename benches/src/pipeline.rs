//! A run of a whole pipeline, watched from outside: the clock runs from the start of its process until the table
//! holds all rows.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use connector_tests::{
    Service,
    proxy::{Flow, Proxy, Rules},
    services::Clickhouse,
};
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::{
    bench::{Ended, finish, start},
    cli::Job,
    services::server_cpu,
    way::Program,
};

/// How often the table is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// The slow network: at most 64 KiB every 20 ms, which is about 3 MB/s, and for how long.
const SLOW_BYTES: usize = 64 << 10;
const SLOW_EVERY: Duration = Duration::from_millis(20);
const SLOW_FOR: Duration = Duration::from_secs(8);

/// Runs the pipeline of a job and watches its table.
pub(crate) async fn run(job: &Job) -> Result<Ended> {
    let server = job.way.target.server()?;
    if job.way.program != Program::PipelineSlow {
        return watch(job, &server).await;
    }
    let proxy = Proxy::start(&server.tcp).await;
    proxy.set_rules(Rules::pass().to_server(Flow::pass().drip(SLOW_BYTES, SLOW_EVERY)));
    let job = Job { address: Some(proxy.address().to_string()), ..job.clone() };
    let quick_again = async {
        sleep(SLOW_FOR).await;
        proxy.set_rules(Rules::pass());
        std::future::pending().await
    };
    tokio::select! {
        ended = watch(&job, &server) => ended,
        never = quick_again => never,
    }
}

async fn watch(job: &Job, server: &Clickhouse) -> Result<Ended> {
    let before = server_cpu(Service::ClickhouseCurrent);
    let began = Instant::now();
    let mut child = start(job)?;
    let mut first_row = None;
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let wall = loop {
        looks.tick().await;
        // Whatever is there after the end of the process is all that will ever be there.
        let ended = child.try_wait()?;
        let rows = server.count(&job.table).await;
        let elapsed = began.elapsed().as_secs_f64();
        if rows > 0 {
            first_row.get_or_insert(elapsed);
        }
        if rows >= job.rows {
            break elapsed;
        }
        if let Some(status) = ended {
            ensure!(status.success(), "the process failed: {status}");
            ensure!(rows >= job.rows, "only {rows} of {} rows are in the table", job.rows);
        }
    };
    let mut ended = finish(child).await?;
    let after = server_cpu(Service::ClickhouseCurrent);
    ended.outcome.wall = wall;
    ended.outcome.first_row = first_row;
    ended.outcome.server_cpu = before.zip(after).map(|(before, after)| after - before);
    Ok(ended)
}
