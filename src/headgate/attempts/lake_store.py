"""A workspace on a lake, as the lifecycle asks for it: download, find changes, stage, publish, revoke, read back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from headgate.attempts.cleanup import Cleanup
from headgate.attempts.fence import check_current
from headgate.attempts.judging import fenced, judge
from headgate.attempts.names import StagingName, parse
from headgate.attempts.stores import AttemptStore, StoreOpener, StoreRequest
from headgate.attempts.workspace import disk_told
from headgate.errors import (
    Conflict,
    ExpectedHeadMismatch,
    Fenced,
    HeadgateError,
    InvalidInput,
    NotFound,
    Transient,
)
from headgate.failpoints import Failpoint, failpoint
from headgate.lake.interface import STAGING_PREFIX, Lake, Progress
from headgate.lake.progress import Meter, Transferred
from headgate.lake.publisher import Owner
from headgate.lake.transfer import download
from headgate.lake.workspace import Baseline, WorkspaceChanges, detect_changes
from headgate.publication import (
    CommitMetadata,
    Decision,
    Head,
    Move,
    Outcome,
    Published,
    PublishId,
    ReadBack,
    Ref,
    Strength,
    TaskState,
    Unknown,
    read_back_commit,
    read_back_head,
)
from headgate.tasks.io import WorkspaceBlock
from headgate.tasks.protocols import SparkProvider
from headgate.tasks.specs import WorkspaceSpec
from headgate.telemetry import SILENT, Recorder
from headgate.telemetry.metrics import transferred

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Staged:
    """A staging branch that was made: cleanup takes this, never a name alone."""

    repository: str
    branch: str
    commit: Ref
    """What it was made at, or was seen at."""


Watch: TypeAlias = Callable[[str], AbstractContextManager[Progress]]
"""Shows how far a transfer is while it is open; told what is transferred."""


def logged(what: str) -> AbstractContextManager[Progress]:
    """A line in the log every so often, so that a long transfer can be told from one that hangs."""

    def say(done: Transferred) -> None:
        log.info("%s: %s", what, done)

    return nullcontext(Meter(say=say))


def lake_opener(
    lakes: Callable[[WorkspaceBlock], Lake],
    *,
    watch: Watch = logged,
    spark: SparkProvider | None = None,
    recorder: Recorder = SILENT,
) -> StoreOpener:
    """Opens workspaces on the lake that `lakes` finds for an input block; `spark` reads and writes those for Spark."""

    def opened(request: StoreRequest) -> AttemptStore:
        assert isinstance(request.block, WorkspaceBlock)
        if request.block.branch.startswith(STAGING_PREFIX):
            raise InvalidInput(
                message=f"the branch {request.block.branch!r} belongs to the runtime: nothing is published to it",
                hint="name a branch of your own",
            )
        lake = lakes(request.block)
        if request.declaration.spark_workspace:
            from headgate.attempts.spark_store import open_for_spark

            return open_for_spark(lake, request, request.block, watch, spark, recorder)
        if request.declaration.merge_workspace:
            from headgate.attempts.merge_store import MergeStore

            return MergeStore(lake, request, request.block, watch, recorder)
        return LakeStore(lake, request, request.block, watch, recorder)

    return opened


class LakeStore:
    """One workspace of one attempt."""

    def __init__(
        self, lake: Lake, request: StoreRequest, block: WorkspaceBlock, watch: Watch, recorder: Recorder = SILENT
    ) -> None:
        assert request.declaration.workspace is not None
        self._recorder = recorder
        self._lake, self._request, self._block, self._watch = lake, request, block, watch
        self._spec: WorkspaceSpec = request.declaration.workspace
        self._selection = self._spec.selection
        self._baseline: Baseline | None = None
        self._changes: WorkspaceChanges | None = None
        self._branch = str(request.name)

    @property
    def strength(self) -> Strength:
        return self._lake.strength(self._block.repository)

    # before the body
    def open(self, cleanup: Cleanup) -> Any:
        """Download what the task selects; a file has the same path below the workspace as in the repository."""
        root, prefix = self._request.workspace.root, self._spec.prefix.removesuffix("/")
        into = root / prefix
        with disk_told(root):
            into.mkdir(parents=True, exist_ok=True)
        with self._watch("download") as progress:
            below = download(
                self._lake,
                self._block.repository,
                self._block.input_ref,
                into=into,
                prefix=prefix,
                # An object whose key is the prefix without its slash is not below it.
                selects=lambda path: bool(path) and self._selection.takes(f"{self._spec.prefix}{path}"),
                progress=progress,
            )
        self._recorder.record(transferred("down", "cache", below.cached_bytes))
        self._recorder.record(transferred("down", "lake", below.bytes - below.cached_bytes))
        files = {below.key(path): recorded for path, recorded in below.files.items()} if prefix else below.files
        self._baseline = replace(below, prefix="", files=files)
        return root

    def check_before(self) -> None:
        for guardrail in self._spec.pre:
            guardrail(self._request.workspace.root)

    @property
    def stages_in_body(self) -> bool:
        return False

    def begin(self, cleanup: Cleanup) -> None:
        return

    # after the body
    def check_after(self) -> None:
        for guardrail in self._spec.post:
            guardrail(self._request.workspace.root)

    def changes(self) -> Sequence[str]:
        assert self._baseline is not None
        self._changes = detect_changes(self._request.workspace.root, self._baseline, selects=self._selection.takes)
        return [f"{change.kind} {change.path}" for change in self._changes.differences]

    # staging
    def stage(self, cleanup: Cleanup, metadata: CommitMetadata) -> None:
        assert self._changes is not None
        self._make_branch(cleanup)
        failpoint(Failpoint.ATTEMPT_STAGING_CREATED)
        with self._watch("upload") as progress:
            self._lake.commit(
                self._block.repository,
                self._branch,
                self._changes.changes,
                message=self._message(),
                metadata=metadata.to_map(),
                progress=self._counted(progress),
            )

    def _counted(self, progress: Progress) -> Progress:
        def moved(files: int, size: int) -> None:
            progress(files, size)
            self._recorder.record(transferred("up", "workspace", size))

        return moved

    def revoke_predecessors(self) -> None:
        """Delete the staging branches of earlier attempts of this task, and make what is on its way decide again.

        A branch of a task id that runs and is not ours belongs to a later attempt: this one is stale then, and the
        next fence says so.
        """
        ours = self._request.name
        earlier = []
        for branch in self._lake.branches(self._block.repository, prefix=ours.task_prefix):
            name = parse(branch.name)
            if name is not None and name.execution != ours.execution and self._is_earlier(name):
                earlier.append(branch.name)
        # Also without any: a request whose branch is gone already may still be on its way.
        self._lake.revoke(self._block.repository, *earlier, target=self._block.branch)

    def _is_earlier(self, name: StagingName) -> bool:
        if name.task_id == self._request.attempt.id.task_id:
            return True
        fate = self._request.orchestrator.fate(name.workflow, name.task_id, store=self._request.key)
        return fate.state is not TaskState.RUNNING

    def _make_branch(self, cleanup: Cleanup, name: StagingName | None = None) -> None:
        """Create the execution's own branch at the input ref; owned from before it exists, as an answer may be lost."""
        branch = self._branch if name is None else str(name)
        staged = Staged(repository=self._block.repository, branch=branch, commit=self._block.input_ref)
        cleanup.callback(failpoint, Failpoint.ATTEMPT_STAGING_DELETED)
        cleanup.later(f"delete the staging branch {staged.branch}", delete_staging_branch, self._lake, staged)
        self._lake.create_branch(staged.repository, staged.branch, at=self._block.input_ref)

    # publishing
    def head(self) -> Head:
        return self._lake.head(self._block.repository, self._block.branch)

    def prepare(self, cleanup: Cleanup, decision: Decision) -> None:
        """A move back to the input ref needs a branch there; the other moves take the staging branch."""
        if decision.move is Move.RELOCATE:
            self._make_branch(cleanup)

    def publish(self, decision: Decision, metadata: CommitMetadata, *, timeout: float | None) -> Outcome:
        try:
            ref = self._update(decision, metadata, timeout)
        except ExpectedHeadMismatch as moved:
            raise self._lost_the_race(decision, moved) from moved
        except (Conflict, InvalidInput, Fenced, Transient):
            raise  # a clear refusal: the target is as it was
        except Exception as lost:
            log.warning("the answer to the %s of %s was lost: %s", decision.move, self._branch, lost)
            return _because(lost, self._read_back(decision, metadata.publish_id))
        return Published(ref=ref, strength=metadata.strength)

    def _update(self, decision: Decision, metadata: CommitMetadata, timeout: float | None) -> Ref:
        repository, target = self._block.repository, self._block.branch
        if decision.move is Move.MERGE:
            return self._lake.merge(
                repository,
                self._branch,
                target,
                expected_head=decision.expected_head,
                message=self._message(),
                metadata=metadata.to_map(),
                publisher=_AttemptPublisher(self._request),
                timeout=timeout,
            )
        assert decision.move in (Move.REPLACE, Move.RELOCATE)
        return self._lake.move_head(
            repository,
            target,
            to_branch=self._branch,
            expected_head=decision.expected_head,
            publisher=_AttemptPublisher(self._request),
            timeout=timeout,
        )

    def _read_back(self, decision: Decision, publish_id: PublishId) -> Outcome:
        """Revoke first, so that what is read after it is final."""
        repository, target = self._block.repository, self._block.branch
        try:
            self._lake.revoke(repository, self._branch, target=target)
            revoked = True
        except HeadgateError as error:
            log.warning("the %s of %s could not be revoked: %s", decision.move, self._branch, error)
            revoked = False
        asked = ReadBack(publish_id=publish_id, revoked=revoked, strength=self.strength)
        try:
            head = self._lake.head(repository, target)
            if decision.move is Move.RELOCATE:
                return read_back_head(
                    asked, head=head, wanted=self._block.input_ref, expected_head=decision.expected_head
                )
            history = (
                Head(branch=target, ref=commit.ref, parents=commit.parents, metadata=commit.metadata)
                for commit in self._lake.log(repository, head.ref)
            )
            return read_back_commit(asked, first_parents=history, input_ref=self._block.input_ref)
        except HeadgateError as error:
            return Unknown(publish_id=publish_id, reason=f"{target} could not be read back: {error.summary}")

    def _lost_the_race(self, decision: Decision, moved: ExpectedHeadMismatch) -> HeadgateError:
        now = Ref(moved.actual)
        parents: tuple[Ref, ...] = ()
        try:
            parents = self._lake.commit_at(self._block.repository, now).parents
        except NotFound:
            log.info("the head %s of %s cannot be read", now, self._block.branch)
        head = Head(branch=self._block.branch, ref=now, parents=parents)
        reason = f"its head was {decision.expected_head} when this attempt decided, and somebody moved it"
        return fenced(head, input_ref=self._block.input_ref, reason=reason)

    def _message(self) -> str:
        attempt = self._request.attempt
        return f"{attempt.reference_task}: {self._request.declaration.name} (retry {attempt.id.retry_count})"


