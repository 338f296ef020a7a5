"""One run: a seed makes the writers, the order of their steps and everything that goes wrong.

Writers, recoverers and readers run the product's own code, each as a process of its own, over one disk. Calls are
reordered, delayed, lost before or after they took effect, landed late; processes die or stall anywhere. After each
step the auditor looks. The same seed makes the same run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, TypeVar
from unittest.mock import patch

from tests.simulation.graph.baton import Actor, Baton, Killed
from tests.simulation.graph.checks import Checks, Report, Violation
from tests.simulation.graph.disk import Disk, ManifestVersion, Request, Version
from tests.simulation.graph.process import Refused, Unreachable, open_store
from tests.simulation.graph.writes import MAIN, Seen, Write, prepare

from headgate.errors import Conflict, HeadgateError, OutcomeUnknown
from headgate.graph.branches.making import create_branch, delete_branch
from headgate.graph.manifest import ManifestState, upkeep
from headgate.graph.manifest.format import known_formats
from headgate.graph.manifest.rows import Commit, Format, Head, HeadMark, Pin, Row, SchemaRow, TableRow
from headgate.graph.manifest.travel import ancestors
from headgate.graph.recovery import heal as healing
from headgate.graph.recovery import staging
from headgate.graph.recovery.staging import StagingRecord, revoke_dead
from headgate.graph.store import GraphStore, Patience
from headgate.graph.write import commit as committing
from headgate.graph.write.prepared import Prepared

T = TypeVar("T")
_GIVE_UP = committing.give_up
MOST_STEPS = 6000
DELICATE = ("manifest.merge", "tables.commit", "tables.restore", "objects.put", "objects.delete")
"""Before these a process has looked at the world and is about to act on what it saw."""
SIDE = "side"
LATE = 0.08
"""How likely a request that is on its way lands before the next step."""


@dataclass(frozen=True)
class Faults:
    """How likely each fault is, per call."""

    lost: float = 0.0
    late: float = 0.0
    refused: float = 0.0
    dies: float = 0.0
    cancelled: float = 0.0
    muted: float = 0.0
    """From here on none of its publishes is answered for a while."""
    cut_off: float = 0.0
    """From here on a process reaches nothing for a while."""
    rude: float = 0.0
    """How often a process at work is taken for gone."""


@dataclass(frozen=True)
class Scenario:
    """What happens in a run, but for the order of it."""

    tables: tuple[str, ...]
    writers: tuple[tuple[Write, ...], ...]
    recoverers: int
    readers: int
    faults: Faults
    policy: str
    eager_upkeep: bool
    timeout: float
    abandoned: bool
    """The head is a publication nobody accepted."""
    remover: bool
    side: bool
    """There is a branch beside main from the start."""
    branchers: int
    """Processes that make and delete the branch beside main."""


def scenario(chance: random.Random) -> Scenario:
    tables = tuple(f"t{number}" for number in range(chance.choice([1, 2, 2, 3])))
    abandoned = chance.random() < 0.15
    long = chance.random() < 0.08
    branches = chance.random() < 0.3
    writers = tuple(
        tuple(
            _write(chance, f"w{number}.{turn}", tables, branches)
            for turn in range(6 if long else chance.choice([1, 1, 2]))
        )
        for number in range(chance.choice([1, 2, 2, 3, 3]))
    )
    if chance.random() < 0.1:
        writers = tuple((replace(first, publish_id="p"), *more) for first, *more in writers)
    if abandoned:
        first = Write(
            tag="w0.0",
            tables=("t0",),
            insert_only=False,
            task=True,
            relocates=chance.random() < 0.5,
            replaces="H",
            onto="A",
        )
        writers = ((first,), *writers[1:])
    return Scenario(
        tables=tables,
        writers=writers,
        recoverers=chance.choice([0, 1, 1, 2]),
        readers=chance.choice([0, 0, 1]),
        faults=Faults(
            lost=chance.choice([0, 0.02, 0.1]),
            late=chance.choice([0, 0.02, 0.05]),
            refused=chance.choice([0, 0.05]),
            dies=chance.choice([0, 0.01, 0.04]),
            cancelled=chance.choice([0, 0.02]),
            muted=chance.choice([0, 0, 0.1]),
            cut_off=chance.choice([0, 0, 0.01]),
            rude=chance.choice([0, 0.3, 1]),
        ),
        policy=chance.choice(["uniform", "sticky", "stalling", "stalling", "ranked"]),
        eager_upkeep=chance.random() < (0.8 if long else 0.3),
        timeout=chance.choice([3.0, 1e9]),
        abandoned=abandoned,
        remover=chance.random() < 0.15,
        side=branches and chance.random() < 0.6,
        branchers=chance.choice([0, 1, 1, 2]) if branches else 0,
    )


def _write(chance: random.Random, tag: str, tables: tuple[str, ...], branches: bool) -> Write:
    written = tuple(sorted(chance.sample(tables, chance.randint(1, min(2, len(tables))))))
    others = [table for table in tables if table not in written]
    plain = Write(tag=tag, tables=written, branch=SIDE if branches and chance.random() < 0.7 else MAIN)
    match chance.choice(
        ["append", "append", "strict", "strict", "reads", "conditional", "task", "task", "fold", "schema", "id", "id"]
    ):
        case "strict":
            return replace(plain, insert_only=False, kind=chance.choice(["append", "rewrite", "overwrite"]))
        case "reads":
            return replace(plain, reads=tuple(others[:1]), insert_only=chance.random() < 0.5)
        case "conditional":
            return replace(plain, conditional=True, insert_only=chance.random() < 0.5)
        case "task":
            return replace(plain, task=True, insert_only=False, kind=chance.choice(["append", "rewrite"]))
        case "fold":
            return replace(plain, kind="fold", content=False)
        case "schema":
            return replace(plain, schema=True, insert_only=False)
        case "id":
            return replace(plain, publish_id=chance.choice(["p", "q"]), insert_only=chance.random() < 0.5)
        case _:
            return plain


@dataclass
class World:
    """The state of one run."""

    seed: int
    chance: random.Random
    plan: Scenario
    disk: Disk = field(default_factory=Disk)
    trace: list[str] = field(default_factory=list)
    in_flight: list[tuple[str, Request[Any]]] = field(default_factory=list)
    seen: dict[str, Seen] = field(default_factory=dict)
    """What each commit id was prepared on."""
    makers: dict[str, Actor] = field(default_factory=dict)
    actors: list[Actor] = field(default_factory=list)
    quiet: bool = False
    """Nothing goes wrong any more."""

    def __post_init__(self) -> None:
        self.writes = {write.tag: write for writes in self.plan.writers for write in writes}
        self.checks = Checks(self.disk, self.plan.tables, self.writes, self.seen)
        self.baton = Baton(self.choose)
        self._numbers = 0
        self._cancelled: set[str] = set()
        self._giving_up: set[str] = set()
        self._cut_off: dict[str, int] = {}
        self._muted: dict[str, int] = {}
        self._asleep: dict[str, int] = {}
        self._ranks: dict[str, float] = {}
        self._current: Actor | None = None
        self._begin()

    def number(self) -> int:
        self._numbers += 1
        return self._numbers

    # -------- how it begins
    def _begin(self) -> None:
        rows: list[Row] = [
            Format(stamp=known_formats().current),
            SchemaRow(branch=MAIN, order=1, schema="first"),
            Head(branch=MAIN, order=1, commit="A"),
            Commit(branch=MAIN, order=1, id="A", writer="init", tables=self.plan.tables),
        ]
        for table in self.plan.tables:
            self.disk.tables[(f"tables/{table}", "")] = [Version("", "create", ())]
            rows.append(TableRow(branch=MAIN, order=1, table=table, type_id=1, path=f"tables/{table}", name=table))
            rows.append(Pin(branch=MAIN, order=1, table=table, version=1))
        if self.plan.abandoned:
            self.writes["H"] = Write(tag="H", tables=("t0",), task=True)
            self.seen["H"] = Seen(self.writes["H"], Prepared(changes=(), schema_order=1), HeadMark("A", 1))
            self.disk.tables[("tables/t0", "")].append(Version("h", "append", ("H",)))
            rows[2] = Head(branch=MAIN, order=2, commit="H")
            rows.append(Pin(branch=MAIN, order=2, table="t0", version=2, rows=1))
            rows.append(Commit(branch=MAIN, order=2, id="H", parent="A", metadata={"tag": "H"}, tables=("t0",)))
        if self.plan.side:
            main = rows[2]
            assert isinstance(main, Head)
            rows.append(
                Head(
                    branch=SIDE,
                    order=main.order + 1,
                    commit=main.commit,
                    parent_branch=MAIN,
                    base_order=main.order,
                    inherited=main.order,
                    incarnation="first",
                )
            )
        named = {row.object_id: row for row in rows}
        self.disk.manifest.append(ManifestVersion(named))
        self.disk.ever.update(named)

    # -------- who is next, and what goes wrong
    def choose(self, actors: list[Actor]) -> Actor:
        if len(self.trace) > MOST_STEPS:
            raise Violation("the run does not end")
        self.checks.look()
        self.disk.seconds += 0.01
        while self.in_flight and self.chance.random() < LATE:
            self._land(self.in_flight.pop(self.chance.randrange(len(self.in_flight))))
        actor = self._pick(actors)
        actor.fault = self._fault(actor)
        self._current = actor
        self.trace.append(f"{actor.name} {actor.at}{' ' if actor.fault else ''}{actor.fault}")
        return actor

    def _land(self, late: tuple[str, Request[Any]]) -> None:
        what, request = late
        if request.possible():
            self.trace.append(f"late: {what}")
            request.land()
            self.checks.look()

    def _pick(self, actors: list[Actor]) -> Actor:
        chance, policy = self.chance, self.plan.policy
        if policy == "uniform" or len(actors) == 1:
            return chance.choice(actors)
        if policy == "ranked":
            for actor in actors:
                self._ranks.setdefault(actor.name, chance.random())
            first = max(actors, key=lambda actor: self._ranks[actor.name])
            if first.at == "wait" or chance.random() < 0.03:
                self._ranks[first.name] = min(self._ranks.values()) - 1
            return first
        step = len(self.trace)
        awake = [actor for actor in actors if self._asleep.get(actor.name, 0) <= step] or actors
        if policy == "stalling":
            for actor in awake:
                delicate = actor.at.startswith(DELICATE)
                if chance.random() < (0.08 if delicate else 0.005):
                    self._asleep[actor.name] = step + chance.choice([5, 20, 80, 400])
            awake = [actor for actor in awake if self._asleep.get(actor.name, 0) <= step] or awake
        if self._current in awake and self._current.at != "wait" and chance.random() < 0.9:
            return self._current
        return chance.choice(awake)

    def _fault(self, actor: Actor) -> str:
        if actor.at == "start":
            return ""
        faults, dice = self.plan.faults, self.chance.random()
        if self._is_unheard(actor):
            return self.chance.choice(["lost before", "lost before", "late"])
        for name in ("lost", "late", "refused", "dies", "cancelled", "cut_off"):
            likely: float = getattr(faults, name)
            if dice < likely:
                return self._fault_of(actor, name)
            dice -= likely
        return ""

    def _is_unheard(self, actor: Actor) -> bool:
        """Whether the network is down for this process, all of it or for its publishes."""
        if actor.at == "manifest.merge" and self.chance.random() < self.plan.faults.muted:
            self._muted.setdefault(actor.name, self.chance.choice([2, 8]))
        for unheard, down in ((self._cut_off, True), (self._muted, actor.at.startswith("manifest.merge"))):
            if down and unheard.get(actor.name, 0) > 0:
                unheard[actor.name] -= 1
                return True
        return False

    def _fault_of(self, actor: Actor, name: str) -> str:
        if name == "cancelled" and not self._may_cancel(actor):
            return ""
        if name == "cut_off":
            self._cut_off[actor.name] = self.chance.choice([5, 20, 60])
            return ""
        return name if name in ("refused", "late") else f"{name} {self.chance.choice(['before', 'after'])}"

    def _may_cancel(self, actor: Actor) -> bool:
        """A writer, once: whoever is stopped while it stops is as good as dead, and that is another fault."""
        if not actor.name.startswith("writer") or actor.name in self._cancelled or actor.name in self._giving_up:
            return False
        self._cancelled.add(actor.name)
        return True

    def give_up(self, *args: Any) -> Any:
        """The product's own, and known to be at it."""
        assert self._current is not None
        name = self._current.name
        self._giving_up.add(name)
        try:
            return _GIVE_UP(*args)
        finally:
            self._giving_up.discard(name)

    def is_gone(self, owner: object, operation: str) -> bool:
        """Right about the dead, and as often wrong about the living as the run likes."""
        del owner
        maker = self.makers.get(operation)
        if maker is None or maker.ended or maker.dead:
            return True
        return not self.quiet and self.chance.random() < self.plan.faults.rude

    # -------- what the actors do
    def process(self, actor: Actor) -> GraphStore:
        return open_store(
            self.disk,
            FaultyCalls(self, actor),
            ids=Ids(self, actor),
            wait=lambda seconds: self._pause(actor),
            patience=Patience(write_timeout=self.plan.timeout, sidecar_age=timedelta(seconds=20)),
        )

    def _pause(self, actor: Actor) -> None:
        self.disk.seconds += 0.2
        self.baton.give_way(actor, "wait")
        take(actor)

    def writer(self, writes: tuple[Write, ...]) -> Callable[[Actor], None]:
        def work(actor: Actor) -> None:
            store = self.process(actor)
            for write in writes:
                self.perform(store, actor, write)

        return work

    def perform(self, store: GraphStore, actor: Actor, write: Write) -> None:
        """One write, as a caller makes it, and what it was told."""
        seen: Seen | None = None
        try:
            state = store.manifest.state()
            head = state.head(write.branch).mark
            if write.replaces and not self._stands(store, state, write):
                return
        except HeadgateError:
            return
        except KeyboardInterrupt:
            return

        def prepared(state: ManifestState) -> Prepared:
            nonlocal seen
            seen = prepare(store, self.disk, write, state, head, self.number())
            vars(actor)["seen"] = seen
            record = store.staging._current
            self.disk.staged += [(record, change.staged.uuid) for change in seen.prepared.changes if change.staged]
            return seen.prepared

        try:
            done = committing.write(store, write.request(head), prepared)
            report = Report(write, "repeated" if done.repeated else "ok", done.commit)
        except Conflict:
            self.checks.conflict_is_proved(write, head, seen)
            report = Report(write, "conflict")
        except OutcomeUnknown as unknown:
            report = Report(write, "unknown", unknown.publish_id)
        except HeadgateError:
            report = Report(write, "failed")
        except KeyboardInterrupt:
            # Interrupted after its publish it may say so; before, it must have made sure that there will be none.
            report = Report(write, "cancelled" if self.checks.done(write) else "failed")
        self.trace.append(f"{actor.name} is told: {write.tag} {report.how} {report.commit}")
        self.checks.reported(report)

    def _stands(self, store: GraphStore, state: ManifestState, write: Write) -> bool:
        """The publish fence: what the head shows is still the abandoned commit."""
        for commit in ancestors(store.manifest, state, state.head(write.branch).commit):
            if commit.content:
                return commit.id == write.replaces
        return False

    def recoverer(self, actor: Actor) -> None:
        for _ in range(3):
            store = self.process(actor)
            try:
                healing.heal(store)
            except (HeadgateError, KeyboardInterrupt):
                continue
            self._pause(actor)

    def remover(self, actor: Actor) -> None:
        """Removes what dead writers have staged, as a cleanup does."""
        for _ in range(2):
            store = self.process(actor)
            try:
                revoke_dead(store.manifest, store.objects, older_than=timedelta(seconds=5))
                if not store.sidecars.find():
                    floor = store.manifest.known().staging_floor
                    FaultyCalls(self, actor).write("files.remove", lambda floor=floor: self.disk.remove_staged(floor))
            except (HeadgateError, Unreachable, Refused):
                continue
            self._pause(actor)

    def checked_upkeep(self, upkeep: Callable[..., None]) -> Callable[..., None]:
        """Upkeep may fail, and the write it follows goes on; but only for what a store does to it."""

        def checked(*args: Any, **more: Any) -> None:
            try:
                upkeep(*args, **more)
            except (HeadgateError, Unreachable, Refused):
                raise
            except Exception as error:
                self.disk.damage = f"upkeep fails: {error!r}"

        return checked

    def may_be_alive(self, record: StagingRecord, now: object, older_than: object) -> bool:
        return not self.is_gone(record.owner, record.id)

    def brancher(self, actor: Actor) -> None:
        """Makes the branch, and now and then takes it away and makes another of the same name."""
        store = self.process(actor)
        for _ in range(self.chance.choice([1, 1, 3])):
            try:
                if self.chance.random() < 0.3:
                    delete_branch(store, SIDE)
                create_branch(store, SIDE)
            except (HeadgateError, KeyboardInterrupt) as told:
                self.trace.append(f"{actor.name} is told: {type(told).__name__}")
            self._pause(actor)

    def reader(self, actor: Actor) -> None:
        """A snapshot holds exactly the writes of its own lineage, whatever happens while it is read."""
        for _ in range(3):
            store = self.process(actor)
            try:
                state = store.manifest.state()
            except (HeadgateError, KeyboardInterrupt):
                continue
            ever = ManifestState(state.version, {**self.disk.ever, **state.rows})
            branch = self.chance.choice(state.branches)
            expected = self.checks.content(self.checks.lineage(branch, ever))
            for table, pin in state.pins(branch).items():
                self._pause(actor)
                held = store.tables.open(state.table(table).path, pin.version, pin.fork).dataset
                if sorted(held.content) != sorted(expected[table]):  # type: ignore[attr-defined]
                    raise Violation(f"a reader saw {held} in {table}, and its lineage says {expected[table]}")

    # -------- the whole of it
    def run(self) -> None:
        for number, writes in enumerate(self.plan.writers):
            self._add(f"writer{number}", self.writer(writes))
        for number in range(self.plan.recoverers):
            self._add(f"recoverer{number}", self.recoverer)
        if self.plan.remover:
            self._add("remover", self.remover)
        for number in range(self.plan.branchers):
            self._add(f"brancher{number}", self.brancher)
        for number in range(self.plan.readers):
            self._add(f"reader{number}", self.reader)
        self.baton.run()
        self.checks.look()
        for late in self.in_flight:
            if self.chance.random() < 0.5:
                self._land(late)
        self.in_flight.clear()
        self._the_next_writer_gets_through()

    def _add(self, name: str, work: Callable[[Actor], None]) -> None:
        actor = Actor(name, work)
        self.actors.append(actor)
        self.baton.add(actor)

    def _the_next_writer_gets_through(self) -> None:
        """Whatever happened: without faults every table can be written to, and nothing stays open."""
        self.quiet = True
        self._cut_off.clear()
        self._muted.clear()
        self.plan = replace(self.plan, faults=Faults(), policy="uniform", timeout=1e9)
        writes = tuple(
            Write(tag=f"last.{branch}.{table}", branch=branch, tables=(table,), insert_only=False)
            for branch in self.checks.state().branches
            for table in self.plan.tables
        )
        self.writes.update({write.tag: write for write in writes})
        self._add("the next writer", self.writer(writes))
        self.baton.run()
        self._add("the last sweep", lambda actor: self._sweep(actor))
        self.baton.run()
        for write in writes:
            told = [report.how for report in self.checks.reports if report.write is write]
            if told != ["ok"]:
                raise Violation(f"the next writer of {write.tables} was told {told}")
        self.checks.at_the_end()

    def _sweep(self, actor: Actor) -> None:
        try:
            left = healing.heal(self.process(actor))
        except HeadgateError as problem:
            raise Violation(f"the last sweep fails: {problem}") from problem
        if left:
            raise Violation(f"{left} sidecars are left to writers that have ended")


