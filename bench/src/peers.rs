//! What is compared: each proxy with the settings that suit one core and streams, as its own documentation advises.

use crate::process::{Cores, Process, free_port};
use anyhow::{Context, Result};
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Something that stands before the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Nothing: the backend itself.
    Direct,
    Envoy,
    Haproxy,
    Nginx,
    /// A hyper server and a hyper client with nothing between them.
    Bare,
    /// `brownout proxy` with no fault armed.
    Ours,
}

impl Subject {
    pub(crate) const PROXIES: [Self; 5] = [Self::Envoy, Self::Haproxy, Self::Nginx, Self::Bare, Self::Ours];

    /// Its name on the command line and in the JSON.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Envoy => "envoy",
            Self::Haproxy => "haproxy",
            Self::Nginx => "nginx",
            Self::Bare => "bare",
            Self::Ours => "ours",
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Direct => "no proxy",
            Self::Envoy => "Envoy",
            Self::Haproxy => "HAProxy",
            Self::Nginx => "nginx",
            Self::Bare => "bare hyper",
            Self::Ours => "brownout",
        })
    }
}

/// Where the programs are and where their files go.
pub(crate) struct Places {
    pub(crate) cores: Cores,
    pub(crate) scratch: PathBuf,
    pub(crate) brownout: PathBuf,
}

fn tool(name: &str) -> Result<PathBuf> {
    let path = std::env::var_os(name)
        .with_context(|| format!("${name} is not set: eval \"$(tests/real/prepare peers)\" sets it"))?;
    Ok(path.into())
}

impl Places {
    /// This same program in another role.
    pub(crate) fn own_role(&self, core: usize, args: &[String], name: &str) -> Result<Process> {
        Process::start_told(core, &std::env::current_exe()?, args, &self.log(name))
    }

    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.scratch.join(format!("{name}.log"))
    }

    /// `brownout proxy` in front of `upstream`, with the scenario `yaml` if there is one; its journal then goes to
    /// [`Places::journal`].
    pub(crate) fn ours(&self, upstream: SocketAddr, yaml: Option<&str>, name: &str) -> Result<Process> {
        let mut args = words("proxy --listen 127.0.0.1:0 --admin 127.0.0.1:0 --workers 1 --upstream");
        args.push(format!("http://{upstream}"));
        if let Some(yaml) = yaml {
            args.extend([
                "--scenario".into(),
                self.write(&format!("{name}.yaml"), yaml)?.display().to_string(),
                "--journal".into(),
                self.journal(name).display().to_string(),
            ]);
        }
        Process::start_told(self.cores.subject, &self.brownout, &args, &self.log(name))
    }

    pub(crate) fn journal(&self, name: &str) -> PathBuf {
        self.scratch.join(format!("{name}.jsonl"))
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.scratch.join(name);
        std::fs::write(&path, text)?;
        Ok(path)
    }

    /// Starts `subject` in front of `upstream`; none for the backend itself.
    pub(crate) fn start(&self, subject: Subject, upstream: SocketAddr) -> Result<Option<Process>> {
        let listen = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let libraries =
            || Ok::<_, anyhow::Error>([("LD_LIBRARY_PATH", tool("PEERS_LIB")?.display().to_string())]);
        let start = |program: &Path, args: &[String], envs: &[(&str, String)]| {
            let log = self.log(&subject.to_string());
            Process::start(self.cores.subject, program, args, envs, listen, &log).map(Some)
        };
        match subject {
            Subject::Direct => Ok(None),
            Subject::Envoy => {
                let config = self.write("envoy.yaml", &envoy(listen, upstream))?;
                let mut args = words("--concurrency 1 --log-level warn --disable-hot-restart -c");
                args.push(config.display().to_string());
                start(&tool("ENVOY")?, &args, &[])
            }
            Subject::Haproxy => {
                let config = self.write("haproxy.cfg", &haproxy(listen, upstream))?;
                start(
                    &tool("HAPROXY")?,
                    &["-db".into(), "-f".into(), config.display().to_string()],
                    &libraries()?,
                )
            }
            Subject::Nginx => {
                std::fs::create_dir_all(self.scratch.join("nginx"))?;
                let config =
                    self.write("nginx.conf", &nginx(listen, upstream, &self.scratch.join("nginx")))?;
                let prefix = self.scratch.join("nginx").display().to_string();
                let args = ["-c".into(), config.display().to_string(), "-p".into(), prefix];
                start(&tool("NGINX")?, &args, &libraries()?)
            }
            Subject::Bare => self
                .own_role(
                    self.cores.subject,
                    &["bare".into(), "--upstream".into(), upstream.to_string()],
                    "bare",
                )
                .map(Some),
            Subject::Ours => self.ours(upstream, None, "nothing-armed").map(Some),
        }
    }
}

pub(crate) fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn envoy(listen: SocketAddr, upstream: SocketAddr) -> String {
    let endpoint = |address: SocketAddr| {
        format!("{{socket_address: {{address: {}, port_value: {}}}}}", address.ip(), address.port())
    };
    format!(
        r#"static_resources:
  listeners:
  - address: {listen}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: bench
          generate_request_id: false
          stream_idle_timeout: 0s
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes: [{{match: {{prefix: "/"}}, route: {{cluster: backend, timeout: 0s}}}}]
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router, suppress_envoy_headers: true}}
  clusters:
  - name: backend
    type: STATIC
    connect_timeout: 5s
    circuit_breakers: {{thresholds: [{{max_connections: 4096, max_pending_requests: 4096, max_requests: 4096}}]}}
    load_assignment:
      cluster_name: backend
      endpoints: [{{lb_endpoints: [{{endpoint: {{address: {upstream}}}}}]}}]
"#,
        listen = endpoint(listen),
        upstream = endpoint(upstream)
    )
}

fn haproxy(listen: SocketAddr, upstream: SocketAddr) -> String {
    format!(
        "global
  nbthread 1
  maxconn 4096
defaults
  mode http
  option http-no-delay
  http-reuse always
  timeout connect 5s
  timeout client 1h
  timeout server 1h
frontend in
  bind {listen}
  default_backend out
backend out
  server backend {upstream} maxconn 4096
"
    )
}

fn nginx(listen: SocketAddr, upstream: SocketAddr, scratch: &Path) -> String {
    let scratch = scratch.display();
    format!(
        "daemon off;
worker_processes 1;
error_log stderr warn;
pid {scratch}/pid;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_body_temp_path {scratch}/body;
  proxy_temp_path {scratch}/proxy;
  fastcgi_temp_path {scratch}/fastcgi;
  uwsgi_temp_path {scratch}/uwsgi;
  scgi_temp_path {scratch}/scgi;
  tcp_nodelay on;
  keepalive_requests 1000000;
  upstream backend {{ server {upstream}; keepalive 1024; keepalive_requests 1000000; }}
  server {{
    listen {listen};
    location / {{
      proxy_pass http://backend;
      proxy_http_version 1.1;
      proxy_set_header Connection \"\";
      proxy_buffering off;
      proxy_read_timeout 1h;
    }}
  }}
}}
"
    )
}
