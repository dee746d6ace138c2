//! One file a command.

pub(crate) mod compare;
pub(crate) mod demo;
pub(crate) mod explain;
pub(crate) mod load;
pub(crate) mod proxy;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod sim;
pub(crate) mod validate;
