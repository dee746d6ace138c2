//! The shim that will be preloaded into inference processes; holds no code yet.
