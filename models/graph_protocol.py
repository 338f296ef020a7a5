"""Explicit-state model of the graph's write and recovery protocol (told in words in `docs/`), checked breadth first.

    python graph_protocol.py                      every configuration under the rules as they are
    python graph_protocol.py --config NAME        one configuration (--list names them)
    python graph_protocol.py --rules plain        without the five rules that are easily missed: shows counterexamples
    python graph_protocol.py --broken NAME|all    one rule taken out: must be found

Modelled: Lance tables (a stale transaction is rebased and lands, a Restore refuses all older ones and itself always
lands), the manifest (each try is one scan, check and merge on that version, so one atomic action), sidecars
(put-if-absent, unconditional delete), writers, recoverers. Every store action is a step of its own. Faults have no
budget: a writer may crash or stall before any step, a recoverer may start on any sidecar at any time, crash and run
again, any answer may be lost with the action done or not (`lost`); with `ghosts=1` a request may also land late.
Staging is merged with the capture of the base (it touches no shared state). Versions that no one can refer to any more
are dropped and the rest renumbered, and recoverers are interchangeable, which makes the space finite.

Checked in every state: pinned content is exactly the writes in the lineage (all or none, none lost, none twice, no
other content), nothing reported as failed is visible, nothing acknowledged is missing, the lineage is one chain, no
commit was published over content that its validation did not see, one audit row per recovered operation and never one
for a rolled-back operation that is visible. Checked on the whole graph: from every state, without further faults, a
state can be reached with no sidecar and no one at work, and there a plain writer succeeds.
"""

from __future__ import annotations

import argparse
import hashlib
import marshal
import sys
import time
from array import array
from dataclasses import dataclass, replace


# ------------------------------------------------------------------------------------------------ configurations


@dataclass(frozen=True)
class Writer:
    writes: tuple[int, ...]
    reads: tuple[int, ...] = ()  # tables its validation read besides those it writes
    if_head: bool = False  # conditional on the head it captured
    task: bool = False  # a task attempt: recovery only rolls it back
    cancel: bool = False  # may be cancelled, or give up, at any point
    replaces: bool = False  # a task attempt that replaces the abandoned head H by a commit on its parent A
    relocates: bool = False  # a task attempt that moves the head from H back to A, without a commit
    from_input: bool = False  # a retried attempt: works from the initial commit, starts when writer 0 has ended
    neutral: bool = False  # maintenance: compaction, indices; it commits to tables and changes no content


@dataclass(frozen=True)
class Config:
    name: str
    tables: int
    writers: tuple[Writer, ...]
    recoverers: int = 2
    attempts: int = 2  # times a writer may prepare again after losing the lock's base
    lost: str = "all"  # whose answers may be lost: "all" store actions, or "commits" (table commits and publishes)
    ghosts: int = 0  # requests that may land after their caller has given up on the answer
    abandoned: bool = False  # start with head H (an abandoned publication that wrote table 0) on top of A



def small(name, tables, *writers, **more):
    """Two writers and one recoverer; answers are lost where it can matter to the outcome."""
    return Config(name, tables, writers, **{"recoverers": 1, "attempts": 1, "lost": "commits", **more})


CONFIGS = [
    Config("one-table", 1, (Writer((0,)),)),
    Config("one-recoverer", 1, (Writer((0,)),), recoverers=1),
    Config("two-tables", 2, (Writer((0, 1)),), recoverers=1),
    Config("one-cancel", 1, (Writer((0,), cancel=True),)),
    Config("one-task", 1, (Writer((0,), task=True),)),
    Config("one-ghost", 1, (Writer((0,), cancel=True),), recoverers=1, ghosts=1),
    small("same-table", 1, Writer((0,)), Writer((0,))),
    small("disjoint", 2, Writer((0,)), Writer((1,))),
    small("disjoint-again", 2, Writer((0,)), Writer((1,)), attempts=2),
    small("overlap", 2, Writer((0, 1)), Writer((1,))),
    small("skew", 2, Writer((0,), reads=(1,)), Writer((1,), reads=(0,))),
    small("conditional", 2, Writer((0,), if_head=True), Writer((1,))),
    small("cancel", 1, Writer((0,), cancel=True), Writer((0,))),
    small("cancel-disjoint", 2, Writer((0,), cancel=True), Writer((1,))),
    small("task", 1, Writer((0,), task=True), Writer((0,))),
    small("task-retry", 1, Writer((0,), task=True), Writer((0,), task=True, from_input=True)),
    small("replace", 1, Writer((0,), task=True, replaces=True), Writer((0,)), abandoned=True),
    small("relocate", 2, Writer((0,), task=True, relocates=True), Writer((1,)), abandoned=True),
    Config("one-maintenance", 1, (Writer((0,), neutral=True),), recoverers=1),
    small("maintenance", 1, Writer((0,), neutral=True), Writer((0,))),
    small("maintenance-task-retry", 1, Writer((0,), neutral=True), Writer((0,), task=True, from_input=True)),
    small("relocate-aba", 2, Writer((0,), task=True, relocates=True), Writer((1,), if_head=True), abandoned=True),
]


# ------------------------------------------------------------------------------------------------ rules


