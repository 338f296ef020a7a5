"""The gate of a target: create-once records that close it around a move of its head.

On the branch `headgate-gates`, which is never committed to, lie the objects `<target>/<epoch>` and
`<target>/<epoch>.done`. The gate is shut while the last key under `<target>/` does not end in `.done`; the hook looks
at the same keys. A branch with any key is a target: the hook refuses direct commits on it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from headgate.errors import Contention, NotFound, Transient
from headgate.ids import ULIDS, IdSource
from headgate.lake.lakefs.answers import Refusal, error_of, refusal
from headgate.lake.lakefs.api import Api
from headgate.lake.lakefs.hook import GATES_BRANCH
from headgate.lake.publisher import Owner

POKE_PREFIX = "headgate-poke-"
_DONE = ".done"
_DIGITS = 12
_POKED = "get commit by ref"


@dataclass(frozen=True, kw_only=True)
class GateRecord:
    """Who closed a target, and the branch its head is to be moved to: deleting that branch revokes the move."""

    epoch: int
    owner: Owner
    ref: str

    def to_bytes(self) -> bytes:
        return json.dumps({**asdict(self.owner), "ref": self.ref}, sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, epoch: int, data: bytes) -> GateRecord:
        """Keys that are not known are skipped: a neighbouring version may have written more."""
        told = json.loads(data)
        names = ("orchestrator", "workflow", "task_id", "execution")
        owner = Owner(**{name: str(told.get(name, "")) for name in names})
        return cls(epoch=epoch, owner=owner, ref=str(told.get("ref", "")))


@dataclass(frozen=True, kw_only=True)
class GateState:
    """The last key of a target. A target without keys is open, at epoch 0."""

    epoch: int = 0
    shut: bool = False
    known: bool = False
    """Whether the branch is a target at all."""


def gate_state(target: str, keys: Iterable[str]) -> GateState:
    """What the keys under a target say; keys of another form are nobody's."""
    last = max((key for key in keys if _epoch_of(target, key) is not None), default=None)
    if last is None:
        return GateState()
    epoch = _epoch_of(target, last)
    assert epoch is not None
    return GateState(epoch=epoch, shut=not last.endswith(_DONE), known=True)


def keys_below(target: str, keys: Iterable[str]) -> list[str]:
    """The keys that upkeep may delete: those below the last `.done`."""
    known = sorted(key for key in keys if _epoch_of(target, key) is not None)
    last_done = max((key for key in known if key.endswith(_DONE)), default="")
    return [key for key in known if key < last_done.removesuffix(_DONE)]


def _epoch_of(target: str, key: str) -> int | None:
    digits = key.removeprefix(f"{target}/").removesuffix(_DONE)
    return int(digits) if len(digits) == _DIGITS and digits.isascii() and digits.isdecimal() else None


