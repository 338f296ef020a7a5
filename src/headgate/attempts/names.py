"""Staging branch names: which attempt a branch belongs to, told by its name alone.

A name is the prefix and eight fields, joined by `-`, in the characters every lake takes (`^\\w[-\\w]*$`, ASCII). The
escape is reversible. The fields stand in the order in which branches are looked for: those of one orchestrator, of one
workflow, of one task in one iteration.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from headgate.errors import InvalidInput
from headgate.tasks.protocols import PolledAttempt

PREFIX = "headgate-staging-"
MAX_LENGTH = 255
_FIELD_MAX = 48
"""Longest escaped field: a UUID takes 40 characters, a ULID 26."""
_DIGEST = 16
_PLAIN = re.compile(r"[A-Za-z0-9]")
_ESCAPED = re.compile(r"_(?:_|d|x([0-9a-f]{2}))|[A-Za-z0-9]")


@dataclass(frozen=True, kw_only=True)
class StagingName:
    """Whose branch it is. `str()` gives the branch name, `parse` takes it back."""

    orchestrator: str
    workflow: str
    reference_task: str
    """Shortened, with a digest, where it is too long to stand in a name; equal tasks still have equal names."""
    iteration: int
    seq: int
    task_id: str
    retry_count: int
    execution: str

    @classmethod
    def of(cls, attempt: PolledAttempt, execution: str) -> StagingName:
        return cls(
            orchestrator=attempt.id.orchestrator,
            workflow=attempt.id.workflow,
            reference_task=_shortened(attempt.reference_task),
            iteration=attempt.iteration,
            seq=attempt.seq,
            task_id=attempt.id.task_id,
            retry_count=attempt.id.retry_count,
            execution=execution,
        )

    @property
    def task_prefix(self) -> str:
        """What the names of all attempts of the same task, in the same workflow and iteration, begin with."""
        fields = (self.orchestrator, self.workflow, self.reference_task, str(self.iteration))
        return PREFIX + "".join(f"{_escape(field)}-" for field in fields)

    def __str__(self) -> str:
        fields = (str(self.seq), self.task_id, str(self.retry_count), self.execution)
        name = self.task_prefix + "-".join(_escape(field) for field in fields)
        if len(name) > MAX_LENGTH:
            raise _too_long(name, MAX_LENGTH)
        return name


def orchestrator_prefix(orchestrator: str) -> str:
    """What the names of all staging branches of one orchestrator begin with."""
    return f"{PREFIX}{_escape(orchestrator)}-"


def parse(branch: str) -> StagingName | None:
    """The attempt a branch belongs to; None for a branch that is none of ours."""
    if not branch.startswith(PREFIX) or len(branch) > MAX_LENGTH:
        return None
    fields = [_unescape(field) for field in branch[len(PREFIX) :].split("-")]
    if len(fields) != 8 or any(not field for field in fields):
        return None
    orchestrator, workflow, reference_task, iteration, seq, task_id, retry_count, execution = map(str, fields)
    if not all(number.isascii() and number.isdecimal() for number in (iteration, seq, retry_count)):
        return None
    name = StagingName(
        orchestrator=orchestrator,
        workflow=workflow,
        reference_task=reference_task,
        iteration=int(iteration),
        seq=int(seq),
        task_id=task_id,
        retry_count=int(retry_count),
        execution=execution,
    )
    return name if str(name) == branch else None


def _escape(field: str) -> str:
    escaped = "".join(c if _PLAIN.fullmatch(c) else _escape_one(c) for c in field)
    if not 0 < len(escaped) <= _FIELD_MAX:
        raise _too_long(field, _FIELD_MAX)
    return escaped


def _too_long(text: str, most: int) -> InvalidInput:
    return InvalidInput(
        message=f"{text!r} cannot stand in the name of a staging branch: it has to take from 1 to {most} characters, "
        "escaped",
        hint="give the orchestrator, its workflows and its tasks shorter ids",
    )


def _escape_one(character: str) -> str:
    match character:
        case "_":
            return "__"
        case "-":
            return "_d"
    return "".join(f"_x{byte:02x}" for byte in character.encode())


def _unescape(field: str) -> str | None:
    out, at = bytearray(), 0
    while at < len(field):
        found = _ESCAPED.match(field, at)
        if found is None:
            return None
        token, at = found[0], found.end()
        if found[1] is not None:
            out.append(int(found[1], 16))
        else:
            out += {"__": b"_", "_d": b"-"}.get(token, token.encode())
    try:
        return out.decode()
    except UnicodeDecodeError:
        return None


def _shortened(text: str) -> str:
    """The text itself if it fits, else as much of its beginning as does, and a digest of all of it."""
    if len("".join(map(_escape, text))) <= _FIELD_MAX and text:
        return text
    digest = hashlib.blake2b(text.encode(), digest_size=_DIGEST // 2).hexdigest()
    kept, room = "", _FIELD_MAX - _DIGEST - 1
    for character in text:
        room -= len(_escape(character))
        if room < 0:
            break
        kept += character
    return kept + digest
