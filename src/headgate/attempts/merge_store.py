"""A branch that an attempt merges into its target: staged, fenced and published as any other change.

Nothing is downloaded. The merge is made twice: on a branch of its own to see what it changes, and on the staging branch
with the metadata of the publication; what the target gets is the commit that was staged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headgate.attempts.cleanup import Cleanup
from headgate.attempts.lake_store import LakeStore
from headgate.errors import Conflict, InvalidInput, NothingChanged
from headgate.failpoints import Failpoint, failpoint
from headgate.ids import ULIDS
from headgate.lake.interface import STAGING_PREFIX
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

    def open(self, cleanup: Cleanup) -> BranchToMerge:
        source = _source_in(self._request.attempt.input)
        if source == self._block.branch or source.startswith(STAGING_PREFIX):
            raise InvalidInput(
                message=f"the branch {source!r} cannot be merged into {self._block.branch!r}",
                hint="name another branch in params.source",
            )
        self._cleanup = cleanup
        self._lake.commit_at(self._block.repository, self._block.input_ref)
        ref = self._lake.head(self._block.repository, source).ref
        self._merging = BranchToMerge(source=source, source_ref=ref)
        return self._merging

    def check_before(self) -> None:
        return

    def check_after(self) -> None:
        return

    def changes(self) -> Sequence[str]:
        trial = replace(self._request.name, execution=ULIDS.new())
        self._make_branch(self._cleanup, trial)
        failpoint(Failpoint.ATTEMPT_STAGING_CREATED)
        merged = self._merge(str(trial), {})
        if merged is None:
            return []
        found = self._lake.diff(self._block.repository, self._block.input_ref, merged)
        return [f"{change.kind} {change.path}" for change in found]

    def stage(self, cleanup: Cleanup, metadata: CommitMetadata) -> None:
        """Merge again, this time with what the publication says about itself, from the same head of the source."""
        self._make_branch(cleanup)
        self._merge(self._branch, metadata.to_map())
        if self._lake.head(self._block.repository, self._merging.source).ref != self._merging.source_ref:
            raise Conflict(
                message=f"the branch {self._merging.source} moved while it was merged",
                hint="nothing was published; the orchestrator hands the task out again",
            )

    def _merge(self, into: str, metadata: Mapping[str, str]) -> Ref | None:
        """The commit on a branch at the input ref; None if there is everything already."""
        try:
            return self._lake.merge(
                self._block.repository,
                self._merging.source,
                into,
                expected_head=self._block.input_ref,
                message=self._message(),
                metadata=metadata,
            )
        except NothingChanged:
            return None


def _source_in(task_input: Mapping[str, Any]) -> str:
    return str(task_input["params"][SOURCE])