@dataclass(frozen=True)
class Rules:
    # The five that are easily missed; `--rules plain` goes without them.
    dead_name_is_done: bool  # recovery only deletes a sidecar whose base is no longer the head; else it rolls it back
    give_up_publishes: bool  # a holder that gives up publishes its own roll back; else it only restores
    head_by_order: bool  # heads are compared (and sidecars named) by commit id and publish order; else by id
    transparent_pins: bool  # a retried attempt expects the pins behind content-neutral commits; else its input's
    mark_relocation: bool  # a relocation leaves its audit row, by which it is read back; else the head alone
    # Taken out one at a time by --broken.
    base_checked: bool = True  # after creating its sidecar the writer checks that the head is still its base
    landing_checked: bool = True  # after a commit: version == read_version + 1; the lost-answer case shows its use
    reads_expected: bool = True  # expected versions cover the tables that validation read
    head_expected: bool = True  # a conditional write expects its head
    every_table_restored: bool = True  # roll back restores unmoved tables too
    own_commit_first: bool = True  # each publish try looks for its own commit id first
    lost_commit_sought: bool = True  # after a lost answer compare uuids; else commit again
    one_merge: bool = True  # pins and audit row in one merge; else the audit row follows
    uuid_classified: bool = True  # "rolled past" compares the uuid; else the version number alone


PLAIN = Rules(False, False, False, False, False)
COMPLETE = Rules(True, True, True, True, True)
BROKEN = {  # variant: (rules, configuration that shows it)
    "no-read-dependency": (replace(COMPLETE, base_checked=False, reads_expected=False), "skew"),
    "no-head-condition": (replace(COMPLETE, base_checked=False, head_expected=False), "conditional"),
    "restore-moved-only": (replace(COMPLETE, every_table_restored=False), "one-table"),
    "no-own-commit-check": (replace(COMPLETE, own_commit_first=False), "one-table"),
    "no-landing-check": (replace(COMPLETE, lost_commit_sought=False, landing_checked=False), "one-table"),
    "audit-after-publish": (replace(COMPLETE, one_merge=False), "one-table"),
    "classify-without-uuid": (replace(COMPLETE, uuid_classified=False), "same-table"),
    "undo-without-publish": (replace(COMPLETE, give_up_publishes=False), "one-cancel"),
    "dead-name-rolled-back": (replace(COMPLETE, dead_name_is_done=False), "one-recoverer"),
    "head-by-id": (replace(COMPLETE, head_by_order=False), "relocate-aba"),
    "pins-of-the-input": (replace(COMPLETE, transparent_pins=False), "maintenance-task-retry"),
}
SAFE = {  # rules that only save work: safe without them
    "no-base-check": replace(COMPLETE, base_checked=False),
}

# ------------------------------------------------------------------------------------------------ states
#
# state      = (tables, manifest, sidecars, ghosts, writers, recoverers), plain tuples so that it can be hashed
# table      = versions, each (uuid, is_restore, content); content = sorted numbers of the writes in it (H is -9)
# manifest   = (head, pins, lineage, audits, input_pins, wrong); head = (commit id, publish order)
# lineage    = (commit id, parent id, writer or None if content-neutral, superseded), in publish order
# op         = (writer, attempt, base head, expected versions, versions to restore to), None where not covered
# writer     = (pc, op, i, read versions, landed versions, report)
# recoverer  = (pc, op, pins, i, restored versions)

H_TAG = -9
IDLE = ("idle", None, None, 0, ())


def cid(op):
    return f"W{op[0]}.{op[1]}"


def encode(x):
    return marshal.dumps(x, 2)


def bare(op):
    """What is left of an op once only its sidecar's name matters."""
    return op[:3] + ((None,) * len(op[3]),) * 2


def put(t, i, x):
    return t[:i] + (x,) + t[i + 1 :]


def initial(cfg):
    empty = ("init", 0, ())
    writers = tuple(("base", None, 0, (), (), None) for _ in cfg.writers)
    if cfg.abandoned:
        tables = ((empty, ("H", 0, (H_TAG,))),) + ((empty,),) * (cfg.tables - 1)
        lineage = (("A", None, None, 0), ("H", "A", H_TAG, 0))
        manifest = (("H", 1), (1,) + (0,) * (cfg.tables - 1), lineage, (), (0,) * cfg.tables, "")
    else:
        tables = ((empty,),) * cfg.tables
        keep = (0,) * cfg.tables if any(w.from_input for w in cfg.writers) else ()
        manifest = (("A", 0), (0,) * cfg.tables, (("A", None, None, 0),), (), keep, "")
    recoverers = (IDLE,) * cfg.recoverers
    if cfg.name == "relocate-aba":
        # Writer 1, conditional on A, has committed table 1 and lost its lock to a late delete; a recoverer has
        # classified it as rolled past; then H was published on A. Now H is relocated.
        op = (1, 0, ("A", 0), (None, 0), (None, 0))
        tables = (tables[0], (empty, ("W1.0", 0, (1,))))
        writers = (writers[0], ("publish", op, 0, (), (1,), None))
        recoverers = (("forward", op, (None, 0), 0, ()),)
    return (tables, manifest, (), (), writers, recoverers)


