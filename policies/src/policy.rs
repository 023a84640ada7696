//! One policy: parsed, checked, rendered, compared.
//!
//! Architecture invariant: no I/O.

use core::fmt;
use core::num::NonZeroU32;

use ring::digest;

use crate::error::{FieldName, Unusable};
use crate::field::{Field, Numbers};

/// Bytes that a policy file may hold. The shipped one has under 5,000.
pub const FILE_BYTES_MAX: usize = 65_536;

/// The most that [`WindowCap::Tokens`] may be: 16 times the largest window that any open model offers.
pub const WINDOW_CAP_MAX: u32 = 16_777_216;

const SHIPPED: &str = include_str!("../default/limits.toml");
const WINDOW_CAP: &str = "window_cap";
const INHERIT: &str = "inherit";
const SHARED_LIMITS_AWAY: &str = "shared_limits_away";

/// The limits in force.
///
/// # Invariants
/// Each number lies within the bounds of its [`Field`]; `connections_per_address_max <= connections_max` and
/// `first_token_timeout_ms <= request_timeout_ms`. There is no other constructor than [`Policy::parse`] and
/// [`Policy::shipped`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Policy {
    pub(crate) numbers: Numbers,
    window_cap: WindowCap,
    shared_limits_away: SharedLimitsAway,
}

/// What a gateway does with limits that it counts together with others, while the count that they share does not answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SharedLimitsAway {
    /// It goes on by itself: each gateway keeps each limit whole.
    Open,
    /// It refuses, once it is as far ahead of the shared count as it may be.
    Closed,
}

impl fmt::Display for SharedLimitsAway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Closed => "closed",
        })
    }
}

/// Tokens that a request may span, beside what the model's window says.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum WindowCap {
    /// As much as the model's window.
    Inherit,
    /// At most this, and at most the model's window.
    Tokens(NonZeroU32),
}

impl WindowCap {
    /// The narrower of this and `window`: a cap never widens.
    pub fn narrow(self, window: u32) -> u32 {
        match self {
            Self::Inherit => window,
            Self::Tokens(cap) => window.min(cap.get()),
        }
    }
}

impl fmt::Display for WindowCap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inherit => f.write_str(INHERIT),
            Self::Tokens(tokens) => write!(f, "{tokens}"),
        }
    }
}

/// Names a policy by its effect: the SHA-256 of all its values. Two files that mean the same have the same
/// version.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct Version([u8; 32]);

impl Version {
    pub(crate) fn of(canonical: &str) -> Self {
        let digest = digest::digest(&digest::SHA256, canonical.as_bytes());
        let mut bytes = [0; 32];
        for (byte, of_digest) in bytes.iter_mut().zip(digest.as_ref()) {
            *byte = *of_digest;
        }
        Self(bytes)
    }

    /// The digest itself.
    pub const fn bytes(&self) -> [u8; 32] {
        self.0
    }
}

/// 64 lower-case hex digits.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a field holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Setting {
    /// A number, in the unit that the field's name ends with.
    Number(u32),
    /// The value of `window_cap`.
    WindowCap(WindowCap),
    /// The value of `shared_limits_away`.
    SharedLimitsAway(SharedLimitsAway),
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::WindowCap(cap) => write!(f, "{cap}"),
            Self::SharedLimitsAway(away) => write!(f, "{away}"),
        }
    }
}

/// One field that differs between two policies.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Change {
    /// The field's name.
    pub field: &'static str,
    /// What it was.
    pub old: Setting,
    /// What it becomes.
    pub new: Setting,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} -> {}", self.field, self.old, self.new)
    }
}

impl Policy {
    /// Reads a policy from TOML; a field that `text` leaves out keeps its shipped value.
    ///
    /// # Errors
    /// The first thing that is wrong, by field and number.
    pub fn parse(text: &str) -> Result<Self, Unusable> {
        let base = toml_table(SHIPPED)?;
        let table = toml_table(text)?;
        if let Some(name) = table.keys().find(|name| !is_known(name)) {
            return Err(Unusable::UnknownField(FieldName::new(name)));
        }
        // `base` holds every field: a test says so, and `number_of` refuses a missing one.
        let effective = |name: &'static str| table.get(name).or_else(|| base.get(name));
        let numbers = Numbers::collect(|field| number_of(field, effective(field.name())))?;
        let window_cap = window_cap_of(effective(WINDOW_CAP))?;
        not_above(&numbers, Field::ConnectionsPerAddressMax, Field::ConnectionsMax)?;
        not_above(&numbers, Field::FirstTokenTimeoutMs, Field::RequestTimeoutMs)?;
        let shared_limits_away = shared_limits_away_of(effective(SHARED_LIMITS_AWAY))?;
        Ok(Self { numbers, window_cap, shared_limits_away })
    }

    /// The policy that ships with Bulkhead: `policies/default/limits.toml`.
    ///
    /// # Errors
    /// None in a tested build: a test parses the very bytes that are embedded.
    pub fn shipped() -> Result<Self, Unusable> {
        Self::parse(SHIPPED)
    }

