"""What must hold after every step of a run, told from the disk alone; and what was promised to each writer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.simulation.graph.disk import Change, Disk
from tests.simulation.graph.writes import BRANCH, TAG, Seen, Write

from headgate.graph.manifest.publisher import RELOCATION
from headgate.graph.manifest.rows import Audit, Commit, HeadMark
from headgate.graph.manifest.state import ManifestState
from headgate.graph.recovery.roll import ACTOR


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

    def __init__(self, disk: Disk, tables: tuple[str, ...], writes: Mapping[str, Write], seen: Mapping[str, Seen]):
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

    def lineage(self, state: ManifestState | None = None) -> list[Commit]:
        """From the first commit to the head."""
        there = state or self.state()
        out: list[Commit] = []
        name = there.head(BRANCH).commit
        while name:
            found = there.find_commit(name)
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
        return self._relocated(write) if write.relocates else self.visible(write.tag)

    def visible(self, tag: str) -> bool:
        commits = (row for row in self._disk.ever.values() if isinstance(row, Commit))
        return any(row.metadata.get(TAG) == tag for row in commits)

    # -------- after each change of the manifest
    def _whole(self) -> None:
        state = self.state()
        lineage = self.lineage(state)
        self._tables_are_as_the_lineage_says(state, lineage)
        self._each_write_once()
        superseded = [commit.id for commit in lineage if commit.superseded_by]
        if superseded:
            raise Violation(f"superseded commits are in the lineage: {superseded}")
        for commit in lineage:
            if commit.id not in self._known:
                self._known.add(commit.id)
                self._was_decided_on_what_it_saw(commit, lineage)
        self._audit(state)
        for report in self.reports:
            self._promise(report)

    def _tables_are_as_the_lineage_says(self, state: ManifestState, lineage: list[Commit]) -> None:
        expected, pins = self.content(lineage), state.pins(BRANCH)
        for table in self._tables:
            if pins[table].version > len(self._disk.versions(state.table(table).path, pins[table].fork)):
                raise Violation(f"table {table} has no version {pins[table].version}, which its pin names")
            held = self._disk.content(state.table(table).path, pins[table].version, pins[table].fork)
            if sorted(held) != sorted(expected[table]):
                raise Violation(f"table {table} shows {held}, and the lineage says {expected[table]}")
            if pins[table].rows != len(held):
                raise Violation(f"table {table} has {len(held)} rows, and its pin says {pins[table].rows}")

    def _each_write_once(self) -> None:
        tags = Counter(
            row.metadata[TAG] for row in self._disk.ever.values() if isinstance(row, Commit) and TAG in row.metadata
        )
        twice = [tag for tag, times in tags.items() if times > 1]
        if twice:
            raise Violation(f"published twice: {twice}")
        ids = Counter(write.publish_id for write in self._published() if write.publish_id)
        if ids and max(ids.values()) > 1:
            raise Violation(f"a publish id was used by two commits: {ids}")

    def _published(self) -> Iterator[Write]:
        for row in self._disk.ever.values():
            if isinstance(row, Commit) and (write := self._write(row)) is not None:
                yield write

    def _was_decided_on_what_it_saw(self, commit: Commit, lineage: list[Commit]) -> None:
        seen, write = self._seen.get(commit.id), self._write(commit)
        if write is None:
            return
        if seen is None or seen.write.tag != write.tag:
            raise Violation(f"{write.tag} was published as {commit.id}, which is not its own commit")
        before = lineage[: lineage.index(commit)]
        held = self.content(before)
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
        for row in self._disk.ever.values():
            if isinstance(row, Commit) and row.actor == ACTOR and recovered[row.id] != 1:
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
        if write.relocates:
            self._relocation(report)
            return
        visible = self.visible(write.tag)
        if report.how == "ok":
            found = state.find_commit(report.commit)
            if found is None or found.metadata.get(TAG) != write.tag:
                raise Violation(f"{write.tag} was acknowledged and is not there")
        elif report.how == "repeated":
            found = state.find_commit(report.commit)
            if found is None or found.publish_id != write.publish_id:
                raise Violation(f"{write.tag} was told of a commit that has not its publish id")
            visible = visible and found.metadata.get(TAG) != write.tag  # it may have been rolled forward
        if report.how in ("conflict", "failed", "repeated") and visible:
            raise Violation(f"{write.tag} was reported as {report.how} and is visible")

    def _relocation(self, report: Report) -> None:
        done = self._relocated(report.write)
        if (report.how == "ok" and not done) or (report.how in ("conflict", "failed") and done):
            raise Violation(f"{report.write.tag} was reported as {report.how}, and the head says otherwise")

    def _relocated(self, write: Write) -> bool:
        audits = (row for row in self._disk.ever.values() if isinstance(row, Audit))
        return any(row.recovery_kind == RELOCATION and row.recovery_for_actor == write.tag for row in audits)

    def conflict_is_proved(self, seen: Seen | None, head: HeadMark, write: Write) -> None:
        """Whoever is told of a conflict can read it in the manifest."""
        state = self.state()
        now = state.head(BRANCH)
        conditional = write.conditional or write.replaces
        if conditional and now.mark != head:
            return
        if seen is None or seen.prepared.moved(state, BRANCH) is None:
            raise Violation(f"{write.tag} was told of a conflict that is not there")

    def _write(self, commit: Commit) -> Write | None:
        return self._writes.get(commit.metadata.get(TAG, ""))

    # -------- at the end
    def at_the_end(self) -> None:
        """Nothing is left open: every sidecar is gone and every unknown outcome is known by its commit."""
        self._whole()
        if self._disk.objects:
            raise Violation(f"sidecars are left: {sorted(self._disk.objects)}")
        state = self.state()
        for report in self.reports:
            if report.how == "unknown" and not report.write.relocates:
                there = state.find_commit(report.commit) is not None
                if there != self.visible(report.write.tag):
                    raise Violation(f"{report.write.tag} has an unknown outcome that its commit does not tell")
