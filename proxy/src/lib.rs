//! The data plane: tower layers over hyper that carry out what a plan decides.
