//! The arrows between the crates: everything may use the injector, which decides by what it shares with the shim, who speaks TLS uses `trust`, the others do not know
//! each other, and the injector has neither I/O nor a clock.

use std::collections::BTreeSet;
use std::process::Command;

/// The packages that `package` is built with, itself left out.
fn tree(package: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "--locked",
            "--edges",
            "normal,build",
            "--prefix",
            "none",
            "--format",
            "{p}",
        ])
        .args(["--package", package])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let names = text.lines().filter_map(|line| line.split(' ').next());
    names.filter(|name| *name != package).map(str::to_owned).collect()
}

#[test]
fn the_parts_use_the_injector_and_not_each_other() {
    let below = ["brownout-control", "brownout-injector", "brownout-trust"];
    for (part, may_use) in [
        ("brownout-control", &[] as &[&str]),
        ("brownout-injector", &below[..1]),
        ("brownout-preload", &below[..1]),
        ("brownout-webhook", &below[..2]),
        ("brownout-sim", &below[..2]),
        ("brownout-gpu", &[]),
        ("brownout-trust", &[]),
        ("brownout-proxy", &below),
        ("brownout-runner", &below),
    ] {
        let others: Vec<String> =
            tree(part).into_iter().filter(|name| name.starts_with("brownout-")).collect();
        assert!(others.iter().all(|name| may_use.contains(&name.as_str())), "{part} uses {others:?}");
    }
}

#[test]
fn the_injector_has_no_io_and_no_clock() {
    let tree = tree("brownout-injector");
    for heavy in ["tokio", "hyper", "kube", "rand", "mio", "socket2", "rustls", "ring"] {
        assert!(!tree.contains(heavy), "the injector is built with {heavy}");
    }
}

#[test]
fn the_shim_is_built_on_libc_alone() {
    let shim = tree("brownout-preload");
    assert!(shim.iter().all(|name| name == "libc" || name == "brownout-control"), "{shim:?}");
    assert!(tree("brownout-control").is_empty(), "what the shim shares with others is built on nothing");
}

#[test]
fn the_stand_in_gpu_is_built_on_libc_alone() {
    let gpu = tree("brownout-gpu");
    assert!(gpu.iter().all(|name| name == "libc"), "{gpu:?}");
}

#[test]
fn there_is_one_tls_and_it_needs_nothing_of_the_system() {
    let tree = tree("brownout");
    for other in ["openssl-sys", "native-tls", "aws-lc-rs", "aws-lc-sys", "webpki-roots"] {
        assert!(!tree.contains(other), "the binary is built with {other}");
    }
    assert!(tree.contains("rustls") && tree.contains("ring"), "{tree:?}");
}

#[test]
fn only_the_webhook_knows_kubernetes() {
    for part in ["brownout", "brownout-proxy", "brownout-runner", "brownout-sim", "brownout-injector"] {
        // Until the binary ties it in, the webhook is in no other tree.
        let kube: Vec<String> = tree(part).into_iter().filter(|name| name.starts_with("kube")).collect();
        assert!(kube.is_empty(), "{part} is built with {kube:?}");
    }
}
