//! Where a key was found that should be nowhere but with its holder.

/// Characters that are kept of it.
pub const FOUND_AT_CHARS_MAX: usize = 256;
/// Letters and digits in a row that may be a key's secret.
const SECRET_CHARS: usize = 43;

/// The host and the path of an address, to be shown to whom the key belonged. Of a query or a fragment nothing is kept, and of a path
/// that may hold a secret itself, nothing either.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FoundAt(String);

impl FoundAt {
    /// What may be kept of an address; none of what is no `http` or `https` one.
    pub fn of(url: &str) -> Option<Self> {
        let (scheme, rest) = url.trim().split_once("://")?;
        let is_web = ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
        is_web.then_some(())?;
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let (host, path) = rest.find('/').and_then(|at| rest.split_at_checked(at)).unwrap_or((rest, ""));
        // A name and a password may stand before the host.
        let host = host.rsplit('@').next().unwrap_or_default();
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
        (!host.is_empty() && host.bytes().all(is_host) && !may_hold_a_secret(host)).then_some(())?;
        let is_path = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-~+,=@:".contains(&byte);
        let is_kept = path.bytes().all(is_path) && !may_hold_a_secret(path);
        let path = if is_kept { path } else { "" };
        Some(Self(host.chars().chain(path.chars()).take(FOUND_AT_CHARS_MAX).collect()))
    }

    /// Reads what was stored of one.
    pub(crate) fn stored(text: &str) -> Option<Self> {
        let is_one = text.is_ascii() && (1..=FOUND_AT_CHARS_MAX).contains(&text.len());
        is_one.then(|| Self(text.to_owned()))
    }

    /// Host and path.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether there are as many letters and digits in a row as a secret has. The digests by which commits are named are none.
fn may_hold_a_secret(text: &str) -> bool {
    let is_hex = |run: &str| run.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let mut runs = text.split(|character: char| !character.is_ascii_alphanumeric());
    runs.any(|run| run.len() >= SECRET_CHARS && !is_hex(run))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_path_are_kept_and_nothing_that_may_be_a_secret() {
        let (sha, secret) = ("a1".repeat(32), "aZ".repeat(22));
        for (url, kept) in [
            ("https://github.com/octocat/x/blob/main/a.py", Some("github.com/octocat/x/blob/main/a.py")),
            ("HTTP://h/a?token=1#2", Some("h/a")),
            (" https://h", Some("h")),
            ("https://me:password@h:8080/a", Some("h:8080/a")),
            ("https://h/a%20b", Some("h")),
            ("https://h/a b", Some("h")),
            (&format!("https://h/{sha}/a"), Some(format!("h/{sha}/a").as_str())),
            (&format!("https://h/{secret}"), Some("h")),
            (&format!("https://h/bh_live_aaaaaaaaaaaa_{secret}"), Some("h")),
            (&format!("https://{secret}.h/a"), None),
            ("ftp://h/a", None),
            ("h/a", None),
            ("https://", None),
            ("https:///a", None),
            ("https://h\u{e9}/a", None),
            ("", None),
        ] {
            assert_eq!(FoundAt::of(url).as_ref().map(FoundAt::as_str), kept, "{url}");
        }
        let long = FoundAt::of(&format!("https://h/{}", "a/".repeat(999))).unwrap();
        assert_eq!(long.as_str().len(), FOUND_AT_CHARS_MAX);
        assert_eq!(FoundAt::stored(long.as_str()), Some(long));
    }
}
