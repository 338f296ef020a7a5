"""A workspace whose body is given paths for Spark: on a shared lake at the lake itself, else in a local folder.

On a shared lake nothing is downloaded: executors read the input ref and write on the staging branch, which is made
before the body. Locally there are two trees, one to read and one to write, so that a body may overwrite what it reads
on either lake. Everything from the first fence after the body on is the same as for any other workspace.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from headgate.attempts.cleanup import Cleanup
from headgate.attempts.lake_store import LakeStore, Watch
from headgate.attempts.spark_paths import SparkPaths, is_dropped
from headgate.attempts.stores import AttemptStore, StoreRequest
from headgate.attempts.workspace import disk_told
from headgate.errors import Problem, Transient, Unsupported
from headgate.failpoints import Failpoint, failpoint
from headgate.lake.interface import Change, ChangeKind, FileStat, Lake, SharedLake
from headgate.lake.paths import key_problem
from headgate.lake.workspace import Baseline, Recorded, refuse, settle, unselected, unusable
from headgate.publication import CommitMetadata, Decision, Move
from headgate.tasks.guardrails import ChecksNames
from headgate.tasks.io import WorkspaceBlock
from headgate.tasks.paths import files_below
from headgate.tasks.protocols import SparkProvider
from headgate.telemetry import SILENT, Recorder

INPUT = "input"
"""The folder beside the workspace's own in which Spark reads the input ref."""


def open_for_spark(
    lake: Lake,
    request: StoreRequest,
    block: WorkspaceBlock,
    watch: Watch,
    spark: SparkProvider | None,
    recorder: Recorder = SILENT,
) -> AttemptStore:
    """The store of a Spark workspace, for the kind of lake it is on."""
    if isinstance(lake, SharedLake):
        return SharedSparkStore(lake, request, block, watch, spark, recorder)
    return LocalSparkStore(lake, request, block, watch, recorder)


class LocalSparkStore(LakeStore):
    """Downloaded as for any body; Spark reads a twin of what it writes."""

    def open(self, cleanup: Cleanup) -> SparkPaths:
        root: Path = super().open(cleanup)
        if self._spec.read_only:
            return SparkPaths(read=f"file://{root}", write=None, selection=self._selection)
        assert self._baseline is not None
        twin = self._request.workspace.folder / INPUT
        with disk_told(twin):
            self._baseline = _twinned(root, twin, self._baseline)
        return SparkPaths(read=f"file://{twin}", write=f"file://{root}", selection=self._selection)

    def check_after(self) -> None:
        """Guardrails see what is to be published: without Spark's notes."""
        assert self._baseline is not None
        root = self._request.workspace.root
        for path in files_below(root):
            if path not in self._baseline.files and is_dropped(path, self._selection):
                (root / path).unlink()
        super().check_after()


def _twinned(root: Path, into: Path, baseline: Baseline) -> Baseline:
    """Make `into` hold the files of `root`, and record them anew: a link changes a file's times.

    Links are enough, since Spark writes new files and never into one that is there.
    """
    into.mkdir()
    folders = {""}
    files = {}
    for path, recorded in baseline.files.items():
        folder = path.rpartition("/")[0]
        if folder not in folders:
            (into / folder).mkdir(parents=True, exist_ok=True)
            folders.add(folder)
        try:
            (into / path).hardlink_to(root / path)
        except OSError:
            shutil.copyfile(root / path, into / path)
        files[path] = Recorded(FileStat.of((root / path).stat()), recorded.digest)
    return replace(baseline, files=files, settled_ns=settle(root))


