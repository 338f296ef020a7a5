"""A short soak: processes write one graph and are killed, and an auditor holds it against what was acknowledged."""

from __future__ import annotations

import argparse

import pytest
from bench import graph_soak

HARM = ("lost", "duplicated", "half_visible", "audit_missing", "audit_double")


@pytest.mark.slow
def test_killed_writers_lose_double_and_halve_nothing() -> None:
    """Invariants 1, 5 and 6, under SIGKILL."""
    result = graph_soak.measure(argparse.Namespace(seconds=60, writers=3, recoverers=1, seed=0, store=""))
    assert result["kills"] > 0
    assert result["writes"] > 0
    assert [result[name] for name in HARM] == [0] * len(HARM), result
