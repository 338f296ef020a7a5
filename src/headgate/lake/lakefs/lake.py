"""A lakeFS server as a `Lake`."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, Literal, Self, TypeAlias

from blake3 import blake3

from headgate.errors import (
    HeadgateError,
    InvalidInput,
    MergeConflict,
    NotFound,
    NothingChanged,
    RecoveryRequired,
    Unsupported,
)
from headgate.failpoints import Failpoint, failpoint
from headgate.ids import ULIDS, IdSource
from headgate.lake.cache import Cache
from headgate.lake.files import in_parallel
from headgate.lake.interface import (
    MAIN,
    STAGING_PREFIX,
    Branch,
    Change,
    ChangeKind,
    Changes,
    Fetched,
    LakeCommit,
    LakeObject,
    LocalFile,
    Progress,
    Source,
    Wanted,
)
from headgate.lake.lakefs import hook
from headgate.lake.lakefs.answers import Answer, Refusal, error_of, refusal
from headgate.lake.lakefs.api import Api
from headgate.lake.lakefs.client import Client, Endpoint, LostAnswer
from headgate.lake.lakefs.fence import Fence
from headgate.lake.lakefs.gateway import s3a_options
from headgate.lake.lakefs.objects import Objects
from headgate.lake.lakefs.proof import Proofs
from headgate.lake.paths import check_key, check_name, normal_prefix, under
from headgate.lake.publisher import Publisher
from headgate.publication import Head, Ref, Strength

FenceChoice: TypeAlias = Literal["auto", "hard", "soft"]
"""`auto`: hard where the server runs hooks, else soft; `hard`: refuse to publish where it does not."""

TRANSFERS = 16
"""Threads that download or upload: most of their time goes by while the server works."""

_REF = re.compile(r"[0-9a-f]{64}")
_REPOSITORY = re.compile(r"[a-z0-9][a-z0-9-]{2,62}")
_SERVERS_OWN = ".lakefs."
_COMMITS = 8
"""Tries of a commit that loses to others on the same branch; a staging branch has no others."""
_LOST_SWAP = "predicate failed"

log = logging.getLogger(__name__)


class LakeFSLake:
    """A lake on a lakeFS server. Any number of threads may use one object; it holds one pool of connections."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        fence: FenceChoice = "auto",
        cache: Cache | None = None,
        namespace: str = "",
        ids: IdSource = ULIDS,
    ) -> None:
        """`cache` holds what was downloaded before; it is closed with the lake.

        `namespace` is where the objects of new repositories lie, such as s3://bucket/lake; else the server's own.
        """
        self.client = Client(endpoint)
        self.api = Api(self.client)
        self._choice, self._namespace = fence, namespace
        self._fence = Fence(self.api, ids=ids)
        self._proofs = Proofs(self.api, ids=ids)
        self._objects = Objects(self.api)
        self._cache = cache

    def close(self) -> None:
        if self._cache is not None:
            self._cache.close()
        self.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"LakeFSLake({self.client.name!r})"

    @property
    def name(self) -> str:
        return f"lakefs:{self.client.name}"

    def strength(self, repository: str) -> Strength:
        if self._choice == "soft":
            return Strength.SOFT
        if self._proofs.holds(repository):
            return Strength.HARD
        if self._choice == "hard":
            raise RecoveryRequired(
                message=f"{self.client.name} does not run the fence of {repository}: it took a stale merge",
                hint="set actions.enabled in the server's configuration, or take the soft fence: fence = 'auto'",
            )
        _warn_soft(repository, reason=f"{self.client.name} runs no hooks: actions are off")
        return Strength.SOFT

    @property
    def fetchers(self) -> int:
        return TRANSFERS

    # repositories
    def repositories(self) -> list[str]:
        return sorted(self.api.repositories())

    def create_repository(self, name: str) -> Ref:
        if not _REPOSITORY.fullmatch(name):
            raise InvalidInput(
                message=f"{name!r} cannot be the name of a repository on lakeFS",
                hint="use 3 to 63 small letters, digits and '-', not starting with '-'",
            )
        prefix = self._namespace or self.api.facts().namespace_prefix
        if not prefix:
            raise Unsupported(
                message=f"{self.client.name} does not say where a repository's objects may lie",
                hint=f"create it where you want it: lakectl repo create lakefs://{name} s3://BUCKET/{name}",
            )
        separator = "" if prefix.endswith("/") else "/"
        self.api.create_repository(name, namespace=f"{prefix}{separator}{name}", default_branch=MAIN)
        return self.api.branch(name, MAIN)

    # branches
    def branches(self, repository: str, *, prefix: str = "") -> Iterator[Branch]:
        for branch in self.api.branches(repository, prefix=prefix):
            if branch.name != hook.GATES_BRANCH:
                yield branch

    def create_branch(self, repository: str, branch: str, *, at: Ref) -> None:
        check_name("branch", branch)
        _check_ref(at)
        answer = self.api.create_branch(repository, branch, at=at)
        if answer.status == 201:
            return
        once = branch.startswith(STAGING_PREFIX)
        if once and answer.status == 409 and self.api.find_branch(repository, branch) == at:
            return  # such names are used once: it was an earlier try of this very call whose answer was lost
        kind, name = ("ref", at) if answer.status == 404 else ("branch", branch)
        raise self._error(answer, f"create the branch {branch}", kind=kind, name=name)

    def delete_branch(self, repository: str, branch: str) -> bool:
        return self.api.delete_branch(repository, branch)

    def head(self, repository: str, branch: str) -> Head:
        at = self.commit_at(repository, self.api.branch(repository, branch))
        return Head(branch=branch, ref=at.ref, parents=at.parents, metadata=at.metadata)

    # reading
    def resolve(self, repository: str, name: str) -> Ref:
        found = next(self.api.log(repository, name, first_parent=True, page=1), None)
        if found is None:
            raise NotFound(message=f"{name!r} names no commit of {repository}", kind="ref", name=name)
        return found.ref

    def commit_at(self, repository: str, ref: Ref) -> LakeCommit:
        _check_ref(ref)
        return _shown(self.api.commit_at(repository, ref))

    def log(self, repository: str, ref: Ref, *, first_parent: bool = True) -> Iterator[LakeCommit]:
        _check_ref(ref)
        return (_shown(commit) for commit in self.api.log(repository, ref, first_parent=first_parent))

    def objects(self, repository: str, ref: Ref, *, prefix: str = "") -> Iterator[LakeObject]:
        _check_ref(ref)
        normal = normal_prefix(prefix)
        return (
            found
            for found in self.api.objects(repository, ref, prefix=normal)
            if under(normal, found.path) and not _is_action(found.path)
        )

    def open(self, repository: str, ref: Ref, path: str) -> AbstractContextManager[BinaryIO]:
        _check_ref(ref)
        return self._objects.open(repository, ref, path)

    @contextmanager
    def reading(self, repository: str, ref: Ref) -> Iterator[None]:
        """The server's own garbage collection keeps what commits refer to."""
        try:
            yield
        finally:
            if self._cache is not None:
                self._cache.flush()

    def fetch(self, repository: str, ref: Ref, wanted: Sequence[Wanted]) -> Iterator[Fetched]:
        _check_ref(ref)
        cache, items = self._cache, [item for item, _ in wanted]
        here = cache.look_up(self._place(repository), items) if cache is not None else [None] * len(items)
        for (item, into), kept in zip(wanted, here, strict=True):
            found = cache.fetch(kept, into=into) if cache is not None and kept is not None else None
            if found is None:
                found, data = self._objects.fetch(repository, ref, item, into=into)
                source = data if data is not None else LocalFile(Path(into), found.stat)
                self._keep(repository, item, source, found.digest)
            yield found

    def _keep(self, repository: str, item: LakeObject, source: Source, digest: str) -> None:
        """Put what was transferred into the cache; failing to is no failure of the transfer."""
        if self._cache is not None:
            try:
                self._cache.add(self._place(repository), item, source, digest=digest)
            except HeadgateError as failed:
                log.warning("%s is not kept in the download cache: %s", item.path, failed.summary)

    def _place(self, repository: str) -> str:
        return f"{self.client.name}/{repository}"

    def diff(self, repository: str, old: Ref, new: Ref, *, prefix: str = "") -> Iterator[Change]:
        _check_ref(old)
        _check_ref(new)
        normal = normal_prefix(prefix)
        return (
            found
            for found in self.api.diff(repository, old, new, prefix=normal)
            if under(normal, found.path) and not _is_action(found.path)
        )

    # writing
    def commit(
        self,
        repository: str,
        branch: str,
        changes: Changes,
        *,
        message: str,
        metadata: Mapping[str, str] | None = None,
        progress: Progress | None = None,
    ) -> Ref:
        puts, deletes = dict(changes.puts), list(changes.deletes)
        for path in (*puts, *deletes):
            _check_own_key(path)
        if not puts and not deletes:
            raise _nothing(branch)
        ours = branch.startswith(STAGING_PREFIX)
        before = None if ours else self.api.branch(repository, branch)
        self._stage(repository, branch, puts, progress, with_hook=ours)
        self.api.delete_objects(repository, branch, deletes)
        return self._commit(repository, branch, message, dict(metadata or {}), before)

    # written by others: the executors of a Spark job
    @property
    def own_prefix(self) -> str:
        return hook.ACTIONS_PREFIX

    def s3a_options(self, repository: str) -> Mapping[str, str]:
        return s3a_options(self.client.endpoint, repository)

    def staged(self, repository: str, branch: str) -> Iterator[Change]:
        return (found for found in self.api.uncommitted(repository, branch) if found.path != hook.PATH)

    def restore_staged(self, repository: str, branch: str, changes: Sequence[Change]) -> None:
        self.api.delete_objects(
            repository, branch, [change.path for change in changes if change.kind is ChangeKind.ADDED]
        )
        there = [change.path for change in changes if change.kind is not ChangeKind.ADDED]
        in_parallel(lambda path: self.api.drop_uncommitted(repository, branch, path), there, workers=TRANSFERS)

    def commit_staged(self, repository: str, branch: str, *, message: str, metadata: Mapping[str, str]) -> Ref:
        self._bring_hook(repository, branch)
        return self._commit(repository, branch, message, dict(metadata), None)

    def _bring_hook(self, repository: str, branch: str) -> None:
        """An input ref may be older than the fence: the staging branch gets it, since hooks are read from there."""
        if self._choice != "soft" and not self._carries_hook(repository, branch):
            self._objects.put(repository, branch, hook.PATH, hook.BYTES)

    def _commit(self, repository: str, branch: str, message: str, metadata: dict[str, str], before: Ref | None) -> Ref:
        """Commit what is staged. `before` is the head of a branch that others write to, too."""
        for _ in range(_COMMITS):
            try:
                answer = self.api.commit(repository, branch, message=message, metadata=metadata, repeat=before is None)
            except LostAnswer:
                made = self._made(repository, branch, message, metadata)
                if made is None or made == before:
                    raise
                return made
            if answer.status == 201:
                return Ref(answer.json()["id"])
            if refusal(answer) is Refusal.NO_CHANGES:
                # Either nothing was staged, or a commit made at the same time, or one of ours, took it along.
                now = self.api.branch(repository, branch)
                made = now if before not in (None, now) else self._made(repository, branch, message, metadata)
                if made is None or made == before:
                    raise _nothing(branch)
                return made
            if not (answer.status >= 500 and _LOST_SWAP in answer.message):
                break
        raise self._error(answer, f"commit on {branch}", kind="branch" if answer.status == 404 else "", name=branch)

    def _made(self, repository: str, branch: str, message: str, metadata: dict[str, str]) -> Ref | None:
        """The head, if it says of itself what our commit was to say."""
        head = self.api.commit_at(repository, self.api.branch(repository, branch))
        same = head.message == message and metadata.items() <= head.metadata.items()
        return head.ref if same else None

    def _stage(
        self, repository: str, branch: str, puts: dict[str, Source], progress: Progress | None, *, with_hook: bool
    ) -> None:
        def put(path: str, source: Source) -> None:
            staged, data = self._objects.put(repository, branch, path, source)
            if data is not None and self._cache is not None:
                self._keep(repository, staged, data, blake3(data).hexdigest())
            if progress is not None:
                progress(1, staged.size)
            failpoint(Failpoint.ATTEMPT_HALF_UPLOADED)

        jobs = [partial(put, path, source) for path, source in puts.items()]
        if with_hook:
            jobs.append(partial(self._bring_hook, repository, branch))
        in_parallel(lambda job: job(), jobs, workers=TRANSFERS)
        if self._cache is not None:
            self._cache.flush()

    # publishing
    def merge(
        self,
        repository: str,
        source: str,
        into: str,
        *,
        expected_head: Ref,
        message: str,
        metadata: Mapping[str, str] | None = None,
        squash: bool = True,
        publisher: Publisher | None = None,
        timeout: float | None = None,
    ) -> Ref:
        hard = self.strength(repository) is Strength.HARD
        if hard and not self._carries_hook(repository, source):
            self.api.branch(repository, source)  # a branch that was revoked is not found, whatever it carried
            if source.startswith(STAGING_PREFIX):
                raise RecoveryRequired(
                    message=f"the branch {source} does not carry the fence, so that its merge would not be fenced",
                    hint="let the attempt stage again; `headgate doctor` says what is wrong with the repository's hook",
                )
            _warn_soft(repository, reason=f"the branch {source} does not carry the hook")
            hard = False
        try:
            published = self._fence.merge(
                repository,
                source,
                into,
                expected_head=expected_head,
                message=message,
                metadata=metadata or {},
                squash=squash,
                publisher=publisher,
                timeout=timeout,
                hard=hard,
            )
        except MergeConflict as conflict:
            conflict.paths = tuple(self.api.conflicts(repository, source, into))
            raise
        if hard and not self._hook_ran(repository, published):
            self._proofs.forget(repository)
            _warn_soft(repository, reason=f"the server is not known to have run the hook for {published}")
        return published

    def _hook_ran(self, repository: str, published: Ref) -> bool:
        """What cannot be told is no; and it must not make a publish that has happened look like one that has not."""
        try:
            return self.api.hook_ran(repository, published)
        except HeadgateError as unknown:
            log.warning("whether the hook ran for %s cannot be told: %s", published, unknown.summary)
            return False

    def move_head(
        self,
        repository: str,
        branch: str,
        *,
        to_branch: str,
        expected_head: Ref,
        publisher: Publisher | None = None,
        timeout: float | None = None,
    ) -> Ref:
        return self._fence.move(
            repository,
            branch,
            to_branch=to_branch,
            expected_head=expected_head,
            publisher=publisher,
            timeout=timeout,
            hard=self.strength(repository) is Strength.HARD,
        )

    def revoke(self, repository: str, *branches: str, target: str) -> None:
        self._fence.revoke(repository, *branches, target=target)

    # ---------------------------------------------------------------------------------------------------------------
    def _carries_hook(self, repository: str, ref: str) -> bool:
        """Whether the bytes of the hook at a ref or on a branch are ours; a newer one than ours is an error."""
        found = self.api.find_object(repository, ref, hook.PATH)
        if found is None:
            return False
        if (found.checksum, found.size) == (hook.CHECKSUM, len(hook.BYTES)):
            return True
        data = self.api.read_object(repository, ref, hook.PATH)
        if (hook.protocol_of(data) or 0) > hook.PROTOCOL:
            raise Unsupported(
                message=f"{repository} has a fence of a newer protocol ({hook.protocol_of(data)}) than this program's "
                f"({hook.PROTOCOL})",
                hint="upgrade headgate on this machine",
            )
        return data == hook.BYTES

    def _error(self, answer: Answer, doing: str, *, kind: str = "", name: str = "") -> Exception:
        return error_of(answer, doing=doing, server=self.client.name, kind=kind, name=name)


