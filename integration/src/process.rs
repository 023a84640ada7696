//! A process under test: what it said, how it ended, what it was told.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::wait;

/// From the signal to the end of a process, at most; above the gateway's own bound for draining.
const STOP_MAX: Duration = Duration::from_secs(60);

/// A process, and all that it said. Dropped, it is killed.
#[derive(Debug)]
pub struct Process {
    child: Child,
    output: Said,
    errors: Said,
}

impl Process {
    /// Starts it and waits until a line of its standard output satisfies `ready`.
    ///
    /// # Panics
    /// When it ends first, or says nothing of the kind within `most`.
    #[must_use]
    pub fn start(command: &mut Command, most: Duration, ready: impl Fn(&str) -> bool) -> Self {
        let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut process = Self {
            child: started.expect("the binary runs"),
            output: Said::default(),
            errors: Said::default(),
        };
        process.output.follow(process.child.stdout.take().expect("a pipe"));
        process.errors.follow(process.child.stderr.take().expect("a pipe"));
        wait::until("ready line", most, || {
            let ended = process.child.try_wait().expect("the process can be asked");
            assert!(ended.is_none(), "ended early, {ended:?}\n{}", process.said());
            process.output.text().lines().any(&ready).then_some(())
        });
        process
    }

    /// The rest of the first line of standard output that starts with `label`.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn after(&self, label: &str) -> String {
        let text = self.output.text();
        let found = text.lines().find_map(|line| line.trim().strip_prefix(label));
        found.unwrap_or_else(|| panic!("no {label:?} in\n{text}")).trim().to_owned()
    }

    /// The address in the URL after `label`.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn address_after(&self, label: &str) -> SocketAddr {
        let url = self.after(label);
        let host = url.trim_start_matches("http://").split('/').next().and_then(|host| host.parse().ok());
        host.unwrap_or_else(|| panic!("no address in {url}"))
    }

    /// All that it wrote so far, on both streams.
    #[must_use]
    pub fn said(&self) -> String {
        self.output.text() + &self.errors.text()
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Process ids of its children.
    ///
    /// # Panics
    /// When it has ended.
    #[must_use]
    pub fn children(&self) -> Vec<u32> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).expect("a running process");
        let lists =
            tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
        lists.flat_map(|list| list.split_whitespace().flat_map(str::parse).collect::<Vec<_>>()).collect()
    }

    /// Asks it to end, as a service manager does.
    pub fn terminate(&self) {
        signal("TERM", self.pid());
    }

    /// Waits for its end; returns its exit code and all that it said.
    ///
    /// # Panics
    /// When it does not end within its bound.
    pub fn wait(&mut self) -> (Option<i32>, String) {
        let (status, _) =
            wait::until("end of the process", STOP_MAX, || self.child.try_wait().expect("it can be asked"));
        (status.code(), self.said())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What a process wrote so far.
#[derive(Clone, Debug, Default)]
struct Said(Arc<Mutex<String>>);

impl Said {
    fn follow(&self, pipe: impl std::io::Read + Send + 'static) {
        let said = self.clone();
        std::thread::spawn(move || {
            let mut pipe = BufReader::new(pipe);
            let mut line = vec![];
            while pipe.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
                said.0
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push_str(&String::from_utf8_lossy(&line));
                line.clear();
            }
        });
    }

    fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Sends a signal by its name.
///
/// # Panics
/// When there is no such process.
pub fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status();
    assert!(sent.expect("kill runs").success(), "no process {pid} to send {name} to");
}
