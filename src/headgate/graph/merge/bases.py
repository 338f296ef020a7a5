"""What two commits have in common: their nearest ancestors, over parents and merged parents."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.graph.manifest.rows import Commit
from headgate.graph.manifest.state import ManifestState
from headgate.graph.manifest.table import Manifest


class Commits:
    """Commits by id, live or from the history, which is read once if it is needed."""

    def __init__(self, manifest: Manifest, state: ManifestState) -> None:
        self._manifest, self._state = manifest, state
        self._past: dict[str, Commit] | None = None

    def find(self, commit: str) -> Commit | None:
        found = self._state.find_commit(commit)
        if found is None:
            if self._past is None:
                rows = self._manifest.history.rows("kind = 'commit'")
                self._past = {row.id: row for row in rows if isinstance(row, Commit)}
            found = self._past.get(commit)
        return found

    def parents(self, commit: str) -> tuple[str, ...]:
        found = self.find(commit)
        return () if found is None else tuple(name for name in (found.parent, found.merged_parent) if name)

    def ancestors(self, commit: str) -> set[str]:
        """A commit and everything it was made on or brought in."""
        seen: set[str] = set()
        waiting = [commit]
        while waiting:
            name = waiting.pop()
            if name not in seen and self.find(name) is not None:
                seen.add(name)
                waiting.extend(self.parents(name))
        return seen

    def newest_first(self, commit: str, *, first_parent: bool = False) -> Iterator[Commit]:
        """A commit and its ancestors, each after all of its children."""
        reached = self.ancestors(commit)
        if first_parent:
            found = self.find(commit)
            while found is not None:
                yield found
                found = self.find(found.parent)
            return
        children = dict.fromkeys(reached, 0)
        for name in reached:
            for parent in self.parents(name):
                if parent in children:
                    children[parent] += 1
        ready = [commit]
        while ready:
            ready.sort(key=lambda name: self._key(name))
            name = ready.pop()
            found = self.find(name)
            assert found is not None
            yield found
            for parent in self.parents(name):
                if parent in children:
                    children[parent] -= 1
                    if not children[parent]:
                        ready.append(parent)

    def _key(self, name: str) -> tuple[str, str]:
        found = self.find(name)
        assert found is not None
        return found.created_at, name


def merge_bases(commits: Commits, ours: str, theirs: str) -> list[str]:
    """The common ancestors that are no ancestor of another one; several after merges in both directions."""
    common = commits.ancestors(ours) & commits.ancestors(theirs)
    passed = {parent for name in common for parent in commits.parents(name)}
    return sorted(common - passed, reverse=True)
