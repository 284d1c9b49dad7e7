//! Programs that run beside a test and are killed in the middle of their work.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use crate::mix;

/// Endless times within a range that look random and follow from the seed alone.
#[derive(Clone, Debug)]
pub struct Moments {
    seed: u64,
    range: Range<Duration>,
}

impl Moments {
    /// Times within `range`. Print the seed when a test fails: it gives the same times again.
    #[must_use]
    pub const fn new(seed: u64, range: Range<Duration>) -> Self {
        Self { seed, range }
    }
}

impl Iterator for Moments {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.seed = mix(self.seed);
        let thousandths = u32::try_from(self.seed % 1000).unwrap_or(0);
        Some(self.range.start + (self.range.end.saturating_sub(self.range.start)) * thousandths / 1000)
    }
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was killed in the middle.
    Killed,
    /// It ended by itself, with this status.
    Exited(ExitStatus),
}

/// A running program. It is killed when this is dropped.
#[derive(Debug)]
pub struct Program {
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts a program; standard output and error are appended to the file `log`.
    ///
    /// Binaries of this crate are at `env!("CARGO_BIN_EXE_<name>")` in its integration tests.
    ///
    /// # Errors
    /// When the log or the program cannot be opened.
    pub fn start(command: &mut Command, log: &Path) -> io::Result<Self> {
        let file: File = OpenOptions::new().create(true).append(true).open(log)?;
        let child =
            command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).kill_on_drop(true).spawn()?;
        Ok(Self { child, log: log.to_owned() })
    }

    /// Lets the program run for this long and then kills it (SIGKILL), unless it has ended before.
    ///
    /// # Panics
    /// When the system cannot tell how the program ended.
    pub async fn kill_after(&mut self, time: Duration) -> Ended {
        if let Ok(status) = timeout(time, self.child.wait()).await {
            return Ended::Exited(status.expect("the status of a child process"));
        }
        self.child.kill().await.expect("a child process can be killed");
        Ended::Killed
    }

    /// Waits until the program ends by itself.
    ///
    /// # Panics
    /// When it has not ended within `limit`; the message has the end of its output.
    pub async fn wait(&mut self, limit: Duration) -> ExitStatus {
        match timeout(limit, self.child.wait()).await {
            Ok(status) => status.expect("the status of a child process"),
            Err(_) => {
                panic!("the program still runs after {limit:?}; its output ends:\n{}", self.last_lines(20))
            }
        }
    }

    /// Whether the program still runs.
    ///
    /// # Panics
    /// When the system cannot tell.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("the status of a child process").is_none()
    }

    /// Asks the program to end (SIGTERM) and waits until it has.
    ///
    /// # Panics
    /// When it has not ended within `limit`.
    pub async fn terminate(&mut self, limit: Duration) -> ExitStatus {
        if let Some(id) = self.child.id() {
            let sent = Command::new("kill").args(["-TERM", &id.to_string()]).status().await;
            assert!(sent.is_ok_and(|status| status.success()), "process {id} cannot be signalled");
        }
        self.wait(limit).await
    }

    /// Waits until the program has written a line that contains `text`.
    ///
    /// # Panics
    /// When it ends first, or `limit` passes; the message has the end of its output.
    pub async fn wait_for_line(&mut self, text: &str, limit: Duration) {
        let deadline = Instant::now() + limit;
        loop {
            let ended = self.child.try_wait().expect("the status of a child process");
            if self.output().lines().any(|line| line.contains(text)) {
                return;
            }
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "no line with {text:?} (program ended: {ended:?}); its output ends:\n{}",
                self.last_lines(20)
            );
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Everything that was written to the log, by earlier programs with the same log too.
    #[must_use]
    pub fn output(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    fn last_lines(&self, count: usize) -> String {
        let output = self.output();
        let lines: Vec<&str> = output.lines().collect();
        lines[lines.len().saturating_sub(count)..].join("\n")
    }

    /// The most memory the program has held so far, in bytes; `None` once it has ended.
    #[must_use]
    pub fn peak_memory(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()?)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kilobytes * 1024)
    }
}

/// Starts a program again and again, kills it `times` times at the given moments, and then lets it end by itself.
/// Returns how often it was really killed: less than `times` when it was done before.
///
/// # Panics
/// When a run fails by itself, or the last one has not ended within `limit`.
pub async fn run_with_crashes(
    mut command: impl FnMut() -> Command,
    log: &Path,
    times: u32,
    moments: Moments,
    limit: Duration,
) -> u32 {
    let mut killed = 0;
    for moment in moments.take(usize::try_from(times).unwrap_or(usize::MAX)) {
        let mut program = Program::start(&mut command(), log).expect("the program can be started");
        match program.kill_after(moment).await {
            Ended::Killed => killed += 1,
            Ended::Exited(status) => {
                assert!(status.success(), "the program failed with {status}:\n{}", program.last_lines(20));
                return killed;
            }
        }
    }
    let mut program = Program::start(&mut command(), log).expect("the program can be started");
    let status = program.wait(limit).await;
    assert!(status.success(), "the program failed with {status}:\n{}", program.last_lines(20));
    killed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn moments_follow_from_the_seed_and_stay_in_the_range() {
        let range = Duration::from_millis(10)..Duration::from_millis(500);
        let moments: Vec<_> = Moments::new(7, range.clone()).take(100).collect();
        assert_eq!(moments, Moments::new(7, range.clone()).take(100).collect::<Vec<_>>());
        assert_ne!(moments, Moments::new(8, range.clone()).take(100).collect::<Vec<_>>());
        assert!(moments.iter().all(|moment| range.contains(moment)));
    }

    #[tokio::test]
    async fn a_program_is_killed_in_the_middle() {
        let folder = tempfile::tempdir().unwrap();
        let mut program =
            Program::start(&mut shell("echo began; sleep 600; echo ended"), &folder.path().join("log"))
                .unwrap();
        program.wait_for_line("began", Duration::from_secs(20)).await;
        assert!(program.peak_memory().is_some_and(|bytes| bytes > 0));
        assert_eq!(program.kill_after(Duration::from_millis(50)).await, Ended::Killed);
        assert_eq!(program.output(), "began\n");
    }

    #[tokio::test]
    async fn a_program_that_ends_before_is_not_killed() {
        let folder = tempfile::tempdir().unwrap();
        let mut program = Program::start(&mut shell("exit 3"), &folder.path().join("log")).unwrap();
        let Ended::Exited(status) = program.kill_after(Duration::from_secs(60)).await else {
            panic!("it was killed");
        };
        assert_eq!(status.code(), Some(3));
    }

    #[tokio::test]
    async fn crashes_stop_before_the_last_run() {
        let folder = tempfile::tempdir().unwrap();
        let mut runs = 0;
        let killed = run_with_crashes(
            || {
                runs += 1;
                shell(if runs <= 5 { "sleep 600" } else { "echo done" })
            },
            &folder.path().join("log"),
            5,
            Moments::new(1, Duration::from_millis(10)..Duration::from_millis(50)),
            Duration::from_secs(60),
        )
        .await;
        assert_eq!(killed, 5);
        assert_eq!(runs, 6);
        assert_eq!(fs::read_to_string(folder.path().join("log")).unwrap(), "done\n");
    }
}
