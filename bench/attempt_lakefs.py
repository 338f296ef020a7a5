"""A real attempt on a real lakeFS, over a bare parallel copy of the same bytes from and to the same server.

The bare copy is what nobody can avoid without a cache: every object downloaded to a file by as many threads as we use,
and the changed ones uploaded. Ours does that and all the rest: workspace, verification, change detection, staging
branch, both fences, merge under the hard fence, completion, cleanup. Cold starts with an empty cache, warm with what an
earlier attempt has left in it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import urllib3
from pydantic import BaseModel
from tools.servers import Server, lakefs_server

from bench import harness
from headgate.attempts.kept import KeepFailed, KeepLimits
from headgate.attempts.lake_store import lake_opener
from headgate.attempts.lifecycle import run_attempt
from headgate.attempts.runtime import AttemptOptions, Runtime
from headgate.ids import ULIDS
from headgate.lake.cache import Cache
from headgate.lake.interface import MAIN, Changes, LocalFile
from headgate.lake.lakefs import Endpoint, LakeFSLake
from headgate.lake.lakefs.lake import TRANSFERS
from headgate.orchestrators.local import LocalOrchestrator
from headgate.publication import Ref
from headgate.tasks import TaskDeclaration, task, task_of

_BLOCK = 1 << 20


class Params(BaseModel):
    changed: int
    big: bool = False


class Result(BaseModel):
    files: int


def touch(workspace: Path, params: Params) -> Result:
    """Change the first files; a big one by a byte more at its end."""
    names = sorted(file.name for file in workspace.iterdir())
    for name in names[: params.changed]:
        with (workspace / name).open("ab") as file:
            file.write(os.urandom(1))
    return Result(files=len(names))


TOUCH: TaskDeclaration = task_of(task(name="touch", workspace="/")(touch))


@dataclass
class Scene:
    """A repository on the server, and everything an attempt on it needs, below one folder."""

    server: Server
    lake: LakeFSLake
    folder: Path
    repository: str
    base: Ref
    paths: list[str]
    orchestrator: LocalOrchestrator
    _pool: urllib3.PoolManager = field(init=False)

    def __post_init__(self) -> None:
        keys = urllib3.make_headers(basic_auth=f"{self.server.access_key}:{self.server.secret_key}")
        self._pool = urllib3.PoolManager(maxsize=TRANSFERS, headers=keys)

    @property
    def workspaces(self) -> Path:
        return self.folder / "work"

    def lake_on(self, cache: Path) -> LakeFSLake:
        return LakeFSLake(self.lake.client.endpoint, fence="hard", cache=Cache(cache))

    def target(self) -> str:
        name = f"target-{ULIDS.new().lower()}"
        self.lake.create_branch(self.repository, name, at=self.base)
        return name

    def attempt(self, lake: LakeFSLake, *, changed: int) -> Callable[[], None]:
        """An attempt that is polled and ready to run, on a target of its own."""
        runtime = Runtime(
            orchestrator=self.orchestrator,
            stores={"workspace": lake_opener(lambda block: lake)},
            options=AttemptOptions(workspace_root=self.workspaces, keep=KeepLimits(mode=KeepFailed.NONE)),
        )
        block = {"repository": self.repository, "branch": self.target(), "ref_type": "commit", "ref": self.base}
        submitted = self.orchestrator.submit(TOUCH.name, {"workspace": block, "params": {"changed": changed}})
        polled = self.orchestrator.poll(TOUCH.name, workflow=submitted.workflow)
        assert polled is not None

        def run() -> None:
            report = run_attempt(runtime, TOUCH, polled)
            assert report.ok, report.reason
            assert report.strength == "hard"

        return run

    def bare(self, *, changed: int) -> None:
        """Every object to a file, the changed ones back: as fast as the same library does it with nothing else.

        The files lie beside the workspaces, so that both copies have the same luck with the disk.
        """
        branch, into = self.target(), Path(tempfile.mkdtemp(dir=self.workspaces))
        root = f"{self.server.url}/api/v1/repositories/{self.repository}"

        def down(path: str) -> None:
            got = self._pool.request(
                "GET", f"{root}/refs/{self.base}/objects?path={quote(path, safe='')}", preload_content=False
            )
            with (into / path).open("wb") as file:
                shutil.copyfileobj(got, file, _BLOCK)
            got.release_conn()

        def up(path: str) -> None:
            file = into / path
            size = {"Content-Length": str(file.stat().st_size), "Content-Type": "application/octet-stream"}
            url = f"{root}/branches/{branch}/objects?path={quote(path, safe='')}"
            with file.open("rb") as body:
                answer = self._pool.request("POST", url, body=body, headers={**self._pool.headers, **size})
            assert answer.status == 201, answer.data

        with ThreadPoolExecutor(TRANSFERS) as pool:
            list(pool.map(down, self.paths))
            list(pool.map(up, self.paths[:changed]))
        shutil.rmtree(into)


def scene(server: Server, lake: LakeFSLake, folder: Path, orchestrator: LocalOrchestrator, sizes: list[int]) -> Scene:
    """A repository with one commit of random files that carries the fence."""
    repository = f"bench-{ULIDS.new().lower()}"
    lake.create_repository(repository)
    source = Path(tempfile.mkdtemp(dir=folder))
    puts = {}
    for number, size in enumerate(sizes):
        file = source / f"{number:06d}.bin"
        with file.open("wb") as out:
            for at in range(0, size, _BLOCK):
                out.write(os.urandom(min(_BLOCK, size - at)))
        puts[file.name] = LocalFile(file)
    staging = f"headgate-staging-{ULIDS.new().lower()}"
    empty = lake.head(repository, MAIN).ref
    lake.create_branch(repository, staging, at=empty)
    lake.commit(repository, staging, Changes(puts=puts), message="as it began")
    base = lake.merge(repository, staging, MAIN, expected_head=empty, message="as it began")
    lake.delete_branch(repository, staging)
    shutil.rmtree(source)
    return Scene(server, lake, folder, repository, base, sorted(puts), orchestrator)


def measure(args: argparse.Namespace) -> harness.Result:
    with lakefs_server() as server, tempfile.TemporaryDirectory(prefix="headgate-bench-") as name:
        folder = Path(name)
        at = Endpoint(url=server.url, access_key_id=server.access_key, secret_access_key=server.secret_key)
        orchestrator = LocalOrchestrator(folder / "orchestrator.db")
        with LakeFSLake(at, fence="hard") as lake:
            result = many(scene(server, lake, folder, orchestrator, [args.size] * args.files), args)
            result |= single(scene(server, lake, folder, orchestrator, [args.size]), args)
            if args.big:
                result |= big(scene(server, lake, folder, orchestrator, [args.big << 20]), args)
        orchestrator.close()
    return result


def many(scene: Scene, args: argparse.Namespace) -> harness.Result:
    times: dict[str, list[float]] = {"bare": [], "cold": [], "warm": []}
    requests = 0
    for number in range(args.rounds):
        cache = scene.folder / f"cache-{number}"
        with scene.lake_on(cache) as lake:
            lake.strength(scene.repository)
            times["cold"].append(harness.seconds(scene.attempt(lake, changed=args.changed)))
            run = scene.attempt(lake, changed=args.changed)
            before = lake.client.requests
            times["warm"].append(harness.seconds(run))
            requests = lake.client.requests - before
        times["bare"].append(harness.seconds(lambda: scene.bare(changed=args.changed)))
    told = harness.medians(times)
    return {
        "files": args.files,
        "ratio_cold": harness.ratio(times, "cold", "bare"),
        "ratio_warm": harness.ratio(times, "warm", "bare"),
        "cold_s": round(told["cold"], 3),
        "warm_s": round(told["warm"], 3),
        "bare_s": round(told["bare"], 3),
        "requests_warm": requests,
        "peak_rss_mb": harness.peak_rss_mb(),
    }


def single(scene: Scene, args: argparse.Namespace) -> harness.Result:
    with scene.lake_on(scene.folder / "cache-one") as lake:
        lake.strength(scene.repository)
        times = [harness.seconds(scene.attempt(lake, changed=1)) for _ in range(args.rounds + 2)]
    return {"one_file_s": round(harness.medians({"one": times})["one"], 4)}


def big(scene: Scene, args: argparse.Namespace) -> harness.Result:
    times: dict[str, list[float]] = {"bare": [], "ours": []}
    with scene.lake_on(scene.folder / "cache-big") as lake:
        lake.strength(scene.repository)
        for _ in range(max(1, args.rounds // 2)):
            for name, run in (("ours", scene.attempt(lake, changed=1)), ("bare", lambda: scene.bare(changed=1))):
                os.sync()  # what the one before wrote is not left for this one to wait for
                times[name].append(harness.seconds(run))
    told = harness.medians(times)
    return {
        "big_file_ratio": harness.ratio(times, "ours", "bare"),
        "big_file_s": round(told["ours"], 2),
        "big_bare_s": round(told["bare"], 2),
    }


if __name__ == "__main__":
    harness.main(
        measure,
        name="attempt_lakefs",
        about="A real attempt on a real lakeFS, over a bare parallel copy from and to the same server.",
        arguments=[
            harness.argument("--files", 1000, "files in the workspace"),
            harness.argument("--size", 10240, "bytes of each"),
            harness.argument("--changed", 10, "files the body changes"),
            harness.argument("--rounds", 5, "times each is run"),
            harness.argument("--big", 1024, "megabytes of the one big file; 0 leaves it out"),
        ],
    )
