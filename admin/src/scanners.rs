//! Scanners of secrets, whose signed reports are believed: their public keys, as GitHub publishes its own.
//!
//! Architecture invariant: a report is believed by its signature over the very bytes that came, and by nothing else.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use serde::Deserialize;
use tenant::ScannerId;

use crate::fault::{Fault, seeded};

/// Bytes of a file of public keys.
pub const SCANNERS_BYTES_MAX: u64 = 64 * 1024;
/// Public keys of one file.
pub const SCANNERS_MAX: usize = 64;
/// Characters of a signature: a DER one of this curve has 72 bytes at most.
const SIGNATURE_CHARS_MAX: usize = 128;
/// What stands before the point in the DER of a P-256 public key (RFC 5480): the algorithm, the curve, and a bit string of 66 bytes.
const P256_HEAD: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// Bytes of a point that is not compressed.
const POINT_BYTES: usize = 65;

/// Public keys by their names; none by default, and then nobody's signature is believed.
#[derive(Clone, Debug, Default)]
pub struct Scanners {
    points: HashMap<ScannerId, [u8; POINT_BYTES]>,
}

/// Why a file of public keys is refused. Which key it is, is said by its place, from 1.
#[derive(Debug, thiserror::Error)]
pub enum BadScanners {
    /// It is not the JSON that is needed.
    #[error("it is not JSON as `{{\"public_keys\": [{{\"key_identifier\": ..., \"key\": ...}}]}}`: {0}")]
    Form(#[from] serde_json::Error),
    /// There is no key in it, or more than fit.
    #[error("it holds {asked} public keys; 1 to {SCANNERS_MAX} are allowed")]
    Count {
        /// Keys in the file.
        asked: usize,
    },
    /// A name is none.
    #[error(
        "the `key_identifier` of public key {0} is no name: 1 to 64 letters, digits, `.`, `_` or `-` are needed"
    )]
    Name(usize),
    /// Two keys have one name.
    #[error("public key {0} has the `key_identifier` of one before it")]
    Twice(usize),
    /// A key is of another form.
    #[error("the `key` of public key {0} is no PEM (`BEGIN PUBLIC KEY`) of an ECDSA key on the curve P-256")]
    Key(usize),
}

#[derive(Deserialize)]
struct File {
    public_keys: Vec<PublicKey>,
}

/// What else a publisher says of a key is its own business.
#[derive(Deserialize)]
struct PublicKey {
    key_identifier: String,
    key: String,
}

impl Scanners {
    /// Reads a file of public keys, as `https://api.github.com/meta/public_keys/secret_scanning` answers it.
    ///
    /// # Errors
    /// [`BadScanners`]. One key that is wrong refuses the file: what is left out by mistake would be missed only when it is needed.
    pub fn parse(bytes: &[u8]) -> Result<Self, BadScanners> {
        let File { public_keys } = serde_json::from_slice(bytes)?;
        if !(1..=SCANNERS_MAX).contains(&public_keys.len()) {
            return Err(BadScanners::Count { asked: public_keys.len() });
        }
        let mut points = HashMap::with_capacity(public_keys.len());
        for (place, PublicKey { key_identifier, key }) in (1_usize..).zip(&public_keys) {
            let id = ScannerId::parse(key_identifier).ok_or(BadScanners::Name(place))?;
            let point = point(key).ok_or(BadScanners::Key(place))?;
            match points.entry(id) {
                Entry::Vacant(free) => free.insert(point),
                Entry::Occupied(_) => return Err(BadScanners::Twice(place)),
            };
        }
        Ok(Self { points })
    }

    /// Whether there is a key of this name.
    pub(crate) fn knows(&self, id: ScannerId) -> bool {
        self.points.contains_key(&id)
    }

    /// Whether `signature`, in base64 of DER, is that of this key's holder under these very bytes.
    pub(crate) fn verify(&self, id: ScannerId, signature: &str, bytes: &[u8]) -> bool {
        let Some(point) = self.points.get(&id) else { return false };
        if signature.len() > SIGNATURE_CHARS_MAX {
            return false;
        }
        let Ok(signature) = STANDARD.decode(signature) else { return false };
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).verify(bytes, &signature).is_ok()
            || seeded(Fault::AnySignature)
    }
}

