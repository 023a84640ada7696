//! The Pingora edge: authenticate, bound, admit, believe, answer
