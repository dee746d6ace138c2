//! The one binary users meet.
fn main() {}
