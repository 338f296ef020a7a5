"""A branch that an attempt merges into its target: staged, fenced and published as any other change.

Nothing is downloaded. The merge is made on a branch of its own, to see what it changes; that becomes one commit on the
staging branch, on top of the input ref, and is published as any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from headgate.attempts.cleanup import Cleanup
from headgate.attempts.lake_store import LakeStore
from headgate.attempts.names import StagingName
from headgate.errors import Conflict, InvalidInput, NothingChanged
from headgate.failpoints import Failpoint, failpoint
from headgate.ids import ULIDS
from headgate.lake.interface import STAGING_PREFIX, SharedLake
from headgate.publication import CommitMetadata, Ref

SOURCE = "source"
"""The field of the params that names the branch to be merged."""


@dataclass(frozen=True, kw_only=True)
class BranchToMerge:
    """What the body gets for its `workspace`: which branch is merged, and its head."""

    source: str
    source_ref: Ref


class MergeStore(LakeStore):
    """One merge of one attempt."""

    _merging: BranchToMerge
    _cleanup: Cleanup
    _trial: StagingName

    def open(self, cleanup: Cleanup) -> BranchToMerge:
        source = _source_in(self._request.attempt.input)
        if source == self._block.branch or source.startswith(STAGING_PREFIX):
            raise InvalidInput(
                message=f"the branch {source!r} cannot be merged into {self._block.branch!r}",
                hint="name another branch in params.source",
            )
        self._cleanup, self._trial = cleanup, replace(self._request.name, execution=ULIDS.new())
        self._lake.commit_at(self._block.repository, self._block.input_ref)
        ref = self._lake.head(self._block.repository, source).ref
        self._merging = BranchToMerge(source=source, source_ref=ref)
        return self._merging

    def check_before(self) -> None:
        return

    def check_after(self) -> None:
        return

    def changes(self) -> Sequence[str]:
        """Merge on a branch of its own, which the publication is then made from."""
        repository, trial = self._block.repository, str(self._trial)
        self._make_branch(self._cleanup, self._trial)
        failpoint(Failpoint.ATTEMPT_STAGING_CREATED)
        if isinstance(self._lake, SharedLake):
            # An input ref may be older than the fence, and what is published from has to carry it.
            with suppress(NothingChanged):
                self._lake.commit_staged(repository, trial, message="The fence", metadata={})
        try:
            merged = self._lake.merge(
                repository,
                self._merging.source,
                trial,
                expected_head=self._lake.head(repository, trial).ref,
                message=self._message(),
            )
        except NothingChanged:
            return []
        if self._lake.head(repository, self._merging.source).ref != self._merging.source_ref:
            raise Conflict(
                message=f"the branch {self._merging.source} moved while it was merged",
                hint="nothing was published; the orchestrator hands the task out again",
            )
        found = self._lake.diff(repository, self._block.input_ref, merged)
        return [f"{change.kind} {change.path}" for change in found]

    def stage(self, cleanup: Cleanup, metadata: CommitMetadata) -> None:
        """One commit on top of the input ref, with what the publication says about itself."""
        self._make_branch(cleanup)
        self._lake.merge(
            self._block.repository,
            str(self._trial),
            self._branch,
            expected_head=self._block.input_ref,
            message=self._message(),
            metadata=metadata.to_map(),
        )


def _source_in(task_input: Mapping[str, Any]) -> str:
    return str(task_input["params"][SOURCE])
