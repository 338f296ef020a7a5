"""Every error Headgate raises, grouped by what the caller does about it.

    HeadgateError
      InvalidTask          fix the code             declaration, signature, schema
        InvalidResult, ResultTooLarge
      InvalidInput         fix the input            params, workspace, rows, query text, settings
        InvalidSettings, NotFound, Unsupported, MissingExtra, GuardrailFailed, NothingChanged
      Fenced               stop this attempt
        StaleAttemptError, PublishFenceError
      Conflict             refresh and try again
        ExpectedVersionMismatch, ExpectedHeadMismatch, KeyConflict, MergeConflict, AlreadyExists
      OutcomeUnknown       read back, then decide
      RecoveryRequired     reopen or repair
        StoreDamaged
      Transient            try again later
        Contention, AccessDenied, DiskFull

Each fact is a field, passed by keyword; errors pickle, since they cross process and Spark boundaries. `RESPONSES`
gives each group its HTTP status, exit code and orchestrator status; a class added without a row of its own answers
as its parent does.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from typing import Any, NamedTuple

_TOLD_APART = ("message", "hint")


@dataclass(eq=False, kw_only=True)
class HeadgateError(Exception):
    """Something Headgate cannot go on from."""

    message: str
    """What happened, to what."""
    hint: str = ""
    """What to do about it."""

    def __post_init__(self) -> None:
        self.args = (self.message,)

    def __reduce__(self) -> Any:
        return partial(type(self), **{f.name: getattr(self, f.name) for f in fields(self)}), ()

    def details(self) -> dict[str, Any]:
        """The structured fields that are set, without message and hint."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _TOLD_APART}
        return {name: value for name, value in values.items() if value not in (None, "", (), {})}

    @property
    def summary(self) -> str:
        """The message with its fields, on one line: what a log or an orchestrator's reason shows."""
        told = ", ".join(f"{name}={value}" for name, value in self.details().items() if isinstance(value, str | int))
        return f"{self.message} ({told})" if told else self.message

    def lines(self) -> list[str]:
        """What does not fit on one line: one indented line for each of several problems."""
        return []

    def __str__(self) -> str:
        told = f"{self.summary}; {self.hint}" if self.hint else self.summary
        return "\n".join([told, *self.lines()])


def _first(names: tuple[str, ...], shown: int = 20) -> list[str]:
    more = [f"  … and {len(names) - shown} more"] if len(names) > shown else []
    return [*(f"  {name}" for name in names[:shown]), *more]


@dataclass(frozen=True)
class Problem:
    """One of several things wrong with one input: a declaration, a row, a schema."""

    where: str
    """`file:line`, `row 17`, `params.limit`: whatever a person can go to."""
    message: str
    fix: str = ""

    def __str__(self) -> str:
        told = f"{self.where}: {self.message}" if self.where else self.message
        return f"{told}; {self.fix}" if self.fix else told


@dataclass(eq=False, kw_only=True)
class InvalidTask(HeadgateError):
    """The code that declares a task is wrong: no input can make it work."""

    problems: tuple[Problem, ...] = ()

    def lines(self) -> list[str]:
        return [f"  {problem}" for problem in self.problems]


@dataclass(eq=False, kw_only=True)
class InvalidResult(InvalidTask):
    """A body returned something else than it declares."""


@dataclass(eq=False, kw_only=True)
class ResultTooLarge(InvalidTask):
    """A result is larger than the orchestrator takes."""

    size: int = 0
    limit: int = 0


@dataclass(eq=False, kw_only=True)
class InvalidInput(HeadgateError):
    """The input can never be valid: a retry with the same input cannot help."""

    problems: tuple[Problem, ...] = ()

    def lines(self) -> list[str]:
        return [f"  {problem}" for problem in self.problems]


@dataclass(eq=False, kw_only=True)
class InvalidSettings(InvalidInput):
    """A settings file or an environment variable has a value that cannot be used."""

    source: str = ""


@dataclass(eq=False, kw_only=True)
class NotFound(InvalidInput):
    """What the input names does not exist."""

    kind: str = ""
    name: str = ""


@dataclass(eq=False, kw_only=True)
class Unsupported(InvalidInput):
    """Well-formed, but not something this part does."""


@dataclass(eq=False, kw_only=True)
class MissingExtra(InvalidInput):
    """A part that is not installed is needed."""

    extra: str = ""


@dataclass(eq=False, kw_only=True)
class GuardrailFailed(InvalidInput):
    """A workspace breaks the file contract of a task."""

    guardrail: str = ""


@dataclass(eq=False, kw_only=True)
class NothingChanged(InvalidInput):
    """A commit or a merge would change nothing; nobody makes empty commits."""


@dataclass(eq=False, kw_only=True)
class Fenced(HeadgateError):
    """This attempt may not publish; the target is as it was."""


@dataclass(eq=False, kw_only=True)
class StaleAttemptError(Fenced):
    """The orchestrator's current attempt is not this one."""

    workflow: str = ""
    task_id: str = ""
    status: str = ""


@dataclass(eq=False, kw_only=True)
class PublishFenceError(Fenced):
    """The head is neither the input ref nor an abandoned child of it."""

    branch: str = ""
    input_ref: str = ""
    head: str = ""
    head_parent: str = ""


@dataclass(eq=False, kw_only=True)
class Conflict(HeadgateError):
    """Somebody else was first; nothing of this write is visible."""


