"""What a write asks of an object store, counted between the client and the server."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import pytest
from tools.servers.proxy import FaultProxy, Seen
from tools.servers.running import Server

import headgate.graph as hg

pytestmark = pytest.mark.real
ADD = "query add($name: String) { insert Person { name: $name } }"


@pytest.fixture
def counted(place: str, s3: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    with FaultProxy(s3.url, keep_host=True) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        yield proxy


def made(place: str, other_types: int) -> hg.Graph:
    others = "\n".join(f"node Other{number} {{ v: I64 @key }}" for number in range(other_types))
    return hg.init(place, f"node Person {{ name: String @key }}\n{others}")


def per_write(proxy: FaultProxy, graph: hg.Graph, writes: int) -> float:
    """Requests of the median write: now and then one of them folds fragments."""
    counts = []
    for number in range(writes):
        with proxy.counting() as seen:
            graph.mutate(ADD, {"name": f"p{number}"})
        counts.append(len(seen))
    return sorted(counts)[len(counts) // 2]


def on_small_objects(seen: list[Seen]) -> Counter[str]:
    """Requests about sidecars and staging records, by what they ask for. A delete names its objects in its body."""
    ours = [one for one in seen if re.search(r"__recovery|__staging|\?delete", one.path)]
    return Counter("LIST" if "list-type" in one.path else one.method for one in ours)


def test_an_empty_recovery_folder_costs_one_listing(place: str, counted: FaultProxy) -> None:
    with made(place, 1) as graph:
        graph.mutate(ADD, {"name": "first"})
        with counted.counting() as seen:
            graph.mutate(ADD, {"name": "second"})
        assert on_small_objects(seen) == {"LIST": 1, "PUT": 1, "POST": 1}


@pytest.mark.slow
def test_requests_do_not_grow_with_history_or_other_tables(place: str, counted: FaultProxy) -> None:
    """Invariant 8: work grows with what changed, not with what exists."""
    with made(f"{place}/few", 1) as few, made(f"{place}/many", 12) as many:
        per_write(counted, few, 5)
        early = per_write(counted, few, 15)
        assert early <= 18
        per_write(counted, few, 40)
        assert per_write(counted, few, 15) <= early * 1.2
        per_write(counted, many, 5)
        assert per_write(counted, many, 15) <= early * 1.2
