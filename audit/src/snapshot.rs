//! All tenants' heads at a seal, kept so that an opening need not read the whole log. A cache: the seal says whether it is true.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::AuditError;
use crate::heads::{Head, TENANTS_MAX};
use crate::hex::Hex;
use crate::layout::read_bounded;

/// The file's name.
pub(crate) const NAME: &str = "heads";
/// Bytes of a head, and a little.
const BYTES_MAX: usize = TENANTS_MAX * 64 + 64;

/// The heads after the leaf with index `size - 1`, which is a seal.
pub(crate) struct Snapshot {
    pub(crate) size: u64,
    /// The seal's number.
    pub(crate) epoch: u64,
    pub(crate) heads: Vec<Head>,
}

#[derive(Deserialize, Serialize)]
struct Form {
    size: u64,
    epoch: u64,
    heads: Vec<(Hex<16>, u64, Hex<32>)>,
}

impl Snapshot {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let heads = self.heads.iter().map(|head| (head.tenant, head.seq, head.hash)).collect();
        let form = Form { size: self.size, epoch: self.epoch, heads };
        // Writing to memory cannot fail; and what is empty is no snapshot.
        postcard::to_stdvec(&form).unwrap_or_default()
    }

    /// The one in `folder`; none where there is none that can be read.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>, AuditError> {
        let bytes = match read_bounded(&folder.join(NAME), BYTES_MAX) {
            Ok(bytes) => bytes.unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(AuditError::Disk(error)),
        };
        let Ok(form) = postcard::from_bytes::<Form>(&bytes) else { return Ok(None) };
        if form.heads.len() > TENANTS_MAX {
            return Ok(None);
        }
        let heads = form.heads.into_iter().map(|(tenant, seq, hash)| Head { tenant, seq, hash }).collect();
        Ok(Some(Self { size: form.size, epoch: form.epoch, heads }))
    }
}
