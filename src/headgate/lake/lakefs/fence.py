"""Merging into a target and moving its head, with the head decided by the server (hard) or checked before (soft).

The order of the steps is the order of the executable model of the protocol; no step depends on time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from headgate.errors import (
    AccessDenied,
    Conflict,
    Contention,
    ExpectedHeadMismatch,
    HeadgateError,
    OutcomeUnknown,
    Transient,
)
from headgate.ids import ULIDS, IdSource
from headgate.lake.interface import LakeCommit
from headgate.lake.lakefs.answers import PROTECTED_CHOICE, Answer, Refusal, error_of, refusal
from headgate.lake.lakefs.api import Api
from headgate.lake.lakefs.client import LostAnswer
from headgate.lake.lakefs.gate import Gate, GateRecord, dirty_target
from headgate.lake.lakefs.hook import EXPECTED_HEAD, FENCED, GATE_SHUT
from headgate.lake.publisher import Owner, Publisher
from headgate.publication import Head, Ref

PUBLISH_ID = "headgate.publish_id"
_RELEASES = 3
"""Gates found shut one after another before a move gives up: somebody else is at it all the time."""


class Fence:
    """The publishing updates of one lakeFS."""

    def __init__(self, api: Api, *, ids: IdSource = ULIDS) -> None:
        self._api, self._ids = api, ids

    # ------------------------------------------------------------------------------------------------------- merging
    def merge(
        self,
        repository: str,
        source: str,
        into: str,
        *,
        expected_head: Ref,
        message: str,
        metadata: Mapping[str, str],
        squash: bool,
        publisher: Publisher | None,
        timeout: float | None,
        hard: bool,
    ) -> Ref:
        """The published commit. With `hard` the hook compares the heads; without, only this look at it does."""
        if not hard:
            self._check_head(repository, into, expected_head)
        told = {**metadata, EXPECTED_HEAD: expected_head}
        publish_id = told.setdefault(PUBLISH_ID, self._ids.new())
        try:
            answer = self._api.merge(
                repository, source, into, message=message, metadata=told, squash=squash, timeout=timeout
            )
        except LostAnswer as lost:
            raise self._unknown(into, publish_id, lost.message) from lost
        if answer.status == 200:
            return Ref(answer.json()["reference"])
        why = refusal(answer)
        if answer.status >= 500 or why is Refusal.DISK_FULL:
            raise self._unknown(into, publish_id, f"HTTP {answer.status}, {answer.message}")
        if answer.status == 412:
            return self._refused_merge(answer, repository, into, expected_head, publish_id, publisher)
        # The server merges before it asks the hook: a head that moved can show as a conflict, or as no change.
        merged_first = answer.status == 409 or why is Refusal.NO_CHANGES
        if merged_first and self._api.branch(repository, into) != expected_head:
            return self._read_back(repository, into, expected_head, publish_id)
        if why is Refusal.DIRTY:
            raise dirty_target(self._api, repository, into)
        kind, name = ("branch", f"{source} or {into}") if answer.status == 404 else ("", "")
        raise self._error(answer, f"merge {source} into {into}", kind=kind, name=name)

    def _refused_merge(
        self, answer: Answer, repository: str, into: str, expected: Ref, publish_id: str, publisher: Publisher | None
    ) -> Ref:
        """A hook said no: a head that moved, a gate that is shut, or a hook of somebody else."""
        said = answer.message
        if FENCED in said:
            return self._read_back(repository, into, expected, publish_id)
        if GATE_SHUT not in said:
            raise self._error(answer, f"merge into {into}")
        try:
            return self._read_back(repository, into, expected, publish_id)
        except ExpectedHeadMismatch:
            self._release_if_over(Gate(self._api, repository, into, ids=self._ids), publisher)
        raise Contention(
            message=f"the head of {into} was being moved by another attempt",
            hint="try again: the retry merges, or is told whose head it is",
            tries=1,
        )

    def _read_back(self, repository: str, into: str, expected: Ref, publish_id: str) -> Ref:
        """Our commit, if it is on the branch after all; else `ExpectedHeadMismatch`.

        A conditional write that the server repeats by itself can be refused by its own first success.
        """
        head = Ref("")
        try:
            for commit in self._api.log(repository, into, first_parent=True, page=10):
                head = head or commit.ref
                if commit.metadata.get(PUBLISH_ID) == publish_id:
                    return commit.ref
                if commit.ref == expected:
                    break
        except Transient as failed:
            raise self._unknown(into, publish_id, failed.message) from failed
        raise self._mismatch(into, expected, head)

    # -------------------------------------------------------------------------------------------------------- moving
    def move(
        self,
        repository: str,
        branch: str,
        *,
        to_branch: str,
        expected_head: Ref,
        publisher: Publisher | None,
        timeout: float | None,
        hard: bool,
    ) -> Ref:
        """Point `branch` at the head of `to_branch`. With `hard`, behind the gate of `branch`."""
        wanted = self._api.branch(repository, to_branch)
        if not hard:
            self._confirm(repository, branch, expected_head, publisher)
            self._reset_unfenced(repository, branch, to_branch, expected_head, timeout)
            return wanted
        gate = Gate(self._api, repository, branch, ids=self._ids)
        gate.register()
        for _ in range(_RELEASES):
            if not self._release_if_over(gate, publisher):
                break
        owner = publisher.owner if publisher else self._somebody()
        record = GateRecord(epoch=gate.shut(owner, to_branch), owner=owner, ref=to_branch)
        try:
            gate.poke()
            self._confirm(repository, branch, expected_head, publisher)
        except BaseException:
            # No reset was sent, so that nothing can come late: the gate may be opened even where it cannot be poked.
            with suppress(HeadgateError):
                gate.done(record.epoch)
            raise
        return self._reset_behind(gate, record, wanted=wanted, expected=expected_head, timeout=timeout)

    def _reset_behind(
        self, gate: Gate, record: GateRecord, *, wanted: Ref, expected: Ref, timeout: float | None
    ) -> Ref:
        repository, branch = gate.repository, gate.target
        answer: Answer | None = None
        try:
            answer = self._api.hard_reset(repository, branch, to=record.ref, timeout=timeout)
        except LostAnswer:
            pass
        except BaseException:
            with suppress(HeadgateError):
                gate.release(record)
            raise
        if answer is not None and answer.status == 204:
            with suppress(HeadgateError):  # the head has moved; whoever meets the gate next opens it
                gate.done(record.epoch)
            return wanted
        try:
            gate.release(record)
            if self._has_moved(repository, branch, wanted=wanted, expected=expected):
                return wanted
        except HeadgateError as failed:
            raise self._unknown(branch, record.owner.execution, failed.message) from failed
        if answer is None:
            raise Transient(
                message=f"the move of {branch} was not answered; it was revoked before it took effect",
                hint="try again",
            )
        raise self._refused_reset(answer, repository, branch, record.ref)

    def _reset_unfenced(
        self, repository: str, branch: str, to_branch: str, expected: Ref, timeout: float | None
    ) -> None:
        try:
            answer = self._api.hard_reset(repository, branch, to=to_branch, timeout=timeout)
        except LostAnswer as lost:
            raise self._unknown(branch, to_branch, lost.message) from lost
        if answer.status >= 500:
            raise self._unknown(branch, to_branch, f"HTTP {answer.status}, {answer.message}")
        if answer.status != 204:
            raise self._refused_reset(answer, repository, branch, to_branch)

    def _refused_reset(self, answer: Answer, repository: str, branch: str, to_branch: str) -> HeadgateError:
        match refusal(answer):
            case Refusal.DIRTY:
                return dirty_target(self._api, repository, branch)
            case Refusal.PROTECTED:
                return AccessDenied(
                    message=f"the branch {branch} of {repository} is protected: its head cannot be moved",
                    hint=PROTECTED_CHOICE,
                    right=f"hard reset of {branch}",
                )
        if answer.status == 404:
            return Conflict(
                message=f"the move of {branch} to {to_branch} was revoked by somebody else",
                hint="try again: the retry decides from the head it finds then",
            )
        return self._error(answer, f"move the head of {branch}")

    def _has_moved(self, repository: str, branch: str, *, wanted: Ref, expected: Ref) -> bool:
        """Whether the head is `wanted`, or somebody has built on it since. Only after the move was revoked.

        Where `wanted` is an ancestor of the expected head, finding it in the history proves nothing: then only the
        head itself counts.
        """
        head = self._api.branch(repository, branch)
        if head == wanted:
            return True
        if any(commit.ref == wanted for commit in self._until(repository, expected, wanted)):
            return False
        return any(commit.ref == wanted for commit in self._until(repository, head, wanted))

    def _until(self, repository: str, start: Ref, wanted: Ref) -> Iterator[LakeCommit]:
        """First parents of `start`, down to the generation where `wanted` could be: its own parent ends the walk."""
        parents = self._api.commit_at(repository, wanted).parents
        for commit in self._api.log(repository, start, first_parent=True, page=10):
            yield commit
            if commit.ref == wanted or commit.ref in parents[:1]:
                return

    # -------------------------------------------------------------------------------------------------------- shared
    def revoke(self, repository: str, *branches: str, target: str) -> None:
        """After this no merge and no move from any of `branches` into `target` takes effect."""
        for branch in branches:
            self._api.delete_branch(repository, branch)
        Gate(self._api, repository, target, ids=self._ids).poke()

    def _confirm(self, repository: str, branch: str, expected: Ref, publisher: Publisher | None) -> None:
        self._check_head(repository, branch, expected)
        if publisher is not None:
            at = self._api.commit_at(repository, expected)
            publisher.confirm(Head(branch=branch, ref=at.ref, parents=at.parents, metadata=at.metadata))

    def _check_head(self, repository: str, branch: str, expected: Ref) -> None:
        found = self._api.branch(repository, branch)
        if found != expected:
            raise self._mismatch(branch, expected, found)

    def _mismatch(self, branch: str, expected: Ref, found: Ref) -> ExpectedHeadMismatch:
        return ExpectedHeadMismatch(
            message=f"the head of {branch} is not the expected one: somebody else was first",
            hint="start again from the current head",
            branch=branch,
            expected=expected,
            actual=found,
        )

    def _release_if_over(self, gate: Gate, publisher: Publisher | None) -> bool:
        """Whether a shut gate was found, and opened. `Contention` if its owner still runs."""
        state = gate.state()
        if not state.shut:
            return False
        record = gate.record(state.epoch)
        if record is None:
            return False
        if publisher is not None and publisher.still_runs(record.owner):
            raise Contention(
                message=f"the head of {gate.target} is being moved by task {record.owner.task_id} of workflow "
                f"{record.owner.workflow}",
                hint="try again when that attempt is over",
                tries=1,
            )
        gate.release(record)
        return True

    def _somebody(self) -> Owner:
        """Stands for a person: nobody can be asked whether it still runs, so anybody may release its gate."""
        return Owner(orchestrator="", workflow="", task_id="", execution=self._ids.new())

    def _unknown(self, branch: str, publish_id: str, why: str) -> OutcomeUnknown:
        return OutcomeUnknown(
            message=f"whether {branch} was updated is not known: {why}",
            hint="revoke, read back by the publish id, then decide; never repeat it",
            publish_id=publish_id,
        )

    def _error(self, answer: Answer, doing: str, *, kind: str = "", name: str = "") -> HeadgateError:
        return error_of(answer, doing=doing, server=self._api.client.name, kind=kind, name=name)