class FaultyCalls:
    """The calls of one process, as the run wants them to go."""

    def __init__(self, world: World, actor: Actor) -> None:
        self._world, self._actor = world, actor

    def read(self, what: str, answer: Callable[[], T]) -> T:
        self._world.baton.give_way(self._actor, what)
        match take(self._actor):
            case "lost":
                raise Unreachable
        return answer()

    def write(self, what: str, plan: Callable[[], Request[T]]) -> T:
        actor = self._actor
        self._world.baton.give_way(actor, what)
        fault, _, when = actor.fault.partition(" ")
        if when != "after":
            take(actor)
        actor.fault = ""
        try:
            if fault == "refused":
                raise Refused
            request = plan()
        except Exception:
            if fault == "lost":
                raise Unreachable from None
            raise
        if fault == "late":
            self._world.in_flight.append((f"{actor.name} {what}", request))
            raise Unreachable
        if fault == "lost" and when == "before":
            raise Unreachable
        answered = request.land()
        match fault:
            case "lost":
                raise Unreachable
            case "dies":
                actor.dead = True
                raise Killed
            case "cancelled":
                raise KeyboardInterrupt
        return answered


def take(actor: Actor) -> str:
    """The fault of a call that changes nothing, or has not been made yet."""
    fault, actor.fault = actor.fault.partition(" ")[0], ""
    match fault:
        case "dies":
            actor.dead = True
            raise Killed
        case "cancelled":
            raise KeyboardInterrupt
    return fault


