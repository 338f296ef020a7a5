"""The rules of the protocol, taken out of the product's code one at a time: what the simulation must find."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from tests.simulation.graph import world
from tests.simulation.graph.process import SimulatedManifest
from tests.simulation.graph.world import SIDE, Scenario
from tests.simulation.graph.writes import Write

from headgate.errors import OutcomeUnknown
from headgate.graph.manifest import publisher, upkeep
from headgate.graph.manifest.publisher import Publication, Published
from headgate.graph.manifest.rows import PublishRow
from headgate.graph.manifest.state import ManifestState
from headgate.graph.manifest.table import MergeContended, MergeUnknown
from headgate.graph.recovery import heal, roll
from headgate.graph.recovery.classify import Movement, Observed, Resolution, movement_of, resolve
from headgate.graph.recovery.sidecar import Sidecar
from headgate.graph.storage import CommitRefused, CommitUnknown
from headgate.graph.store import GraphStore
from headgate.graph.write import commit
from headgate.graph.write.prepared import TableChange

Break = Callable[[], AbstractContextManager[Any]]
Focus = Callable[[Scenario], Scenario]


def _restores_what_has_moved() -> AbstractContextManager[Any]:
    def restore(store: GraphStore, path: str, at: Any) -> int:
        newest = store.tables.head_version(path, at.fork)
        return newest if newest == at.version else restore_to(store, path, at)

    restore_to = roll.restore_to
    return patch.object(roll, "restore_to", restore)


@contextmanager
def _never_looks_for_itself() -> Iterator[None]:
    """Each try of a publish goes without the look for its own commit; only what it merged itself is looked up."""
    merge, find = SimulatedManifest.merge, publisher.find_commit
    merged: dict[int, ManifestState] = {}

    def remember(self: SimulatedManifest, state: ManifestState, rows: Any) -> ManifestState:
        merged[id(self)] = merge(self, state, rows)
        return merged[id(self)]

    def blind(manifest: Any, state: ManifestState, publication: Publication) -> Any:
        return find(manifest, state, publication) if merged.get(id(manifest)) is state else None

    with patch.object(SimulatedManifest, "merge", remember), patch.object(publisher, "find_commit", blind):
        yield


def _takes_any_transaction_for_its_own() -> AbstractContextManager[Any]:
    def blind(seen: Observed) -> Movement:
        return movement_of(replace(seen, ours=True))

    return patch.object(heal, "movement_of", blind)


def _gives_up_without_a_publish() -> AbstractContextManager[Any]:
    def give_up(store: GraphStore, sidecar: Sidecar, why: BaseException) -> None:
        commit._undo(store, sidecar)

    return patch.object(world, "_GIVE_UP", give_up)


def _rolls_back_what_is_settled() -> AbstractContextManager[Any]:
    def is_settled(store: GraphStore, state: ManifestState, sidecar: Sidecar) -> bool:
        return state.find_commit(sidecar.operation) is not None

    return patch.object(heal, "is_settled", is_settled)


def _rolls_tasks_forward() -> AbstractContextManager[Any]:
    def forward(tables: Any, *, conditions_hold: bool, only_back: bool) -> Resolution:
        return resolve(tables, conditions_hold=conditions_hold, only_back=False)

    return patch.object(heal, "resolve", forward)


def _rolls_half_forward() -> AbstractContextManager[Any]:
    def forward(tables: Any, *, conditions_hold: bool, only_back: bool) -> Resolution:
        moved = [seen for seen in tables if seen is not Movement.NO_MOVEMENT]
        return resolve(moved or tables, conditions_hold=conditions_hold, only_back=only_back)

    return patch.object(heal, "resolve", forward)


def _commits_again_after_a_lost_answer() -> AbstractContextManager[Any]:
    def land(store: GraphStore, change: TableChange) -> int:
        while change.staged is not None and change.pin is None and not change.new_fork:
            try:
                return store.tables.commit(change.at, change.staged)
            except CommitUnknown:
                continue
            except CommitRefused:
                break
        return whole(store, change)

    whole = commit.land
    return patch.object(commit, "land", land)


def _believes_any_version() -> AbstractContextManager[Any]:
    """A commit that lands above somebody else's residue is taken for a landing."""

    def land(store: GraphStore, change: TableChange) -> int:
        if change.staged is None or change.pin is not None or change.new_fork:
            return whole(store, change)
        try:
            return store.tables.commit(change.at, change.staged)
        except (CommitUnknown, CommitRefused):
            return whole(store, change)

    whole = commit.land
    return patch.object(commit, "land", land)


