//! The table of limits: name, unit, floor, ceiling. A limit exists by having a line here, and nowhere else.
//!
//! Architecture invariant: knows no file format.

use core::time::Duration;

/// The least and the most that a field may be set to, both included.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bounds {
    /// The least.
    pub floor: u32,
    /// The most, whatever an operator asks.
    pub ceiling: u32,
}

impl Bounds {
    /// Whether `value` lies within.
    pub const fn admits(self, value: u32) -> bool {
        self.floor <= value && value <= self.ceiling
    }
}

/// What a stored number becomes when it is read.
macro_rules! unit {
    (count) => {
        usize
    };
    (tokens) => {
        u32
    };
    (held) => {
        u32
    };
    (millis) => {
        Duration
    };
    (count $value:expr) => {
        widen($value)
    };
    (tokens $value:expr) => {
        $value
    };
    (held $value:expr) => {
        $value
    };
    (millis $value:expr) => {
        Duration::from_millis(u64::from($value))
    };
}

/// Declares [`Field`], its table, and one typed reader of [`Policy`](crate::Policy) for each line.
macro_rules! fields {
    ($($(#[doc = $doc:literal])+ $variant:ident $name:ident: $unit:ident in $floor:literal..=$ceiling:literal;)+) => {
        /// Names one numeric limit.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum Field { $($(#[doc = $doc])+ $variant,)+ }

        impl Field {
            /// All, in the order of the shipped file.
            pub const ALL: [Self; [$(stringify!($name)),+].len()] = [$(Self::$variant),+];

            /// The name as it stands in the file.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($name),)+ }
            }

            /// What it may be set to.
            pub const fn bounds(self) -> Bounds {
                match self { $(Self::$variant => Bounds { floor: $floor, ceiling: $ceiling },)+ }
            }
        }

        /// One number for each [`Field`].
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub(crate) struct Numbers { $($name: u32,)+ }

        impl Numbers {
            /// Asks `read` for each field in turn; the first error ends it.
            pub(crate) fn collect<E>(mut read: impl FnMut(Field) -> Result<u32, E>) -> Result<Self, E> {
                Ok(Self { $($name: read(Field::$variant)?,)+ })
            }

            /// The number of `field`.
            pub(crate) const fn number(&self, field: Field) -> u32 {
                match field { $(Field::$variant => self.$name,)+ }
            }
        }

        impl crate::Policy {
            $($(#[doc = $doc])+ pub fn $name(&self) -> unit!($unit) { unit!($unit self.numbers.$name) })+
        }
    };
}

fields! {
    /// Bytes of request line and headers together.
    HeadBytesMax head_bytes_max: count in 1_024..=262_144;
    /// From the first byte of a head to its last.
    HeadTimeoutMs head_timeout_ms: millis in 100..=60_000;
    /// Bytes of a request's body.
    BodyBytesMax body_bytes_max: count in 1_024..=67_108_864;
    /// From a head's end to its body's end.
    BodyTimeoutMs body_timeout_ms: millis in 100..=600_000;
    /// The longest pause between two pieces of a body.
    BodyIdleMs body_idle_ms: millis in 100..=120_000;
    /// How deep arrays and objects of a body may nest.
    JsonDepthMax json_depth_max: count in 8..=128;
    /// Connections open at once, from everybody.
    ConnectionsMax connections_max: count in 1..=65_536;
    /// Connections open at once from one address; never above `connections_max`.
    ConnectionsPerAddressMax connections_per_address_max: count in 1..=65_536;
    /// How long a connection may wait between two requests.
    IdleTimeoutMs idle_timeout_ms: millis in 1_000..=3_600_000;
    /// How long one write to a client may take.
    WriteTimeoutMs write_timeout_ms: millis in 100..=600_000;
    /// How long running requests may still take at shutdown; 0 cuts them at once.
    DrainMs drain_ms: millis in 0..=600_000;
    /// From a head's end to the answer's end.
    RequestTimeoutMs request_timeout_ms: millis in 1_000..=3_600_000;
    /// From admission to the first token; never above `request_timeout_ms`.
    FirstTokenTimeoutMs first_token_timeout_ms: millis in 100..=3_600_000;
    /// Messages of a chat.
    MessagesMax messages_max: count in 1..=16_384;
    /// Choices of one request (`n`).
    ChoicesMax choices_max: count in 1..=8;
    /// Prompts of one legacy completion request.
    PromptsPerRequestMax prompts_per_request_max: count in 1..=64;
    /// Strings of `stop`.
    StopSequencesMax stop_sequences_max: count in 0..=16;
    /// Bytes of one string of `stop`.
    StopBytesMax stop_bytes_max: count in 1..=4_096;
    /// Entries of `logit_bias`.
    LogitBiasMax logit_bias_max: count in 0..=1_024;
    /// Output tokens of a chat that does not say how many it wants.
    OutputTokensDefault output_tokens_default: tokens in 1..=1_048_576;
    /// Output tokens of a legacy completion that does not say how many it wants.
    CompletionTokensDefault completion_tokens_default: tokens in 1..=1_048_576;
    /// Authentications that may fail in a minute from one address.
    AuthFailuresPerMinute auth_failures_per_minute: count in 1..=1_000_000;
    /// How long ago the store of tenants and keys may have confirmed what is known of them; beyond it nobody is let in.
    KeysAgeMaxMs keys_age_max_ms: millis in 1_000..=2_592_000_000;
    /// Requests in flight for a key that names no limit of its own.
    ConcurrencyPerKey concurrency_per_key: count in 1..=4_096;
    /// Keys that a tenant may have, revoked ones included.
    KeysPerTenant keys_per_tenant: held in 1..=1_000_000;
    /// Projects that a tenant may have.
    ProjectsPerTenant projects_per_tenant: held in 1..=1_000_000;
    /// Limits that a tenant may have for itself, its projects and its keys, those that were lifted included.
    LimitsPerTenant limits_per_tenant: held in 1..=1_000_000;
    /// Budgets that a tenant may have for itself, its projects and its keys, those that were lifted included.
    BudgetsPerTenant budgets_per_tenant: held in 1..=1_000_000;
}

#[expect(clippy::as_conversions, reason = "a usize holds 32 bits on every target with an operating system")]
const fn widen(value: u32) -> usize {
    value as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_bounds_are_not_empty() {
        for (index, field) in Field::ALL.into_iter().enumerate() {
            assert!(field.bounds().floor < field.bounds().ceiling, "{field:?}");
            assert!(Field::ALL[..index].iter().all(|other| other.name() != field.name()), "{field:?}");
        }
    }
}
