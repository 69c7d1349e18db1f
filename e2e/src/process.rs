//! Processes that run while a test goes on: reading what they print as it comes, and ending them.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

/// How long anything may take that should take no time. Long, because tests share two cores with a compiler.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Tries until it works, or fails the test with what the last try said.
///
/// For states that nothing announces; where something does, wait for that instead.
#[track_caller]
pub fn eventually<T>(mut attempt: impl FnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match attempt() {
            Ok(found) => return found,
            Err(problem) => assert!(Instant::now() < deadline, "still after {PATIENCE:?}: {problem}"),
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// A process under way. It is killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    seen: String,
}

impl Running {
    /// Starts it, reading its standard output.
    ///
    /// # Panics
    /// When it does not start; `hint` says what to do then.
    pub(crate) fn spawn(command: &mut Command, hint: &str) -> Self {
        Self::spawn_with(Stdio::null(), command, hint)
    }

    /// The same, and it can be told something.
    ///
    /// # Panics
    /// As before.
    pub(crate) fn spawn_listening(command: &mut Command, hint: &str) -> Self {
        Self::spawn_with(Stdio::piped(), command, hint)
    }

    fn spawn_with(input: Stdio, command: &mut Command, hint: &str) -> Self {
        let started = command.stdin(input).stdout(Stdio::piped()).spawn();
        let mut child = started.unwrap_or_else(|error| panic!("{command:?} does not start: {error}: {hint}"));
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let (line_tx, lines) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if line_tx.send(line).is_err() {
                    break;
                }
            }
        });
        let input = child.stdin.take();
        Self { child, input, lines, seen: String::new() }
    }

    /// Writes a line to its standard input.
    ///
    /// # Panics
    /// When it does not listen, any more.
    #[track_caller]
    pub(crate) fn tell(&mut self, line: &str) {
        let input = self.input.as_mut().expect("it was started to be told something");
        let told = writeln!(input, "{line}").and_then(|()| input.flush());
        told.unwrap_or_else(|error| {
            panic!("it cannot be told {line:?}: {error}; it printed:\n{}", self.seen)
        });
    }

    /// Tells it that nothing more will be told, which is what some wait for to end.
    pub fn hang_up(&mut self) {
        self.input = None;
    }

    /// The next line it prints that contains `text`.
    ///
    /// # Panics
    /// When no such line comes in time, or the process ends before.
    #[track_caller]
    pub fn line_with(&mut self, text: &str) -> String {
        let wanted = format!("a line with {text:?}");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let line = self.line_before(deadline, &wanted);
            if line.contains(text) {
                return line;
            }
        }
    }

    /// The next line it prints.
    ///
    /// # Panics
    /// When none comes in time, or the process ends before; `wanted` says what it was to tell.
    #[track_caller]
    pub(crate) fn line_before(&mut self, deadline: Instant, wanted: &str) -> String {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.lines.recv_timeout(left) {
            Ok(line) => {
                self.seen.push_str(&line);
                self.seen.push('\n');
                line
            }
            Err(RecvTimeoutError::Timeout) => panic!("not in time: {wanted}; it printed:\n{}", self.shown()),
            Err(RecvTimeoutError::Disconnected) => {
                panic!("it ended without {wanted}; it printed:\n{}", self.shown())
            }
        }
    }

    /// The line that it prints within a moment, if it does.
    pub fn next_line(&mut self) -> Option<String> {
        let line = self.lines.recv_timeout(Duration::from_millis(200)).ok()?;
        self.seen.push_str(&line);
        self.seen.push('\n');
        Some(line)
    }

    /// All it has printed up to the last line asked for.
    #[must_use]
    pub fn seen(&self) -> &str {
        &self.seen
    }

    /// The same for people, without the rest of long lines.
    fn shown(&self) -> String {
        self.seen.lines().flat_map(|line| line.chars().take(2000).chain(['\n'])).collect()
    }

    /// All it prints until it ends by itself, and how it ended.
    ///
    /// # Panics
    /// When it does not end in time.
    #[track_caller]
    pub fn finish(mut self) -> (String, ExitStatus) {
        let status = self.end();
        self.seen.extend(self.lines.try_iter().flat_map(|line| [line, "\n".to_owned()]));
        (std::mem::take(&mut self.seen), status)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// When it has been waited for.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("it has not been waited for, so the process is there");
    }

    #[track_caller]
    pub(crate) fn end(&mut self) -> ExitStatus {
        let child = &mut self.child;
        eventually(|| child.try_wait().expect("our child").ok_or_else(|| "the process runs".to_owned()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only when it has ended, which is what they are for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
