"""A whole attempt on the embedded lake, body excluded, over a plain parallel copy of the same files.

The copy takes all files in and the changed ones out, as an attempt does, and makes no promise about a crash. `cold`
means that neither side's files are in the system's cache, `warm` that both are.

The warm ratios are measured in memory where there is a memory file system, and on the disk beside it (`disk`). A
disk's own mood moves them up and down: ext4, for one, takes several times as long to make ten thousand files where as
many were just removed, whoever makes them. Everything else is measured on the disk. The growth is that of committing
ten changed files in a repository of 100,000 over one of 1,000. The memory is that of an attempt on 5 GiB in 10,000
files, in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel

from bench import harness
from bench.commit_growth import measure_growth
from headgate.attempts.kept import KeepFailed, KeepLimits
from headgate.attempts.lake_store import lake_opener
from headgate.attempts.lifecycle import run_attempt
from headgate.attempts.records import AttemptRecords
from headgate.attempts.report import AttemptReport
from headgate.attempts.runtime import AttemptOptions, Runtime
from headgate.lake import Changes, EmbeddedLake, Source
from headgate.orchestrators.engine import TaskRule
from headgate.orchestrators.local import LocalOrchestrator
from headgate.tasks import task, task_of

REPOSITORY = "bench"
IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else ""
_COPIERS = min(32, (os.cpu_count() or 1) * 4)


class Params(BaseModel):
    changed: int
    size: int


class Nothing(BaseModel):
    pass


@task(workspace="/")
def change(workspace: Path, params: Params) -> Nothing:
    """Give the first so many files new bytes."""
    for path in sorted(path for path in workspace.rglob("*") if path.is_file())[: params.changed]:
        path.write_bytes(os.urandom(params.size))
    return Nothing()


class Bench:
    """A lake with one repository of `files` files, and what attempts on it need."""

    def __init__(self, folder: Path, *, files: int, size: int, distinct: int | None = None) -> None:
        self.folder, self.size, self.files = folder, size, files
        self.lake = EmbeddedLake(folder / "lake", create=True)
        self.lake.create_repository(REPOSITORY)
        contents = [os.urandom(size) for _ in range(min(files, distinct or files))]
        puts: dict[str, Source] = {name(n): contents[n % len(contents)] for n in range(files)}
        self.lake.commit(REPOSITORY, "main", Changes(puts=puts), message="as it began")
        self.orchestrator = LocalOrchestrator(folder / "orchestrator.db")
        self.records = AttemptRecords(folder / "attempts.db")
        self.runtime = Runtime(
            orchestrator=self.orchestrator,
            stores={"workspace": lake_opener(lambda block: self.lake)},
            options=AttemptOptions(workspace_root=folder / "work", keep=KeepLimits(mode=KeepFailed.NONE)),
            records=self.records,
        )

    def attempt(self, changed: int) -> AttemptReport:
        declaration = task_of(change)
        ref = self.lake.head(REPOSITORY, "main").ref
        block = {"repository": REPOSITORY, "branch": "main", "ref_type": "commit", "ref": ref}
        task_input = {"workspace": block, "params": {"changed": changed, "size": self.size}}
        self.orchestrator.submit(declaration.name, task_input, retry=TaskRule(count=0))
        polled = self.orchestrator.poll(declaration.name)
        assert polled is not None
        report = run_attempt(self.runtime, declaration, polled)
        assert report.ok, report.reason
        return report

    def close(self) -> None:
        self.lake.close()
        self.orchestrator.close()
        self.records.close()


def name(number: int) -> str:
    return f"part-{number // 1000:03}/{number:06}.bin"


def without_body(report: AttemptReport) -> float:
    return report.seconds - sum(seconds for step, seconds in report.phases if step == "body")


class PlainCopy:
    """What the attempt is measured against."""

    def __init__(self, folder: Path, *, files: int, size: int, changed: int) -> None:
        self._source, self._work, self._out = folder / "source", folder / "copied", folder / "out"
        self._names = [name(number) for number in range(files)]
        self._changed = self._names[:changed]
        for path in self._names:
            (self._source / path).parent.mkdir(parents=True, exist_ok=True)
            (self._source / path).write_bytes(os.urandom(size))

    @property
    def source(self) -> Path:
        return self._source

    def run(self) -> float:
        """Removes what it made, as an attempt does: ext4 is slow to make files where some were just removed."""

        def copy() -> None:
            for parent in {str(Path(path).parent) for path in self._names}:
                (self._work / parent).mkdir(parents=True)
                (self._out / parent).mkdir(parents=True)
            with ThreadPoolExecutor(_COPIERS) as pool:
                list(pool.map(lambda path: shutil.copyfile(self._source / path, self._work / path), self._names))
                list(pool.map(lambda path: shutil.copyfile(self._work / path, self._out / path), self._changed))

        taken = harness.seconds(copy)
        for folder in (self._work, self._out):
            shutil.rmtree(folder)
        return taken


def evict(folder: Path) -> None:
    """Put the files of a folder out of the system's cache; what is not on the disk yet stays."""
    for parent, _, names in os.walk(folder):
        for file in names:
            fd = os.open(Path(parent, file), os.O_RDONLY)
            try:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(fd)


