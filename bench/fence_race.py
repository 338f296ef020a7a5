"""Publishers, replacers, people and late requests race for one head on a real lakeFS server; who wins, what is lost.

Each round takes a fresh target branch and one of the races below. Whoever is told that it has published is accepted.
A round has one winner if exactly one of those who raced for the same head was told so; accepted work is lost if it is
not in the target's first-parent history at the end. Beside it the same first race runs under the soft fence, which
loses: so the benchmark can be seen to detect the fault.
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

from tools.servers import Server, lakefs_server
from tools.servers.proxy import Fault, FaultProxy

from bench import harness
from headgate.errors import Conflict, Fenced, HeadgateError, OutcomeUnknown, StaleAttemptError, Transient
from headgate.ids import ULIDS
from headgate.lake.interface import MAIN, Changes
from headgate.lake.lakefs import Endpoint, LakeFSLake
from headgate.lake.publisher import Owner
from headgate.publication import Head, Ref

_TRIES = 12
"""How often a replacer that was told to try again does so in one round."""


@dataclass
class Racer:
    """One attempt. It releases every gate it meets, so that replacers fight as hard as they can."""

    name: str = field(default_factory=lambda: ULIDS.new().lower())
    stale: bool = False

    @property
    def owner(self) -> Owner:
        return Owner(orchestrator="race", workflow=self.name, task_id=self.name, execution=self.name)

    def still_runs(self, other: Owner) -> bool:
        return False

    def confirm(self, head: Head) -> None:
        if self.stale:
            raise StaleAttemptError(message="another attempt is current")


@dataclass
class Arena:
    """A repository whose first commit carries the fence; a round takes a branch of it."""

    lake: LakeFSLake
    repository: str
    base: Ref

    def target(self) -> str:
        name = f"target-{ULIDS.new().lower()}"
        self.lake.create_branch(self.repository, name, at=self.base)
        return name

    def stage(self, at: Ref) -> str:
        name = ULIDS.new().lower()
        branch = f"headgate-staging-{name}"
        self.lake.create_branch(self.repository, branch, at=at)
        self.lake.commit(self.repository, branch, Changes(puts={f"f/{name}": name.encode()}), message=name)
        return branch

    def merge(self, branch: str, target: str, expected: Ref) -> Ref:
        return self.lake.merge(
            self.repository, branch, target, expected_head=expected, message=branch, publisher=Racer()
        )

    def move(self, branch: str, target: str, expected: Ref, *, stale: bool = False) -> Ref:
        return self.lake.move_head(
            self.repository, target, to_branch=branch, expected_head=expected, publisher=Racer(stale=stale), timeout=20
        )

    def head(self, branch: str) -> Ref:
        return self.lake.head(self.repository, branch).ref

    def history(self, target: str) -> list[Ref]:
        return [commit.ref for commit in self.lake.log(self.repository, self.head(target))]

    def abandoned(self, target: str) -> Ref:
        return self.merge(self.stage(self.base), target, self.base)


@dataclass
class Round:
    accepted: list[Ref]
    """Refs whose publishers were told that they have published."""
    rivals: int
    """How many of those raced for the same head: one is right."""
    lost: int = 0
    unknown: int = 0


Told: TypeAlias = Ref | HeadgateError | None
Action: TypeAlias = Callable[[], Ref | None]


def at_once(actions: Sequence[Action]) -> list[Told]:
    """Run every action in a thread of its own, all let go at the same moment; results and refusals in order."""
    results: list[Told] = [None] * len(actions)
    ready = threading.Barrier(len(actions))

    def run(number: int, action: Action) -> None:
        ready.wait()
        try:
            results[number] = action()
        except HeadgateError as refused:
            results[number] = refused

    threads = [threading.Thread(target=run, args=item) for item in enumerate(actions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def judge(arena: Arena, target: str, results: Sequence[Told]) -> Round:
    """Who won, and whether it stayed. A refusal has to be one that says: stop, refresh, or try again."""
    strange = [r for r in results if isinstance(r, HeadgateError) and not isinstance(r, Fenced | Conflict | Transient)]
    unexpected = [r for r in strange if not isinstance(r, OutcomeUnknown)]
    if unexpected:
        raise unexpected[0]
    won = [Ref(r) for r in results if isinstance(r, str)]
    history = set(arena.history(target))
    lost = sum(ref not in history for ref in won)
    return Round(accepted=won, rivals=len(won), lost=lost, unknown=len(strange))


# --------------------------------------------------------------------------------------------------------- the races
def publishers(arena: Arena, number: int) -> Round:
    """Two to eight publishers from one input ref."""
    target = arena.target()
    staged = [arena.stage(arena.base) for _ in range(2 + number % 7)]
    return judge(arena, target, at_once([partial(arena.merge, branch, target, arena.base) for branch in staged]))


def people(arena: Arena, number: int) -> Round:
    """Publishers against a person, whose merge expects nothing and may come on top of the winner's."""
    target, person = arena.target(), f"person-{ULIDS.new().lower()}"
    arena.lake.create_branch(arena.repository, person, at=arena.base)
    arena.lake.commit(arena.repository, person, Changes(puts={f"p/{person}": b"x"}), message=person)
    staged = [arena.stage(arena.base) for _ in range(2)]
    theirs: list[Ref] = []

    def merge() -> Ref | None:
        answer = arena.lake.api.merge(
            arena.repository, person, target, message=person, metadata={}, squash=False, timeout=20
        )
        if answer.status == 200:
            theirs.append(Ref(answer.json()["reference"]))
        return None

    judged = judge(
        arena, target, at_once([merge, *(partial(arena.merge, branch, target, arena.base) for branch in staged)])
    )
    judged.lost += sum(ref not in arena.history(target) for ref in theirs)
    log = arena.lake.log(arena.repository, arena.head(target))
    judged.rivals = sum(commit.parents[:1] == (arena.base,) for commit in log)
    return judged


