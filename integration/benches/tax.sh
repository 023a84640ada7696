#!/usr/bin/env bash
# What isolation costs: the engine with all guards, in turn with a build from which they are compiled out.
#
#   integration/benches/tax.sh MODEL.gguf [ROUNDS]          tokens/s, in turn; wants a quiet machine
#   integration/benches/tax.sh MODEL.gguf instructions      instructions under valgrind; the same on any machine, in minutes
#
# Prints both rates of each round and, at the end, over the rounds: the median of guarded / unguarded, and the ratio of the best
# rates, which is nearer to the truth where others use the machine too. The unguarded build needs a cfg of its own, with which the
# `bulkhead` command cannot be built at all.
set -euo pipefail
cd "$(dirname "$0")/../.."
model=${1:?which model file?}
rounds=${2:-9}
target=${CARGO_TARGET_DIR:-target}
cargo build --release --locked --quiet -p engine --example tax
RUSTFLAGS='--cfg bulkhead_tax_bench' cargo build --release --locked --quiet -p engine --example tax \
  --features unguarded --target-dir "$target/unguarded"
if [ "$rounds" = instructions ]; then
  # One thread, so that nothing spins. What a run of no output needs, above all to read the model, is not counted.
  valgrind --tool=none true 2>/dev/null || { echo 'tax: valgrind is missing' >&2; exit 1; }
  count() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$1" "$model" "$2" 1 "$3" 2>&1 >/dev/null |
      sed -n 's/.*Collected : *//p'
  }
  for streams in 1 16; do
    for which in guarded unguarded; do
      folder=$target
      [ "$which" = guarded ] || folder=$target/unguarded
      short=$(count "$folder/release/examples/tax" 1 "$streams")
      long=$(count "$folder/release/examples/tax" 33 "$streams")
      printf 'streams%d %s: %d instructions for 32 tokens each\n' "$streams" "$which" "$((long - short))"
    done
  done
  exit
fi
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
    best = max(both["guarded"]) / max(both["unguarded"])
    print(f"{name}: guarded / unguarded {middle:.4f} (median of {len(ratios)}, {min(ratios):.3f} to {max(ratios):.3f}), best / best {best:.4f}")
'