@contextmanager
def scratch(folder: str) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="headgate-bench-", dir=folder or None))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def measure(args: argparse.Namespace) -> harness.Result:
    if args.child:
        with scratch(args.folder) as folder:
            return memory_of_one(folder, gib=args.memory_gib)
    with scratch(args.folder) as folder:
        on_disk = ratios(folder, args, rounds=3 if IN_MEMORY else args.rounds)
    result = dict(on_disk)
    if IN_MEMORY:
        with scratch(IN_MEMORY) as folder:
            result = ratios(folder, args, rounds=args.rounds)
        # Memory is never cold.
        result |= {"ratio_cold": on_disk["ratio_cold"], "disk": on_disk}
    with scratch(args.folder) as folder:
        result |= one_file(folder)
    with scratch(args.folder) as folder:
        result |= measure_growth(folder)
    harness.say(f"memory of an attempt on {args.memory_gib:g} GiB …")
    command = [sys.executable, "-m", "bench.attempt_embedded", "--child", "--json"]
    command += ["--memory-gib", str(args.memory_gib), "--folder", args.folder]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result |= json.loads(done.stdout.splitlines()[-1])
    return result


def ratios(folder: Path, args: argparse.Namespace, *, rounds: int) -> harness.Result:
    harness.say(f"a lake of {args.files:,} files of {args.size:,} bytes in {folder} …")
    bench = Bench(folder, files=args.files, size=args.size)
    copy = PlainCopy(folder, files=args.files, size=args.size, changed=args.changed)
    kinds = ("cold_copy", "cold", "copy", "warm", "unchanged")
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    steps: dict[str, list[float]] = {}
    bench.attempt(args.changed)
    for round_ in range(rounds):
        harness.say(f"round {round_ + 1} of {rounds}")
        for kind in kinds if round_ % 2 else reversed(kinds):
            os.sync()  # what the one before wrote is not left for this one to wait for
            if kind.startswith("cold"):
                evict(bench.folder / "lake")
                evict(copy.source)
            if kind.endswith("copy"):
                times[kind].append(copy.run())
                continue
            if kind == "cold":
                bench.lake.close()
                bench.lake = EmbeddedLake(bench.folder / "lake")
            report = bench.attempt(0 if kind == "unchanged" else args.changed)
            times[kind].append(without_body(report))
            if kind == "warm":
                for step, seconds in report.phases:
                    steps.setdefault(step, []).append(seconds)
    bench.close()
    return {
        "ratio_cold": harness.ratio(times, "cold", "cold_copy"),
        "ratio_warm": harness.ratio(times, "warm", "copy"),
        "ratio_unchanged": harness.ratio(times, "unchanged", "copy"),
        "seconds": {kind: round(median, 4) for kind, median in harness.medians(times).items()},
        "steps_ms": {step: round(statistics.median(taken) * 1000, 2) for step, taken in steps.items()},
    }


def one_file(folder: Path, *, attempts: int = 60) -> harness.Result:
    bench = Bench(folder, files=1, size=1024)
    taken = [without_body(bench.attempt(1)) for _ in range(attempts)][5:]
    bench.close()
    return {"one_file_ms": round(statistics.median(taken) * 1000, 2)}


def memory_of_one(folder: Path, *, gib: float, files: int = 10_000) -> harness.Result:
    """The most memory this process has held after one attempt on so many gibibytes.

    A hundred different contents make up all the files: what is streamed is the same, and the lake is made faster.
    """
    bench = Bench(folder, files=files, size=int(gib * 2**30 / files), distinct=100)
    bench.attempt(10)
    bench.close()
    return {"peak_rss_mb": high_water_mb()}


def high_water_mb() -> float:
    """Of this process alone: what `getrusage` says may be inherited from the one that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    [peak] = [line.split()[1] for line in lines if line.startswith("VmHWM")]
    return round(int(peak) / 1024, 1)


if __name__ == "__main__":
    harness.main(
        measure,
        name="attempt_embedded",
        about="a whole attempt over a plain copy",
        arguments=[
            harness.argument("--files", 10_000, "files in the workspace"),
            harness.argument("--size", 10_240, "bytes of each"),
            harness.argument("--changed", 100, "files the body changes"),
            harness.argument("--rounds", 5, "rounds, each with every kind of run"),
            harness.argument("--memory-gib", 5.0, "size of the workspace whose memory is measured"),
            harness.argument("--folder", "", "where to work; a temporary folder"),
            harness.argument("--child", False, "measure the memory of one attempt only"),
        ],
    )
