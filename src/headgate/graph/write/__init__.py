"""Writes: from statements or rows to one published commit.

`pending` collects changes and shows them to later reads, `evaluate` checks them once, `prepare` stages one transaction
per table, `commit` runs the phases that make them visible, `transaction` and `load` are what callers use.
"""
