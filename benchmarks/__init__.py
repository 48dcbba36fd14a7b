"""Speed, measured and never asserted: `python -m benchmarks [names...]`."""
