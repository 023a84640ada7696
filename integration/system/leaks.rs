//! A key that GitHub's secret scanning finds: from its signed report to the gateway that refuses it.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use integration::http::{self, Connection};
use integration::server::{Home, Services};
use integration::wait;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

/// The longest wait for anything; reached only when something is broken.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// What stands before a point of P-256 in the DER of a public key.
const HEAD: &str = "3059301306072a8648ce3d020106082a8648ce3d030107034200";

fn pair() -> EcdsaKeyPair {
    let (random, of) = (SystemRandom::new(), &ECDSA_P256_SHA256_ASN1_SIGNING);
    let document = EcdsaKeyPair::generate_pkcs8(of, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(of, document.as_ref(), &random).unwrap()
}

fn public(pair: &EcdsaKeyPair) -> String {
    let head = (0..HEAD.len() / 2).map(|at| u8::from_str_radix(&HEAD[2 * at..2 * at + 2], 16).unwrap());
    let der: Vec<u8> = head.chain(pair.public_key().as_ref().iter().copied()).collect();
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der));
    json!({ "public_keys": [{ "key_identifier": "f00d", "key": pem, "is_current": true }] }).to_string()
}

fn report(services: &Services<'_>, pair: &EcdsaKeyPair, body: &str) -> http::Answer {
    let signature = STANDARD.encode(pair.sign(&SystemRandom::new(), body.as_bytes()).unwrap());
    let mut connection = Connection::open(services.api());
    let head = format!(
        "POST /v1/leaked-keys HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Github-Public-Key-Identifier: f00d\r\nGithub-Public-Key-Signature: {signature}\r\n\r\n",
        body.len()
    );
    connection.send(&[head.as_bytes(), body.as_bytes()].concat()).unwrap();
    connection.answer()
}

#[test]
fn a_key_that_was_published_is_refused_soon_after_its_report() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let run = |line: &str| home.json(&line.split(' ').chain(["--json"]).collect::<Vec<_>>());
    run("tenant create acme");
    let made = run("key create --tenant acme");
    let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    let (ours, another) = (pair(), pair());
    let file = home.path().join("scanners.json");
    std::fs::write(&file, public(&ours)).unwrap();
    let services =
        Services::gateway_with(&home, &["--api", "127.0.0.1:0", "--scanners", file.to_str().unwrap()]);
    // There is no engine: a key that works gets 503, one that does not 401.
    let status = || http::get(services.address(), "/v1/models", Some(key)).status();
    wait::until("the key", WAIT_MAX, || (status() == 503).then_some(()));
    let url = format!("https://example.com/{key}?key={key}");
    let body = json!([{ "token": key, "type": "bulkhead_key", "url": url, "source": "commit" }]).to_string();
    assert_eq!(report(&services, &another, &body).status(), 401, "signed by somebody else");
    assert_eq!(status(), 503);
    let answer = report(&services, &ours, &body);
    assert_eq!((answer.status(), &answer.json()[0]["label"]), (200, &json!("true_positive")));
    wait::until("the refusal", WAIT_MAX, || (status() == 401).then_some(()));
    let keys = run("key list");
    let key_is = |one: &&Value| one["id"] == id;
    assert!(keys.as_array().unwrap().iter().find(key_is).unwrap()["revoked_ms"].is_i64());

    let secret = &key[21..];
    assert!(!services.said().contains(secret), "a secret in the log");
    let answered = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(!answered.contains(secret), "a secret in the answer");
    drop(services);
    for file in std::fs::read_dir(home.path()).unwrap().map(|file| file.unwrap().path()) {
        let bytes = if file.is_file() { std::fs::read(&file).unwrap() } else { vec![] };
        assert!(!bytes.windows(secret.len()).any(|part| part == secret.as_bytes()), "{}", file.display());
    }
}

#[test]
fn without_public_keys_no_signature_is_believed_and_bad_ones_are_refused() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let services = Services::gateway_with(&home, &["--api", "127.0.0.1:0"]);
    assert_eq!(report(&services, &pair(), "[]").status(), 401);
    drop(services);
    let file = home.path().join("scanners.json");
    std::fs::write(&file, r#"{"public_keys": [{"key_identifier": "a", "key": "x"}]}"#).unwrap();
    let file = file.to_str().unwrap();
    for (more, code, told) in [
        (&["--api", "127.0.0.1:0", "--scanners", file][..], 3, "public key 1 is no PEM"),
        (&["--api", "127.0.0.1:0", "--scanners", "/nowhere/at/all"], 3, "/nowhere/at/all"),
        (&["--scanners", file], 2, "--api"),
    ] {
        let mut command = home.command(&["gateway", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        command.args(more).arg("--model").arg(home.place_model());
        command.arg("--engine-socket").arg(home.path().join("none.sock"));
        command.arg("--wire-key-file").arg(home.path().join("run/wire.key"));
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(code) && said.contains(told), "{:?} {said}", output.status);
    }
}