def squeeze(state, exact):
    """Drop and blank what no later step can tell apart, and renumber the versions that are left.

    A version is referred to by a pin, an expectation, a read version, a landed or a restored version; the version just
    after an expectation or read version may be claimed by its operation's uuid. All others only matter by existing and
    by a Restore among them, and of all Restores only the newest can matter. `exact` keeps what broken variants look at.
    """
    tables, man, cars, ghosts, writers, recs = state
    refs = [{v} for v in man[1]]
    claims = set()

    def note(vec):
        for t, v in enumerate(vec):
            if v is not None:
                refs[t].add(v)

    def note_op(op):
        uuid = cid(op)
        for t, v in enumerate(op[3]):
            if v is not None:
                refs[t].add(v)
                claims.add((t, v + 1, uuid))
        note(op[4])

    note(man[4])
    for g in ghosts:
        if g[0] == "merge":
            note(g[1][1])
            note(g[1][4])
        elif g[0] == "put":
            note_op(g[2])
    for _, op in cars:
        note_op(op)
    for _, op, _, rv, nv, _ in writers:
        if op:
            note_op(op)
            written = [t for t, v in enumerate(op[4]) if v is not None]
            for t, v in zip(written, rv):
                if v is not None:
                    refs[t].add(v)
                    claims.add((t, v + 1, cid(op)))
            for t, v in zip(written, nv):
                if v is not None:
                    refs[t].add(v)
    for _, op, pins, _, restored in recs:
        if op:
            note_op(op)
            note(pins or ())
            written = [t for t, v in enumerate(op[4]) if v is not None]
            for t, v in zip(written, restored):
                if v is not None:
                    refs[t].add(v)

    maps, new_tables = [], []
    for t, versions in enumerate(tables):
        used, end = refs[t], len(versions)
        barrier = next((v for v in range(end - 1, -1, -1) if versions[v][1]), None)
        new, numbers, v = [], {}, min(used)
        while v < end:
            uuid, _, content = versions[v]
            mine = (t, v, uuid) in claims
            if v in used or mine or (exact and v - 1 in used):
                numbers[v] = len(new)
                new.append((uuid if mine else "", 1 if v == barrier else 0, content))
                v += 1
                continue
            flag = 0
            while v < end and v not in used and (t, v, versions[v][0]) not in claims:
                flag |= v == barrier
                v += 1
            new.append(("", int(flag), versions[v - 1][2] if exact and v == end else ()))
        maps.append(numbers)
        new_tables.append(tuple(new))
    new_tables = tuple(new_tables)
    if new_tables == tables:
        return state

    def vec(x):
        return tuple([None if v is None else maps[t][v] for t, v in enumerate(x)])

    def op_(op):
        return op and (op[0], op[1], op[2], vec(op[3]), vec(op[4]))

    def local(op, x):
        written = [t for t, v in enumerate(op[4]) if v is not None] if x else ()
        return tuple([None if v is None else maps[t][v] for t, v in zip(written, x)])

    def man_(m):
        return (m[0], vec(m[1]), m[2], m[3], vec(m[4]), m[5])

    new_ghosts = tuple(
        ("merge", man_(g[1])) if g[0] == "merge" else ("put", g[1], op_(g[2])) if g[0] == "put" else g for g in ghosts
    )
    return (
        new_tables,
        man_(man),
        tuple([(name, op_(op)) for name, op in cars]),
        new_ghosts,
        tuple([(w[0], op_(w[1]), w[2], local(w[1], w[3]), local(w[1], w[4]), w[5]) for w in writers]),
        tuple([(r[0], op_(r[1]), vec(r[2]) if r[2] else r[2], r[3], local(r[1], r[4])) for r in recs]),
    )


# ------------------------------------------------------------------------------------------------ store actions


def lance_commit(versions, read_version, uuid, tag):
    """A stale transaction is rebased and lands, unless a Restore is newer than what it read: then None."""
    if any(v[1] for v in versions[read_version + 1 :]):
        return None
    added = () if tag is None else (tag,)
    return versions + ((uuid, 0, tuple(sorted(versions[-1][2] + added))),)


def lance_restore(versions, of, uuid):
    return versions + ((uuid, 1, versions[of][2]),)


