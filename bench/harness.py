"""What every benchmark shares: its arguments, interleaved rounds, the table for people, the JSON line, the picture.

A benchmark module is a function from its arguments to a flat result, and one call::

    def measure(args: argparse.Namespace) -> dict[str, object]: ...

    if __name__ == "__main__":
        harness.main(measure, name="fence_race", about="who wins", arguments=[harness.argument("--rounds", 50, "…")])
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.bars import judge

Result = dict[str, Any]
Plot = Callable[[Result, Path], None]


@dataclass(frozen=True)
class Argument:
    flag: str
    default: int | float | str | bool
    about: str


def argument(flag: str, default: int | float | str | bool, about: str) -> Argument:
    """An option of a benchmark; its type is that of its default, and a default of False makes it a switch."""
    return Argument(flag, default, about)


def main(
    measure: Callable[[argparse.Namespace], Result],
    *,
    name: str,
    about: str,
    arguments: Sequence[Argument] = (),
    plot: Plot | None = None,
    argv: Sequence[str] | None = None,
) -> None:
    """Measure once; a table for people, or with `--json` the result as the last line; with `--plot` a picture.

    Without a `plot` of its own a benchmark gets the picture of its bars.
    """
    args = parse(name, about, arguments, argv)
    result = measure(args)
    if args.plot:
        (plot or plot_bars_of(name))(result, Path(args.plot))
    if args.json:
        print(json.dumps(result, sort_keys=True), flush=True)
    else:
        print_table(name, result)


def parse(
    name: str, about: str, arguments: Sequence[Argument], argv: Sequence[str] | None = None
) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m bench.{name}", description=about)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--plot", metavar="FILE", help="write a picture to FILE (.png or .svg)")
    for arg in arguments:
        if arg.default is False:
            parser.add_argument(arg.flag, action="store_true", help=arg.about)
        else:
            kind = type(arg.default)
            parser.add_argument(arg.flag, type=kind, default=arg.default, help=f"{arg.about} ({arg.default})")
    return parser.parse_args(argv)


def say(line: str) -> None:
    """Progress, on stderr: the last line of stdout belongs to the result."""
    print(line, file=sys.stderr, flush=True)


def seconds(action: Callable[[], object]) -> float:
    """How long one call takes, with the garbage of earlier ones collected first."""
    gc.collect()
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def interleaved(subjects: Mapping[str, Callable[[], object]], *, rounds: int) -> dict[str, list[float]]:
    """Times of every subject, taken in turns, so that a slow spell of the machine meets them all.

    Every other round goes backwards: none is always the one that runs on another's warm caches.
    """
    times: dict[str, list[float]] = {name: [] for name in subjects}
    for number in range(rounds):
        order = list(subjects.items())
        for name, action in reversed(order) if number % 2 else order:
            times[name].append(seconds(action))
    return times


def medians(times: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in times.items()}


def ratio(times: Mapping[str, Sequence[float]], of: str, over: str) -> float:
    """The median of `of` over the median of `over`."""
    return round(statistics.median(times[of]) / statistics.median(times[over]), 4)


def peak_rss_mb() -> float:
    """The most memory this process has held so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1 << 20 if sys.platform == "darwin" else 1 << 10), 1)


def print_table(name: str, result: Result) -> None:
    """The result for people, each barred field with its bar."""
    from rich.console import Console
    from rich.table import Table

    verdicts = {verdict.bar.field: verdict for verdict in judge(name, result)}
    table = Table(title=name, title_justify="left")
    table.add_column("field")
    table.add_column("value", justify="right")
    table.add_column("bar")
    for field, value in flat(result):
        verdict = verdicts.get(field)
        told = f"{verdict.bar.relation} {verdict.bar.limit}: {verdict.word}" if verdict else ""
        table.add_row(field, shown(value), told)
    Console().print(table)


def flat(result: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """The fields of a result, maps taken apart: `single_ms.10k`."""
    for name, value in result.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def shown(value: object) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def plot_bars_of(name: str) -> Plot:
    """A picture of every barred value as a share of its bar: left of the line holds, right of it falls short."""

    def plot(result: Result, path: Path) -> None:
        verdicts = [v for v in judge(name, result) if v.value is not None and v.limit]
        if verdicts:
            shares = [v.value / v.limit for v in verdicts if v.value is not None and v.limit]
            colours = ["#2a7f62" if v.holds else "#b3402e" for v in verdicts]
            bar_chart([str(v.bar) for v in verdicts], shares, path, title=name, line=1.0, colours=colours)
        else:
            values = [(field, value) for field, value in flat(result) if isinstance(value, int | float)]
            bar_chart([field for field, _ in values], [float(value) for _, value in values], path, title=name)

    return plot


def bar_chart(
    labels: Sequence[str],
    values: Sequence[float],
    path: Path,
    *,
    title: str,
    line: float | None = None,
    colours: Sequence[str] | None = None,
) -> None:
    """Horizontal bars with their values, and a line to compare them with."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 0.9 + 0.42 * max(len(labels), 1)), layout="constrained")
    drawn = axes.barh(range(len(labels)), list(values), color=list(colours) if colours else "#35618f", height=0.62)
    axes.set_yticks(range(len(labels)), labels=list(labels))
    axes.invert_yaxis()
    axes.bar_label(drawn, labels=[f"{value:.3g}" for value in values], padding=4)
    axes.margins(x=0.15)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, loc="left")
    if line is not None:
        axes.axvline(line, color="#222222", linewidth=1, linestyle="--")
        axes.set_xlabel("share of the bar")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