class Gate:
    """The gate of one target branch."""

    def __init__(self, api: Api, repository: str, target: str, *, ids: IdSource = ULIDS) -> None:
        self._api, self.repository, self.target, self._ids = api, repository, target, ids

    def state(self) -> GateState:
        return gate_state(self.target, self._keys())

    def register(self) -> None:
        """Make the branch a target: from now on the hook refuses direct commits on it."""
        ensure_gates_branch(self._api, self.repository)
        self._create(self._key(0) + _DONE, b"{}")

    def record(self, epoch: int) -> GateRecord | None:
        """The record of an epoch; None if upkeep has taken it, which it does only below a later `.done`."""
        try:
            data = self._api.read_object(self.repository, GATES_BRANCH, self._key(epoch))
        except NotFound:
            return None
        return GateRecord.from_bytes(epoch, data)

    def shut(self, owner: Owner, ref: str) -> int:
        """Close the gate under the next epoch, which is returned. `Contention` if somebody else was first.

        A key that upkeep deleted can be created again by somebody who paused: so the epoch is ours only if it is the
        last key after it was created.
        """
        before = self.state()
        if before.shut:
            raise self._lost()
        epoch = before.epoch + 1
        record = GateRecord(epoch=epoch, owner=owner, ref=ref)
        if not self._create(self._key(epoch), record.to_bytes()):
            found = self.record(epoch)
            if found is None or found.owner.execution != owner.execution:
                raise self._lost()
        if self.state() != GateState(epoch=epoch, shut=True, known=True):
            self.release(record)
            raise self._lost()
        return epoch

    def poke(self) -> None:
        """Make every update of the target that is in flight decide again. Fails closed where it cannot.

        A merge from a ref that does not exist can never merge, but the server renews the branch's staging token before
        it finds that out, and everybody's compare-and-swap depends on that token.
        """
        answer = self._api.poke(self.repository, POKE_PREFIX + self._ids.new().lower(), self.target)
        if answer.status == 404 and _POKED in answer.message:
            return
        if refusal(answer) is Refusal.DIRTY:
            raise dirty_target(self._api, self.repository, self.target)
        raise error_of(
            answer, doing=f"poke {self.target}", server=self._api.client.name, kind="branch", name=self.target
        )

    def release(self, record: GateRecord) -> None:
        """Revoke the move of a record, and open its gate. By anyone, any number of times, also while its owner runs."""
        if record.ref:
            self._api.delete_branch(self.repository, record.ref)
        self.poke()
        self.done(record.epoch)

    def done(self, epoch: int) -> None:
        self._create(self._key(epoch) + _DONE, b"{}")

    def collect(self) -> int:
        """Delete the keys below the last `.done`; how many there were."""
        old = keys_below(self.target, self._keys())
        self._api.delete_objects(self.repository, GATES_BRANCH, old)
        return len(old)

    def _key(self, epoch: int) -> str:
        return f"{self.target}/{epoch:0{_DIGITS}d}"

    def _keys(self) -> list[str]:
        return [found.path for found in self._api.objects(self.repository, GATES_BRANCH, prefix=f"{self.target}/")]

    def _create(self, key: str, data: bytes) -> bool:
        answer = self._api.put_object(self.repository, GATES_BRANCH, key, data, size=len(data), create_only=True)
        if answer.status == 201:
            return True
        if answer.status == 412:
            return False
        raise error_of(
            answer,
            doing=f"write {key} on {GATES_BRANCH}",
            server=self._api.client.name,
            kind="branch",
            name=self.target,
        )

    def _lost(self) -> Contention:
        return Contention(
            message=f"another attempt is moving the head of {self.target}",
            hint="try again: the retry decides from the head it finds then",
            tries=1,
        )


def targets(api: Api, repository: str) -> list[str]:
    """The branches of a repository that attempts publish to."""
    if api.find_branch(repository, GATES_BRANCH) is None:
        return []
    return sorted({found.path.split("/")[0] for found in api.objects(repository, GATES_BRANCH, prefix="")})


def ensure_gates_branch(api: Api, repository: str) -> None:
    """Make the branch of gate records, from the repository's first commit, if it is not there."""
    if api.find_branch(repository, GATES_BRANCH) is not None:
        return
    first = None
    for commit in api.log(repository, api.default_branch(repository), first_parent=True):
        first = commit.ref
    assert first is not None
    answer = api.create_branch(repository, GATES_BRANCH, at=first)
    if answer.status not in (201, 409):
        raise error_of(answer, doing=f"create {GATES_BRANCH}", server=api.client.name, kind="branch", name=GATES_BRANCH)


def dirty_target(api: Api, repository: str, branch: str) -> Transient:
    """The error for a target with uncommitted changes; it names the first of them."""
    some = [change.path for _, change in zip(range(4), api.uncommitted(repository, branch), strict=False)]
    told = ", ".join(some[:3]) + (", …" if len(some) > 3 else "")
    return Transient(
        message=f"the branch {branch} of {repository} has uncommitted changes ({told}): nothing can be published to it",
        hint=f"`headgate repair {repository}@{branch}` shows them and drops them on request",
    )
