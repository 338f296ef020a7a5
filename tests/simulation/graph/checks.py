"""What must hold after every step of a run, told from the disk alone; and what was promised to each writer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.simulation.graph.disk import Change, Disk
from tests.simulation.graph.writes import TAG, Seen, Write

from headgate.graph.manifest.publisher import RELOCATION
from headgate.graph.manifest.rows import Audit, Commit, Fork, Head, HeadMark
from headgate.graph.manifest.state import ManifestState
from headgate.graph.recovery.roll import ACTOR
from headgate.graph.recovery.sidecar import FOLDER


@dataclass(frozen=True)
class Report:
    """What a writer was told about a write."""

    write: Write
    how: str
    """ok, repeated, conflict, unknown, failed or cancelled."""
    commit: str = ""


class Violation(AssertionError):
    """A promise is broken."""


class Checks:
    """The auditor of one run. Looks whenever the manifest has moved."""

    def __init__(
        self, disk: Disk, tables: tuple[str, ...], writes: Mapping[str, Write], seen: Mapping[str, Seen]
    ) -> None:
        self._disk, self._tables, self._writes, self._seen = disk, tables, writes, seen
        self.reports: list[Report] = []
        self._looked_at = 0
        self._known: set[str] = set()

    def look(self) -> None:
        if self._disk.damage:
            raise Violation(self._disk.damage)
        if self._looked_at != self._disk.newest:
            self._looked_at = self._disk.newest
            self._whole()

    def state(self) -> ManifestState:
        """The newest rows, those that moved to the history included."""
        return ManifestState(self._disk.newest, self._disk.ever)

    def lineage(self, branch: str, state: ManifestState) -> list[Commit]:
        """From the first commit to the head of a branch."""
        out: list[Commit] = []
        name = state.head(branch).commit
        while name:
            found = state.find_commit(name)
            if found is None:
                raise Violation(f"commit {name} has no row")
            out.append(found)
            name = found.parent
        return out[::-1]

    def content(self, lineage: list[Commit]) -> dict[str, tuple[str, ...]]:
        """What the tables hold if each write of the lineage is there once, in its order."""
        out: dict[str, tuple[str, ...]] = dict.fromkeys(self._tables, ())
        for commit in lineage:
            write = self._write(commit)
            for table in write.tables if write else ():
                out[table] = Change(write.kind, write.tag).on(out[table])
        return out

    def done(self, write: Write) -> bool:
        return self._relocated(write) if write.relocates else self._visible(write.tag)

    def _visible(self, tag: str) -> bool:
        return any(row.metadata.get(TAG) == tag for row in self._commits())

    def _commits(self) -> Iterator[Commit]:
        return (row for row in self._disk.ever.values() if isinstance(row, Commit))

    def _write(self, commit: Commit) -> Write | None:
        return self._writes.get(commit.metadata.get(TAG, ""))

    # -------- after each change of the manifest
    def _whole(self) -> None:
        state = self.state()
        lineages = {branch: self.lineage(branch, state) for branch in state.branches}
        for branch, lineage in lineages.items():
            self._tables_are_as_the_lineage_says(state, branch, lineage)
            superseded = [commit.id for commit in lineage if commit.superseded_by]
            if superseded:
                raise Violation(f"branch {branch} shows superseded commits: {superseded}")
        self._no_commit_is_left_out(state, lineages)
        self._each_write_once()
        self._audit(state)
        for report in self.reports:
            self._promise(report)

    def _tables_are_as_the_lineage_says(self, state: ManifestState, branch: str, lineage: list[Commit]) -> None:
        expected, pins = self.content(lineage), state.pins(branch)
        for table in self._tables:
            path, pin = state.table(table).path, pins[table]
            if pin.version > len(self._disk.tables.get((path, pin.fork), ())):
                raise Violation(f"table {table} has no version {pin.version}, which its pin names")
            held = self._disk.content(path, pin.version, pin.fork)
            if sorted(held) != sorted(expected[table]):
                raise Violation(f"table {table} of {branch} shows {held}, and the lineage says {expected[table]}")
            if pin.rows != len(held):
                raise Violation(f"table {table} of {branch} has {len(held)} rows, and its pin says {pin.rows}")

    def _no_commit_is_left_out(self, state: ManifestState, lineages: Mapping[str, list[Commit]]) -> None:
        """Every commit was published on the head, and what was published stays in the lineage."""
        for commit in self._commits():
            lineage = lineages.get(commit.branch)
            there = lineage is not None and commit in lineage
            if commit.id not in self._known:
                self._known.add(commit.id)
                if not there:
                    raise Violation(f"commit {commit.id} was published on {commit.branch} and is not in its lineage")
                assert lineage is not None
                self._was_decided_on_what_it_saw(commit, lineage)
            if not there and lineage is not None and self._must_stay(state, commit):
                raise Violation(f"commit {commit.id} is no longer in the lineage of {commit.branch}")

    @staticmethod
    def _must_stay(state: ManifestState, commit: Commit) -> bool:
        """Whether it is of the branch that has the name now, and was not replaced."""
        return commit.order > state.head(commit.branch).inherited and commit.content and not commit.superseded_by

    def _each_write_once(self) -> None:
        tags = Counter(row.metadata[TAG] for row in self._commits() if TAG in row.metadata)
        twice = [tag for tag, times in tags.items() if times > 1]
        if twice:
            raise Violation(f"published twice: {twice}")
        ids = Counter(row.publish_id for row in self._commits() if row.publish_id)
        if ids and max(ids.values()) > 1:
            raise Violation(f"a publish id was used by two commits: {ids}")

    def _was_decided_on_what_it_saw(self, commit: Commit, lineage: list[Commit]) -> None:
        seen, write = self._seen.get(commit.id), self._write(commit)
        if write is None:
            return
        if seen is None or seen.write.tag != write.tag:
            raise Violation(f"{write.tag} was published as {commit.id}, which is not its own commit")
        if any(change.staged.uuid in self._disk.removed for change in seen.prepared.changes if change.staged):
            raise Violation(f"{write.tag} was published, and its files were removed before")
        held = self.content(lineage[: lineage.index(commit)])
        for table, content in seen.content.items():
            if sorted(held[table]) != sorted(content):
                raise Violation(f"{write.tag} was published over content of {table} that its checks did not see")
        if write.conditional and commit.parent != seen.head.commit:
            raise Violation(f"{write.tag} is conditional on {seen.head} and was published on {commit.parent}")
        if write.replaces and commit.parent != write.onto:
            raise Violation(f"{write.tag} takes the place of a commit and has the parent {commit.parent}")

    def _audit(self, state: ManifestState) -> None:
        audits = [row for row in self._disk.ever.values() if isinstance(row, Audit)]
        recovered = Counter(row.graph_commit_id for row in audits if row.recovery_kind != RELOCATION)
        for row in self._commits():
            if row.actor == ACTOR and recovered[row.id] != 1:
                raise Violation(f"the recovery commit {row.id} has {recovered[row.id]} audit rows")
        for audit in audits:
            if audit.recovery_kind == RELOCATION:
                continue
            there = state.find_commit(audit.operation_id) is not None
            if there != (audit.recovery_kind == "roll_forward"):
                raise Violation(f"the audit says {audit.recovery_kind} of {audit.operation_id}: there is {there}")
            seen = self._seen.get(audit.operation_id)
            if seen is not None and seen.write.task and audit.recovery_kind == "roll_forward":
                raise Violation(f"the task attempt {seen.write.tag} was rolled forward")

    # -------- what was promised
    def reported(self, report: Report) -> None:
        self.reports.append(report)
        self._promise(report)

    def _promise(self, report: Report) -> None:
        write, state = report.write, self.state()
        done = self.done(write)
        if write.relocates:
            if (report.how == "ok" and not done) or (report.how in ("conflict", "failed") and done):
                raise Violation(f"{write.tag} was reported as {report.how}, and the head says otherwise")
            return
        found = state.find_commit(report.commit)
        if report.how == "ok" and (found is None or found.metadata.get(TAG) != write.tag):
            raise Violation(f"{write.tag} was acknowledged and is not there")
        if report.how == "repeated":
            if found is None or found.publish_id != write.publish_id:
                raise Violation(f"{write.tag} was told of a commit that has not its publish id")
            done = done and found.metadata.get(TAG) != write.tag  # it may have been rolled forward
        if report.how in ("conflict", "failed", "repeated") and done:
            raise Violation(f"{write.tag} was reported as {report.how} and is visible")

    def _relocated(self, write: Write) -> bool:
        audits = (row for row in self._disk.ever.values() if isinstance(row, Audit))
        return any(row.recovery_kind == RELOCATION and row.recovery_for_actor == write.tag for row in audits)

    def conflict_is_proved(self, write: Write, head: HeadMark, seen: Seen | None) -> None:
        """Whoever is told of a conflict can read it in the manifest."""
        state = self.state()
        now = state.find_head(write.branch)
        if now is None or now.closed or (seen is not None and now.incarnation != seen.incarnation):
            return
        if (write.conditional or write.replaces) and now.mark != head:
            return
        if write.replaces and self._descends(state, write):
            return
        if seen is None or seen.prepared.moved(state, write.branch) is None:
            raise Violation(f"{write.tag} was told of a conflict that is not there")

    @staticmethod
    def _descends(state: ManifestState, write: Write) -> bool:
        """Whether a branch was ever made from the commit to be replaced; it may be gone again."""
        gone = state.find_commit(write.replaces)
        assert gone is not None
        made = (row for row in state.rows.values() if isinstance(row, Head | Fork))
        return any(row.parent_branch == write.branch and row.base_order >= gone.order for row in made)

    # -------- at the end
    def at_the_end(self) -> None:
        """Nothing is left open: every sidecar is gone and every unknown outcome is known by its commit."""
        self._whole()
        left = [stored.name for stored in self._disk.list(FOLDER)]
        if left:
            raise Violation(f"sidecars are left: {left}")
        state = self.state()
        for report in self.reports:
            if report.how == "unknown" and not report.write.relocates:
                there = state.find_commit(report.commit) is not None
                if there != self._visible(report.write.tag):
                    raise Violation(f"{report.write.tag} has an unknown outcome that its commit does not tell")