class Model:
    def __init__(self, cfg: Config, rules: Rules):
        self.cfg, self.rules = cfg, rules
        self.exact = not (rules.landing_checked and rules.uuid_classified and rules.every_table_restored)
        self.covered = [tuple(sorted(set(w.writes + w.reads))) for w in cfg.writers]

    # -------- manifest: each of these is one publish try on one scanned version

    def published(self, man, op):
        name = cid(op)
        return any(row[0] == name for row in man[2])

    def same_head(self, head, base):
        return head == base if self.rules.head_by_order else head[0] == base[0]

    def name(self, head):
        return head if self.rules.head_by_order else (head[0], 0)

    def holds(self, man, op):
        """Do the recorded expectations hold? Versions only grow, so a version that moved stays moved."""
        w = self.cfg.writers[op[0]]
        tables = self.covered[op[0]] if self.rules.reads_expected else w.writes
        if any(man[1][t] != op[3][t] for t in tables):
            return False
        if (w.if_head and self.rules.head_expected) or w.replaces or w.relocates:
            return self.same_head(man[0], op[2])
        return True

    def land(self, tables, man, op, landed, audit):
        """The manifest after the publish of op, with what was wrong about it, if anything."""
        head, pins, lineage, audits, input_pins, wrong = man
        w = self.cfg.writers[op[0]]
        for t in self.covered[op[0]]:
            if tables[t][pins[t]][2] != tables[t][op[3][t]][2]:
                wrong = f"{cid(op)} published over content of table {t} that its validation did not see"
        if w.if_head and head[0] != op[2][0]:
            wrong = f"{cid(op)} is conditional on head {op[2]} and was published on {head}"
        for t, v in zip(w.writes, landed):
            pins = put(pins, t, v)
        order = head[1] + 1
        if w.replaces or w.relocates:
            lineage = tuple(row[:3] + (1,) if row[3] == 0 and row[0] != "A" else row for row in lineage)
            input_pins = ()
            if w.relocates:
                if self.rules.mark_relocation:
                    audits = tuple(sorted(audits + ((op[:2], "relocated"),)))
                return (("A", order), pins, lineage, audits, input_pins, wrong)
            lineage += ((cid(op), "A", op[0], 0),)
        else:
            lineage += ((cid(op), head[0], None if w.neutral else op[0], 0),)
        if audit:
            audits = tuple(sorted(audits + ((op[:2], "forward"),)))
        return ((cid(op), order), pins, lineage, audits, input_pins, wrong)

    def land_back(self, man, op, restored):
        """The roll back: restored pins, a content-neutral commit and the audit row, in one merge."""
        head, pins, lineage, audits, input_pins, wrong = man
        for t, v in zip(self.cfg.writers[op[0]].writes, restored):
            if v is not None:
                pins = put(pins, t, v)
        name = "r" + cid(op)
        lineage += ((name, head[0], None, 0),)
        if self.rules.one_merge:
            audits = tuple(sorted(audits + ((op[:2], "back"),)))
        return ((name, head[1] + 1), pins, lineage, audits, input_pins, wrong)

    # -------- steps

    def successors(self, state):
        """(label, is a fault, next state) for every step of every process."""
        out = []
        for w in range(len(self.cfg.writers)):
            self.writer(state, w, out)
        for r in range(self.cfg.recoverers):
            if r == 0 or state[5][r] != state[5][r - 1]:
                self.recoverer(state, r, out)
        tables, man, cars, ghosts, _, _ = state
        for n, g in enumerate(ghosts):
            left = ghosts[:n] + ghosts[n + 1 :]
            if g[0] == "version":
                shared = (put(tables, g[1], tables[g[1]] + (g[2],)), man, cars, left)
            elif g[0] == "merge":
                shared = (tables, g[1], cars, left)
            elif g[0] == "put":
                new = cars if any(c[0] == g[1] for c in cars) else tuple(sorted(cars + ((g[1], g[2]),), key=encode))
                shared = (tables, man, new, left)
            else:
                shared = (tables, man, tuple(c for c in cars if c[0] != g[1]), left)
            self.emit(out, state, f"late request lands: {g[0]}", True, shared, None, None)
            self.emit(out, state, f"late request is lost: {g[0]}", False, (tables, man, cars, left), None, None)
        return out

    def emit(self, out, state, label, fault, shared, who, local):
        tables, man, cars, ghosts = shared
        if ghosts:  # a late request was made for one version: it fails once that version exists
            ghosts = tuple(
                g
                for g in ghosts
                if not (g[0] == "version" and tables[g[1]] is not state[0][g[1]])
                and not (g[0] == "merge" and man is not state[1])
            )
        writers, recs = state[4], state[5]
        if who is not None:
            kind, n = who
            if kind == "W":
                writers = put(writers, n, local)
            else:
                recs = tuple(sorted(put(recs, n, local), key=encode)) if self.cfg.recoverers > 1 else (local,)
        out.append((label, fault, squeeze((tables, man, cars, ghosts, writers, recs), self.exact)))

    def store(self, out, state, who, label, after, local, doubt, ghost):
        """A store action: done; or its answer lost, the action done, not done, or still in flight."""
        before = state[:4]
        self.emit(out, state, label, False, after, who, local)
        decides = doubt is not None and (ghost and ghost[0] == "merge" or doubt[0] in ("seek", "commit"))
        if doubt is None or (self.cfg.lost == "commits" and not decides):
            return
        self.emit(out, state, label + " (done, answer lost)", True, after, who, doubt)
        current = state[4][who[1]] if who[0] == "W" else state[5][who[1]]
        if doubt != current:
            self.emit(out, state, label + " (not done, answer lost)", True, before, who, doubt)
        if ghost and len(before[3]) < self.cfg.ghosts:
            shared = before[:3] + (tuple(sorted(before[3] + (ghost,), key=encode)),)
            self.emit(out, state, label + " (in flight, answer lost)", True, shared, who, doubt)

    # -------- a writer

    def writer(self, state, n, out):
        tables, man, cars, ghosts, writers, _ = state
        me, spec, rules = writers[n], self.cfg.writers[n], self.rules
        pc, op, i, rv, nv, report = me
        who, here = ("W", n), state[:4]
        if pc in ("done", "dead"):
            return
        tag = f"W{n} "

        def go(label, local, fault=False):
            self.emit(out, state, tag + label, fault, here, who, local)

        go("crashes", ("dead", None, 0, (), (), report), fault=True)
        writes = spec.writes
        end = ("done", None, 0, (), ())

        def next_table(i, rv, nv):
            return ("publish", op, 0, (), nv, None) if i == len(writes) else ("commit", op, i, rv, nv, None)

        cancellable = ("check", "commit", "seek", "repair", "publish") + (("asked",) if rules.give_up_publishes else ())
        if spec.cancel and pc in cancellable:
            pins = tuple(man[1][t] for t in writes) if rules.give_up_publishes else tuple(op[3][t] for t in writes)
            go("is cancelled", ("cancel", op, 0, pins, (), None), fault=True)

        if pc == "base":
            if spec.from_input and writers[0][0] not in ("done", "dead"):
                return
            head, pins = man[0], man[1]
            back_to = pins
            if spec.replaces or spec.relocates:
                changed = [row[0] for row in man[2] if row[2] is not None and not row[3]]
                if changed != ["H"]:  # the publish fence: H is no longer what the head's content is
                    go("is fenced", end + ("conflict",))
                    return
                back_to = man[4]
            if spec.from_input:
                if any(row[2] is not None for row in man[2]):
                    go("is fenced", end + ("conflict",))
                    return
                if not rules.transparent_pins:
                    pins = back_to = man[4]
                    if any(pins[t] != man[1][t] for t in self.covered[n]):
                        bad = man[:5] + ("a retry can never be published, although no content changed since its input",)
                        self.emit(out, state, tag + "starts from its input", False, (tables, bad, cars, ghosts), who, me)
                        return
            exp = tuple(pins[t] if t in self.covered[n] else None for t in range(self.cfg.tables))
            tgt = tuple(back_to[t] if t in writes else None for t in range(self.cfg.tables))
            op = (n, i, head, exp, tgt)
            first = tuple(None if spec.replaces or spec.relocates else exp[t] for t in writes)
            go(f"captures base {head[0]}", ("lock", op, 0, first, (None,) * len(writes), None))

        elif pc == "lock":
            name = self.name(op[2])
            held = next((c for c in cars if c[0] == name), None)
            if held and held[1][:2] != op[:2]:
                go("finds the lock taken", ("base", None, op[1], (), (), None))
            elif held:
                go("finds its own sidecar", ("check", op, 0, rv, nv, None))
            else:
                new = tuple(sorted(cars + ((name, op),), key=encode))
                after = (tables, man, new, ghosts)
                ghost = ("put", name, op)
                label = tag + f"creates sidecar {name[0]}"
                self.store(out, state, who, label, after, ("check", op, 0, rv, nv, None), me, ghost)
                if self.cfg.lost == "commits":
                    return
                failed = end + ("failed",)  # "put fails = clean abort", but the sidecar may be there, or come
                self.emit(out, state, label + " (done, answer lost), reports failed", True, after, who, failed)
                if self.cfg.ghosts > len(ghosts):
                    late = (tables, man, cars, tuple(sorted(ghosts + (ghost,), key=encode)))
                    self.emit(out, state, label + " (in flight), reports failed", True, late, who, failed)

        elif pc == "check":
            if self.same_head(man[0], op[2]) or not rules.base_checked:
                go("checks the head: still its base", next_table(0, rv, nv))
            else:
                go("checks the head: moved", ("unlock", bare(op), 0, (), (), None))

        elif pc == "unlock":
            name, again = self.name(op[2]), op[1] + 1
            after = (tables, man, tuple(c for c in cars if c[0] != name), ghosts)
            local = ("base", None, again, (), (), None) if again < self.cfg.attempts else end + ("conflict",)
            self.store(out, state, who, tag + f"deletes sidecar {name[0]}", after, local, me, ("delete", name))

        elif pc == "commit":
            t = writes[i]
            if rv[i] is None:
                go(f"must restore table {t} first", ("repair", op, i, rv, nv, None))
                return
            landed = lance_commit(tables[t], rv[i], cid(op), None if spec.neutral else n)
            if landed is None:
                go(f"commits table {t}: refused", ("repair", op, i, rv, nv, None))
                go(f"commits table {t}: refused (answer lost)", ("seek", op, i, rv, nv, None), fault=True)
                return
            version = len(landed) - 1
            good = version == rv[i] + 1 or not rules.landing_checked
            local = next_table(i + 1, rv, put(nv, i, version)) if good else ("repair", op, i, rv, nv, None)
            after = (put(tables, t, landed), man, cars, ghosts)
            doubt = ("seek" if rules.lost_commit_sought else "commit", op, i, rv, nv, None)
            ghost = ("version", t, landed[-1])
            self.store(out, state, who, tag + f"commits table {t} as version {version}", after, local, doubt, ghost)

        elif pc == "seek":
            t = writes[i]
            if len(tables[t]) > rv[i] + 1 and tables[t][rv[i] + 1][0] == cid(op):
                go(f"finds its commit in table {t}", next_table(i + 1, rv, put(nv, i, rv[i] + 1)))
            else:
                go(f"finds no commit of its own in table {t}", ("repair", op, i, rv, nv, None))

        elif pc == "repair":
            t = writes[i]
            restored = lance_restore(tables[t], op[4][t], "restore")
            after = (put(tables, t, restored), man, cars, ghosts)
            version = len(restored) - 1
            if spec.relocates:
                local = next_table(i + 1, rv, put(nv, i, version))
            else:
                local = ("commit", op, i, put(rv, i, version), nv, None)
            label = tag + f"restores table {t} as version {version}"
            self.store(out, state, who, label, after, local, me, ("version", t, restored[-1]))

        elif pc in ("publish", "asked"):
            if pc == "asked":
                go("gives up: OutcomeUnknown", end + ("unknown",), fault=True)
            known = self.published(man, op) if not spec.relocates else self.relocated(man, op)
            if known and rules.own_commit_first:
                go("finds itself published", ("drop", bare(op), 0, (), (), "ok"))
            elif not self.holds(man, op):
                pins = tuple(man[1][t] for t in writes)
                go("publishes: conflict", ("undo", op, 0, pins, (), "conflict"))
            else:
                new = self.land(tables, man, op, nv, audit=False)
                local, doubt = ("drop", bare(op), 0, (), (), "ok"), ("asked", op, 0, (), nv, None)
                self.store(out, state, who, tag + "publishes", (tables, new, cars, ghosts), local, doubt, ("merge", new))

        elif pc == "undo":  # it lost: take its effects back from the tables' heads, to the pins it saw
            t = writes[i]
            restored = lance_restore(tables[t], rv[i], "restore")
            local = ("undo", op, i + 1, rv, (), report) if i + 1 < len(writes) else ("drop", bare(op), 0, (), (), report)
            after = (put(tables, t, restored), man, cars, ghosts)
            self.store(out, state, who, tag + f"undoes table {t}", after, local, me, ("version", t, restored[-1]))

        elif pc == "cancel":  # rv: the pins to restore to, nv: what was restored so far
            if i < len(writes):
                t = writes[i]
                restored = lance_restore(tables[t], rv[i], "restore")
                local = ("cancel", op, i + 1, rv, nv + (len(restored) - 1,), None)
                after = (put(tables, t, restored), man, cars, ghosts)
                self.store(out, state, who, tag + f"undoes table {t}", after, local, me, ("version", t, restored[-1]))
            elif not rules.give_up_publishes:
                go("has undone its effects", ("drop", bare(op), 0, (), (), "failed"))
            elif self.published(man, op):
                go("finds itself published", ("drop", bare(op), 0, (), (), "ok"))
            elif not self.holds(man, op):
                go("finds that it can no longer be published", ("drop", bare(op), 0, (), (), "failed"))
            else:
                new = self.land_back(man, op, nv)
                local, label = ("drop", bare(op), 0, (), (), "failed"), tag + "publishes its own roll back"
                self.store(out, state, who, label, (tables, new, cars, ghosts), local, me, ("merge", new))

        elif pc == "drop":
            name = self.name(op[2])
            after = (tables, man, tuple(c for c in cars if c[0] != name), ghosts)
            self.store(out, state, who, tag + f"deletes sidecar {name[0]}", after, end + (report,), me, ("delete", name))

    def relocated(self, man, op):
        if self.rules.mark_relocation:
            return (op[:2], "relocated") in man[3]
        return man[0][0] == "A"

    # -------- a recoverer

    def recoverer(self, state, r, out):
        tables, man, cars, ghosts, writers, recs = state
        pc, op, pins, i, restored = me = recs[r]
        rules, who, here = self.rules, ("R", r), state[:4]

        def go(label, local, fault=False):
            self.emit(out, state, "R " + label, fault, here, who, local)

        if pc == "idle":
            for name, op in cars:
                go(f"reads sidecar {name[0]} of {cid(op)}", ("look", op, None, 0, ()))
            return
        go("crashes", IDLE, fault=True)
        spec = self.cfg.writers[op[0]]
        writes = spec.writes
        seen = tuple(man[1][t] if t in writes else None for t in range(self.cfg.tables))
        done = self.published(man, op)
        dead = rules.dead_name_is_done and not self.same_head(man[0], op[2])

        if pc == "look":
            if done or dead:
                go(f"finds {cid(op)} settled", ("delete", bare(op), None, 0, ()))
            else:
                go("scans the manifest", ("restore" if spec.task else "classify", op, seen, 0, ()))

        elif pc == "classify":
            t = writes[i]
            past = len(tables[t]) - 1 == op[3][t] + 1 and (not rules.uuid_classified or tables[t][-1][0] == cid(op))
            if not past:
                go(f"classifies table {t}: not rolled past", ("restore", op, pins, 0, ()))
            elif i + 1 < len(writes):
                go(f"classifies table {t}: rolled past", ("classify", op, pins, i + 1, ()))
            else:
                go(f"classifies table {t}: rolled past, rolls forward", ("forward", op, pins, 0, ()))

        elif pc == "forward":
            if done:
                go(f"finds {cid(op)} settled", ("delete", bare(op), None, 0, ()))
            elif not self.holds(man, op):
                go("rolls forward: expectations moved", ("restore", op, seen, 0, ()))
            else:
                new = self.land(tables, man, op, tuple(op[3][t] + 1 for t in writes), audit=rules.one_merge)
                local = ("delete" if rules.one_merge else "audit", bare(op), None, 0, ())
                after = (tables, new, cars, ghosts)
                self.store(out, state, who, f"R rolls {cid(op)} forward", after, local, me, ("merge", new))

        elif pc == "restore":
            t = writes[i]
            moved = len(tables[t]) - 1 != pins[t]
            if moved or rules.every_table_restored:
                versions = lance_restore(tables[t], pins[t], "restore")
                after, landed = (put(tables, t, versions), man, cars, ghosts), len(versions) - 1
                ghost = ("version", t, versions[-1])
            else:
                after, landed, ghost = here, None, None
            last = i + 1 == len(writes)
            local = ("back" if last else "restore", op, pins, 0 if last else i + 1, restored + (landed,))
            self.store(out, state, who, f"R restores table {t} as version {landed}", after, local, me, ghost)

        elif pc == "back":
            if done or dead:
                go(f"finds {cid(op)} settled", ("delete", bare(op), None, 0, ()))
            elif not self.same_head(man[0], op[2]):
                go("rolls back: expectations moved", ("look", op, None, 0, ()))
            else:
                new = self.land_back(man, op, restored)
                local = ("delete" if rules.one_merge else "audit", bare(op), None, 0, ())
                after = (tables, new, cars, ghosts)
                self.store(out, state, who, f"R rolls {cid(op)} back", after, local, me, ("merge", new))

        elif pc == "audit":  # only in a broken variant: the audit row as a second write
            new = man[:3] + (tuple(sorted(man[3] + ((op[:2], "late"),))),) + man[4:]
            after = (tables, new, cars, ghosts)
            self.store(out, state, who, "R writes the audit row", after, ("delete", bare(op), None, 0, ()), me, None)

        elif pc == "delete":
            name = self.name(op[2])
            after = (tables, man, tuple(c for c in cars if c[0] != name), ghosts)
            self.store(out, state, who, f"R deletes sidecar {name[0]}", after, IDLE, me, ("delete", name))

    # -------- properties

    def violation(self, state):
        tables, man, cars, ghosts, writers, recs = state
        head, pins, lineage, audits, _, wrong = man
        if wrong:
            return wrong
        live = [row for row in lineage if not row[3]]
        for before, row in zip(live, live[1:]):
            if row[1] != before[0]:
                return f"lineage forks: parent of {row[0]} is {row[1]}, not {before[0]}"
        if live[-1][0] != head[0]:
            return f"head {head[0]} is not the end of the lineage"
        for t, versions in enumerate(tables):
            expected = []
            for row in live:
                w = row[2]
                if w == H_TAG:
                    expected += [H_TAG] if t == 0 else []
                elif w is not None and t in self.cfg.writers[w].writes:
                    expected.append(w)
            if tuple(sorted(expected)) != versions[pins[t]][2]:
                return f"pinned content of table {t} is {versions[pins[t]][2]}, the lineage says {tuple(sorted(expected))}"
        everyone = [row[2] for row in lineage if row[2] is not None]
        if len(everyone) != len(set(everyone)):
            return "a write is in the lineage twice"
        commits = {row[0] for row in lineage}
        for n, w in enumerate(writers):
            if self.cfg.writers[n].neutral:
                there = any(name.startswith(f"W{n}.") for name in commits)
                if w[5] in ("conflict", "failed", "ok") and there != (w[5] == "ok"):
                    return f"W{n} was reported as {w[5]}, and its commit says otherwise"
                continue
            if w[5] in ("conflict", "failed") and n in everyone:
                return f"W{n} was reported as {w[5]} and is visible"
            moved = any(row[3] for row in lineage)
            if self.cfg.writers[n].relocates and w[5] in ("ok", "failed", "conflict") and (w[5] == "ok") != moved:
                return f"W{n} reported {w[5]}, and its relocation says otherwise"
            if w[5] == "ok" and n not in everyone and not self.cfg.writers[n].relocates:
                return f"W{n} was acknowledged and is not in the lineage"
        operations = [a[0] for a in audits]
        if len(operations) != len(set(operations)):
            return "two audit rows for one operation"
        names = {row[0] for row in lineage}
        for (w, k), outcome in audits:
            if outcome == "back" and f"W{w}.{k}" in names:
                return f"the audit says W{w}.{k} was rolled back, and it is visible"
        for row in lineage:
            if row[0].startswith("r"):
                w, k = row[0][2:].split(".")
                if (int(w), int(k)) not in operations and not cars and all(x == IDLE for x in recs):
                    return f"{row[0]} rolled an operation back and has no audit row"
        return None

    def quiet(self, state):
        _, _, cars, ghosts, writers, recs = state
        at_work = any(w[0] not in ("done", "dead") for w in writers) or any(r != IDLE for r in recs)
        return not (cars or ghosts or at_work)

    def probe(self, state):
        """In a quiet state the next writer, alone, must find or make its base in every table and land there."""
        for t, versions in enumerate(state[0]):
            pin = state[1][1][t]
            landed = lance_commit(versions, pin, "probe", 99)
            if landed is None or len(landed) != pin + 2:  # residue above the pin
                versions = lance_restore(landed or versions, pin, "restore")
                landed = lance_commit(versions, len(versions) - 1, "probe", 99)
            if landed is None or landed[-1][2] != tuple(sorted(state[0][t][pin][2] + (99,))):
                return f"the next writer cannot write table {t}"
        return None


