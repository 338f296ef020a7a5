"""The lakeFS endpoints we use, one method each, with our values in and out. Open-source endpoints alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, Any

from headgate.errors import NotFound
from headgate.lake.interface import Branch, Change, ChangeKind, LakeCommit, LakeObject
from headgate.lake.lakefs.answers import Answer, error_of
from headgate.lake.lakefs.client import Client
from headgate.publication import Ref

PAGE = 1000
"""The most a listing answers at once, and the most a batch delete takes."""


@dataclass(frozen=True, kw_only=True)
class ServerFacts:
    """What the server says of itself."""

    version: str
    presigns: bool
    block_store: str
    namespace_prefix: str


class Api:
    """Calls about repositories. Reads and creations are repeated a few times; merge and reset never are."""

    def __init__(self, client: Client) -> None:
        self.client = client

    # server
    def facts(self) -> ServerFacts:
        got = self.client.expect("GET", "config", doing="tell its configuration").json()
        storage = got.get("storage_config") or {}
        return ServerFacts(
            version=str((got.get("version_config") or {}).get("version", "")),
            presigns=bool(storage.get("pre_sign_support")),
            block_store=str(storage.get("blockstore_type", "")),
            namespace_prefix=str(storage.get("default_namespace_prefix") or ""),
        )

    # repositories
    def repositories(self) -> Iterator[str]:
        for item in self._pages("repositories", doing="list the repositories"):
            yield str(item["id"])

    def create_repository(self, name: str, *, namespace: str, default_branch: str) -> None:
        self.client.expect(
            "POST",
            "repositories",
            payload={"name": name, "storage_namespace": namespace, "default_branch": default_branch},
            doing=f"create the repository {name}",
            kind="repository",
            name=name,
        )

    def default_branch(self, repository: str) -> str:
        got = self._get("repositories", repository, doing=f"find {repository}", kind="repository", name=repository)
        return str(got.json()["default_branch"])

    def protected_patterns(self, repository: str) -> list[str]:
        got = self._get(
            *self._repo(repository, "settings", "branch_protection"), doing=f"read the protection of {repository}"
        )
        return [str(rule["pattern"]) for rule in got.json()]

    # branches
    def branches(self, repository: str, *, prefix: str = "") -> Iterator[Branch]:
        path = self._repo(repository, "branches")
        for item in self._pages(
            *path, query={"prefix": prefix}, doing="list branches", kind="repository", name=repository
        ):
            yield Branch(name=str(item["id"]), ref=Ref(item["commit_id"]))

    def find_branch(self, repository: str, branch: str) -> Ref | None:
        answer = self.client.call("GET", *self._repo(repository, "branches", branch))
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise error_of(answer, doing=f"read the branch {branch}", server=self.client.name)
        return Ref(answer.json()["commit_id"])

    def branch(self, repository: str, branch: str) -> Ref:
        found = self.find_branch(repository, branch)
        if found is None:
            raise NotFound(
                message=f"lakeFS has no branch {branch!r} in {repository!r}, or no such repository",
                hint="check both names; `headgate lake branches` lists them",
                kind="branch",
                name=branch,
            )
        return found

    def create_branch(self, repository: str, branch: str, *, at: str) -> Answer:
        return self.client.call("POST", *self._repo(repository, "branches"), payload={"name": branch, "source": at})

    def delete_branch(self, repository: str, branch: str) -> bool:
        answer = self.client.call("DELETE", *self._repo(repository, "branches", branch))
        if answer.status == 404:
            return False
        if answer.status != 204:
            raise error_of(answer, doing=f"delete the branch {branch}", server=self.client.name)
        return True

    def uncommitted(self, repository: str, branch: str) -> Iterator[Change]:
        path = self._repo(repository, "branches", branch, "diff")
        for item in self._pages(*path, doing=f"list what is uncommitted on {branch}", kind="branch", name=branch):
            yield _change(item)

    def drop_uncommitted(self, repository: str, branch: str, path: str | None = None) -> None:
        """Everything, or what was done to one object."""
        self.client.expect(
            "PUT",
            *self._repo(repository, "branches", branch),
            payload={"type": "reset"} if path is None else {"type": "object", "path": path},
            doing=f"drop what is uncommitted on {branch}",
            kind="branch",
            name=branch,
        )

    # commits
    def commit_at(self, repository: str, ref: str) -> LakeCommit:
        got = self._get(*self._repo(repository, "commits", ref), doing=f"find the ref {ref}", kind="ref", name=ref)
        return _commit(got.json())

    def log(self, repository: str, ref: str, *, first_parent: bool, page: int = PAGE) -> Iterator[LakeCommit]:
        path = self._repo(repository, "refs", ref, "commits")
        query = {"first_parent": first_parent}
        for item in self._pages(*path, query=query, page=page, doing=f"read the log of {ref}", kind="ref", name=ref):
            yield _commit(item)

    def commit(
        self, repository: str, branch: str, *, message: str, metadata: Mapping[str, str], repeat: bool = False
    ) -> Answer:
        """`repeat` on a branch that nobody else writes to: the second of two is told that there are no changes."""
        return self.client.call(
            "POST",
            *self._repo(repository, "branches", branch, "commits"),
            payload={"message": message, "metadata": dict(metadata)},
            repeat=repeat,
        )

    def merge(
        self,
        repository: str,
        source: str,
        into: str,
        *,
        message: str,
        metadata: Mapping[str, str],
        squash: bool,
        timeout: float | None,
    ) -> Answer:
        return self.client.call(
            "POST",
            *self._repo(repository, "refs", source, "merge", into),
            payload={"message": message, "metadata": dict(metadata), "squash_merge": squash},
            timeout=timeout,
            repeat=False,
        )

    def poke(self, repository: str, nowhere: str, into: str) -> Answer:
        """Ask for a merge from a ref that does not exist: harmless, and harmless to repeat."""
        return self.client.call(
            "POST", *self._repo(repository, "refs", nowhere, "merge", into), payload={"squash_merge": True}
        )

    def hard_reset(self, repository: str, branch: str, *, to: str, timeout: float | None) -> Answer:
        path = self._repo(repository, "branches", branch, "hard_reset")
        return self.client.call("PUT", *path, query={"ref": to}, timeout=timeout, repeat=False)

    def diff(self, repository: str, old: str, new: str, *, prefix: str) -> Iterator[Change]:
        path = self._repo(repository, "refs", old, "diff", new)
        query = {"type": "two_dot", "prefix": prefix}
        for item in self._pages(*path, query=query, doing=f"compare {old} and {new}", kind="ref", name=f"{old}, {new}"):
            yield _change(item)

    def conflicts(self, repository: str, source: str, into: str) -> Iterator[str]:
        """The paths that both sides changed, in different ways, since they parted."""
        path = self._repo(repository, "refs", into, "diff", source)
        for item in self._pages(*path, query={"type": "three_dot"}, doing=f"compare {source} and {into}"):
            if item["type"] == "conflict":
                yield str(item["path"])

    def hook_ran(self, repository: str, commit: Ref) -> bool:
        """Whether the server ran any action for this commit."""
        path = self._repo(repository, "actions", "runs")
        got = self._get(*path, query={"commit": commit, "amount": 1}, doing="list the runs of hooks")
        return bool(got.json()["results"])

    # objects
    def objects(self, repository: str, ref: str, *, prefix: str) -> Iterator[LakeObject]:
        path = self._repo(repository, "refs", ref, "objects", "ls")
        query: dict[str, str | int | bool] = {"prefix": prefix, "user_metadata": False}
        for item in self._pages(*path, query=query, doing=f"list objects at {ref}", kind="ref", name=ref):
            yield LakeObject(
                path=str(item["path"]), size=int(item.get("size_bytes") or 0), checksum=str(item["checksum"])
            )

    def find_object(self, repository: str, ref: str, path: str) -> LakeObject | None:
        answer = self.client.call(
            "GET", *self._repo(repository, "refs", ref, "objects", "stat"), query={"path": path, "user_metadata": False}
        )
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise error_of(answer, doing=f"look for {path} at {ref}", server=self.client.name)
        item = answer.json()
        return LakeObject(path=path, size=int(item.get("size_bytes") or 0), checksum=str(item["checksum"]))

    def presigned(self, repository: str, ref: str, path: str) -> str:
        got = self._get(
            *self._repo(repository, "refs", ref, "objects", "stat"),
            query={"path": path, "presign": True, "user_metadata": False},
            doing=f"presign {path}",
            kind="object",
            name=path,
        )
        return str(got.json()["physical_address"])

    def read_object(self, repository: str, ref: str, path: str) -> bytes:
        return self._get(
            *self.object_path(repository, ref),
            query={"path": path},
            doing=f"read {path} at {ref}",
            kind="object",
            name=path,
        ).body

    def object_path(self, repository: str, ref: str) -> tuple[str, ...]:
        return self._repo(repository, "refs", ref, "objects")

    def put_object(
        self, repository: str, branch: str, path: str, body: bytes | IO[bytes], *, size: int, create_only: bool = False
    ) -> Answer:
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        if create_only:
            headers["If-None-Match"] = "*"
        return self.client.call(
            "POST",
            *self._repo(repository, "branches", branch, "objects"),
            query={"path": path},
            body=body,
            headers=headers,
        )

    def delete_objects(self, repository: str, branch: str, paths: Sequence[str]) -> None:
        """Delete in batches; paths that are not there are no error."""
        for at in range(0, len(paths), PAGE):
            answer = self.client.expect(
                "POST",
                *self._repo(repository, "branches", branch, "objects", "delete"),
                payload={"paths": list(paths[at : at + PAGE])},
                doing=f"delete objects on {branch}",
                kind="branch",
                name=branch,
            )
            failed = answer.json().get("errors") or []
            if failed:
                first = failed[0]
                told = Answer(status=int(first.get("status_code", 500)), body=answer.body)
                raise error_of(told, doing=f"delete {first.get('path')} on {branch}", server=self.client.name)

    def backing(self, repository: str, branch: str, path: str) -> dict[str, Any]:
        """A place in the block store for the bytes of an object, with a URL to put them to."""
        got = self._get(
            *self._repo(repository, "branches", branch, "staging", "backing"),
            query={"path": path, "presign": True},
            doing=f"find a place for {path}",
            kind="branch",
            name=branch,
        )
        return dict(got.json())

    def link(self, repository: str, branch: str, path: str, *, staging: Any, checksum: str, size: int) -> None:
        """Make what was put to a backing place the object at `path`."""
        self.client.expect(
            "PUT",
            *self._repo(repository, "branches", branch, "staging", "backing"),
            query={"path": path},
            payload={"staging": staging, "checksum": checksum, "size_bytes": size},
            doing=f"stage {path}",
            kind="branch",
            name=branch,
        )

    # ---------------------------------------------------------------------------------------------------------------
    @staticmethod
    def _repo(repository: str, *path: str) -> tuple[str, ...]:
        return ("repositories", repository, *path)

    def _get(self, *path: str, doing: str, kind: str = "", name: str = "", **call: Any) -> Answer:
        return self.client.expect("GET", *path, doing=doing, kind=kind, name=name, **call)

    def _pages(
        self,
        *path: str,
        doing: str,
        kind: str = "",
        name: str = "",
        query: Mapping[str, str | int | bool] | None = None,
        page: int = PAGE,
    ) -> Iterator[dict[str, Any]]:
        after = ""
        while True:
            asked = {**(query or {}), "after": after, "amount": page}
            got = self._get(*path, query=asked, doing=doing, kind=kind, name=name).json()
            yield from got["results"]
            if not got["pagination"]["has_more"]:
                return
            after = got["pagination"]["next_offset"]


def _commit(told: Mapping[str, Any]) -> LakeCommit:
    return LakeCommit(
        ref=Ref(told["id"]),
        parents=tuple(Ref(parent) for parent in told.get("parents") or ()),
        message=str(told.get("message") or ""),
        committer=str(told.get("committer") or ""),
        created_at=datetime.fromtimestamp(int(told["creation_date"]), UTC),
        metadata=dict(told.get("metadata") or {}),
    )


_KINDS = {"added": ChangeKind.ADDED, "changed": ChangeKind.CHANGED, "removed": ChangeKind.REMOVED}


def _change(told: Mapping[str, Any]) -> Change:
    kind = _KINDS.get(str(told["type"]), ChangeKind.CHANGED)
    size = 0 if kind is ChangeKind.REMOVED else int(told.get("size_bytes") or 0)
    return Change(path=str(told["path"]), kind=kind, size=size)
