//! Where the load goes: the target's URL, and each protocol's path on it.

use super::LoadError;
use super::tls::Tls;
use brownout_injector::wire::Api;
use http::Uri;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;

/// An HTTP server and the path under which its API lies.
#[derive(Clone, Debug)]
pub struct Target {
    /// `host:port`, as the Host header has it.
    pub authority: String,
    /// The addresses of that host, in the order in which they are tried.
    pub addresses: Vec<SocketAddr>,
    /// What stands before `/v1/...`; no slash at its end.
    prefix: String,
    url: String,
    tls: Option<Tls>,
}

impl Target {
    /// Reads a URL such as `http://127.0.0.1:8000` or `https://gateway/team-a/v1`, and looks its host up, once for
    /// the whole run. For `https`, what the platform trusts is read too: on Linux the file and the folders of
    /// `SSL_CERT_FILE` and `SSL_CERT_DIR`, where these are set.
    ///
    /// # Errors
    /// No URL, no host, another scheme than `http` and `https`, a host that has no address, nothing to trust.
    pub fn parse(url: &str) -> Result<Self, LoadError> {
        Self::trusting(url, None)
    }

    /// As [`parse`](Self::parse), but trusts the certificates in the file `trust` (PEM), where one is given, and no
    /// others.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn trusting(url: &str, trust: Option<&Path>) -> Result<Self, LoadError> {
        let bad = |why: String| LoadError::Target { url: url.to_owned(), why };
        let uri: Uri = url.parse().map_err(|error| bad(format!("no URL: {error}")))?;
        let usual_port = match uri.scheme_str() {
            Some("http") => 80,
            Some("https") => 443,
            _ => return Err(bad("it must begin with http:// or https://".to_owned())),
        };
        let authority = uri.authority().ok_or_else(|| bad("it names no host".to_owned()))?;
        if uri.query().is_some() {
            return Err(bad("it has a query, and requests have their own".to_owned()));
        }
        if authority.as_str().contains('@') {
            return Err(bad("it carries a user name: put `authorization` into `load.headers`".to_owned()));
        }
        let port = match authority.port_u16() {
            None if authority.as_str() == authority.host() => usual_port,
            None | Some(0) => return Err(bad("its port is none from 1 to 65535".to_owned())),
            Some(port) => port,
        };
        let host = authority.host().trim_matches(['[', ']']);
        let addresses: Vec<SocketAddr> = (host, port)
            .to_socket_addrs()
            .map_err(|error| bad(format!("host `{host}` has no address: {error}")))?
            .collect();
        if addresses.is_empty() {
            return Err(bad(format!("host `{host}` has no address")));
        }
        let path = uri.path().trim_end_matches('/');
        if Api::of_path(path) != Api::Other {
            let why =
                format!("{path} is an endpoint, and endpoints are added to it: give what stands before that");
            return Err(bad(why));
        }
        // People copy the base URL of an OpenAI client, which ends in /v1.
        let prefix = path.strip_suffix("/v1").unwrap_or(path).to_owned();
        let tls = match usual_port {
            443 => Some(Tls::new(host, trust).map_err(bad)?),
            _ => None,
        };
        Ok(Self { authority: authority.as_str().to_owned(), addresses, prefix, url: url.to_owned(), tls })
    }

    /// The URL as it was given.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Server and prefix as one URL, without the `/v1` that the given one may end in.
    #[must_use]
    pub fn base(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority, self.prefix)
    }

    /// How the server is spoken to, where by TLS.
    pub(super) const fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// The path and query of a request.
    #[must_use]
    pub fn path(&self, path: &str) -> String {
        format!("{}{path}", self.prefix)
    }

    /// The path that a request of `api` goes to; `model` is part of Triton's.
    ///
    /// # Errors
    /// [`Api::Other`], which has no path.
    pub fn api_path(&self, api: Api, stream: bool, model: Option<&str>) -> Result<String, LoadError> {
        let suffix = if stream { "_stream" } else { "" };
        Ok(self.path(&match api {
            Api::OpenaiChat => "/v1/chat/completions".to_owned(),
            Api::OpenaiCompletions => "/v1/completions".to_owned(),
            Api::OpenaiResponses => "/v1/responses".to_owned(),
            Api::OpenaiEmbeddings => "/v1/embeddings".to_owned(),
            Api::AnthropicMessages => "/v1/messages".to_owned(),
            Api::TgiGenerate => format!("/generate{suffix}"),
            Api::TritonGenerate => format!("/v2/models/{}/generate{suffix}", model.unwrap_or_default()),
            Api::Other => {
                return Err(LoadError::Load("the protocol `other` is nothing to make load of".to_owned()));
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_may_end_in_v1_or_in_a_gateways_prefix() {
        for (url, path) in [
            ("http://127.0.0.1:8000", "/v1/chat/completions"),
            ("http://127.0.0.1:8000/", "/v1/chat/completions"),
            ("http://127.0.0.1:8000/v1", "/v1/chat/completions"),
            ("http://127.0.0.1:8000/v1/", "/v1/chat/completions"),
            ("http://127.0.0.1:8000/team-a/v1", "/team-a/v1/chat/completions"),
            ("http://127.0.0.1:8000/team-a", "/team-a/v1/chat/completions"),
        ] {
            let target = Target::parse(url).expect(url);
            assert_eq!(target.api_path(Api::OpenaiChat, true, None).expect("a path"), path, "{url}");
            assert_eq!(
                target.base() + "/v1/chat/completions",
                format!("http://127.0.0.1:8000{path}"),
                "{url}"
            );
        }
    }

    #[test]
    fn a_port_left_out_is_80_and_ipv6_keeps_its_brackets_in_the_host_header() {
        assert_eq!(Target::parse("http://127.0.0.1/").expect("a URL").addresses[0].port(), 80);
        let target = Target::parse("http://[::1]:81").expect("a URL");
        assert_eq!((target.authority.as_str(), target.addresses[0].port()), ("[::1]:81", 81));
    }

    #[test]
    fn triton_and_tgi_say_in_the_path_whether_they_stream() {
        let target = Target::parse("http://127.0.0.1:8000").expect("a URL");
        let path = |api, stream| target.api_path(api, stream, Some("llama")).expect("a path");
        assert_eq!(path(Api::TritonGenerate, true), "/v2/models/llama/generate_stream");
        assert_eq!(path(Api::TritonGenerate, false), "/v2/models/llama/generate");
        assert_eq!(path(Api::TgiGenerate, true), "/generate_stream");
        assert!(target.api_path(Api::Other, true, None).is_err());
    }

    #[test]
    fn useless_urls_say_why() {
        for (url, why) in [
            ("https://", "no URL"),
            ("127.0.0.1:8000", "http://"),
            ("ftp://127.0.0.1", "http://"),
            ("http://", "no URL"),
            ("", "no URL"),
            ("http://127.0.0.1:8000/?key=1", "query"),
            ("http://me:secret@127.0.0.1:8000", "user name"),
            ("http://127.0.0.1:0", "port"),
            ("http://127.0.0.1:99999", "port"),
            ("http://[::1]:", "port"),
        ] {
            let error = Target::parse(url).expect_err(url).to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