    /// The text of the shipped policy, comments and all, for an operator to start from.
    pub const fn shipped_text() -> &'static str {
        SHIPPED
    }

    /// Tokens that a request of any key may span.
    pub const fn window_cap(&self) -> WindowCap {
        self.window_cap
    }

    /// What is done while the shared count of limits is away.
    pub const fn shared_limits_away(&self) -> SharedLimitsAway {
        self.shared_limits_away
    }

    /// The number of `field`, in the unit that its name ends with.
    pub const fn number(&self, field: Field) -> u32 {
        self.numbers.number(field)
    }

    /// The SHA-256 of [`Policy::canonical`].
    pub fn version(&self) -> Version {
        Version::of(&self.canonical())
    }

    /// All fields as TOML, one a line, in the order of the table: equal policies have equal bytes.
    pub fn canonical(&self) -> String {
        let mut text = String::new();
        for field in Field::ALL {
            text.push_str(&format!("{} = {}\n", field.name(), self.number(field)));
        }
        let cap = match self.window_cap {
            WindowCap::Inherit => format!("\"{INHERIT}\""),
            WindowCap::Tokens(tokens) => tokens.to_string(),
        };
        text.push_str(&format!("{WINDOW_CAP} = {cap}\n"));
        text.push_str(&format!("{SHARED_LIMITS_AWAY} = \"{}\"\n", self.shared_limits_away));
        text
    }

    /// The fields in which `new` differs from `self`, in the order of the table; none when they are the same.
    pub fn compare(&self, new: &Self) -> Vec<Change> {
        let numbers = Field::ALL.into_iter().map(|field| Change {
            field: field.name(),
            old: Setting::Number(self.number(field)),
            new: Setting::Number(new.number(field)),
        });
        let cap = Change {
            field: WINDOW_CAP,
            old: Setting::WindowCap(self.window_cap),
            new: Setting::WindowCap(new.window_cap),
        };
        let away = Change {
            field: SHARED_LIMITS_AWAY,
            old: Setting::SharedLimitsAway(self.shared_limits_away),
            new: Setting::SharedLimitsAway(new.shared_limits_away),
        };
        numbers.chain([cap, away]).filter(|change| change.old != change.new).collect()
    }
}

fn is_known(name: &str) -> bool {
    [WINDOW_CAP, SHARED_LIMITS_AWAY].contains(&name)
        || Field::ALL.into_iter().any(|field| field.name() == name)
}

fn toml_table(text: &str) -> Result<toml::Table, Unusable> {
    if text.len() > FILE_BYTES_MAX {
        return Err(Unusable::FileTooLong);
    }
    text.parse().map_err(|cause: toml::de::Error| {
        let before = cause.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count().saturating_add(1);
        Unusable::NotToml { line, cause: Box::new(cause) }
    })
}

fn number_of(field: Field, value: Option<&toml::Value>) -> Result<u32, Unusable> {
    let bounds = field.bounds();
    let asked = integer_of(field.name(), value)?;
    u32::try_from(asked).ok().filter(|number| bounds.admits(*number)).ok_or(Unusable::OutOfBounds {
        field: field.name(),
        asked,
        floor: bounds.floor,
        ceiling: bounds.ceiling,
    })
}

fn window_cap_of(value: Option<&toml::Value>) -> Result<WindowCap, Unusable> {
    if value.and_then(toml::Value::as_str) == Some(INHERIT) {
        return Ok(WindowCap::Inherit);
    }
    let asked = integer_of(WINDOW_CAP, value)?;
    let in_bounds = u32::try_from(asked).ok().filter(|tokens| *tokens <= WINDOW_CAP_MAX);
    in_bounds.and_then(NonZeroU32::new).map(WindowCap::Tokens).ok_or(Unusable::OutOfBounds {
        field: WINDOW_CAP,
        asked,
        floor: 1,
        ceiling: WINDOW_CAP_MAX,
    })
}

fn shared_limits_away_of(value: Option<&toml::Value>) -> Result<SharedLimitsAway, Unusable> {
    match value.and_then(toml::Value::as_str) {
        Some("open") => Ok(SharedLimitsAway::Open),
        Some("closed") => Ok(SharedLimitsAway::Closed),
        Some(_) | None => {
            Err(Unusable::NotAWord { field: SHARED_LIMITS_AWAY, words: "\"open\" or \"closed\"" })
        }
    }
}

fn integer_of(field: &'static str, value: Option<&toml::Value>) -> Result<i64, Unusable> {
    let found = value.map_or("nothing", toml::Value::type_str);
    value.and_then(toml::Value::as_integer).ok_or(Unusable::NotANumber { field, found })
}

fn not_above(numbers: &Numbers, field: Field, other: Field) -> Result<(), Unusable> {
    let (asked, allowed) = (numbers.number(field), numbers.number(other));
    if asked <= allowed {
        return Ok(());
    }
    Err(Unusable::Contradiction { field: field.name(), asked, other: other.name(), allowed })
}

#[cfg(test)]
mod tests;
