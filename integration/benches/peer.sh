#!/usr/bin/env bash
# Our engine and llama.cpp in turn, same file, same threads: prints both and leaves the ratio to the reader's median.
#
#   integration/benches/peer.sh MODEL.gguf [ROUNDS]
#
# Builds llama.cpp from the llama-cpp-python sdist into .cache/peer the first time (about ten minutes on two cores).
set -euo pipefail
cd "$(dirname "$0")/../.."
model=${1:?which model file?}
rounds=${2:-3}
threads=${THREADS:-2}
venv=${BULKHEAD_PEER_VENV:-${BULKHEAD_CACHE:-.cache}/peer}
if ! "$venv/bin/python" -c 'import llama_cpp' 2>/dev/null; then
  python3 -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --no-binary llama-cpp-python 'llama-cpp-python==0.3.36'
fi
cargo build --release --locked --quiet -p engine --example speed
for _ in $(seq "$rounds"); do
  "$venv/bin/python" integration/benches/peer.py "$model" "$threads" 1
  "${CARGO_TARGET_DIR:-target}/release/examples/speed" "$model" --threads "$threads"
done
