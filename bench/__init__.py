"""Benchmarks. Each module runs alone, `python -m bench.NAME --json`, and its last line is one JSON object.

`harness` holds what they share, `bars` the one table of what is expected of them; `python -m bench` runs all of them
and writes `bench/report/`. The bars are ratios and counts, measured in one run: absolute times differ from machine to
machine.
"""
