"""Which rights each role needs on a lakeFS repository, found out by trying each on a branch of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from headgate.errors import AccessDenied, HeadgateError
from headgate.ids import ULIDS, IdSource
from headgate.lake.lakefs.answers import Answer, error_of
from headgate.lake.lakefs.api import Api
from headgate.lake.lakefs.proof import PROBE_PREFIX

_PATH = "headgate/right"


class Role(StrEnum):
    READER = "reader"
    """Reads what was published."""
    AUTHOR = "author"
    """A person who writes through a branch and a merge."""
    WORKER = "worker"
    """Runs attempts."""
    OPERATOR = "operator"
    """Installs the fence, repairs, rewinds, collects."""


class Verdict(StrEnum):
    GRANTED = "granted"
    REFUSED = "refused"
    UNTRIED = "could not be tried"


@dataclass(frozen=True, kw_only=True)
class Right:
    """A right by the name lakeFS gives it, and what it is for."""

    name: str
    purpose: str
    roles: frozenset[Role]


@dataclass(frozen=True, kw_only=True)
class Tried:
    right: Right
    verdict: Verdict
    detail: str = ""


_ALL = frozenset(Role)
_WRITERS = frozenset({Role.AUTHOR, Role.WORKER, Role.OPERATOR})
_MOVERS = frozenset({Role.WORKER, Role.OPERATOR})

RIGHTS: tuple[Right, ...] = (
    Right(name="fs:ReadRepository", purpose="find the repository", roles=_ALL),
    Right(name="fs:ListBranches", purpose="list branches", roles=_ALL),
    Right(name="fs:ReadBranch", purpose="read a head", roles=_ALL),
    Right(name="fs:ReadCommit", purpose="read a commit and its metadata", roles=_ALL),
    Right(name="fs:ListCommits", purpose="read the history", roles=_ALL),
    Right(name="fs:ListObjects", purpose="list what a prefix holds; the fence reads the gate with it", roles=_ALL),
    Right(name="fs:CreateBranch", purpose="make a staging branch", roles=_WRITERS),
    Right(name="fs:WriteObject", purpose="stage objects, and gate records", roles=_WRITERS),
    Right(name="fs:ReadObject", purpose="read objects", roles=_ALL),
    Right(name="fs:DeleteObject", purpose="stage deletions", roles=_WRITERS),
    Right(name="fs:CreateCommit", purpose="commit, and merge into the target", roles=_WRITERS),
    Right(name="fs:RevertBranch", purpose="move a head to replace an abandoned publication", roles=_MOVERS),
    Right(name="ci:ReadAction", purpose="see that the fence ran for a publish", roles=_MOVERS),
    Right(name="fs:DeleteBranch", purpose="revoke and clean up", roles=_WRITERS),
    Right(
        name="branches:GetBranchProtectionRules",
        purpose="see which branches are protected",
        roles=frozenset({Role.OPERATOR}),
    ),
)


def try_rights(api: Api, repository: str, role: Role, *, ids: IdSource = ULIDS) -> list[Tried]:
    """Each right of a role, tried on a branch that is gone afterwards if it could be made."""
    scratch = f"{PROBE_PREFIX}{ids.new().lower()}"
    tries = dict(_tries(api, repository, scratch))
    return [_try(right, tries[right.name]) for right in RIGHTS if role in right.roles]


def _try(right: Right, action: Callable[[], object]) -> Tried:
    try:
        action()
    except AccessDenied as refused:
        return Tried(right=right, verdict=Verdict.REFUSED, detail=refused.message)
    except HeadgateError as failed:
        return Tried(right=right, verdict=Verdict.UNTRIED, detail=failed.message)
    return Tried(right=right, verdict=Verdict.GRANTED)


def _tries(api: Api, repository: str, scratch: str) -> Iterator[tuple[str, Callable[[], object]]]:
    """In the order in which they can be tried: a later one uses what an earlier one made."""

    def main() -> str:
        return api.default_branch(repository)

    def done(answer: Answer, doing: str) -> Answer:
        if answer.status >= 300:
            raise error_of(answer, doing=doing, server=api.client.name)
        return answer

    yield "fs:ReadRepository", main
    yield "fs:ListBranches", lambda: next(api.branches(repository), None)
    yield "fs:ReadBranch", lambda: api.branch(repository, main())
    yield "fs:ReadCommit", lambda: api.commit_at(repository, api.branch(repository, main()))
    yield "fs:ListCommits", lambda: next(api.log(repository, main(), first_parent=True, page=1))
    yield "fs:ListObjects", lambda: next(api.objects(repository, main(), prefix=_PATH), None)
    yield "fs:CreateBranch", lambda: done(api.create_branch(repository, scratch, at=main()), "create a branch")
    yield "fs:WriteObject", lambda: done(api.put_object(repository, scratch, _PATH, b"x", size=1), "write an object")
    yield "fs:ReadObject", lambda: _read_some(api, repository, scratch)
    yield "fs:DeleteObject", lambda: api.delete_objects(repository, scratch, [f"{_PATH}-none"])
    yield "fs:CreateCommit", lambda: done(api.commit(repository, scratch, message="right", metadata={}), "commit")
    yield "fs:RevertBranch", lambda: done(api.hard_reset(repository, scratch, to=main(), timeout=None), "move a head")
    yield "ci:ReadAction", lambda: api.hook_ran(repository, api.branch(repository, main()))
    yield "fs:DeleteBranch", lambda: api.delete_branch(repository, scratch)
    yield "branches:GetBranchProtectionRules", lambda: api.protected_patterns(repository)


def _read_some(api: Api, repository: str, scratch: str) -> None:
    """An object of ours if it could be written, else one of the default branch."""
    at = scratch if api.find_branch(repository, scratch) else api.default_branch(repository)
    found = next(api.objects(repository, at, prefix=_PATH if at == scratch else ""), None)
    if found is not None:
        api.read_object(repository, at, found.path)
