"""Side-by-side ratios, run by hand: `python -m benchmarks.NAME`."""
