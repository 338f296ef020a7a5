"""What an error of Lance means. Most of them are told apart by their text only, so this is the one place that reads it.

Each text is pinned by a test of `tests/guards`. A text that is not known stays unknown: it is never taken for an
absence, nor for a proof that nothing happened.
"""

from __future__ import annotations

from enum import StrEnum

from headgate.errors import AccessDenied, DiskFull, HeadgateError, InvalidInput, NotFound, StoreDamaged, Transient


class LanceProblem(StrEnum):
    MISSING = "missing"
    """There is no dataset, or no such version of it."""
    EXISTS = "exists"
    CONTENTION = "contention"
    """Another writer was first; nothing of ours landed."""
    LOST_FILE = "lost_file"
    """A dataset is there, and a file it names is not."""
    DENIED = "denied"
    DISK_FULL = "disk_full"
    INVALID = "invalid"
    """Lance refuses the request itself: a filter, a schema."""
    UNKNOWN = "unknown"


def classify(error: BaseException) -> LanceProblem:
    """The meaning of an exception that pylance raised."""
    from lance.commit import CommitConflictError

    if isinstance(error, CommitConflictError):
        return LanceProblem.CONTENTION
    text = str(error)
    for told, problem in _TEXTS:
        if told in text:
            return problem
    return LanceProblem.UNKNOWN


_TEXTS = (
    ("Too many concurrent writers", LanceProblem.CONTENTION),
    ("Retryable commit conflict", LanceProblem.CONTENTION),
    ("Incompatible transaction", LanceProblem.CONTENTION),
    ("Permission denied", LanceProblem.DENIED),
    ("AccessDenied", LanceProblem.DENIED),
    ("No space left", LanceProblem.DISK_FULL),
    ("Dataset already exists", LanceProblem.EXISTS),
    ("Invalid user input", LanceProblem.INVALID),
    ("Dataset at path", LanceProblem.MISSING),
    ("Not found:", LanceProblem.LOST_FILE),
)


def as_error(error: BaseException, *, doing: str) -> HeadgateError:
    """An error of ours for one that Lance raised while `doing` something to something."""
    reason = str(error).partition(", /home")[0].partition("\n")[0]
    match classify(error):
        case LanceProblem.MISSING:
            return NotFound(message=f"cannot {doing}: {reason}", kind="table", hint="check the address and the version")
        case LanceProblem.DENIED:
            return AccessDenied(message=f"cannot {doing}: {reason}", hint="grant this process the right to it")
        case LanceProblem.DISK_FULL:
            return DiskFull(message=f"cannot {doing}: {reason}", hint="free some space and try again")
        case LanceProblem.LOST_FILE:
            return StoreDamaged(message=f"cannot {doing}: {reason}", hint="headgate verify names what is missing")
        case LanceProblem.INVALID:
            return InvalidInput(message=f"cannot {doing}: {reason}", hint="correct what the message names")
        case _:
            return Transient(message=f"cannot {doing}: {reason}", hint="try again; report it if it stays")
