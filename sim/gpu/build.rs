//! How the library is linked: its own references stay its own, whatever is preloaded, and it stays loaded, since it may have a thread.

fn main() {
    for argument in ["-Wl,-Bsymbolic", "-Wl,-z,nodelete"] {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
