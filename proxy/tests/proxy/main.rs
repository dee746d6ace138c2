//! The proxy over real sockets: a scripted server behind it, a client before it that reads every byte. And the layer in
//! a server of this process, before the same client.

mod bad_days;
mod control;
mod faults;
mod http2;
mod layer;
mod layer_bad_days;
mod pass;
mod support;
mod tls;

#[path = "../../../tests/common/tls.rs"]
mod front;