def _writes_the_audit_afterwards() -> AbstractContextManager[Any]:
    def publish(manifest: Any, publication: Publication, **more: Any) -> Published:
        done = publisher.publish(manifest, replace(publication, audit=None), **more)
        state = manifest.state()
        if publication.audit is not None and done.commit.id == publication.commit:
            with suppress(MergeContended, MergeUnknown):
                manifest.merge(state, [replace(state.head(publication.branch)), publication.audit])
        return done

    return patch.object(roll, "publish", publish)


def _rolls_forward_under_a_new_commit() -> AbstractContextManager[Any]:
    def forward(store: GraphStore, sidecar: Sidecar, movements: Mapping[str, Movement]) -> Published:
        return real(store, replace(sidecar, operation=store.ids.new()), movements)

    real = heal.publish_roll_forward
    return patch.object(heal, "publish_roll_forward", forward)


def _reports_success_in_doubt() -> AbstractContextManager[Any]:
    def publish(store: GraphStore, sidecar: Sidecar, landed: dict[str, int], waiting: Any) -> Published:
        try:
            return real(store, sidecar, landed, waiting)
        except OutcomeUnknown:
            state = store.manifest.known()
            rows = publisher.candidate(state, sidecar.publication(landed), created_at="")
            return Published(rows[1], state)  # type: ignore[arg-type]

    real = commit._publish
    return patch.object(commit, "_publish", publish)


def _expects_no_versions() -> AbstractContextManager[Any]:
    """Neither tables it changed nor tables its checks read are looked at again in the publish."""
    return patch.object(Sidecar, "expected", property(lambda self: {}))


@contextmanager
def _expects_no_tables_it_read() -> Iterator[None]:
    """And takes the lock under a name that may be dead: either rule alone holds the other's place."""
    real = Sidecar.expected.fget
    assert real is not None

    def expected(self: Sidecar) -> Any:
        return {name: at for name, at in real(self).items() if name not in self.reads}

    with _locks_under_a_dead_name(), patch.object(Sidecar, "expected", property(expected)):
        yield


@contextmanager
def _expects_no_head() -> Iterator[None]:
    real = Sidecar.publication

    def publication(self: Sidecar, landed: Mapping[str, int]) -> Publication:
        return replace(real(self, landed), if_head=False)

    with _locks_under_a_dead_name(), patch.object(Sidecar, "publication", publication):
        yield


def _locks_under_a_dead_name() -> AbstractContextManager[Any]:
    return patch.object(commit, "_on_the_head", lambda state, sidecar: True)


def _forgets_that_it_was_revoked() -> AbstractContextManager[Any]:
    """Its sidecar names a record that lies above every floor."""

    @contextmanager
    def staged_under(self: GraphStore) -> Iterator[str]:
        with real(self):
            yield "~"

    real = GraphStore.staged_under
    return patch.object(GraphStore, "staged_under", staged_under)


def _merges_publish_ids_apart() -> AbstractContextManager[Any]:
    return patch.object(PublishRow, "branch_scoped", property(lambda self: True))


def _drops_versions_under_writers() -> AbstractContextManager[Any]:
    """A writer that was stopped for long looks for conflicts in the versions that are left."""

    def keep_compact(manifest: SimulatedManifest, state: ManifestState, **more: Any) -> None:
        manifest.drop_versions(range(1, state.version))

    return patch.object(upkeep, "keep_compact", keep_compact)