class _AttemptPublisher:
    """What a lake may ask this attempt while it holds a target closed."""

    def __init__(self, request: StoreRequest) -> None:
        self._request = request

    @property
    def owner(self) -> Owner:
        attempt = self._request.attempt.id
        return Owner(
            orchestrator=attempt.orchestrator,
            workflow=attempt.workflow,
            task_id=attempt.task_id,
            execution=self._request.name.execution,
        )

    def still_runs(self, other: Owner) -> bool:
        if other.orchestrator != self._request.orchestrator.id:
            return False
        try:
            fate = self._request.orchestrator.fate(other.workflow, other.task_id, store=self._request.key)
        except HeadgateError:
            return False
        return fate.state is TaskState.RUNNING

    def confirm(self, head: Head) -> None:
        request, input_ref = self._request, self._request.block.input_ref
        if head.only_parent != input_ref:
            raise fenced(head, input_ref=input_ref, reason="the head is not a child of the input ref")
        verdict = judge(head, orchestrator=request.orchestrator, store=request.key, replace=request.replace)
        if not verdict.abandoned:
            raise fenced(head, input_ref=input_ref, reason=verdict.reason, status=verdict.status)
        check_current(request.orchestrator, request.attempt.id)


def _because(lost: Exception, outcome: Outcome) -> Outcome:
    """The outcome, with what became of the answer in its reason: that is what a person has to mend."""
    if isinstance(outcome, Published):
        return outcome
    told = lost.message if isinstance(lost, HeadgateError) else str(lost)
    return replace(outcome, reason=f"{outcome.reason}; {told}")


def delete_staging_branch(lake: Lake, staged: Staged) -> None:
    """Delete a staging branch that is known by repository, name and commit; a name that is no staging name is kept."""
    if parse(staged.branch) is None:
        raise ValueError(f"{staged.branch!r} is no staging branch")
    lake.delete_branch(staged.repository, staged.branch)
