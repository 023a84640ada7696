//! A server on a thread, and a gateway as small as one can be.

use crate::common::{PAGE, config};
use engine::{
    core::{EngineConfig, Reader},
    device::stamp::StampDevice,
    server::{Control, Ready, ServerConfig, ServerError, run},
};
use isolation::units::{Pages, Tokens};
use std::{
    convert::Infallible,
    io::{Read, Write},
    num::NonZeroU32,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::{Path, PathBuf},
    sync::mpsc,
    thread::JoinHandle,
    time::Duration,
};
use tempfile::TempDir;
use wire::{
    Decoder, EngineStatus, GatewayHello, Hello, PROTOCOL, Submit, ToEngine, ToGateway, WireKey, encode,
};

pub(crate) type Outcome = Result<(), ServerError<Infallible>>;

pub(crate) fn key() -> WireKey {
    WireKey::new([7; 32])
}

pub(crate) fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    folder
}

pub(crate) struct Server {
    pub(crate) socket: PathBuf,
    pub(crate) ready: Ready,
    pub(crate) control: Control,
    thread: Option<JoinHandle<Outcome>>,
    _folder: TempDir,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with(30, |_| {})
    }

    pub(crate) fn with(pages: u32, change: impl FnOnce(&mut ServerConfig)) -> Self {
        Self::on(device(pages), change)
    }

    pub(crate) fn on(device: StampDevice, change: impl FnOnce(&mut ServerConfig)) -> Self {
        Self::within(device, change, |serve| serve())
    }

    /// A server whose thread is the one that `on_thread` is called on.
    pub(crate) fn within(
        device: StampDevice,
        change: impl FnOnce(&mut ServerConfig),
        on_thread: impl FnOnce(Box<dyn FnOnce() -> Outcome>) -> Outcome + Send + 'static,
    ) -> Self {
        let folder = folder();
        let socket = folder.path().join("engine.sock");
        let mut server = server_config(&socket, config());
        change(&mut server);
        let control = server.control.clone();
        let (sender, ready) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            on_thread(Box::new(|| run(server, || Ok(device), move |ready| sender.send(*ready).unwrap())))
        });
        let ready = ready.recv().unwrap();
        Self { socket, ready, control, thread: Some(thread), _folder: folder }
    }

    pub(crate) fn stop(mut self) -> Outcome {
        self.control.stop();
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.control.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }
}

pub(crate) fn server_config(socket: &Path, engine: EngineConfig) -> ServerConfig {
    ServerConfig::new(socket.to_path_buf(), key(), engine)
}

pub(crate) fn device(pages: u32) -> StampDevice {
    StampDevice::new(Pages::new(pages), NonZeroU32::new(PAGE).unwrap(), Tokens::new(64))
}

pub(crate) struct Gateway {
    pub(crate) stream: UnixStream,
    decoder: Decoder,
    pub(crate) hello: Option<Hello>,
    serial: u64,
    pub(crate) reader: Reader,
}

impl Gateway {
    /// A stream without a word said.
    pub(crate) fn silent(server: &Server) -> Self {
        let stream = UnixStream::connect(&server.socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self { stream, decoder: Decoder::new(), hello: None, serial: 0, reader: Reader::new() }
    }

    pub(crate) fn open(server: &Server) -> Self {
        let mut gateway = Self::silent(server);
        gateway.greet();
        gateway
    }

    /// Says hello, and hears the engine's before anything else.
    pub(crate) fn greet(&mut self) {
        self.say(&ToEngine::Hello(GatewayHello { protocol: PROTOCOL }));
        match self.hear() {
            Some(ToGateway::Hello(hello)) => self.hello = Some(*hello),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn say(&mut self, message: &ToEngine) {
        self.stream.write_all(&encode(message).unwrap()).unwrap();
    }

    /// The next frame, or `None` at the end of the stream.
    pub(crate) fn hear(&mut self) -> Option<ToGateway> {
        loop {
            if let Some(frame) = self.decoder.take().unwrap() {
                return Some(frame);
            }
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(count) => self.decoder.push(&buffer[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub(crate) fn seal(&mut self, mut submit: Submit) -> Submit {
        let hello = self.hello.as_ref().unwrap();
        self.serial += 1;
        submit.serial = self.serial;
        submit.epoch = hello.epoch;
        submit.seal(&key(), &hello.session)
    }

    pub(crate) fn submit(&mut self, submit: Submit) {
        let sealed = self.seal(submit);
        self.reader.expect(&sealed);
        self.say(&ToEngine::Submit(Box::new(sealed)));
    }

    /// Reads until each sequence has ended.
    pub(crate) fn settle(&mut self) {
        while self.reader.transcripts().values().any(|transcript| transcript.ended.is_none()) {
            let frame = self.hear().unwrap();
            self.reader.read(frame).unwrap();
        }
    }

    pub(crate) fn status(&mut self) -> EngineStatus {
        self.say(&ToEngine::Status);
        loop {
            let frame = self.hear().unwrap();
            if let ToGateway::Status(status) = frame {
                return status;
            }
            self.reader.read(frame).unwrap();
        }
    }

    /// Asks for the status until it is as wanted; each answer is an event of its own, so nothing is waited for in vain.
    pub(crate) fn status_when(&mut self, is_wanted: impl Fn(&EngineStatus) -> bool) -> EngineStatus {
        for _ in 0..100_000 {
            let status = self.status();
            if is_wanted(&status) {
                return status;
            }
        }
        panic!("the engine did not come to it: {:?}", self.status());
    }
}
