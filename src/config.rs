//! The file of `bulkhead serve --config`.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::{NonZeroU16, NonZeroU32};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::cli::{EngineSize, Listeners};
use crate::data::read_bounded;
use crate::exit::{Doing, Exit, Failure};

/// Bytes of a config file at most; the shipped example has under 2,000.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// What `serve` needs to know. A field that is not listed is refused.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The data folder; `--data` goes before it.
    pub(crate) data: Option<PathBuf>,
    /// A file, or a name of the catalog.
    pub(crate) model: String,
    #[serde(default = "default_listen")]
    listen: SocketAddr,
    #[serde(default = "default_admin")]
    admin: SocketAddr,
    /// Where the Admin API is served; not served where none is named.
    api: Option<SocketAddr>,
    /// Public keys of scanners of secrets; nobody's reports are believed by their signature where none is named.
    scanners: Option<PathBuf>,
    /// The limits; the shipped ones where none is named.
    pub(crate) policy: Option<PathBuf>,
    pool_tokens: Option<NonZeroU32>,
    window: Option<NonZeroU32>,
    threads: Option<NonZeroU16>,
}

fn default_listen() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 8080).into()
}

fn default_admin() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 9090).into()
}

impl Config {
    /// Reads a config file.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let reading = format!("read the config {}", path.display());
        let bytes = read_bounded(path, FILE_BYTES_MAX).doing(Exit::Config, &reading)?;
        let text = String::from_utf8(bytes).doing(Exit::Config, &reading)?;
        let config = Self::parse(&text).map_err(|error| {
            Failure::new(Exit::Config, format_args!("{} is refused: {error}", path.display()))
        })?;
        if config.scanners.is_some() && config.api.is_none() {
            let why = "`scanners` is for the Admin API, and no `api` is named";
            return Err(Failure::new(Exit::Config, format_args!("{} is refused: {why}", path.display())));
        }
        Ok(config)
    }

    fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// Where the gateway listens.
    pub(crate) fn listeners(&self) -> Listeners {
        Listeners { listen: self.listen, admin: self.admin, api: self.api, scanners: self.scanners.clone() }
    }

    /// How large the engine is.
    pub(crate) fn size(&self) -> EngineSize {
        EngineSize {
            pool_tokens: self.pool_tokens.map(NonZeroU32::get),
            window: self.window.map(NonZeroU32::get),
            threads: self.threads.map(NonZeroU16::get),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_example_is_good_and_says_the_defaults() {
        let example = include_str!("../deploy/bulkhead.toml");
        let config = Config::parse(example).unwrap();
        assert_eq!((config.listen, config.admin, config.api), (default_listen(), default_admin(), None));
        // Each line that is commented out is good too.
        let all: String = example
            .lines()
            .map(|line| line.strip_prefix("# ").filter(|rest| rest.contains(" = ")).unwrap_or(line))
            .map(|line| format!("{line}\n"))
            .collect();
        let config = Config::parse(&all).unwrap();
        assert!(config.policy.is_some() && config.api.is_some() && config.scanners.is_some());
        let size = config.size();
        assert_eq!((size.pool_tokens, size.window, size.threads), (Some(32_768), Some(8192), Some(2)));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, told) in [
            ("model = \"m\"\nlistn = \"127.0.0.1:0\"", "listn"),
            ("listen = \"127.0.0.1:0\"", "model"),
            ("model = \"m\"\npool_tokens = 0", "pool_tokens"),
            ("model = \"m\"\nwindow = -5", "window"),
            ("model = \"m\"\nthreads = 70000", "threads"),
            ("model = \"m\"\nlisten = \"here\"", "listen"),
            ("model = ", "line 1"),
        ] {
            let error = Config::parse(text).unwrap_err().to_string();
            assert!(error.contains(told), "{text:?}: {error}");
        }
    }
}
