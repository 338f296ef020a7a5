"""Attempts killed with SIGKILL at every point they pass, retried and audited.

A kill point is a window of the lifecycle, or the moment after one write to a store. `lost` counts results that were
accepted or due and are not on the branch, `duplicated` results that are there twice, `leaked` what nobody reclaims.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from bench import harness
from headgate.testing.audit import counted
from headgate.testing.crash import WINDOWS, WRITES, CrashHarness, CrashReport
from headgate.testing.crash_jobs import JOBS
from headgate.testing.place import Place


def measure(args: argparse.Namespace) -> harness.Result:
    total = CrashReport()
    began = time.perf_counter()
    for name, job in JOBS.items():
        with tempfile.TemporaryDirectory(prefix="headgate-crash-", dir=args.folder or None) as folder:
            report = CrashHarness(Place(Path(folder)), job).run(*WINDOWS, *WRITES, kills=args.kills)
        harness.say(f"{name}: {report.runs} runs, {len(report.findings)} findings")
        for finding in report.findings:
            harness.say(f"  {finding}")
        total.add(report)
    return {
        "kill_points": len(set(total.points)),
        "runs": total.runs,
        **counted(total.findings),
        "seconds": round(time.perf_counter() - began, 1),
    }


if __name__ == "__main__":
    harness.main(
        measure,
        name="crash_attempts",
        about="kill attempts at every point and audit what is left",
        arguments=[
            harness.argument("--kills", 1, "how many attempts of each run are killed before one is let through"),
            harness.argument("--folder", "", "where to work; a temporary folder"),
        ],
    )