def writer_on_abandoned(arena: Arena, number: int) -> Round:
    """A replacement against a writer that builds on the head it replaces."""
    target = arena.target()
    head = arena.abandoned(target)
    replacement, onto = arena.stage(arena.base), arena.stage(head)
    return _until_decided(
        arena, target, head, [lambda: arena.move(replacement, target, head), lambda: arena.merge(onto, target, head)]
    )


def two_replacers(arena: Arena, number: int) -> Round:
    """Two replacements that break each other's gate, and a writer."""
    target = arena.target()
    head = arena.abandoned(target)
    onto = arena.stage(head)
    return _until_decided(
        arena,
        target,
        head,
        [
            lambda: arena.move(arena.stage(arena.base), target, head),
            lambda: arena.move(arena.stage(arena.base), target, head),
            lambda: arena.merge(onto, target, head),
        ],
    )


def relocation(arena: Arena, number: int) -> Round:
    """A no-op's move back to the input ref against a merge onto the abandoned head."""
    target = arena.target()
    head = arena.abandoned(target)
    onto = arena.stage(head)

    def back() -> Ref:
        branch = f"headgate-staging-{ULIDS.new().lower()}"
        arena.lake.create_branch(arena.repository, branch, at=arena.base)
        return arena.move(branch, target, head)

    return _until_decided(arena, target, head, [back, lambda: arena.merge(onto, target, head)])


def paused(arena: Arena, number: int) -> Round:
    """A stale attempt that paused before its replacement, against the attempt that is current."""
    target = arena.target()
    head = arena.abandoned(target)
    stale, current = arena.stage(arena.base), arena.stage(arena.base)
    return _until_decided(
        arena,
        target,
        head,
        [lambda: arena.move(stale, target, head, stale=True), lambda: arena.move(current, target, head)],
    )


def _until_decided(arena: Arena, target: str, head: Ref, actions: list[Action]) -> Round:
    """Race; where everybody was told to try again, one replacer does, as its retry would."""
    return judge(arena, target, at_once(actions) + _retried(arena, target, head))


def _retried(arena: Arena, target: str, head: Ref) -> list[Told]:
    results: list[Told] = []
    for _ in range(_TRIES):
        if arena.head(target) != head:
            break
        results += at_once([lambda: arena.move(arena.stage(arena.base), target, head)])
    return results


