"""Graph writers killed with SIGKILL after each durable write, and their recovery after each of its own.

A kill point is a job and the so-manieth write to the store, of the writer or of the recovery after it. The graph is
then opened and audited: `lost` counts published writes that are not there, `duplicated` rows that are there twice,
`half_visible` graphs that show neither all of a write nor nothing of it, `audit_missing` and `audit_double` recovered
operations without an audit row and with more than one recovery.

`open_ratio` is an open that looks for sidecars and finds none over one that does not look; `recovery_s` an open that
finishes a load of many rows whose writer was killed before its publish.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from tools.servers.proxy import FaultProxy
from tools.servers.recipes import s3_server
from tools.servers.toolchains import Unavailable

import headgate.graph as hg
from bench import harness
from bench.request_kills import RequestKills
from headgate import failpoints
from headgate.failpoints import Failpoint
from headgate.graph.recovery.writers import Writer
from headgate.testing.children import kill_this_process
from headgate.testing.graph_crash import CrashReport, GraphCrash, Workers, crash_all
from headgate.testing.graph_jobs import GRAPH, JOBS, SCHEMA, GraphJob

_BUCKET = "crash"


@contextmanager
def bucket() -> Iterator[str]:
    """The address of an empty bucket, reached by the usual variables."""
    with s3_server() as server:
        (server.data / "objects" / _BUCKET).mkdir(exist_ok=True)
        os.environ |= {
            "AWS_ACCESS_KEY_ID": str(server.access_key),
            "AWS_SECRET_ACCESS_KEY": str(server.secret_key),
            "AWS_ENDPOINT_URL": server.url,
            "AWS_REGION": "us-east-1",
        }
        yield f"s3://{_BUCKET}"


def _crash_requests(root: str, jobs: list[str], workers: Workers) -> CrashReport:
    total = CrashReport()
    for name in jobs:
        report = GraphCrash(JOBS[name], lambda: f"{root}/{uuid4().hex}", workers).run(recovery=False)
        harness.say(f"{name}, each request: {report.runs} kill points, {len(report.findings)} findings")
        for finding in report.findings:
            harness.say(f"  {finding}")
        total.add(CrashReport([replace(point, job=f"{name}, each request") for point in report.points], report.runs))
        total.findings += report.findings
    return total


def _crash(root: str, jobs: list[str], workers: Workers) -> CrashReport:
    return crash_all(jobs, lambda: f"{root}/{uuid4().hex}", workers, say=harness.say)


_PEOPLE = "HEADGATE_BENCH_ROWS"


def _load_and_die(graph: hg.Graph) -> None:
    """A load of many rows that is killed once all of its tables are committed."""
    rows = int(os.environ[_PEOPLE])
    failpoints.arm(lambda point: kill_this_process() if point is Failpoint.GRAPH_TABLES_COMMITTED else None)
    names = pa.array([f"person-{number:09d}" for number in range(rows)])
    graph.load(pa.table({"name": names, "age": pa.array(range(rows), pa.int32())}), type_name="Person")


def _speeds(folder: Path, workers: Workers, rows: int) -> harness.Result:
    place = str(folder / "speeds")
    with hg.init(place, SCHEMA) as graph:
        graph.mutate(GRAPH)
    times = harness.interleaved(
        {"plain": lambda: hg.open(place, "ro"), "sweep": lambda: hg.open(place).close()}, rounds=40
    )
    loaded = str(folder / "loaded")
    hg.init(loaded, SCHEMA).close()
    os.environ[_PEOPLE] = str(rows)
    job = GraphJob(name="load", writer=Writer.LOAD, act=_load_and_die, before=hg.Graph.close)
    if not workers.run(loaded, job, 0).killed:
        raise SystemExit("the load was not killed")
    recovery = harness.seconds(lambda: hg.open(loaded).close())
    with hg.open(loaded, "ro") as graph:
        if graph.base().rows["Person"] != rows:
            raise SystemExit("the load was not rolled forward")
    return {"open_ratio": harness.ratio(times, "sweep", "plain"), "recovery_s": round(recovery, 3), "recovered": rows}


def measure(args: argparse.Namespace) -> harness.Result:
    jobs = args.jobs.split(",") if args.jobs else list(JOBS)
    began = time.perf_counter()
    total = CrashReport()
    stores = []
    with ExitStack() as open_until_the_end:
        folder = open_until_the_end.enter_context(tempfile.TemporaryDirectory(prefix="headgate-crash-"))
        workers = Workers(Path(folder))
        speeds = _speeds(Path(folder), workers, args.rows) if args.rows else {}
        if args.store in ("", "local"):
            total.add(_crash(f"{folder}/graphs", jobs, workers))
            stores.append("local")
        if args.store in ("", "s3"):
            try:
                root = open_until_the_end.enter_context(bucket())
            except Unavailable as error:
                harness.say(f"without S3: {error}")
            else:
                total.add(_crash(root, jobs, workers))
                stores.append("s3")
                if args.requests:
                    proxy = open_until_the_end.enter_context(FaultProxy(os.environ["AWS_ENDPOINT_URL"], keep_host=True))
                    os.environ["AWS_ENDPOINT_URL"] = proxy.url
                    total.add(_crash_requests(root, args.requests.split(","), RequestKills(Path(folder), proxy)))
                    stores.append("s3, each request")
    return {
        "kill_points": len(set(total.points)),
        "runs": total.runs,
        **total.counted(),
        **speeds,
        "jobs": len(jobs),
        "stores": stores,
        "seconds": round(time.perf_counter() - began, 1),
    }


if __name__ == "__main__":
    harness.main(
        measure,
        name="crash_graph",
        about="kill graph writers and recoveries after every durable write, and audit what is left",
        arguments=[
            harness.argument("--jobs", "", "the jobs, by name; all"),
            harness.argument("--store", "", "local or s3; both"),
            harness.argument(
                "--requests", "mutate,first_write_on_a_branch", "jobs killed after each object written to S3"
            ),
            harness.argument("--rows", 1_000_000, "rows of the load whose recovery is timed; 0 times nothing"),
        ],
    )