def _warn_soft(repository: str, *, reason: str) -> None:
    log.warning("the fence of %s is soft: %s", repository, reason, extra={"repository": repository})


def _check_ref(ref: str) -> None:
    if not _REF.fullmatch(ref):
        raise NotFound(
            message=f"{ref!r} is not a full commit id",
            hint="a ref is all 64 hexadecimal digits of a commit id, never a branch name or a short id",
            kind="ref",
            name=ref,
        )


def _check_own_key(path: str) -> None:
    if _is_action(check_key(path)):
        raise InvalidInput(
            message=f"{path!r} lies where lakeFS keeps its hooks, which are never part of a workspace",
            hint="change hooks through a branch and a merge in lakeFS",
        )


def _is_action(path: str) -> bool:
    return path.startswith(hook.ACTIONS_PREFIX)


def _nothing(branch: str) -> NothingChanged:
    return NothingChanged(
        message=f"nothing changed on {branch}: there is nothing to commit", hint="change something first"
    )


def _shown(commit: LakeCommit) -> LakeCommit:
    """A commit without what the server notes in its metadata for itself."""
    kept = {key: value for key, value in commit.metadata.items() if not key.startswith(_SERVERS_OWN)}
    return LakeCommit(
        ref=commit.ref,
        parents=commit.parents,
        message=commit.message,
        committer=commit.committer,
        created_at=commit.created_at,
        metadata=kept,
    )
