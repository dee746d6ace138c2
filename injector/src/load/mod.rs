//! From the text of a file to a [`Scenario`], or to all that is wrong with it.

mod diagnostic;
mod schema;
mod tree;

pub use diagnostic::{Diagnostic, Diagnostics};
pub use schema::schema;

use crate::scenario::Scenario;
use diagnostic::Problem;

/// Reads a scenario. `name` is the file's name, for messages.
///
/// # Errors
/// All that is wrong with it.
pub fn load(name: &str, text: &str) -> Result<Scenario, Diagnostics> {
    let (root, mut problems) = tree::parse(text);
    if let Some(root) = &root
        && problems.is_empty()
    {
        match serde_json::from_value(root.json()) {
            Ok(scenario) => return Ok(scenario),
            Err(error) => {
                problems.push(Problem::new(root.span.clone(), error.to_string(), "in this scenario"))
            }
        }
    }
    Err(Diagnostics::new(name, text, problems))
}
