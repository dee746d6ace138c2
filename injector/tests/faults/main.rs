//! What each fault kind means, as properties over answers of every protocol. Only the public interface is used: faults
//! are written as users write them, and answers are read back by the readers that the load runner uses.

mod about;
mod before;
mod broken;
mod compose;
mod cuts;
mod harness;
mod holds;
mod limits;
mod robust;
mod text;
mod tools;
