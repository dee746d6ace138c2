//! `brownout`: chaos engineering for AI serving, from one scenario file to a verdict.
//!
//! This package only ties the parts together: `brownout-injector` decides, `brownout-proxy` breaks,
//! `brownout-runner` loads and measures, `brownout-sim` stands in for a server.

mod cli;
mod commands;
mod exit;
mod experiment;
mod journal;
mod limits;
mod outdir;
mod signals;
mod source;
mod table;
mod view;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    limits::allow_sockets();
    match cli::run(cli::Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            exit::complain(&error);
            exit::INVALID.into()
        }
    }
}
