"""Both protocols as executable models: small configurations explored completely, every broken rule found.

`make models` explores all configurations; these are the ones that are complete within seconds. A variant that is not
found would mean that a rule is there for nothing, or that the model has gone blind.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.models.loading import load

pytestmark = pytest.mark.slow

publication = load("publication_protocol")
graph = load("graph_protocol")

# Configurations that are complete in a few seconds each.
PUBLICATION = ["embedded-retries", "embedded-rerun", "embedded-any-parent", "tasks", "tasks-retried", "person"]
GRAPH = ["one-recoverer", "one-task", "two-tables", "task-retry", "one-maintenance", "relocate-aba"]
# Shown only after minutes: left to `make models`.
LATE = {"own-epoch-last", "epoch-reuse"}


@pytest.mark.parametrize("name", PUBLICATION)
def test_invariants_2_3_and_4_hold_in_every_state_of_the_publication_protocol(name: str) -> None:
    found = publication.explore(publication.BY_NAME[name])
    assert found.whole
    assert not found.problem, found.trace


@pytest.mark.parametrize("name", [name for name in publication.WORST if name not in LATE])
def test_every_broken_variant_of_the_publication_protocol_is_found(name: str) -> None:
    found = publication.explore(replace(publication.WORST[name], broken=name))
    assert found.problem
    assert found.trace


@pytest.mark.parametrize("name", [name for name in publication.WITHOUT if name not in LATE])
def test_the_publication_protocol_fails_without_any_of_its_subtle_rules(name: str) -> None:
    where = publication.WITHOUT[name]
    assert publication.explore(replace(where, rules=where.rules - {name})).problem


@pytest.mark.parametrize("name", GRAPH)
def test_invariants_5_and_6_hold_in_every_state_of_the_graph_protocol(name: str) -> None:
    config = next(c for c in graph.CONFIGS if c.name == name)
    *_, complete, problem = graph.explore(config, graph.COMPLETE, 6_000_000)
    assert complete
    assert problem is None


@pytest.mark.parametrize("name", graph.BROKEN)
def test_every_broken_variant_of_the_graph_protocol_is_found(name: str) -> None:
    rules, shown_by = graph.BROKEN[name]
    config = next(c for c in graph.CONFIGS if c.name == shown_by)
    *_, problem = graph.explore(config, rules, 6_000_000)
    assert problem is not None


def test_the_tables_of_variants_cover_every_rule_that_has_a_name() -> None:
    assert set(publication.WORST) == set(publication.BROKEN)
    assert set(publication.WITHOUT) == set(publication.SUBTLE)
