//! Why a load could not run at all. A server that fails under load is no such reason: that is what is measured.

/// Why a load could not run at all.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The target's URL is of no use.
    #[error("target `{url}`: {why}")]
    Target {
        /// As it was given.
        url: String,
        /// In words.
        why: String,
    },
    /// The load asks for what cannot be done.
    #[error("load: {0}")]
    Load(String),
    /// A line of a file of prompts or records is wrong.
    #[error("{file}:{line}: {why}")]
    Line {
        /// The file.
        file: String,
        /// Counted from 1.
        line: usize,
        /// In words.
        why: String,
    },
    /// A file could not be read or written.
    #[error("{file}: {error}")]
    File {
        /// The file.
        file: String,
        /// The system's word for it.
        error: std::io::Error,
    },
    /// No model was named and the server does not say which it has.
    #[error("no model named and none to be had from {url}: {why}; name one under `load.model`")]
    Model {
        /// Where it was asked.
        url: String,
        /// In words.
        why: String,
    },
    /// There is no connection to be had to the target.
    #[error("nobody answers at {url}: {why}; is the server up, and is that its address?")]
    Nobody {
        /// Where it was tried.
        url: String,
        /// In words.
        why: String,
    },
    /// The target's TLS is of no use: its certificate, its port.
    #[error("target `{url}`: {why}")]
    Tls {
        /// As it was given.
        url: String,
        /// In words, and what can be done.
        why: String,
    },
    /// A thread or its event loop could not be started, or died.
    #[error("the load generator's own thread: {0}")]
    Worker(String),
}
