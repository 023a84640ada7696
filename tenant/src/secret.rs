//! A value that must not be printed, copied or kept.

use zeroize::{Zeroize, Zeroizing};

/// Holds what must not be printed, copied or serialised, and wipes it when dropped.
///
/// ```compile_fail,E0277
/// println!("{:?}", tenant::Secret::new(String::from("x")));
/// ```
/// ```compile_fail,E0277
/// println!("{}", tenant::Secret::new(String::from("x")));
/// ```
/// ```compile_fail,E0599
/// let secret = tenant::Secret::new(String::from("x"));
/// let copy = secret.clone();
/// ```
pub struct Secret<T: Zeroize>(Zeroizing<T>);

impl<T: Zeroize> Secret<T> {
    /// Takes `value` in. Copies that were made before are the caller's to wipe.
    pub fn new(value: T) -> Self {
        Self(Zeroizing::new(value))
    }

    /// The value itself. Each use must have a reason that a reader accepts: to show a new key once, to
    /// compare.
    pub fn expose(&self) -> &T {
        &self.0
    }
}
