"""Bringing the fence to a repository's targets, looking at it, taking it away: what operators do, and doctor shows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from headgate.errors import Transient
from headgate.ids import ULIDS, IdSource
from headgate.lake.interface import STAGING_PREFIX, Change
from headgate.lake.lakefs import hook
from headgate.lake.lakefs.answers import error_of
from headgate.lake.lakefs.api import Api
from headgate.lake.lakefs.fence import Fence
from headgate.lake.lakefs.gate import Gate, GateState, targets
from headgate.lake.lakefs.proof import Proofs
from headgate.publication import CommitMetadata, PublishId, Ref

ATTEMPT_PREFIX = f"{STAGING_PREFIX}staging-"
FENCE_PREFIX = f"{STAGING_PREFIX}fence-"
ORCHESTRATOR = "headgate:fence"
"""Stands in the metadata of our own commits: no orchestrator has this id, so that no attempt ever replaces them."""

ACTIONS_CACHE_SECONDS = 8.0
"""How long a server may go on with the hooks it read before, for commits made on the branch itself."""


class HookState(StrEnum):
    OURS = "in place"
    OLDER = "older"
    NEWER = "newer"
    CHANGED = "changed"
    ABSENT = "absent"


@dataclass(frozen=True, kw_only=True)
class TargetStatus:
    branch: str
    hook: HookState
    gate: GateState
    dirty: tuple[str, ...] = ()
    """The first uncommitted paths: nothing can be published while there are any."""
    protected: bool = False


@dataclass(frozen=True, kw_only=True)
class FenceStatus:
    repository: str
    server: str
    proved: bool
    """Whether the server refused a deliberately stale merge."""
    targets: tuple[TargetStatus, ...]
    without_hook: tuple[str, ...]
    """Branches whose merges the fence does not see, since hooks are read from a merge's source."""


class Installing:
    """The fence of one repository."""

    def __init__(
        self, api: Api, repository: str, *, ids: IdSource = ULIDS, wait: Callable[[float], None] = time.sleep
    ) -> None:
        self._api, self.repository, self._ids, self._wait = api, repository, ids, wait
        self._fence = Fence(api, ids=ids)

    def install(self, branch: str) -> Ref | None:
        """Bring the hook to a target, through a branch and a merge; None if it was there. Then direct commits end."""
        self._refuse_while_attempts_run(branch)
        Gate(self._api, self.repository, branch, ids=self._ids).register()
        head = self._api.branch(self.repository, branch)
        if self.hook_at(head) is HookState.OURS:
            return None
        merged = self._through_a_branch(branch, head, "Install the fence", self._put_hook)
        self._wait(ACTIONS_CACHE_SECONDS)
        return merged

    def remove(self, branch: str) -> Ref | None:
        """Take the hook off a target; None if there was none. Publishes still carry it, unless the fence is soft."""
        self._refuse_while_attempts_run(branch)
        head = self._api.branch(self.repository, branch)
        if self.hook_at(head) is HookState.ABSENT:
            return None
        return self._through_a_branch(branch, head, "Remove the fence", self._delete_hook)

    def status(self) -> FenceStatus:
        """What is in force, found out by trying. Makes the branch of gate records if there is none."""
        proved = Proofs(self._api, ids=self._ids).holds(self.repository)
        default = self._api.default_branch(self.repository)
        known = sorted({default, *targets(self._api, self.repository)})
        protected = self._api.protected_patterns(self.repository)
        at = {branch.name: branch.ref for branch in self._api.branches(self.repository)}
        hooks: dict[Ref, HookState] = {}
        for name, ref in at.items():
            if not name.startswith(STAGING_PREFIX) and ref not in hooks:
                hooks[ref] = self.hook_at(ref)
        return FenceStatus(
            repository=self.repository,
            server=self._api.client.name,
            proved=proved,
            targets=tuple(
                TargetStatus(
                    branch=name,
                    hook=hooks[at[name]],
                    gate=Gate(self._api, self.repository, name).state(),
                    dirty=tuple(change.path for change in self._some_uncommitted(name)),
                    protected=any(_matches(pattern, name) for pattern in protected),
                )
                for name in known
                if name in at and not name.startswith(STAGING_PREFIX)
            ),
            without_hook=tuple(
                name
                for name, ref in at.items()
                if not name.startswith(STAGING_PREFIX) and hooks[ref] is not HookState.OURS
            ),
        )

    def hook_at(self, ref: str) -> HookState:
        """How the hook at a ref compares with ours."""
        found = self._api.find_object(self.repository, ref, hook.PATH)
        if found is None:
            return HookState.ABSENT
        data = self._api.read_object(self.repository, ref, hook.PATH)
        if data == hook.BYTES:
            return HookState.OURS
        protocol = hook.protocol_of(data)
        if protocol is None or protocol == hook.PROTOCOL:
            return HookState.CHANGED
        return HookState.NEWER if protocol > hook.PROTOCOL else HookState.OLDER

    def collect(self) -> int:
        """Delete the gate records that a later one has closed; how many there were."""
        return sum(Gate(self._api, self.repository, name).collect() for name in targets(self._api, self.repository))

    # ---------------------------------------------------------------------------------------------------------------
    def _some_uncommitted(self, branch: str) -> Iterator[Change]:
        for _, change in zip(range(3), self._api.uncommitted(self.repository, branch), strict=False):
            yield change

    def _refuse_while_attempts_run(self, branch: str) -> None:
        staging = next(iter(self._api.branches(self.repository, prefix=ATTEMPT_PREFIX)), None)
        if staging is not None:
            raise Transient(
                message=f"an attempt on {self.repository} is staging ({staging.name}): {branch} is left as it is",
                hint="wait for it to end; `headgate gc` takes away what a dead worker left",
            )

    def _through_a_branch(self, target: str, head: Ref, message: str, change: Callable[[str], None]) -> Ref:
        name = f"{FENCE_PREFIX}{self._ids.new().lower()}"
        metadata = CommitMetadata(
            publish_id=PublishId(name),
            expected_head=head,
            orchestrator=ORCHESTRATOR,
            workflow=message,
            reference_task="",
            task_id=name,
        ).to_map()
        answer = self._api.create_branch(self.repository, name, at=head)
        if answer.status != 201:
            raise error_of(answer, doing=f"create {name}", server=self._api.client.name, kind="branch", name=name)
        try:
            change(name)
            answer = self._api.commit(self.repository, name, message=message, metadata=metadata)
            if answer.status != 201:
                raise error_of(answer, doing=f"commit on {name}", server=self._api.client.name)
            return self._fence.merge(
                self.repository,
                name,
                target,
                expected_head=head,
                message=message,
                metadata=metadata,
                squash=True,
                publisher=None,
                timeout=None,
                hard=False,
            )
        finally:
            self._api.delete_branch(self.repository, name)

    def _put_hook(self, branch: str) -> None:
        answer = self._api.put_object(self.repository, branch, hook.PATH, hook.BYTES, size=len(hook.BYTES))
        if answer.status != 201:
            raise error_of(answer, doing=f"write {hook.PATH}", server=self._api.client.name)

    def _delete_hook(self, branch: str) -> None:
        self._api.delete_objects(self.repository, branch, [hook.PATH])


def _matches(pattern: str, branch: str) -> bool:
    """lakeFS's protection patterns are globs."""
    from fnmatch import fnmatchcase

    return fnmatchcase(branch, pattern)