/// The point of a key in PEM.
fn point(pem: &str) -> Option<[u8; POINT_BYTES]> {
    let inner =
        pem.trim().strip_prefix("-----BEGIN PUBLIC KEY-----")?.strip_suffix("-----END PUBLIC KEY-----")?;
    let digits: String = inner.split_ascii_whitespace().collect();
    let der = STANDARD.decode(digits).ok()?;
    let point: [u8; POINT_BYTES] = der.strip_prefix(&P256_HEAD)?.try_into().ok()?;
    // 4: both coordinates follow. Whether they are of the curve is looked at when a signature is.
    (point.first() == Some(&4)).then_some(point)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GitHub's own key of before, and what it signed: from its documentation, as several partners test with it.
    const ID: &str = "90a421169f0a406205f1563a953312f0be898d3c7b6c06b681aa86a874555f4a";
    const PEM: &str = "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE9MJJHnMfn2+H4xL4YaPDA4RpJqUq\nkCmRCBnYERxZanmcpzQSXs1X/AljlKkbJ8qpVIW4clayyef9gWhFbNHWAA==\n-----END PUBLIC KEY-----\n";
    const SIGNATURE: &str =
        "MEQCIAfgjgz6Ou/3DXMYZBervz1TKCHFsvwMcbuJhNZse622AiAG86/cku2XdcmFWNHl2WSJi2fkE8t+auvB24eURaOd2A==";
    const BODY: &str = r#"[{"type":"github_oauth_token","token":"cb4985f91f740272c0234202299f43808034d7f5","url":" https://github.com/github/faketestrepo/blob/b0dd59c0b500650cacd4551ca5989a6194001b10/production.env"}]"#;

    fn file(keys: &[(&str, &str)]) -> String {
        let keys = keys.iter().map(
            |(id, key)| serde_json::json!({ "key_identifier": id, "key": key, "is_current": true, "new": [1] }),
        );
        serde_json::json!({ "public_keys": keys.collect::<Vec<_>>() }).to_string()
    }

    #[test]
    fn what_github_signed_is_believed_and_nothing_near_it() {
        let scanners = Scanners::parse(file(&[(ID, PEM)]).as_bytes()).unwrap();
        let id = ScannerId::parse(ID).unwrap();
        assert!(scanners.knows(id) && scanners.verify(id, SIGNATURE, BODY.as_bytes()));
        let other = ScannerId::parse("other").unwrap();
        assert!(!scanners.knows(other) && !scanners.verify(other, SIGNATURE, BODY.as_bytes()));
        assert!(!Scanners::default().verify(id, SIGNATURE, BODY.as_bytes()));
        for body in [String::new(), BODY.replace("github_oauth", "github_Oauth"), format!("{BODY}\n")] {
            assert!(!scanners.verify(id, SIGNATURE, body.as_bytes()), "{body}");
        }
        let cut = SIGNATURE.trim_end_matches('=');
        for signature in ["", "=", cut, &SIGNATURE.replacen('A', "B", 1), &"A".repeat(1_000_000), "\u{e9}"] {
            assert!(!scanners.verify(id, signature, BODY.as_bytes()), "{}", signature.len());
        }
    }

    #[test]
    fn a_file_that_is_wrong_anywhere_is_refused() {
        let refused = |text: &str| Scanners::parse(text.as_bytes()).unwrap_err().to_string();
        for (text, told) in [
            ("", "not JSON"),
            ("[]", "not JSON"),
            (r#"{"public_keys": [{"key": "x"}]}"#, "key_identifier"),
            (&file(&[]), "0 public keys"),
            (&file(&vec![("a", PEM); SCANNERS_MAX + 1]), "65 public keys"),
            (&file(&[("a", PEM), ("a b", PEM)]), "public key 2 is no name"),
            (&file(&[("a", PEM), ("a", PEM)]), "public key 2 has"),
            (&file(&[("a", "")]), "public key 1 is no PEM"),
            (&file(&[("a", &PEM.replace("PUBLIC", "PRIVATE"))]), "no PEM"),
            (&file(&[("a", &PEM.replace("MFkw", "MFkx"))]), "no PEM"),
            (&file(&[("a", &PEM.replace("WAA==", "WAAA="))]), "no PEM"),
            // A compressed point, and one of another form, do not begin with 4.
            (&file(&[("a", &PEM.replace("QgAE9", "QgAC9"))]), "no PEM"),
        ] {
            let said = refused(text);
            assert!(said.contains(told), "{told:?}: {said}");
        }
        // A point that is not of the curve believes nobody.
        let off = PEM.replace("9MJJ", "9MJK");
        let scanners = Scanners::parse(file(&[(ID, &off)]).as_bytes()).unwrap();
        assert!(!scanners.verify(ScannerId::parse(ID).unwrap(), SIGNATURE, BODY.as_bytes()));
    }
}
