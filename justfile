# `just` lists these; each is one line that can be typed by hand.

_default:
    @just --list --unsorted

# Start the stand-in server, the proxy and the load, and run the shipped stories
demo *ARGS:
    cargo run --release -- demo {{ARGS}}

# The hermetic tests: no network, no GPU, nothing to install
test *ARGS:
    cargo test --workspace {{ARGS}}

# The tests on real input: llama-server with Gemma 3, the official OpenAI client
real *ARGS:
    eval "$(tests/real/prepare llama gemma openai)" && cargo test --release --test real -- --test-threads=1 {{ARGS}}

# All that CI checks
ci:
    .ci/run

# The benchmark beside Envoy, HAProxy and nginx (bench/README.md)
bench *ARGS:
    eval "$(tests/real/prepare peers)" && cargo build --release && cargo run --release -p brownout-bench -- {{ARGS}}

# Each fuzz target for SECONDS seconds
fuzz SECONDS="120":
    fuzz/run {{SECONDS}}

# Format everything
fmt:
    cargo fmt --all

# What CI says about style
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings

# Write the JSON Schema of the scenario file to where the tests expect it
schema:
    cargo run --quiet -- schema > docs/scenario.schema.json