# ------------------------------------------------------------------------------------------------ search


def explore(cfg, rules, max_states, liveness=True, progress=False):
    """Breadth first. Returns (states, depth, seconds, complete, None or (what is wrong, trace))."""
    model, start = Model(cfg, rules), time.time()
    first = squeeze(initial(cfg), model.exact)

    def key(s):
        return hashlib.blake2b(encode(s), digest_size=16).digest()

    ids = {key(first): 0}
    parent, choice = array("l", [-1]), array("h", [-1])
    edge_from, edge_to, goals = array("l"), array("l"), []
    frontier, depth = [(0, first)], 0

    def trace(n):
        steps = []
        while n:
            steps.append(choice[n])
            n = parent[n]
        state, labels = first, []
        for c in reversed(steps):
            label, _, state = model.successors(state)[c]
            labels.append(label)
        return labels, state

    def result(complete, problem=None):
        return len(ids), depth, time.time() - start, complete, problem

    bad = model.violation(first)
    while frontier and not bad:
        following = []
        for n, state in frontier:
            if model.quiet(state):
                goals.append(n)
                bad = model.probe(state)
                if bad:
                    return result(False, (bad, trace(n)))
            for c, (label, fault, nxt) in enumerate(model.successors(state)):
                k = key(nxt)
                m = ids.get(k)
                if m is None:
                    m = ids[k] = len(ids)
                    parent.append(n)
                    choice.append(c)
                    bad = model.violation(nxt)
                    if bad:
                        depth += 1
                        return result(False, (bad, trace(m)))
                    following.append((m, nxt))
                if not fault and m != n:
                    edge_from.append(n)
                    edge_to.append(m)
            if len(ids) > max_states:
                return result(False)
        if following:
            depth += 1
        frontier = following
        if progress:
            print(f"    depth {depth}: {len(ids)} states", file=sys.stderr, flush=True)
    if liveness:
        stuck = first_stuck(len(ids), edge_from, edge_to, goals)
        if stuck is not None:
            return result(True, ("stuck: without further faults no quiet state can be reached any more", trace(stuck)))
    return result(True)


