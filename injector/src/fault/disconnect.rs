//! `disconnect`: the connection is cut, before any header or after some tokens.

use super::{About, Acts, Layer, shape};
use crate::draw::Draw;
use crate::effect::{Before, Close, Done, Effect, Meaning, Step, Then};
use crate::facts::Facts;
use crate::wire::{Api, Class, Event};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The connection is cut, before any header or after some tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Disconnect {
    /// Tokens that still get through; before any header where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_tokens: Option<u32>,
    /// How it is cut.
    #[serde(default)]
    pub close: Close,
}

impl Disconnect {
    pub(super) const ABOUT: About = About {
        kind: "disconnect",
        layer: Layer::Router,
        acts: Acts::OnTheWire,
        meaning: "The connection is closed under the client by a TCP reset or an orderly FIN: before any header, \
                  or, with afterTokens, in the place of the first event after that many tokens (of an answer \
                  that is not streamed, after the same share of its bytes). Over HTTP/2 the one stream is reset, \
                  not the connection.",
        certifies: "Clients tell a broken connection from a whole answer, retry only what may be retried, and \
                  reconnect; pools drop dead connections.",
        does_not_certify: "The engine does not die: it sees its client go away and aborts the request, where a crash \
                  would take all streams and the KV cache with it. Bytes that a reset overtakes in the client's \
                  receive buffer may be lost, as with any reset.",
        example: "\
- name: cut-connections
  disconnect: {afterTokens: 10, close: rst}
  when: {probability: 0.1}
",
    };

    pub(super) fn problems(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

impl Meaning for Disconnect {
    fn before(&self, _: &Facts<'_>, _: Draw) -> Before {
        match self.after_tokens {
            None => Before::Hang(self.close),
            Some(_) => Before::Forward,
        }
    }

    fn on_answer(&self, facts: &Facts<'_>, _: Draw) -> Option<Box<dyn Effect>> {
        let after = self.after_tokens?;
        Some(Box::new(Cut { after, close: self.close, api: facts.api, seen: 0, done: Done::default() }))
    }
}

struct Cut {
    after: u32,
    close: Close,
    api: Api,
    /// Tokens that were let through.
    seen: u32,
    done: Done,
}

impl Cut {
    fn close(&mut self, sent: Bytes) -> Step {
        self.done.touched += 1;
        self.done.note = format!("closed after token {}", self.after);
        Step::replace(sent).then(Then::Close(self.close))
    }
}

impl Effect for Cut {
    fn event(&mut self, event: &Event<'_>) -> Step {
        let is_token = event.class.is_token();
        let ends = matches!(event.class, Class::Finish | Class::Usage | Class::Done);
        if self.seen >= self.after && (is_token || ends) {
            return self.close(Bytes::new());
        }
        self.seen += u32::from(is_token);
        Step::PASS
    }

    fn body(&mut self, body: &[u8], tokens: u32) -> Step {
        let tokens = shape::object(body).map_or(0, |mut body| shape::body_tokens(self.api, &mut body, tokens));
        if tokens == 0 || tokens < self.after {
            return Step::PASS;
        }
        // The last byte never comes, or the answer would be whole.
        let share = body.len() as u64 * u64::from(self.after) / u64::from(tokens);
        let sent = (share as usize).min(body.len().saturating_sub(1));
        self.close(Bytes::copy_from_slice(&body[..sent]))
    }

    fn end(&mut self) -> Step {
        if self.seen >= self.after && self.seen > 0 { self.close(Bytes::new()) } else { Step::PASS }
    }

    fn done(&self) -> Done {
        self.done.clone()
    }
}
