from __future__ import annotations

from datetime import UTC, datetime

from headgate.lake.progress import Meter, Transferred, shown_bytes


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.at = 100.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)

    def monotonic(self) -> float:
        return self.at


def test_a_meter_says_how_far_it_is_every_so_often() -> None:
    clock, said = Hand(), []
    meter = Meter(say=said.append, every_seconds=10, clock=clock)
    for _ in range(5):
        clock.at += 4
        meter(2, 1_000_000)
    assert said == [
        Transferred(files=6, bytes=3_000_000, seconds=12.0),
    ]
    assert str(said[0]) == "6 files, 3.0 MB, 250.0 KB/s"
    assert meter.transferred == Transferred(files=10, bytes=5_000_000, seconds=20.0)


def test_bytes_are_shown_as_people_read_them() -> None:
    assert [shown_bytes(n) for n in (0, 999, 1_000, 5_368_709_120, 10**16)] == [
        "0 B",
        "999 B",
        "1.0 KB",
        "5.4 GB",
        "10000.0 TB",
    ]
    assert Transferred(files=0, bytes=0, seconds=0).rate == 0
