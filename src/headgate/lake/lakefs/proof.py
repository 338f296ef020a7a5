"""Proves that a repository's hooks are in force: a deliberately stale merge, on branches of its own, is refused."""

from __future__ import annotations

import re
import threading
from contextlib import suppress

from headgate.errors import HeadgateError, Unsupported
from headgate.ids import ULIDS, IdSource
from headgate.lake.lakefs import hook
from headgate.lake.lakefs.answers import error_of
from headgate.lake.lakefs.api import Api
from headgate.lake.lakefs.gate import ensure_gates_branch

PROBE_PREFIX = "headgate-probe-"
OLDEST = (1, 84)
"""The oldest server on which the fence was tried."""

_STALE = "0" * 64


class Proofs:
    """What is known of each repository, for as long as this object lives; keyed by the hook that was proved."""

    def __init__(self, api: Api, *, ids: IdSource = ULIDS) -> None:
        self._api, self._ids = api, ids
        self._known: dict[tuple[str, str], bool] = {}
        self._lock = threading.Lock()

    def holds(self, repository: str) -> bool:
        """Whether a merge that carries our hook is fenced by the server. Tried once, then remembered."""
        key = (repository, hook.CHECKSUM)
        with self._lock:
            if key not in self._known:
                check_version(self._api)
                ensure_gates_branch(self._api, repository)
                self._known[key] = prove(self._api, repository, ids=self._ids)
            return self._known[key]

    def forget(self, repository: str) -> None:
        """Try again on the next use: the server has been seen to merge without running the hook."""
        with self._lock:
            self._known.pop((repository, hook.CHECKSUM), None)


def check_version(api: Api) -> str:
    """The server's version; `Unsupported` if it is older than any the fence was tried on."""
    version = api.facts().version
    if is_too_old(version):
        raise Unsupported(
            message=f"{api.client.name} is lakeFS {version}; the fence needs {'.'.join(map(str, OLDEST))} or later",
            hint="upgrade the server, or take the soft fence: lakefs.fence = 'soft'",
        )
    return version


def is_too_old(version: str) -> bool:
    """A version that is not a number, as of a server somebody built, is taken as new enough."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) < OLDEST


def prove(api: Api, repository: str, *, ids: IdSource = ULIDS) -> bool:
    """Whether the server refuses a merge that expects a head nobody has. Leaves nothing behind."""
    base = api.branch(repository, hook.GATES_BRANCH)
    probe = PROBE_PREFIX + ids.new().lower()
    source, target = f"{probe}-source", f"{probe}-target"
    try:
        for branch in (source, target):
            answer = api.create_branch(repository, branch, at=base)
            if answer.status != 201:
                raise error_of(answer, doing=f"create {branch}", server=api.client.name, kind="branch", name=branch)
        answer = api.put_object(repository, source, hook.PATH, hook.BYTES, size=len(hook.BYTES))
        if answer.status == 201:
            answer = api.commit(repository, source, message="Try the fence", metadata={})
        if answer.status != 201:
            raise error_of(answer, doing="commit the hook on a branch of its own", server=api.client.name)
        merged = api.merge(
            repository,
            source,
            target,
            message="A stale merge, to be refused",
            metadata={hook.EXPECTED_HEAD: _STALE},
            squash=True,
            timeout=None,
        )
    finally:
        for branch in (source, target):
            with suppress(HeadgateError):
                api.delete_branch(repository, branch)
    if merged.status == 412:
        return hook.FENCED in merged.message
    if merged.status == 200:
        return False
    raise error_of(merged, doing="try the fence with a stale merge", server=api.client.name)