class Ids:
    """Ids that tell which process made them, and on what it was at work."""

    def __init__(self, world: World, actor: Actor) -> None:
        self._world, self._actor = world, actor

    def new(self) -> str:
        made = f"{self._world.number():06d}-{self._actor.name}"
        self._world.makers[made] = self._actor
        seen = vars(self._actor).get("seen")
        if seen is not None:
            self._world.seen[made] = seen
        return made


@contextmanager
def patched(world: World) -> Iterator[None]:
    """What the product asks of its own process and host is asked of the run."""
    with ExitStack() as patches:
        patches.enter_context(patch.object(healing, "is_gone", world.is_gone))
        patches.enter_context(patch.object(committing, "give_up", world.give_up))
        patches.enter_context(patch.object(staging, "_may_be_alive", world.may_be_alive))
        checked = world.checked_upkeep(upkeep.keep_compact)
        patches.enter_context(patch.object(upkeep, "keep_compact", checked))
        if world.plan.eager_upkeep:
            for name, value in {"FRAGMENTS": 2, "MOVED_AT_ONCE": 1, "COMMITS_KEPT": 1, "VERSIONS_KEPT": 3}.items():
                patches.enter_context(patch.object(upkeep, name, value))
        yield


def play(seed: int, focus: Callable[[Scenario], Scenario] = lambda plan: plan) -> World:
    """One run; a broken promise raises with the seed that makes it again. `focus` says what it is to be about."""
    chance = random.Random(seed)
    world = World(seed, chance, focus(scenario(chance)))
    try:
        with patched(world):
            world.run()
    except Exception as problem:
        if not isinstance(problem, Violation) and not world.disk.damage:
            raise
        steps = "\n".join(f"  {line}" for line in world.trace[-60:])
        raise Violation(
            f"HEADGATE_GRAPH_SIMULATION_SEED={seed}: {world.disk.damage or problem}\n{world.plan}\n{steps}"
        ) from problem
    return world
