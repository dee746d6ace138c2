//! The library as a program meets it: opened by name and driven through its C functions. What a test sets or leaves behind must not
//! be seen by another, so each plays in processes of its own.

#![allow(unsafe_code, reason = "C functions are called")]
#![allow(clippy::too_many_arguments, reason = "and so are their arguments")]
#![allow(clippy::print_stdout, reason = "players talk to the main part through their standard output")]
#![allow(non_snake_case, reason = "the names are given")]

mod collectives;
mod linking;
mod memory;
mod processes;
mod streams;
mod support;
mod symbols;
