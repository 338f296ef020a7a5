"""Fifty races for one head on a real server: one winner each, nothing accepted is lost, and the soft fence loses."""

from __future__ import annotations

import argparse

import pytest
from bench import fence_race

pytestmark = [pytest.mark.real, pytest.mark.slow]


@pytest.mark.timeout(900)
def test_invariant_2_exactly_one_of_those_who_race_for_a_head_wins(lakefs: object) -> None:
    result = fence_race.measure(argparse.Namespace(rounds=50))
    assert result["one_winner"] == result["rounds"] == 50
    assert result["lost_accepted"] == 0
    assert result["lost_after_retry"] == 0
    assert result["soft_broken"] > 0
