//! Official clients, as their users run them.

use std::path::Path;
use std::process::Command;

use integration::server::Home;

/// The Python that has the pinned official client, as `./check` sets it.
fn python() -> String {
    std::env::var("BULKHEAD_TEST_PYTHON").expect(
        "BULKHEAD_TEST_PYTHON must name a Python that has the official openai client; ./check makes one and sets this",
    )
}

#[test]
fn the_official_openai_client_is_content() {
    let home = Home::new(env!("CARGO_BIN_EXE_bulkhead"));
    let server = home.up(&["--pool-tokens", "8192"]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("integration/clients/openai_client.py");
    let output = Command::new(python())
        .arg(script)
        .arg(format!("http://{}/v1", server.address))
        .arg(&server.key)
        .arg(format!("http://{}", server.admin))
        .output()
        .expect("Python runs");
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    print!("{said}");
    assert!(said.contains("cancels_mid_stream"), "not every check ran: {said}");
}
