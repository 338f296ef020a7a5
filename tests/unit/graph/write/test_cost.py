"""What a write costs in requests: flat over history, and in the number of tables it does not touch."""

from __future__ import annotations

from pathlib import Path

import pytest

import headgate.graph as hg

ADD = "query add($name: String) { insert Person { name: $name } }"
WINDOW = 50


class Counted:
    """A graph whose sidecar and Lance requests are counted."""

    def __init__(self, place: Path, other_types: int) -> None:
        others = "\n".join(f"node Other{number} {{ v: I64 @key }}" for number in range(other_types))
        self.graph = hg.init(place, f"node Person {{ name: String @key }}\n{others}")
        self.small = 0
        objects = self.graph._store.objects
        for name in ("put_if_absent", "get", "delete", "list", "now"):
            self._count(objects, name)
        self._number = 0

    def _count(self, objects: object, name: str) -> None:
        real = getattr(objects, name)

        def counted(*args: object) -> object:
            self.small += 1
            return real(*args)

        setattr(objects, name, counted)

    def _lance(self) -> int:
        handles = (self.graph._store.manifest._dataset, self.graph.base().dataset("Person"))
        stats = [handle.io_stats_incremental() for handle in handles]
        return sum(seen.read_iops + seen.write_iops for seen in stats)

    def writes(self, count: int) -> tuple[float, float]:
        """Requests per write, of small objects and of Lance, over so many writes."""
        self._lance()
        self.small = 0
        for _ in range(count):
            self._number += 1
            self.graph.mutate(ADD, {"name": f"p{self._number % 100}"})
        return self.small / count, self._lance() / count


@pytest.mark.slow
def test_requests_per_write_do_not_grow_with_history(tmp_path: Path) -> None:
    """Invariant 8: work grows with what changed, not with what exists."""
    counted = Counted(tmp_path / "graph", other_types=2)
    counted.writes(WINDOW)
    early = counted.writes(WINDOW)
    for _ in range(6):
        counted.writes(WINDOW)
    late = counted.writes(WINDOW)
    assert early[0] == late[0] == 3, "a listing, a sidecar, its deletion"
    assert late[1] <= early[1] * 1.2
    assert late[1] < 20


def test_requests_per_write_do_not_grow_with_other_tables(tmp_path: Path) -> None:
    few, many = Counted(tmp_path / "few", other_types=1), Counted(tmp_path / "many", other_types=30)
    for graph in (few, many):
        graph.writes(1)
    assert many.writes(8)[0] == few.writes(8)[0]
    assert many.writes(20)[1] <= few.writes(20)[1] * 1.1
