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

# Installs published servers and grades them; needs Node.js, Python, npm and PyPI.
real:
    SEALMARK_REAL=1 cargo test --locked --test real

# Where time and memory of a run go, beside the server alone; needs Node.js and npm.
bench:
    cargo bench --locked -p sealmark-tests --bench run
