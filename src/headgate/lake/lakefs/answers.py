"""What a lakeFS server's answers mean in our error tree. Pure: one function from an answer to an error."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from headgate.errors import (
    AccessDenied,
    AlreadyExists,
    Contention,
    DiskFull,
    HeadgateError,
    InvalidInput,
    MergeConflict,
    NotFound,
    NothingChanged,
    Transient,
)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A complete answer: the body of an object read as a stream is not one."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        """What the server says went wrong; its error bodies are `{"message": …}`."""
        try:
            told = json.loads(self.body)
        except ValueError:
            return self.body[:500].decode(errors="replace").strip()
        return str(told.get("message", "")) if isinstance(told, dict) else ""


class Refusal(StrEnum):
    """The refusals that callers tell apart, beyond the status."""

    NO_CHANGES = "no changes"
    DIRTY = "uncommitted changes"
    PROTECTED = "protected branch"
    HOOK = "hook"
    DISK_FULL = "no space left on device"
    """Told with a 400 by a commit or a merge, and with a 500 by an upload."""
    OTHER = ""


def refusal(answer: Answer) -> Refusal:
    said = answer.message.lower()
    if Refusal.DISK_FULL in said:
        return Refusal.DISK_FULL
    if answer.status == 400 and "no changes" in said:
        return Refusal.NO_CHANGES
    if answer.status == 400 and "uncommitted changes" in said:
        return Refusal.DIRTY
    if answer.status == 403 and "protected branch" in said:
        return Refusal.PROTECTED
    if answer.status == 412 and "hook" in said:
        return Refusal.HOOK
    return Refusal.OTHER


def error_of(
    answer: Answer, *, doing: str, server: str, kind: str = "", name: str = "", repository: str = ""
) -> HeadgateError:
    """The error for an answer that is not the one hoped for; `kind` and `name` say what a 404 or 409 is about."""
    said = answer.message or f"HTTP {answer.status}"
    message = f"lakeFS could not {doing}: {said}"
    why = refusal(answer)
    if answer.status == 404 and "repository not found" in said:
        kind, name = "repository", repository
        message = f"lakeFS could not {doing}: it has no repository {repository!r}" if repository else message
    match answer.status:
        case _ if why is Refusal.DISK_FULL:
            return DiskFull(message=message, hint=f"free some space on the disk of {server}, then try again")
        case 400 if why is Refusal.NO_CHANGES:
            return NothingChanged(message=message, hint="there is nothing to commit or to merge")
        case 400 if why is Refusal.DIRTY:
            return Transient(
                message=message,
                hint="the branch has uncommitted changes; `headgate repair` shows them and drops them on request",
            )
        case 400 | 414 | 416:
            return InvalidInput(message=message, hint="the server does not take this; see its message")
        case 401:
            return AccessDenied(
                message=f"lakeFS could not {doing}: {server} does not know these keys",
                hint="check lakefs.access_key_id and lakefs.secret_access_key",
                right=doing,
            )
        case 403 if why is Refusal.PROTECTED:
            return AccessDenied(message=message, hint=PROTECTED_CHOICE, right=doing)
        case 403:
            return AccessDenied(message=message, hint=GRANT, right=doing)
        case 404:
            return NotFound(message=message, hint=_not_found_hint(kind, name, server), kind=kind, name=name)
        case 409 if kind in ("branch", "repository", "object"):
            return AlreadyExists(
                message=f"the {kind} {name!r} exists already", hint="choose another name", kind=kind, name=name
            )
        case 409:
            return MergeConflict(message=message, hint="both sides changed the same paths: merge by hand, then retry")
        case 412:
            return Transient(message=message, hint="a hook of the repository refused this; its runs say why")
        case 423 | 429:
            return Contention(message=message, hint="many writers update this branch at once: try again later")
        case 410:
            return NotFound(
                message=message, hint="the object has been removed from the block store", kind=kind, name=name
            )
        case status if status >= 500:
            return Transient(message=message, hint=f"{server} has a problem of its own: look at its log, then retry")
        case _:
            return HeadgateError(message=f"{message} (HTTP {answer.status})")


GRANT = "grant the right to this user in lakeFS; `headgate doctor --as worker` names each one that is missing"

PROTECTED_CHOICE = (
    "a protected branch takes merges but cannot be moved back, so a retry cannot replace an abandoned publication on "
    "it. Either remove the protection rule (the fence refuses direct commits on its own), or keep it and start a new "
    "workflow from the current head"
)


def _not_found_hint(kind: str, name: str, server: str) -> str:
    match kind:
        case "repository":
            return f"check the name; `headgate lake repos` lists those on {server}"
        case "branch":
            return "check the name; `headgate lake branches` lists them"
        case "ref":
            return "give a full commit id of this repository" if name else "check the ref"
    return "check the name"
