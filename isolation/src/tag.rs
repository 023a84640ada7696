//! Who owns a page. Knows no tenant's name: a tag is a number that means nothing outside its deployment.

use core::marker::PhantomData;

/// The engine's opaque name of a tenant.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct TenantTag(u64);

impl TenantTag {
    /// The tag with this value.
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The plain number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl core::fmt::Display for TenantTag {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.fmt(f)
    }
}

/// The right to act for one tenant. No call takes two of them.
///
/// It cannot be forged:
/// ```compile_fail,E0451
/// let forged = isolation::tag::TenantScope { tag: todo!(), here: todo!() };
/// ```
/// nor copied:
/// ```compile_fail,E0599
/// fn twice(scope: isolation::tag::TenantScope) -> [isolation::tag::TenantScope; 2] { [scope.clone(), scope] }
/// ```
/// nor sent to another thread:
/// ```compile_fail,E0277
/// fn needs_send<T: Send>() {}
/// needs_send::<isolation::tag::TenantScope>();
/// ```
#[derive(Debug)]
pub struct TenantScope {
    tag: TenantTag,
    here: PhantomData<*const ()>,
}

impl TenantScope {
    /// Whose right this is.
    pub const fn tag(&self) -> TenantTag {
        self.tag
    }
}

/// Opens scopes. The engine's step loop has the only one.
#[derive(Debug, Default)]
pub struct Registry(());

impl Registry {
    /// A registry of this engine.
    pub const fn new() -> Self {
        Self(())
    }

    /// The right to act for `tag`, for as long as the value lives.
    pub const fn open(&mut self, tag: TenantTag) -> TenantScope {
        TenantScope { tag, here: PhantomData }
    }
}
