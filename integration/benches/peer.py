"""Times llama.cpp on a model file, for a ratio with `engine/examples/speed.rs` in one run.

Usage: python peer.py MODEL.gguf [THREADS] [ROUNDS]      (needs `llama-cpp-python`, built from its sdist)

Prints one line a round: tokens a second of a 512-token prefill and of 64 single-token decode steps after 16 tokens.
`integration/benches/peer.sh` runs both sides in turn.
"""

import sys
import time

from llama_cpp import Llama

PREFILL = 512
CONTEXT = 16
DECODE = 64


def main() -> None:
    path = sys.argv[1]
    threads = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    model = Llama(
        path, n_threads=threads, n_threads_batch=threads, n_ctx=2048, n_batch=PREFILL, verbose=False
    )
    tokens = [504 + (i * 7) % 4000 for i in range(PREFILL)]
    for _ in range(rounds):
        model.reset()
        start = time.perf_counter()
        model.eval(tokens)
        prefill = PREFILL / (time.perf_counter() - start)
        model.reset()
        model.eval(tokens[:CONTEXT])
        start = time.perf_counter()
        for token in tokens[CONTEXT : CONTEXT + DECODE]:
            model.eval([token])
        decode = DECODE / (time.perf_counter() - start)
        print(f"llama.cpp prefill {prefill:.1f} decode {decode:.1f}", flush=True)


if __name__ == "__main__":
    main()