class SharedSparkStore(LakeStore):
    """Read at the input ref and written on the staging branch by Spark itself."""

    def __init__(
        self,
        lake: SharedLake,
        request: StoreRequest,
        block: WorkspaceBlock,
        watch: Watch,
        spark: SparkProvider | None,
        recorder: Recorder = SILENT,
    ) -> None:
        super().__init__(cast("Lake", lake), request, block, watch, recorder)
        self._shared, self._spark = lake, spark
        self._restored: list[Change] = []
        self._differences: list[Change] = []

    # before the body
    def open(self, cleanup: Cleanup) -> SparkPaths:
        repository, ref = self._block.repository, self._block.input_ref
        self._lake.commit_at(repository, ref)
        if self._spark is not None:
            self._spark.reach(self._shared.s3a_options(repository))
        return SparkPaths(
            read=f"s3a://{repository}/{ref}",
            write=None if self._spec.read_only else f"s3a://{repository}/{self._branch}",
            selection=self._selection,
            listed=self._names_below,
        )

    def check_before(self) -> None:
        self._names_only(self._spec.post)
        if self._spec.pre:
            _check_names(self._names_only(self._spec.pre), sorted(self._selected()))

    @property
    def stages_in_body(self) -> bool:
        return not self._spec.read_only

    def begin(self, cleanup: Cleanup) -> None:
        self._make_branch(cleanup)
        failpoint(Failpoint.ATTEMPT_STAGING_CREATED)

    # after the body
    def check_after(self) -> None:
        if not self._spec.post:
            return
        names = set(self._selected())
        if not self._spec.read_only:
            self._look()
            for change in self._differences:
                (names.discard if change.kind is ChangeKind.REMOVED else names.add)(change.path)
        _check_names(self._names_only(self._spec.post), sorted(names))

    def changes(self) -> Sequence[str]:
        if self._spec.read_only:
            return []
        self._look()
        return [f"{change.kind} {change.path}" for change in self._differences]

    def _look(self) -> None:
        """Sort what is on the staging branch into what is published and what is put back; refuse the rest by name.

        Only what the task selects is ever changed: a folder that Spark overwrote keeps the files that are not the
        task's, as it does in a local workspace, where they never were.
        """
        problems: list[Problem] = []
        self._restored, self._differences = [], []
        for change in self._shared.staged(self._block.repository, self._branch):
            path = change.path
            if is_dropped(path, self._selection):
                self._restored.append(change)
            elif self._takes(path):
                if (problem := key_problem(path)) is not None:
                    problems.append(unusable(path, problem))
                self._differences.append(change)
            elif change.kind is ChangeKind.REMOVED:
                self._restored.append(change)
            else:
                problems.append(unselected(path))
        refuse(problems)

    # staging
    def stage(self, cleanup: Cleanup, metadata: CommitMetadata) -> None:
        """Commit what Spark wrote, and make sure that it is what was looked at."""
        repository = self._block.repository
        self._shared.restore_staged(repository, self._branch, self._restored)
        commit = self._shared.commit_staged(
            repository, self._branch, message=self._message(), metadata=metadata.to_map()
        )
        # A Spark task that was given up may still write, for as long as the branch is there.
        committed = {
            (change.path, change.kind) for change in self._lake.diff(repository, self._block.input_ref, commit)
        }
        looked_at = {(change.path, change.kind) for change in self._differences}
        if other := sorted(path for path, _ in committed ^ looked_at):
            raise Transient(
                message=f"something wrote on the staging branch while it was committed: {', '.join(other[:5])}",
                hint="let the body wait for all of its Spark jobs; the orchestrator hands the task out again",
            )

    def prepare(self, cleanup: Cleanup, decision: Decision) -> None:
        """The branch is there for every move; for one back to the input ref it must hold nothing else."""
        if decision.move is Move.RELOCATE:
            repository, branch = self._block.repository, self._branch
            self._shared.restore_staged(repository, branch, list(self._shared.staged(repository, branch)))

    # ---------------------------------------------------------------------------------------------------------------
    def _names_only(self, guardrails: Sequence[object]) -> list[ChecksNames]:
        """The guardrails, all of which must do without the files themselves: none is on this machine."""
        able = [guardrail for guardrail in guardrails if isinstance(guardrail, ChecksNames)]
        if len(able) < len(guardrails):
            other = next(guardrail for guardrail in guardrails if not isinstance(guardrail, ChecksNames))
            raise Unsupported(
                message=f"the guardrail {other} of task {self._request.declaration.name} opens files, and a Spark "
                "workspace on this lake has none on this machine",
                hint="use guardrails on names (require_file, require_dir, require_glob, forbid_glob), and check the "
                "data in the body with Spark",
            )
        return able

    def _takes(self, path: str) -> bool:
        return self._selection.takes(path) and not path.startswith(self._shared.own_prefix)

    def _selected(self) -> Iterator[str]:
        return (path for path in self._names_below(self._spec.prefix) if self._selection.takes(path))

    def _names_below(self, folder: str) -> Iterator[str]:
        repository, ref = self._block.repository, self._block.input_ref
        return (found.path for found in self._lake.objects(repository, ref, prefix=folder))


def _check_names(guardrails: Sequence[ChecksNames], names: Sequence[str]) -> None:
    for guardrail in guardrails:
        guardrail.check_names(names)
