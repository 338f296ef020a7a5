"""How a wrong declaration is told: raised at once to a plain import, collected for `check`.

Declared values (specs, controls, the decorator itself) hand what is wrong with them to `report`. Nobody listening means
`InvalidTask`. Under `collecting` the problems are kept instead, and the value goes on with its defaults, so that one
import of a module shows everything that is wrong with it.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from headgate.errors import InvalidTask, Problem

if TYPE_CHECKING:
    from headgate.tasks.declaration import TaskDeclaration


@dataclass
class Collected:
    """What one module declared, in order, and what is wrong with it."""

    declarations: list[TaskDeclaration] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


_collected: ContextVar[Collected | None] = ContextVar("headgate_collected", default=None)


@contextmanager
def collecting() -> Iterator[Collected]:
    """Keep declarations and their problems for the caller instead of raising."""
    found = Collected()
    token = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(token)


def collected() -> Collected | None:
    """Where declarations are being kept, if somebody is collecting."""
    return _collected.get()


def report(message: str, problems: Sequence[Problem]) -> None:
    """Hand over what is wrong. Returns only while somebody is collecting, or if nothing is wrong."""
    if not problems:
        return
    found = _collected.get()
    if found is None:
        raise InvalidTask(message=message, problems=tuple(problems))
    found.problems.extend(problems)


_OURS = (__name__.rpartition(".")[0], "pydantic", "contextlib", "functools")


def declaring_frame() -> FrameType | None:
    """The innermost frame that is neither ours nor Pydantic's: the line a person wrote."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if not any(module == ours or module.startswith(ours + ".") for ours in _OURS):
            return frame
        frame = frame.f_back
    return None


def declared_at() -> str:
    """`file:line` of the declaration being made."""
    frame = declaring_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""


def nearest(name: str, known: Iterable[str]) -> str:
    """A fix for a name nobody knows."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"the known ones are {', '.join(names)}"


class Declared(BaseModel, frozen=True):
    """A frozen value a task declaration is made of. Wrong values are reported with the line that has them."""

    model_config = ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=True)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            report(f"{type(self).__name__} is declared wrongly", self._problems(error, declared_at()))
            # Somebody is collecting: stand in with the defaults, the module will not be used.
            stand_in = type(self).model_construct()
            for name in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__"):
                object.__setattr__(self, name, getattr(stand_in, name))

    @classmethod
    def _problems(cls, error: ValidationError, where: str) -> list[Problem]:
        problems = []
        for found in error.errors(include_url=False):
            place = ".".join([cls.__name__, *(str(part) for part in found["loc"])])
            if found["type"] == "extra_forbidden":
                fix = nearest(str(found["loc"][-1]), cls.model_fields)
                problems.append(Problem(where, f"{place} is not something it takes", fix))
            elif found["type"] == "value_error":
                told, _, fix = str(found["ctx"]["error"]).partition("; ")
                problems.append(Problem(where, f"{place}: {told}", fix))
            else:
                should = found["msg"].replace("Input should", "it should")
                problems.append(Problem(where, f"{place} is {found['input']!r}", should))
        return problems