def first_stuck(count, edge_from, edge_to, goals):
    """The first state, breadth first, from which no goal can be reached over fault-free steps."""
    offset = array("l", bytes(8 * (count + 2)))
    for m in edge_to:
        offset[m + 2] += 1
    for m in range(1, count + 2):
        offset[m] += offset[m - 1]
    into = array("l", bytes(8 * len(edge_to)))
    for n, m in zip(edge_from, edge_to):
        into[offset[m + 1]] = n
        offset[m + 1] += 1
    reached = bytearray(count)
    work = list(goals)
    for n in work:
        reached[n] = 1
    while work:
        m = work.pop()
        for j in range(offset[m], offset[m + 1]):
            n = into[j]
            if not reached[n]:
                reached[n] = 1
                work.append(n)
    return next((n for n in range(count) if not reached[n]), None)


def show(problem):
    what, (labels, state) = problem
    print(f"    {what}")
    for n, label in enumerate(labels, 1):
        print(f"    {n:3} {label}")
    tables, man = state[0], state[1]
    sidecars = [f"{name[0]} of {cid(op)}" for name, op in state[2]]
    audits = [f"W{w}.{k} {outcome}" for (w, k), outcome in man[3]]
    contents = [[list(v[2]) for v in t] for t in tables]
    print(f"        head {man[0][0]}, pins {man[1]}, sidecars {sidecars}, audits {audits}")
    print(f"        reports {[w[5] for w in state[4]]}, content by version {contents}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", help="one configuration")
    parser.add_argument("--rules", choices=("all", "plain", *SAFE), default="all")
    parser.add_argument("--broken", help="a broken variant, or all: each must be found")
    parser.add_argument("--max-states", type=int, default=6_000_000)
    parser.add_argument("--recoverers", type=int, help="instead of the configuration's own number")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--progress", action="store_true")
    args = parser.parse_args()
    by_name = {c.name: c for c in CONFIGS}
    if args.list:
        print("configurations:", *by_name)
        print("broken variants:", *BROKEN)
        return 0
    if args.broken:
        names = list(BROKEN) if args.broken == "all" else [args.broken]
        jobs = []
        for n in names:
            rules, shows = BROKEN[n]
            jobs.append((f"broken {n} ({args.config or shows})", by_name[args.config or shows], rules))
    else:
        names = [args.config] if args.config else list(by_name)
        jobs = [(n, by_name[n], {"all": COMPLETE, "plain": PLAIN, **SAFE}[args.rules]) for n in names]
    failed = 0
    for title, cfg, rules in jobs:
        if args.recoverers:
            cfg = replace(cfg, recoverers=args.recoverers)
        states, depth, seconds, complete, problem = explore(cfg, rules, args.max_states, progress=args.progress)
        verdict = "COUNTEREXAMPLE" if problem else "ok" if complete else "ok so far (state limit, not exhaustive)"
        print(f"{title}: {states} states, depth {depth}, {seconds:.0f} s: {verdict}", flush=True)
        if problem:
            show(problem)
        failed += bool(problem)
    if args.broken:
        return 0 if failed == len(jobs) else 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
