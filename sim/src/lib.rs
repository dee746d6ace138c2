//! A stand-in inference server with a real scheduler model, so that everything runs with no GPU.
