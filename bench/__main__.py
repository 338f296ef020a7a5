"""Run every benchmark of the table and write one report: `python -m bench [NAME …]`.

Each runs as a process of its own, so that one's memory and threads are not another's. A benchmark that breaks makes
the run fail; a bar that is not met is shown, and fails the run only with `--strict`.
"""

from __future__ import annotations

import argparse
import html
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from bench.bars import BENCHMARKS, Verdict, as_markdown, judge
from bench.harness import Result, flat, say, shown

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "bench" / "report"


@dataclass(frozen=True)
class Run:
    """One benchmark's run: its result, or why there is none."""

    name: str
    seconds: float
    result: Result = field(default_factory=dict)
    error: str = ""

    @property
    def verdicts(self) -> list[Verdict]:
        return judge(self.name, self.result)

    @property
    def word(self) -> str:
        if self.error:
            return "broken"
        short = sum(not verdict.holds for verdict in self.verdicts)
        return f"{short} of {len(self.verdicts)} bars not met" if short else "every bar holds"


def run(name: str, report: Path) -> Run:
    """Run one benchmark with the arguments of the table; what it printed goes beside its picture."""
    command = [sys.executable, "-m", f"bench.{name}", *BENCHMARKS[name].arguments]
    command += ["--json", "--plot", str(report / f"{name}.png")]
    began = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    took = time.perf_counter() - began
    (report / f"{name}.log").write_text(done.stdout + done.stderr)
    if done.returncode:
        return Run(name, took, error="\n".join(done.stderr.strip().splitlines()[-12:]) or f"exit {done.returncode}")
    try:
        return Run(name, took, result=parse_last_line(done.stdout))
    except ValueError as problem:
        return Run(name, took, error=str(problem))


def parse_last_line(stdout: str) -> Result:
    """The JSON object a benchmark ends with."""
    lines = stdout.strip().splitlines()
    try:
        found = json.loads(lines[-1]) if lines else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError(f"the last line is not a JSON object: {lines[-1] if lines else 'nothing was printed'}")
    return found


def present(names: list[str]) -> tuple[list[str], list[str]]:
    """Which of `names` have a module, and which have none yet."""
    there = [name for name in names if find_spec(f"bench.{name}")]
    return there, [name for name in names if name not in there]


def write_report(runs: list[Run], missing: list[str], report: Path) -> Path:
    """One page with every table and picture, and the same as JSON."""
    facts = {run.name: {"seconds": run.seconds, **run.result, "error": run.error} for run in runs}
    (report / "report.json").write_text(json.dumps(facts, indent=2, sort_keys=True))
    page = report / "index.html"
    page.write_text(
        _PAGE.format(
            machine=html.escape(machine()), body="\n".join([*(_section(run, report) for run in runs), _rest(missing)])
        )
    )
    return page


def machine() -> str:
    return f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores"


_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Headgate benchmarks</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1d2329 }}
table {{ border-collapse: collapse }} td, th {{ padding: .2rem .8rem .2rem 0; text-align: left }}
td.n {{ text-align: right; font-variant-numeric: tabular-nums }} .holds {{ color: #2a7f62 }} .short {{ color: #b3402e }}
img {{ max-width: 100% }} pre {{ background: #f4f5f6; padding: .6rem; overflow: auto }}
</style>
<h1>Headgate benchmarks</h1><p>{machine}. Ratios are measured in one run, interleaved, medians of several rounds.</p>
{body}
</html>
"""


def _section(run: Run, report: Path) -> str:
    verdicts = {verdict.bar.field: verdict for verdict in run.verdicts}
    rows = []
    for name, value in flat(run.result):
        verdict = verdicts.pop(name, None)
        rows.append(_row(name, shown(value), verdict))
    rows += [_row(name, "-", verdict) for name, verdict in verdicts.items()]
    told = f"<pre>{html.escape(run.error)}</pre>" if run.error else f"<table>{''.join(rows)}</table>"
    picture = f'<img src="{run.name}.png" alt="{run.name}">' if (report / f"{run.name}.png").exists() else ""
    return f"<h2>{run.name}</h2><p>{run.word}, {run.seconds:.0f} s</p>{told}{picture}"


def _row(name: str, value: str, verdict: Verdict | None) -> str:
    told = ""
    if verdict is not None:
        look = "holds" if verdict.holds else "short"
        bar = html.escape(f"{verdict.bar.relation} {verdict.bar.limit} {verdict.bar.unit}".strip())
        told = f'<span class="{look}">{bar}: {verdict.word}</span>'
    return f'<tr><td>{html.escape(name)}</td><td class="n">{html.escape(value)}</td><td>{told}</td></tr>'


def _rest(missing: list[str]) -> str:
    return f"<h2>Not there</h2><p>No module: {', '.join(missing)}.</p>" if missing else ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Run the benchmarks and write one report.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these")
    parser.add_argument("--strict", action="store_true", help="fail where a bar is not met")
    parser.add_argument("--table", action="store_true", help="print the bars as the documentation shows them")
    args = parser.parse_args()
    if args.table:
        print(as_markdown())
        return 0
    if unknown := [name for name in args.names if name not in BENCHMARKS]:
        parser.error(f"no such benchmark: {', '.join(unknown)}; there are: {', '.join(BENCHMARKS)}")
    REPORT.mkdir(parents=True, exist_ok=True)
    names, missing = present(args.names or list(BENCHMARKS))
    runs = []
    for name in names:
        say(f"{name} …")
        runs.append(run(name, REPORT))
        say(f"{name}: {runs[-1].word} ({runs[-1].seconds:.0f} s)")
    page = write_report(runs, missing, REPORT)
    say(f"report: {page.relative_to(ROOT)}")
    broken = any(run.error for run in runs)
    short = any(not verdict.holds for run in runs for verdict in run.verdicts)
    return 1 if broken or (args.strict and short) else 0


if __name__ == "__main__":
    sys.exit(main())