def late_reset(arena: Arena, number: int, *, through: LakeFSLake, proxy: FaultProxy) -> Round:
    """A reset that reaches the server after its attempt was given up and another has won."""
    target = arena.target()
    head = arena.abandoned(target)
    late = arena.stage(arena.base)
    held = proxy.next("PUT", rf"/branches/{target}/hard_reset", Fault.HOLD_REQUEST)
    results: list[Told] = []

    def give_up() -> None:
        try:
            results.append(
                through.move_head(
                    arena.repository, target, to_branch=late, expected_head=head, publisher=Racer(), timeout=0.2
                )
            )
        except HeadgateError as refused:
            results.append(refused)

    thread = threading.Thread(target=give_up)
    thread.start()
    held.arrived.wait(20)
    winner, onto = arena.stage(arena.base), arena.stage(head)
    release = threading.Timer(0.05 * (number % 8), held.release)
    release.start()
    results += at_once([lambda: arena.move(winner, target, head), lambda: arena.merge(onto, target, head)])
    thread.join()
    release.join()
    held.over.wait(20)
    return judge(arena, target, results + _retried(arena, target, head))


def retries(arena: Arena, number: int) -> Round:
    """Losers that retry under another workflow: from the head that beat them, which stays where it is."""
    target = arena.target()
    accepted: list[Ref] = []
    lock = threading.Lock()

    def persist() -> Ref:
        for _ in range(_TRIES):
            at = arena.head(target)
            try:
                ref = arena.merge(arena.stage(at), target, at)
            except (Fenced, Conflict, Transient):
                continue
            with lock:
                accepted.append(ref)
            return ref
        raise Transient(message="lost every race")

    at_once([persist] * 3)
    history = set(arena.history(target))
    return Round(accepted=accepted, rivals=1, lost=sum(ref not in history for ref in accepted))


Race: TypeAlias = Callable[[Arena, int], Round]
RACES: dict[str, Race] = {
    "publishers": publishers,
    "people": people,
    "writer_on_abandoned": writer_on_abandoned,
    "two_replacers": two_replacers,
    "relocation": relocation,
    "paused": paused,
}


def soft_round(arena: Arena, number: int) -> bool:
    """Whether the soft fence let more than one of two publishers through from one input ref."""
    return publishers(arena, 0).rivals > 1


def open_arena(server: Server, lake: LakeFSLake, *, carries_hook: bool) -> Arena:
    repository = f"race-{ULIDS.new().lower()}"
    lake.create_repository(repository)
    first = lake.commit(repository, MAIN, Changes(puts={"f/first": b"x"}), message="first")
    arena = Arena(lake, repository, first)
    if carries_hook:
        arena.base = arena.merge(arena.stage(first), MAIN, first)
    return arena


def measure(args: argparse.Namespace) -> harness.Result:
    with lakefs_server() as server, FaultProxy(server.url) as proxy:
        at = Endpoint(url=server.url, access_key_id=server.access_key, secret_access_key=server.secret_key)
        with (
            LakeFSLake(at, fence="hard") as hard,
            LakeFSLake(at, fence="soft") as soft,
            LakeFSLake(replace(at, url=proxy.url), fence="hard") as through,
        ):
            arena = open_arena(server, hard, carries_hook=True)
            races: dict[str, Race] = {**RACES, "late_reset": partial(late_reset, through=through, proxy=proxy)}
            result = race(arena, races, rounds=args.rounds)
            loose = open_arena(server, soft, carries_hook=False)
            result["soft_broken"] = sum(soft_round(loose, number) for number in range(args.rounds))
    return result


def race(arena: Arena, races: Mapping[str, Race], *, rounds: int) -> harness.Result:
    """Every race in turn; `retries` after each, since it is what losers do."""
    one_winner = lost = lost_after_retry = 0
    broken: dict[str, int] = {}
    for number in range(rounds):
        name = list(races)[number % len(races)]
        got = races[name](arena, number)
        one_winner += got.rivals == 1
        lost += got.lost
        lost_after_retry += retries(arena, number).lost
        if got.rivals != 1 or got.lost:
            broken[name] = broken.get(name, 0) + 1
            harness.say(f"round {number}, {name}: {got}")
    return {
        "rounds": rounds,
        "one_winner": one_winner,
        "lost_accepted": lost,
        "lost_after_retry": lost_after_retry,
        "broken": broken,
    }


if __name__ == "__main__":
    harness.main(
        measure,
        name="fence_race",
        about="Publishers, replacers, people and late requests race for one head on a real lakeFS.",
        arguments=[harness.argument("--rounds", 50, "how many races")],
    )
