"""Speed and memory of training, as ratios to a naive reference; run with `python -m benchmarks`."""
