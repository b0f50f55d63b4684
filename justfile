# `just` lists the recipes.
_default:
    @just --list

# What CI demands: formatting, lints, tests, and where they are installed licences and spelling.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --locked -- -D warnings
    cargo test --workspace --locked
    if command -v cargo-deny >/dev/null; then cargo deny check; fi
    if command -v typos >/dev/null; then typos; fi

# Every test, or those whose name contains FILTER.
test *FILTER:
    cargo test --locked {{FILTER}}

# Writes pages, schemas and standard.yaml.
generate:
    UPDATE=1 cargo test --locked --test generated

# Grades the reference filesystem server; needs Node.
real:
    cargo run --release --locked -- run --fail-under B -- npx -y @modelcontextprotocol/server-filesystem@2.0.1 '${sandbox}'

# Three runs over the fixture server with the time of each phase; needs jq.
bench:
    cargo build --release --locked --workspace
    for n in 1 2 3; do target/release/sealmark run -q --format json -- target/release/fixture-server '${sandbox}' | jq -c '.run | {durationMs, timings}'; done
