"""Side-by-side benchmarks: `python -m benchmarks`. What is measured and how to read it stands in README.md."""
