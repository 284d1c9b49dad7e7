//! What a run cost: time, CPU and memory.

use std::{fs, time::Instant};

use anyhow::{Context as _, Result};
use nix::sys::resource::{Usage, UsageWho, getrusage};
use serde::{Deserialize, Serialize};

/// What one run of one way came to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Rows or records.
    pub(crate) rows: u64,
    /// Seconds, without what it took to get ready.
    pub(crate) wall: f64,
    /// Seconds of CPU in that time, user and system.
    pub(crate) cpu: f64,
    /// The most memory that the process held, in MiB.
    pub(crate) peak_mib: f64,
    /// Seconds from the start of the process to the first row that a reader of the table could see.
    #[serde(default)]
    pub(crate) first_row: Option<f64>,
    /// Seconds of CPU of the server that was written to.
    #[serde(default)]
    pub(crate) server_cpu: Option<f64>,
    /// Bytes of the records, where they count.
    #[serde(default)]
    pub(crate) bytes: Option<u64>,
}

impl Outcome {
    pub(crate) fn rows_per_second(&self) -> f64 {
        count(self.rows) / self.wall
    }

    /// The same, with the bytes of its records.
    pub(crate) fn with_bytes(self, bytes: u64) -> Self {
        Self { bytes: Some(bytes), ..self }
    }
}

/// Rows as a number to divide.
#[allow(clippy::cast_precision_loss, reason = "a count of rows is far below 2^53")]
pub(crate) fn count(rows: u64) -> f64 {
    rows as f64
}

/// Measures a part of this process's work.
#[derive(Debug)]
pub(crate) struct Meter {
    began: Instant,
    cpu: f64,
}

impl Meter {
    /// Starts the clock.
    pub(crate) fn start() -> Result<Self> {
        Ok(Self { began: Instant::now(), cpu: own_cpu()? })
    }

    /// Stops the clock. Memory counts from the start of the process.
    pub(crate) fn stop(self, rows: u64) -> Result<Outcome> {
        let wall = self.began.elapsed().as_secs_f64();
        Outcome::of_process(rows, wall, own_cpu()? - self.cpu)
    }
}

impl Outcome {
    /// An outcome with the memory of this process.
    pub(crate) fn of_process(rows: u64, wall: f64, cpu: f64) -> Result<Self> {
        Ok(Self {
            rows,
            wall,
            cpu,
            peak_mib: own_peak_mib()?,
            first_row: None,
            server_cpu: None,
            bytes: None,
        })
    }
}

/// Seconds of CPU that this process has used so far.
pub(crate) fn own_cpu() -> Result<f64> {
    Ok(seconds(&getrusage(UsageWho::RUSAGE_SELF)?))
}

/// Seconds of CPU of the child processes that have ended.
pub(crate) fn children_cpu() -> Result<f64> {
    Ok(seconds(&getrusage(UsageWho::RUSAGE_CHILDREN)?))
}

fn seconds(usage: &Usage) -> f64 {
    [usage.user_time(), usage.system_time()]
        .map(|time| {
            let micros = i32::try_from(time.tv_usec()).unwrap_or(0);
            let whole = i32::try_from(time.tv_sec()).unwrap_or(i32::MAX);
            f64::from(whole) + f64::from(micros) / 1e6
        })
        .iter()
        .sum()
}

/// The most memory that this process has held. The number of `getrusage` would do, but it begins with the memory of
/// the process that started this one.
fn own_peak_mib() -> Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM in the status")?;
    let kib: u32 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(f64::from(kib) / 1024.0)
}

/// Seconds of CPU that a process has used so far, its ended threads included.
pub(crate) fn process_cpu(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).with_context(|| format!("process {pid}"))?;
    // The name, in parentheses, may hold spaces.
    let (_, rest) = stat.rsplit_once(')').context("a process status without a name")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    ticks(fields.get(11..13).context("a short process status")?)
}

/// Seconds that the processors of this machine were busy so far.
pub(crate) fn machine_cpu() -> Result<f64> {
    let stat = fs::read_to_string("/proc/stat")?;
    let fields: Vec<&str> = stat.lines().next().context("an empty status")?.split_whitespace().collect();
    // cpu, user, nice, system; then idle and waiting; then interrupts.
    Ok(ticks(fields.get(1..4).context("a short status")?)?
        + ticks(fields.get(6..8).context("a short status")?)?)
}

fn ticks(fields: &[&str]) -> Result<f64> {
    let per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK)?.context("no clock ticks")?;
    let mut sum = 0_u64;
    for field in fields {
        sum += field.parse::<u64>()?;
    }
    Ok(count(sum) / count(per_second.try_into()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_measured() {
        let meter = Meter::start().unwrap();
        let mut sum = 0_u64;
        while own_cpu().unwrap() - meter.cpu < 0.05 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let outcome = meter.stop(10).unwrap();
        assert!(outcome.cpu >= 0.05 && outcome.wall > 0.0, "{outcome:?}");
        assert!(outcome.peak_mib > 0.5, "{outcome:?}");
        let whole = process_cpu(std::process::id()).unwrap();
        assert!((whole - own_cpu().unwrap()).abs() < 0.1, "{whole}");
        assert!(machine_cpu().unwrap() >= whole - 0.1);
    }
}
