"""Many processes write, kill and read one graph; an auditor knows every acknowledged write.

Each writer gives every write a number of its own. A write inserts one row into each of two tables and an edge between
them, so a snapshot that shows one without the others shows half a write. Recoverers take every writer for dead at any
time, and settle what they find. Writers and recoverers are killed at random and started again; a write whose answer
nobody got may be there or not, but whole.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import signal
import sys
import tempfile
import time
from contextlib import nullcontext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest.mock import patch

import headgate.graph as hg
from bench import harness
from headgate.errors import Conflict, OutcomeUnknown, Transient
from headgate.graph.manifest.rows import Audit
from headgate.graph.recovery import heal as healing
from headgate.graph.recovery.roll import ACTOR
from headgate.testing.children import fresh_processes

SCHEMA = """
node Item { key: String @key  writer: I32  count: I64 }
node Shadow { key: String @key  writer: I32  count: I64 }
node Counter { writer: I32 @key  count: I64 }
edge Casts: Item -> Shadow { }
"""
ADD = """query add($key: String, $writer: I32, $count: I64) {
  insert Item { key: $key, writer: $writer, count: $count }
  insert Shadow { key: $key, writer: $writer, count: $count }
  insert Casts { from: $key, to: $key }
}"""
COUNT = "query count($writer: I32, $count: I64) { insert Counter { writer: $writer, count: $count } }"
CHANGE = "query change($key: String, $count: I64) { update Item set { count: $count } where key = $key }"
DROP = "query drop($key: String) { delete Item where key = $key delete Shadow where key = $key }"


def writer(place: str, number: int, seed: int, journal: str) -> None:
    """Write until killed; each acknowledged write is a line of the journal, and so is each one begun."""
    chance = random.Random(seed)
    graph = hg.open(place)
    done = 0
    with Path(journal).open("a", buffering=1) as lines:

        def note(what: str, key: str) -> None:
            lines.write(json.dumps({"what": what, "key": key}) + "\n")
            lines.flush()
            os.fsync(lines.fileno())

        mine: list[str] = []
        while True:
            kind = chance.choice(["add", "add", "add", "load", "count", "change", "drop"])
            key = f"{number}-{seed}-{done}"
            done += 1
            if kind in ("change", "drop") and not mine:
                continue
            target = mine.pop(chance.randrange(len(mine))) if kind == "drop" else key
            if kind == "change":
                target = chance.choice(mine)
            note(f"begin {kind}", target)
            try:
                if kind == "add":
                    graph.mutate(ADD, {"key": key, "writer": number, "count": done}, publish_id=key)
                elif kind == "load":
                    row = {"key": key, "writer": number, "count": done}
                    edge = {"edge": "Casts", "from": key, "to": key}
                    graph.load([{"type": "Item", "data": row}, {"type": "Shadow", "data": row}, edge], publish_id=key)
                elif kind == "count":
                    graph.mutate(COUNT, {"writer": number, "count": done})
                elif kind == "change":
                    graph.mutate(CHANGE, {"key": target, "count": -done})
                else:
                    graph.mutate(DROP, {"key": target})
            except (Conflict, Transient):
                note(f"refused {kind}", target)
                if kind == "drop":
                    mine.append(target)
                continue
            except OutcomeUnknown:
                continue
            note(f"done {kind}", target)
            if kind in ("add", "load"):
                mine.append(target)


def recoverer(place: str, seed: int) -> None:
    """Sweep until killed, now and then as if every writer were gone: safety may not rest on who is alive."""
    chance = random.Random(seed)
    graph = hg.open(place)
    while True:
        rudely = patch.object(healing, "is_gone", lambda owner, operation: True)
        try:
            with rudely if chance.random() < 0.3 else nullcontext():
                healing.heal(graph.store)
        except (Conflict, Transient, OutcomeUnknown):
            continue
        time.sleep(chance.uniform(0, 0.2))


def check_snapshot(graph: hg.Graph) -> int:
    """How many writes a snapshot shows half of."""
    base = graph.base()
    items = base.dataset("Item").to_table(columns=["id"])["id"].to_pylist()
    shadows = base.dataset("Shadow").to_table(columns=["id"])["id"].to_pylist()
    edges = base.dataset("Casts").to_table(columns=["src", "dst"])
    ends = set(edges["src"].to_pylist()) | set(edges["dst"].to_pylist())
    return len(set(items) ^ set(shadows)) + len(ends ^ set(items)) + int(edges.num_rows != len(items))


def reader(place: str, found: Any, stop: Any) -> None:
    graph = hg.open(place, "ro")
    half = 0
    while not stop.is_set():
        half += check_snapshot(graph)
    found.value += half


def _done(journal: Path) -> int:
    return journal.read_text().count('"done ') if journal.exists() else 0


def audit(place: str, folder: Path) -> dict[str, int]:
    """Hold what the graph shows against what the journals say was acknowledged, begun or refused."""
    graph = hg.open(place)
    held: list[str] = graph.base().dataset("Item").to_table(columns=["id"])["id"].to_pylist()
    added: set[str] = set()
    dropped: set[str] = set()
    perhaps: set[str] = set()
    writes = 0
    for path in folder.glob("*.journal"):
        begun: dict[str, str] = {}
        for line in path.read_text().splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            (state, kind), key = entry["what"].split(), entry["key"]
            if state == "begin":
                begun[key] = kind
                continue
            begun.pop(key, None)
            if state == "done":
                writes += 1
                if kind in ("add", "load"):
                    added.add(key)
                elif kind == "drop":
                    dropped.add(key)
        perhaps |= begun.keys()
    expected = added - dropped
    lost = len(expected - set(held) - perhaps) + len((set(held) & dropped) - perhaps)
    duplicated = len(held) - len(set(held))
    foreign = set(held) - added - perhaps
    log = list(graph.log())
    recovered = [commit for commit in log if commit.actor == ACTOR]
    audited = [row.graph_commit_id for row in _audits(graph)]
    missing = [commit for commit in recovered if commit.id not in audited]
    chain = sum(1 for commit, parent in itertools.pairwise(log) if commit.parent != parent.id)
    return {
        "writes": writes,
        "lost": lost + chain,
        "duplicated": duplicated + len(foreign),
        "half_visible": check_snapshot(graph),
        "audit_missing": len(missing),
        "audit_double": len(audited) - len(set(audited)),
        "commits": len(log),
        "recovered": len(audited),
    }


def _audits(graph: hg.Graph) -> list[Audit]:
    manifest = graph.store.manifest
    rows = {row.object_id: row for row in [*manifest.history.rows("kind = 'audit'"), *manifest.state().rows.values()]}
    return [row for row in rows.values() if isinstance(row, Audit)]


def _wait_for_writes(journals: dict[int, Path], processes: list[BaseProcess]) -> None:
    """Until every writer has been answered once: before that there is nothing to disturb."""
    while not all(_done(journal) for journal in journals.values()):
        if any(process.exitcode is not None for process in processes):
            raise SystemExit("a process ended before it was killed")
        time.sleep(0.05)


def _end(process: BaseProcess, what: str) -> None:
    """Kill a process, which must not have ended by itself."""
    if process.exitcode not in (None, -signal.SIGKILL):
        raise SystemExit(f"a process ended by itself with {process.exitcode}: {what}")
    process.kill()
    process.join()


def measure(args: argparse.Namespace) -> harness.Result:
    seed = args.seed or random.SystemRandom().randrange(1 << 30)
    harness.say(f"seed {seed}")
    chance = random.Random(seed)
    context = fresh_processes()
    with tempfile.TemporaryDirectory(prefix="headgate-soak-") as folder:
        root = Path(folder)
        place = args.store or str(root / "graph")
        hg.init(place, SCHEMA)
        half, stop = context.Value("i", 0), context.Event()
        readers = [context.Process(target=reader, args=(place, half, stop)) for _ in range(1)]

        journals: dict[int, Path] = {}

        def start(number: int) -> BaseProcess:
            journal = str(root / f"{number}-{chance.randrange(1 << 30)}.journal")
            journals[number] = Path(journal)
            process = context.Process(target=writer, args=(place, number, chance.randrange(1 << 30), journal))
            process.start()
            return process

        def sweep() -> BaseProcess:
            process = context.Process(target=recoverer, args=(place, chance.randrange(1 << 30)))
            process.start()
            return process

        for process in readers:
            process.start()
        writers = [start(number) for number in range(args.writers)]
        recoverers = [sweep() for _ in range(args.recoverers)]
        _wait_for_writes(journals, [*writers, *recoverers])
        kills = 0
        until = time.monotonic() + args.seconds
        while time.monotonic() < until:
            time.sleep(chance.uniform(0.1, 2))
            if recoverers and chance.random() < 0.2:
                number = chance.randrange(len(recoverers))
                _end(recoverers[number], f"recoverer {number}; seed {seed}")
                kills += 1
                recoverers[number] = sweep()
                continue
            number = chance.randrange(args.writers)
            victim = writers[number]
            if victim.exitcode is None and _done(journals[number]) < chance.randrange(1, 40):
                continue  # let it work first: a process that is killed while it starts tries nothing
            _end(victim, f"writer {number}; seed {seed}")
            kills += 1
            writers[number] = start(number)
        for last in [*writers, *recoverers]:
            _end(last, f"seed {seed}")
            kills += 1
        stop.set()
        for process in readers:
            process.join()
        result = audit(place, root)
        result["half_visible"] += half.value
        return {**result, "kills": kills, "seed": seed, "seconds": args.seconds}


if __name__ == "__main__":
    sys.setswitchinterval(0.001)
    harness.main(
        measure,
        name="graph_soak",
        about="many processes write one graph and are killed; an auditor counts what is lost, doubled or half there",
        arguments=[
            harness.argument("--seconds", 60, "how long"),
            harness.argument("--writers", 4, "processes that write"),
            harness.argument("--recoverers", 1, "processes that recover, at the wrong time too"),
            harness.argument("--seed", 0, "repeat a run's choices; 0 draws one"),
            harness.argument("--store", "", "a graph's address, instead of a folder that is thrown away"),
        ],
    )
