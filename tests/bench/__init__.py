"""Benchmarks: `make bench` prints JSON and writes docs/benchmarks.md. No test has a time limit to keep."""
