"""What is expected of each benchmark: the one table of arguments and bars."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_HOLDS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    ">": operator.gt,
    "==": operator.eq,
}


@dataclass(frozen=True)
class Bar:
    """A relation one field of a result must hold. `limit` is a number, or the name of another field."""

    field: str
    """The name of a field; a dot goes into a map: `single_ms.10k`."""
    relation: str
    limit: float | str
    unit: str = ""

    def __str__(self) -> str:
        return f"{self.field} {self.relation} {self.limit}{self.unit and ' ' + self.unit}"


@dataclass(frozen=True)
class Verdict:
    """What a bar says about one result. A field that is missing falls short: nothing was shown."""

    bar: Bar
    value: float | None
    limit: float | None

    @property
    def holds(self) -> bool:
        if self.value is None or self.limit is None:
            return False
        return _HOLDS[self.bar.relation](self.value, self.limit)

    @property
    def word(self) -> str:
        return "holds" if self.holds else "not shown" if self.value is None else "falls short"


@dataclass(frozen=True)
class Benchmark:
    arguments: tuple[str, ...]
    bars: tuple[Bar, ...]


def _arguments(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _zero(*names: str) -> tuple[Bar, ...]:
    return tuple(Bar(name, "==", 0) for name in names)


BENCHMARKS: dict[str, Benchmark] = {
    "attempt_embedded": Benchmark(
        _arguments("--files 10000 --size 10240 --changed 100"),
        (
            Bar("ratio_cold", "<=", 3),
            Bar("ratio_warm", "<=", 1.5),
            Bar("ratio_unchanged", "<=", 1.2),
            Bar("one_file_ms", "<=", 25, "ms"),
            Bar("peak_rss_mb", "<=", 300, "MB"),
            Bar("commit_growth", "<=", 2),
        ),
    ),
    "attempt_lakefs": Benchmark(
        _arguments("--files 1000 --size 10240 --changed 10"),
        (
            Bar("ratio_cold", "<=", 1.5),
            Bar("ratio_warm", "<=", 0.4),
            Bar("one_file_s", "<=", 0.1, "s"),
            Bar("big_file_ratio", "<=", 1.3),
            Bar("requests_warm", "<=", 26),
        ),
    ),
    "fence_race": Benchmark(
        _arguments("--rounds 50"),
        (
            Bar("one_winner", "==", "rounds"),
            *_zero("lost_accepted", "lost_after_retry"),
            Bar("soft_broken", ">", 0),
        ),
    ),
    "crash_attempts": Benchmark((), (Bar("kill_points", ">=", 12), *_zero("lost", "duplicated", "leaked"))),
    "worker": Benchmark(
        (),
        (
            Bar("latency_ratio", "<=", 1.2),
            Bar("poll_to_body_ms", "<=", 20, "ms"),
            Bar("idle_rss_mb", "<=", 120, "MB"),
            Bar("idle_cpu", "<=", 0.01),
        ),
    ),
    "engine": Benchmark(_arguments("--workflows 1000"), (Bar("tasks_per_s", ">=", 350), Bar("growth", "<=", 1.2))),
    "chaos": Benchmark(_arguments("--minutes 3"), _zero("lost", "duplicated", "mismatched")),
    "graph_write": Benchmark((), (Bar("growth", "<=", 1.3), Bar("single_ratio", "<=", 6))),
    "graph_publish": Benchmark(_arguments("--commits 10000"), (Bar("ratio", "<=", 1.3),)),
    "graph_read": Benchmark(
        (), (Bar("point", "<=", 0.1), Bar("hop1", "<=", 0.1), Bar("hop2", "<=", 0.1), Bar("hop2_wide", "<=", 1.0))
    ),
    "graph_load": Benchmark(
        _arguments("--rows 1000000"), (Bar("ratio", "<=", 3), Bar("peak_rss_mb", "<=", 1000, "MB"))
    ),
    "graph_merge": Benchmark(
        (),
        (
            Bar("growth", "<=", 3),
            Bar("ms_1m", "<=", 2000, "ms"),
            Bar("branch_create_ms", "<=", 20, "ms"),
            Bar("changes_ms", "<=", 300, "ms"),
        ),
    ),
    "graph_upkeep": Benchmark(
        _arguments("--writes 10000"),
        (
            Bar("size_ratio", "<=", 1.2),
            Bar("point_ratio", "<=", 1.2),
            Bar("scan_ratio", "<=", 1.2),
            Bar("write_ratio", "<=", 1.2),
        ),
    ),
    "graph_soak": Benchmark(
        _arguments("--seconds 60"), _zero("lost", "duplicated", "half_visible", "audit_missing", "audit_double")
    ),
    "crash_graph": Benchmark(
        (),
        (
            Bar("kill_points", ">=", 20),
            *_zero("lost", "duplicated", "half_visible", "audit_missing", "audit_double"),
            Bar("open_ratio", "<=", 1.2),
            Bar("recovery_s", "<=", 1, "s"),
        ),
    ),
    "spark_load": Benchmark(
        _arguments("--nodes 1000000 --edges 5000000 --growth"), (Bar("ratio", "<=", 2.5), Bar("growth", "<=", 11))
    ),
    "spark_read": Benchmark((), (Bar("scan_ratio", "<=", 1.5), Bar("filter_ratio", "<=", 1.2))),
}


def judge(name: str, result: Mapping[str, Any]) -> list[Verdict]:
    """One verdict for each bar of the benchmark `name`; none for one that is not in the table."""
    benchmark = BENCHMARKS.get(name)
    return [_verdict(bar, result) for bar in benchmark.bars] if benchmark else []


def _verdict(bar: Bar, result: Mapping[str, Any]) -> Verdict:
    limit = _number(result, bar.limit) if isinstance(bar.limit, str) else bar.limit
    return Verdict(bar=bar, value=_number(result, bar.field), limit=limit)


def _number(result: Mapping[str, Any], path: str) -> float | None:
    found: Any = result
    for step in path.split("."):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None


def as_markdown() -> str:
    """The table as the documentation shows it: `python -m bench --table` prints it."""
    rows = ["| benchmark | bars |", "| --- | --- |"]
    for name, benchmark in BENCHMARKS.items():
        command = " ".join([name, *benchmark.arguments])
        rows.append(f"| `{command}` | {', '.join(f'`{bar}`' for bar in benchmark.bars)} |")
    return "\n".join(rows)
