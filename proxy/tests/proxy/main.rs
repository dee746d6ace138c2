//! The proxy over real sockets: a scripted server behind it, a client before it that reads every byte.

mod bad_days;
mod control;
mod faults;
mod http2;
mod pass;
mod support;
mod tls;

#[path = "../../../tests/common/tls.rs"]
mod front;
