#!/usr/bin/env bash
# What isolation costs: the engine with all guards, in turn with a build from which they are compiled out.
#
#   integration/benches/tax.sh MODEL.gguf [ROUNDS]
#
# Prints both rates of each round and, at the end, the median over the rounds of guarded / unguarded. The unguarded build needs a cfg
# of its own, with which the `bulkhead` command cannot be built at all.
set -euo pipefail
cd "$(dirname "$0")/../.."
model=${1:?which model file?}
rounds=${2:-9}
target=${CARGO_TARGET_DIR:-target}
cargo build --release --locked --quiet -p engine --example tax
RUSTFLAGS='--cfg bulkhead_tax_bench' cargo build --release --locked --quiet -p engine --example tax \
  --features unguarded --target-dir "$target/unguarded"
for round in $(seq "$rounds"); do
  # Who goes first changes from round to round.
  order=(guarded unguarded)
  [ $((round % 2)) -eq 0 ] || order=(unguarded guarded)
  for which in "${order[@]}"; do
    folder=$target
    [ "$which" = guarded ] || folder=$target/unguarded
    printf '%s %s ' "$round" "$which"
    "$folder/release/examples/tax" "$model"
  done
done | tee /dev/stderr | python3 -c '
import statistics, sys
rates = {}
for line in sys.stdin:
    _, which, *pairs = line.split()
    for name, rate in zip(pairs[::2], pairs[1::2]):
        rates.setdefault(name, {}).setdefault(which, []).append(float(rate))
for name, both in rates.items():
    ratios = [a / b for a, b in zip(both["guarded"], both["unguarded"])]
    middle = statistics.median(ratios)
    print(f"{name}: guarded / unguarded {middle:.4f} (median of {len(ratios)}, {min(ratios):.3f} to {max(ratios):.3f}): {100 * (1 - middle):.2f} % tax")
'
