"""The soak on an object store: conditional puts decide who creates, over the network."""

from __future__ import annotations

import argparse

import pytest
from bench import graph_soak
from tests.unit.graph.test_soak import HARM

pytestmark = [pytest.mark.real, pytest.mark.slow]


def test_killed_writers_lose_double_and_halve_nothing_on_s3(place: str) -> None:
    """Invariants 1, 5 and 6, under SIGKILL."""
    result = graph_soak.measure(argparse.Namespace(seconds=30, writers=2, recoverers=1, seed=0, store=place))
    assert result["kills"] > 0
    assert result["writes"] > 0
    assert [result[name] for name in HARM] == [0] * len(HARM), result