def _between(*writes: Write, **more: Any) -> Focus:
    """Runs of these writes, each by a writer of its own, in which the living are often taken for dead."""
    tables = ("t0", "t1")

    def focus(plan: Scenario) -> Scenario:
        faults = replace(plan.faults, rude=1, cancelled=0)
        writers = tuple((write,) for write in writes)
        plain = replace(plan, tables=tables, writers=writers, faults=faults, abandoned=False, recoverers=1, readers=0)
        return replace(plain, policy="stalling", **more)

    return focus


def _on_each_other() -> Focus:
    one = Write(tag="w0.0", tables=("t0",), reads=("t1",), insert_only=False)
    other = Write(tag="w1.0", tables=("t1",), reads=("t0",), insert_only=False)
    return _between(one, other)


def _on_the_head() -> Focus:
    return _between(Write(tag="w0.0", tables=("t0",), conditional=True), Write(tag="w1.0", tables=("t1",)))


def _with_one_publish_id() -> Focus:
    here = Write(tag="w0.0", tables=("t0",), publish_id="p")
    return _between(here, replace(here, tag="w1.0", branch=SIDE), side=True, branchers=0)


def _on_two_branches() -> Focus:
    main = [Write(tag=f"w{number}.0", tables=("t0",)) for number in range(3)]
    side = [Write(tag=f"w{number}.0", tables=("t0",), branch=SIDE) for number in range(3, 5)]
    return _between(*main, *side, side=True, branchers=0)


def _of_one_table() -> Focus:
    among = _between(*(Write(tag=f"w{number}.0", tables=("t0",)) for number in range(3)))

    def focus(plan: Scenario) -> Scenario:
        faults = replace(among(plan).faults, lost=0.1, late=0.1, dies=0.02)
        return replace(among(plan), faults=faults)

    return focus


def _unanswered(plan: Scenario) -> Scenario:
    return replace(plan, faults=replace(plan.faults, muted=0.5, cut_off=0))


def _removed_meanwhile(plan: Scenario) -> Scenario:
    return replace(plan, remover=True, policy="stalling", faults=replace(plan.faults, rude=1))


def _anything(plan: Scenario) -> Scenario:
    return plan


BROKEN: dict[str, tuple[Break, Focus]] = {
    "a roll back restores only tables that have moved": (_restores_what_has_moved, _anything),
    "a publish does not look for its own commit first": (_never_looks_for_itself, _anything),
    "a table's transaction is told by its version alone": (_takes_any_transaction_for_its_own, _anything),
    "a writer that gives up only undoes its effects": (_gives_up_without_a_publish, _anything),
    "a sidecar whose base is no longer the head is rolled back": (_rolls_back_what_is_settled, _anything),
    "a task attempt is rolled forward": (_rolls_tasks_forward, _anything),
    "a write of which some tables are committed is rolled forward": (_rolls_half_forward, _anything),
    "a commit whose answer was lost is made again": (_commits_again_after_a_lost_answer, _anything),
    "a commit is believed wherever it landed": (_believes_any_version, _of_one_table()),
    "the audit row follows the publish": (_writes_the_audit_afterwards, _anything),
    "a roll forward makes a commit of its own": (_rolls_forward_under_a_new_commit, _anything),
    "a publish in doubt is reported as done": (_reports_success_in_doubt, _unanswered),
    "a publish expects no versions": (_expects_no_versions, _anything),
    "a publish does not expect the tables that were only read": (_expects_no_tables_it_read, _on_each_other()),
    "a conditional publish does not expect its head": (_expects_no_head, _on_the_head()),
    "a publish id is merged as rows of one branch are": (_merges_publish_ids_apart, _with_one_publish_id()),
    "a writer whose staged files were removed goes on": (_forgets_that_it_was_revoked, _removed_meanwhile),
    "old versions of the manifest are dropped under writers": (_drops_versions_under_writers, _on_two_branches()),
}
"""Each rule with what breaks it, and the runs in which that shows soonest."""
