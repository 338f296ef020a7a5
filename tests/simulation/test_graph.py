"""Writers, recoverers, readers and makers of branches on a simulated store, in the orders of thousands of seeds.

The code of the manifest, the publisher, the write path and recovery is the product's own. A failure names its seed:
`HEADGATE_GRAPH_SIMULATION_SEED=N` runs that one alone, and `HEADGATE_GRAPH_SIMULATIONS=N` runs more of them.
"""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.simulation.graph.broken import BROKEN
from tests.simulation.graph.checks import Violation
from tests.simulation.graph.world import play

pytestmark = pytest.mark.slow

BATCHES = 10
HUNTED = 5_000
"""Seeds that a broken rule is looked for in; most are found among the first hundred."""


@pytest.fixture(autouse=True)
def _without_warnings() -> Iterator[None]:
    """Thousands of sidecars are left behind on purpose, each with a warning."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def _seeds(batch: int) -> list[int]:
    if one := os.environ.get("HEADGATE_GRAPH_SIMULATION_SEED"):
        return [int(one)] if batch == 0 else []
    each = int(os.environ.get("HEADGATE_GRAPH_SIMULATIONS", "4000")) // BATCHES
    return [batch * 1_000_000 + number for number in range(each)]


@pytest.mark.parametrize("batch", range(BATCHES))
def test_invariants_4_5_and_6_hold_after_every_step_of_any_schedule(batch: int) -> None:
    """No acknowledged write is lost, doubled or half visible; what recovery did is told once; conflicts are proved."""
    for seed in _seeds(batch):
        play(seed)


def _first_found(rule: str) -> tuple[int, str]:
    broken, focus = BROKEN[rule]
    with broken():
        for seed in range(HUNTED):
            try:
                play(seed, focus)
            except Violation as problem:
                return seed, str(problem)
    pytest.fail(f"{HUNTED} seeds do not show that {rule}")


@pytest.mark.parametrize("rule", BROKEN)
def test_the_simulation_finds_out_when(rule: str) -> None:
    seed, told = _first_found(rule)
    assert f"HEADGATE_GRAPH_SIMULATION_SEED={seed}" in told


def test_a_seed_that_fails_fails_again_in_the_same_way() -> None:
    rule = "a writer that gives up only undoes its effects"
    seed, told = _first_found(rule)
    broken, _ = BROKEN[rule]
    with broken(), pytest.raises(Violation) as again:
        play(seed)
    assert str(again.value) == told
    play(seed)


DIGEST = """
import logging
logging.disable(logging.WARNING)
from tests.simulation.test_graph import digest
print(digest(range(40)))
"""


def digest(seeds: range) -> str:
    """All that happened in these runs, step by step."""
    told = "\n".join(line for seed in seeds for line in play(seed).trace)
    return hashlib.sha256(told.encode()).hexdigest()


def test_a_seed_makes_the_same_run_in_another_process() -> None:
    """Nothing of a run rests on the order of a set, on time or on chance of its own."""
    here = digest(range(40))
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", DIGEST], capture_output=True, text=True, env=environment, timeout=300)
    assert done.stdout.strip() == here, done.stderr
