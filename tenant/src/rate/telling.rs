//! Whether gateways count together, and what is done while the shared count is away.

/// How a limiter counts at this moment.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Telling {
    /// For itself: it is the only gateway.
    #[default]
    Nobody,
    /// Together with others, and the shared count answers.
    Near,
    /// Together with others, and the shared count has not answered this request in time: it is let in.
    Late,
    /// Together with others, and the shared count does not answer.
    Away {
        /// Whether the gateway goes on by itself, each limit whole; if not, it stops at what it may be ahead.
        alone: bool,
    },
}
