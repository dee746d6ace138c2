//! Scripted servers, watchful clients, and what stands between them.

mod bench;
mod chat;
mod client;
mod server;

pub(crate) use bench::{Bench, plan};
pub(crate) use chat::{
    GET, STREAM_HEAD, chat, chat_json, chat_stream, chunk, finish, json_answer, post, role, token,
};
pub(crate) use client::{Answer, Client, End};
pub(crate) use server::{Do, Server};

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}