@dataclass(eq=False, kw_only=True)
class ExpectedVersionMismatch(Conflict):
    """A table is not at the version this write was made from."""

    table: str = ""
    expected: int | None = None
    actual: int | None = None


@dataclass(eq=False, kw_only=True)
class ExpectedHeadMismatch(Conflict):
    """The branch is not at the commit this write is conditional on."""

    branch: str = ""
    expected: str = ""
    actual: str = ""


@dataclass(eq=False, kw_only=True)
class KeyConflict(Conflict):
    """Two writes hold the same key."""

    table: str = ""
    key: str = ""


@dataclass(eq=False, kw_only=True)
class MergeConflict(Conflict):
    """Both sides changed the same thing, in different ways."""

    paths: tuple[str, ...] = ()
    conflicts: tuple[Any, ...] = ()
    """What is in the way, one by one, where the store knows rows: kind, type, id, and the row on each side."""

    def lines(self) -> list[str]:
        return _first((*self.paths, *map(str, self.conflicts)))


@dataclass(eq=False, kw_only=True)
class AlreadyExists(Conflict):
    """The name to be created is taken."""

    kind: str = ""
    name: str = ""


@dataclass(eq=False, kw_only=True)
class OutcomeUnknown(HeadgateError):
    """The update may or may not have taken effect: read back by the publish id, never repeat it."""

    publish_id: str = ""


@dataclass(eq=False, kw_only=True)
class RecoveryRequired(HeadgateError):
    """The store cannot go on by itself."""


@dataclass(eq=False, kw_only=True)
class StoreDamaged(RecoveryRequired):
    """Something a store has promised to keep is missing or changed."""

    damaged: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        return _first(self.damaged)


@dataclass(eq=False, kw_only=True)
class Transient(HeadgateError):
    """A condition that passes: a server that is down, a lock that is held."""


@dataclass(eq=False, kw_only=True)
class Contention(Transient):
    """Every try of a bounded number lost its race."""

    tries: int = 0


@dataclass(eq=False, kw_only=True)
class AccessDenied(Transient):
    """A store refused the credentials or the right; a retry helps once it has been granted."""

    right: str = ""


@dataclass(eq=False, kw_only=True)
class DiskFull(Transient):
    """No space is left where a file had to be written."""

    path: str = ""


class OrchestratorStatus:
    """The words an orchestrator knows for how an attempt ended."""

    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    TERMINAL = "FAILED_WITH_TERMINAL_ERROR"


class Response(NamedTuple):
    """How one error is answered at each boundary."""

    http: int
    exit_code: int
    orchestrator: str
    action: str


_FAILED, _TERMINAL = OrchestratorStatus.FAILED, OrchestratorStatus.TERMINAL

RESPONSES: dict[type[HeadgateError], Response] = {
    HeadgateError: Response(500, 1, _FAILED, "report it: this is a fault of Headgate"),
    InvalidTask: Response(422, 3, _TERMINAL, "fix the code"),
    InvalidResult: Response(422, 3, _FAILED, "return what the body declares"),
    ResultTooLarge: Response(422, 3, _TERMINAL, "write a file and return its path"),
    InvalidInput: Response(400, 4, _TERMINAL, "fix the input"),
    InvalidSettings: Response(500, 4, _FAILED, "fix the settings"),
    NotFound: Response(404, 4, _TERMINAL, "name something that exists"),
    Unsupported: Response(422, 4, _TERMINAL, "use what is supported"),
    MissingExtra: Response(501, 4, _FAILED, "install the extra it names"),
    GuardrailFailed: Response(422, 4, _TERMINAL, "bring the files in order"),
    NothingChanged: Response(422, 4, _TERMINAL, "there is nothing to do"),
    Fenced: Response(409, 5, _FAILED, "stop this attempt"),
    StaleAttemptError: Response(409, 5, _FAILED, "stop this attempt: another one is current"),
    PublishFenceError: Response(409, 5, _FAILED, "start a new workflow from the current head"),
    Conflict: Response(409, 6, _FAILED, "refresh and try again"),
    ExpectedVersionMismatch: Response(409, 6, _FAILED, "refresh and try again"),
    ExpectedHeadMismatch: Response(412, 6, _FAILED, "refresh and try again"),
    KeyConflict: Response(409, 6, _FAILED, "refresh and try again"),
    MergeConflict: Response(409, 6, _FAILED, "resolve the conflicts and try again"),
    AlreadyExists: Response(409, 6, _FAILED, "choose another name"),
    OutcomeUnknown: Response(504, 7, _FAILED, "read back, then decide"),
    RecoveryRequired: Response(503, 8, _FAILED, "reopen or repair"),
    StoreDamaged: Response(503, 8, _FAILED, "restore what is damaged: verify names it"),
    Transient: Response(503, 75, _FAILED, "try again later"),
    Contention: Response(503, 75, _FAILED, "try again later"),
    AccessDenied: Response(403, 77, _FAILED, "grant the right it names"),
    DiskFull: Response(507, 75, _FAILED, "free some space and try again"),
}


def response_to(error: BaseException | type[BaseException]) -> Response:
    """The row of an error's own class, or of its nearest parent with one; anything else is a fault of ours."""
    cls = error if isinstance(error, type) else type(error)
    for parent in cls.__mro__:
        if parent in RESPONSES:
            return RESPONSES[parent]
    return RESPONSES[HeadgateError]
