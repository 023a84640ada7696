//! What the `x-ratelimit-*` headers say.

use core::fmt;
use core::num::NonZeroU32;
use core::time::Duration;

/// How much of the tightest rules is left, right after a request was admitted or refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Standing {
    /// Requests per minute.
    pub requests: Meter,
    /// Tokens per minute. An open request counts with the most that it can cost.
    pub tokens: Meter,
}

/// One of the two rates.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Meter {
    /// No rule of the chain limits it: there is nothing to say.
    Open,
    /// The rule that leaves the least; of several that leave the same, the first of the chain.
    Tightest(Measure),
}

/// How one rule stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Measure {
    /// Per minute, and as many at once.
    pub limit: NonZeroU32,
    /// What is left now, rounded down; at most the limit.
    pub remaining: u32,
    /// Until all of it is there again, if nothing else comes.
    pub reset: Reset,
}

/// A time as these headers write it.
///
/// `OpenAI`'s guide shows `1s` and `6m0s` (<https://platform.openai.com/docs/guides/rate-limits>, "Rate limits in
/// headers"), and its servers have sent `12ms` and `9ms`
/// (<https://community.openai.com/t/how-to-get-rate-limit-reset-time-for-response-api/1268905>). That is how Go writes
/// a duration (<https://pkg.go.dev/time#Duration.String>), in whole milliseconds; so fractions of a second are written
/// as Go does, `7.66s`. Rounded up: whoever waits this long has waited long enough.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Reset(pub Duration);

/// `wait` in whole milliseconds, rounded up.
pub(super) fn millis_up(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

impl fmt::Display for Reset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = millis_up(self.0);
        if (1..1_000).contains(&millis) {
            return write!(f, "{millis}ms");
        }
        let (whole, rest) = (millis.div_euclid(1_000), millis.rem_euclid(1_000));
        let (hours, minutes, seconds) =
            (whole.div_euclid(3_600), whole.rem_euclid(3_600).div_euclid(60), whole.rem_euclid(60));
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if whole >= 60 {
            write!(f, "{minutes}m")?;
        }
        write!(f, "{seconds}")?;
        if rest > 0 {
            let digits = format!("{rest:03}");
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        f.write_str("s")
    }
}

impl Standing {
    /// Names and values of the headers: three for each rate that a rule limits, so at most six.
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        let requests = named(
            self.requests,
            ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"],
        );
        let tokens = named(
            self.tokens,
            ["x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"],
        );
        requests.into_iter().chain(tokens).flatten().collect()
    }
}

fn named(meter: Meter, names: [&'static str; 3]) -> Option<[(&'static str, String); 3]> {
    let [limit, remaining, reset] = names;
    match meter {
        Meter::Open => None,
        Meter::Tightest(of) => Some([
            (limit, of.limit.to_string()),
            (remaining, of.remaining.to_string()),
            (reset, of.reset.to_string()),
        ]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_the_field_does() {
        for (nanos, text) in [
            (0, "0s"),
            (1, "1ms"),
            (12_000_000, "12ms"),
            (12_000_001, "13ms"),
            (120_000_000, "120ms"),
            (999_000_000, "999ms"),
            (999_000_001, "1s"),
            (1_000_000_000, "1s"),
            (7_660_000_000, "7.66s"),
            (7_600_000_000, "7.6s"),
            (7_006_000_000, "7.006s"),
            (59_999_000_001, "1m0s"),
            (179_560_000_000, "2m59.56s"),
            (360_000_000_000, "6m0s"),
            (3_600_000_000_000, "1h0m0s"),
            (90_061_001_000_000, "25h1m1.001s"),
        ] {
            assert_eq!(Reset(Duration::from_nanos(nanos)).to_string(), text, "{nanos}");
        }
        assert_eq!(Reset(Duration::MAX).to_string(), "5124095576030h25m51.615s", "clamped, not wrapped");
    }

    #[test]
    fn only_what_is_limited_has_headers() {
        let measure = Measure {
            limit: NonZeroU32::new(60).unwrap(),
            remaining: 59,
            reset: Reset(Duration::from_secs(1)),
        };
        let standing = Standing { requests: Meter::Tightest(measure), tokens: Meter::Open };
        let headers = standing.headers();
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_eq!(
            headers,
            [
                ("x-ratelimit-limit-requests", "60"),
                ("x-ratelimit-remaining-requests", "59"),
                ("x-ratelimit-reset-requests", "1s"),
            ]
        );
        let other = Standing { requests: Meter::Open, tokens: Meter::Tightest(measure) };
        assert!(other.headers().iter().all(|(name, _)| name.ends_with("-tokens")), "{other:?}");
    }
}
