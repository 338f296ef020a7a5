"""A short mix of random faults under workflows on Conductor and lakeFS; `python -m bench.chaos` runs a longer one."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from bench import chaos
from tools.servers import Server

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


def test_each_step_is_visible_once_whatever_is_killed(
    conductor: Server, lakefs: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariants 2, 3 and 4, on real servers. A failure shows its seed, and `--seed` runs its faults again."""
    monkeypatch.setattr(chaos, "SERVER_REST", 15.0)
    result = chaos.run(conductor, lakefs, tmp_path, seconds=40, seed=random.SystemRandom().randrange(1, 2**31))
    assert result["workflows"] > 0
    assert result["faults"] > 0
    assert [result[harm] for harm in chaos.HARMS] == [0, 0, 0], result
