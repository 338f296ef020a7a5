#!/usr/bin/env python3
"""Executable model of the attempt and publication protocol, explored exhaustively.

One branch, one orchestrator, a few attempts, a person, gc. Every client action, every server step and every
delivery is one transition; breadth-first search visits every interleaving, so the first counterexample is a
shortest one. A client that crashes is a client that is never scheduled again, a lost answer is a client that goes
on while its request is still on its way: neither needs a transition of its own.

What is modelled (`docs/concepts/publication-protocol.md` tells it in words):
  orchestrator  a lease may expire at any time: a new task id (completions of the old one are ignored) or a new poll
                of the same task id (completions of the old poll are accepted); rerun reuses the task id
  lakeFS        branch record = (commit, staging token). Merge: rotate the token; read record, resolve source, hook;
                compare-and-swap; a loser decides again. Hard reset: read record, resolve ref; compare-and-swap.
                Poke: rotate the token. Gate: create-once epoch objects, the last key decides
  embedded      one conditional update
  attempt       stage, read H, classify, fence, publish | replace | move back to A | no-op, revoke and read back,
                fence, complete, re-read, move back to what was accepted, clean up
Checked in every state:
  1 an accepted ref stays in the first-parent history   2 no task commit on a parent that was never accepted
  3 a finished workflow leaves no abandoned commit on the branch, except in the windows that are listed and printed
  4 a person's merge is never erased                    5 a ref is on the branch when it is accepted
  6 a retry that runs alone completes, or is fenced by somebody else's commit; so every gate can be released
  7 gc's deletions are transitions like any other: what it took too early would show as 1, 4, 5 or 6
    (that an attempt is over never changes back, so checking and deleting can be one step)
Assumed, not enforced: nobody resets the branch by hand or merges from a branch without the hook; a rerun is from a
COMPLETED task (`--without rerun-completed-only` shows what happens otherwise); a rerun gives up the outputs it repeats.
Left out: time, dirty branches, rewind, the limit of ten tries, `not found` answers, gc by age, more than one person.

  python publication_protocol.py                     all configurations, the protocol as it is
  python publication_protocol.py --config NAME       one of them
  python publication_protocol.py --protocol plain    without the rules that are easily missed, with the counterexamples
  python publication_protocol.py --without [NAME]    but for one of those rules: each shows why it is needed
  python publication_protocol.py --broken [NAME]     deliberately broken variants: each must be found
"""
from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

A = 0  # the input ref of the first task
NONE = -1
WAITING, RUNNING, COMPLETED, FAILED = "waiting", "running", "completed", "failed"
CHANGED, UNCHANGED = "changed", "unchanged"

# The rules that are easily missed; each name is a key of Config.rules.
SUBTLE = {
    "task-id-final": "H is abandoned only if its task id is final; an older poll of a running task id may yet complete",
    "one-poll": "only the first poll of a task id works, a later one reports FAILED; nobody moves a head back",
    "accepted-stays": "a COMPLETED task's ref stays accepted although its workflow failed later",
    "merge-releases": "a merge refused by a shut gate releases it if its owner is over",
    "own-epoch-last": "after creating its epoch a replacer checks that it is the last key",
    "revoke-predecessors": "a no-op first deletes the staging branches of its task's earlier attempts, and pokes",
    "rerun-completed-only": "rerun only from a COMPLETED task; a failed one is retried under a new task id",
}
BROKEN = {
    "soft": "no hook, no gate: read the head, then merge or reset",
    "fence-before-read": "attempt fence first, then read H (with replace=any)",
    "reset-by-commit-id": "the reset names a commit, so that deleting a branch does not revoke it",
    "lease-gate": "a gate is broken when its lease has run out, without revoking its owner's reset",
    "no-poke": "nothing makes requests in flight decide again",
    "move-back-to-A": "polls of one task id overlap, and the one that was not accepted moves the head back to A",
    "epoch-reuse": "gc deletes old keys and a replacer does not check that its epoch is the last",
}

# Ways in which a finished workflow may leave an abandoned head; any other is a violation of 3.
NEVER_RETRIED = "task failed, never retried"
LATE_DUPLICATE = "task completed with its input ref; published under the same task id"  # only after a rerun


@dataclass(frozen=True)
class Config:
    name: str
    about: str
    store: str = "lakefs"  # or "embedded"
    workflows: tuple[tuple[int, ...], ...] = ((2,),)  # attempts handed out at most, for each task of each workflow
    kinds: tuple[str, ...] = (CHANGED, UNCHANGED)
    person: bool = False
    gc: str = ""  # "all", or "keys": only old gate keys
    repoll: bool = True
    timeout: bool = True
    rerun: int = 0
    loss: bool = True  # answers of merges and resets may be lost
    leftover: bool = False  # begins with an abandoned publication of an earlier attempt of task 0 as the head
    paused: bool = False  # and with an attempt of the last task that has found the gate open and paused
    eager: bool = False  # an open gate is released without asking whether its owner is over
    duplicates: bool = False  # a completion may be delivered twice
    any_parent: bool = False  # replace="any"
    strict: bool = True  # an abandoned head left in an unlisted way is a violation, not only reported
    rules: frozenset[str] = field(default_factory=lambda: frozenset(SUBTLE))
    broken: str = ""


# ---------------------------------------------------------------------------------------------------------- state
class Attempt:
    __slots__ = ("pc", "task", "tid", "inp", "kind", "h", "epoch", "out", "branch", "back", "sent")

    def __init__(self, values: tuple) -> None:
        (self.pc, self.task, self.tid, self.inp, self.kind, self.h, self.epoch, self.out, self.branch, self.back,
         self.sent) = values

    def freeze(self) -> tuple:
        return (self.pc, self.task, self.tid, self.inp, self.kind, self.h, self.epoch, self.out, self.branch,
                self.back, self.sent)


UNUSED = ("unused", NONE, 0, NONE, "", NONE, 0, NONE, 0, 0, 0)
SPARE = 4  # attempts that only the progress check hands out


class World:
    """A thawed state. Branches: 0 not made, 1 exists, 2 deleted. Requests: (kind, phase, commit read, target)."""

    __slots__ = ("m", "head", "parent", "gates", "tasks", "attempts", "requests", "completing", "ever", "gc", "rerun",
                 "problem")

    def __init__(self, m: "Model", s: tuple) -> None:
        self.m = m
        self.head, parent, self.gates, tasks, attempts, requests, completing, self.ever, self.gc, self.rerun = s
        self.parent, self.tasks, self.attempts = list(parent), list(tasks), list(attempts)
        self.requests, self.completing = list(requests), list(completing)
        self.problem = ""

    def freeze(self) -> tuple:
        return (self.head, tuple(self.parent), self.gates, tuple(self.tasks), tuple(self.attempts),
                tuple(self.requests), tuple(self.completing), self.ever, self.gc, self.rerun)

    # -- commits
    def chain(self, ref: int | None = None) -> list[int]:
        at, seen = self.head if ref is None else ref, []
        while at != NONE:
            seen.append(at)
            at = self.parent[at]
        return seen

    # -- orchestrator
    def current(self, i: int) -> bool:
        a = self.attempts[i]
        status, cur, *_ = self.tasks[a[1]]
        return status == RUNNING and cur == i

    def accepted(self, task: int, ref: int) -> bool:
        return self.tasks[task][0] == COMPLETED and self.tasks[task][3] == ref

    def abandoned(self, h: int) -> bool:
        m, j = self.m, self.m.author(h)
        if m.c.any_parent:
            return True
        if j is None:
            return False
        task, tid = self.attempts[j][1], self.attempts[j][2]
        if not m.on("accepted-stays") and m.workflow_failed(self, task):
            return True
        if self.accepted(task, h):
            return False
        if m.on("task-id-final"):
            return tid != self.tasks[task][2] or self.tasks[task][0] in (COMPLETED, FAILED)
        return not self.current(j)

    # -- store
    def rotate(self) -> None:
        for i, r in enumerate(self.requests):
            if r and r[1] == "ready":
                self.requests[i] = (r[0], "again", NONE, r[3])

    def shut(self) -> bool:
        return bool(self.gates) and not self.gates[-1][3]

    def mark_done(self, epoch: int) -> None:
        self.gates = tuple((e, o, w, 1 if e == epoch else d) for e, o, w, d in self.gates)

    def delete_ref(self, owner: int, back: int) -> None:
        a = Attempt(self.attempts[owner])
        if back:
            a.back = 2
        else:
            a.branch = 2
        self.attempts[owner] = a.freeze()


class Model:
    def __init__(self, c: Config) -> None:
        self.c = c
        self.tasks: list[tuple[int, int, int]] = []  # (workflow, position, attempts at most)
        for w, tasks in enumerate(c.workflows):
            self.tasks += [(w, k, most) for k, most in enumerate(tasks)]
        self.n = sum(most for *_, most in self.tasks) + c.rerun + c.leftover
        self.slots = self.n + SPARE
        self.person = 1 + 2 * self.slots  # the person's commit; its request is the last one
        self.windows: dict[str, tuple] = {}
        self.alone: dict[tuple, str] = {}

    def on(self, rule: str) -> bool:
        return rule in self.c.rules

    def staged(self, i: int) -> int:
        return 1 + i

    def merged(self, i: int) -> int:
        return self.staged(i) if self.c.store == "embedded" else 1 + self.slots + i

    def author(self, commit: int) -> int | None:
        return None if commit in (A, self.person) else (commit - 1) % self.slots

    def name(self, commit: int) -> str:
        if commit == A:
            return "A"
        if commit == self.person:
            return "P"
        return f"{'C' if commit <= self.slots else 'M'}{self.author(commit)}"

    def workflow_failed(self, w: World, task: int) -> bool:
        return any(s[0] == FAILED for s, t in zip(w.tasks, self.tasks) if t[0] == self.tasks[task][0])

    def finished(self, w: World, workflow: int) -> bool:
        states = [s[0] for s, t in zip(w.tasks, self.tasks) if t[0] == workflow]
        return FAILED in states or all(s == COMPLETED for s in states)

    # ------------------------------------------------------------------------------------------------ orchestrator
    def start(self) -> tuple:
        parent = [NONE] * (self.person + 1)
        tasks = [(WAITING, NONE, 0, NONE, 0)] * len(self.tasks)
        w = World(self, (A, tuple(parent), (), tuple(tasks), (UNUSED,) * self.slots, (None,) * (self.slots + 1),
                         (0,) * self.slots, 1, (0, 0), self.c.rerun))
        if self.c.person:
            w.requests[self.slots] = ("merge", "sent", NONE, NONE)
        if self.c.leftover:
            w.head = self.merged(0)
            w.parent[w.head] = A
            w.tasks[0] = (WAITING, NONE, 2, NONE, 0)
            w.attempts[0] = ("end", 0, 1, A, CHANGED, NONE, 0, w.head, 2, 0, 0)
        if self.c.paused:
            w.parent[self.staged(1)] = A
            w.tasks[-1] = (RUNNING, 1, 1, NONE, 1)
            w.attempts[1] = ("create", len(self.tasks) - 1, 1, A, CHANGED, w.head, 1, NONE, 1, 0, 0)
        return w.freeze()

    def hand_out(self, w: World, task: int, kind: str, *, new_id: bool, spare: bool = False) -> int:
        status, _, tid, _, used = w.tasks[task]
        i = next(k for k in range(self.n if spare else 0, self.slots) if w.attempts[k][0] == "unused")
        tid += new_id
        inp = A if self.tasks[task][1] == 0 else w.tasks[task - 1][3]
        w.tasks[task] = (RUNNING, i, tid, NONE, used + (not spare))
        w.attempts[i] = ("new", task, tid, inp, kind, NONE, 0, NONE, 0, 0, 0)
        return i

    def orchestrate(self, s: tuple) -> Iterator[tuple[str, World]]:
        c, tasks = self.c, s[3]
        for t, (workflow, k, most) in enumerate(self.tasks):
            status, cur, tid, out, used = tasks[t]
            first = status == WAITING and (k == 0 or tasks[t - 1][0] == COMPLETED)
            if first or (status == RUNNING and used < most):
                for kind in c.kinds:
                    if first or c.timeout:
                        w = World(self, s)
                        i = self.hand_out(w, t, kind, new_id=True)
                        why = "" if first else "lease expires, "
                        yield f"orchestrator: {why}new task id -> attempt {i} of task {t} ({kind})", w
                    if not first and c.repoll:
                        w = World(self, s)
                        i = self.hand_out(w, t, kind, new_id=False)
                        if self.on("one-poll"):  # it reports FAILED and does nothing else
                            w.attempts[i] = ("end", *w.attempts[i][1:])
                        yield f"orchestrator: same task id polled again -> attempt {i} of task {t} ({kind})", w
            elif status == RUNNING and c.timeout:
                w = World(self, s)
                w.tasks[t] = (FAILED, cur, tid, NONE, used)
                yield f"orchestrator: task {t} timed out, no retry left, workflow FAILED", w
            if s[9] and (status == COMPLETED or status == FAILED and not self.on("rerun-completed-only")):
                w = World(self, s)
                if self.finished(w, workflow):
                    for kind in c.kinds:
                        w = World(self, s)
                        w.rerun -= 1
                        for u in range(t + 1, len(self.tasks)):
                            if self.tasks[u][0] == workflow:
                                w.tasks[u] = (WAITING, NONE, w.tasks[u][2] + 1, NONE, w.tasks[u][4])
                        w.tasks[t] = (status, cur, tid, NONE, used - 1)
                        i = self.hand_out(w, t, kind, new_id=False)
                        yield f"orchestrator: rerun from task {t}, same task id -> attempt {i} ({kind})", w
        for i in range(self.slots):
            if s[6][i]:
                w = World(self, s)
                w.completing[i] -= 1
                a = Attempt(w.attempts[i])
                status, cur, tid, out, used = w.tasks[a.task]
                if status == RUNNING and tid == a.tid and not self.workflow_failed(w, a.task):
                    w.tasks[a.task] = (COMPLETED, cur, tid, a.out, used)
                    w.ever |= 1 << a.out
                    if a.out not in w.chain():
                        w.problem = f"5: {self.name(a.out)} accepted while it is not on the branch"
                    yield f"orchestrator: accepts COMPLETED {self.name(a.out)} of attempt {i}", w
                else:
                    yield f"orchestrator: ignores COMPLETED {self.name(a.out)} of attempt {i}", w

    # ------------------------------------------------------------------------------------------------------ server
    def serve(self, s: tuple, only: int | None = None) -> Iterator[tuple[str, World]]:
        c = self.c
        for i, r in enumerate(s[5]):
            if r is None or r[1] == "done" or (only is not None and i != only):
                continue
            kind, phase, read, target = r
            w = World(self, s)
            who = "person's merge" if i == self.slots else f"{kind} of attempt {i}"
            if kind == "merge" and phase != "ready":
                if phase == "sent":
                    w.rotate()
                if i < self.slots and w.attempts[i][8] != 1:
                    self.answer(w, i, "404")
                elif c.broken != "soft" and w.shut():
                    self.answer(w, i, "gate shut")
                elif c.broken != "soft" and i < self.slots and target != w.head:
                    self.answer(w, i, "fenced")
                else:
                    w.requests[i] = ("merge", "ready", w.head, target)
                yield f"server: {who} reads {self.name(w.head)}: {self.said(w, i)}", w
            elif kind == "merge":
                if w.head == read:
                    new = self.person if i == self.slots else self.merged(i)
                    w.parent[new], w.head = read, new
                    self.answer(w, i, "ok")
                    yield f"server: {who} lands: {self.name(read)} -> {self.name(new)}", w
                    if i < self.slots and only is None and c.loss:
                        w = World(self, s)
                        w.parent[new], w.head = read, new
                        self.answer(w, i, "fenced")
                        yield f"server: {who} lands: {self.name(read)} -> {self.name(new)}, but is answered 412", w
                else:
                    w.requests[i] = ("merge", "again", NONE, target)
                    yield f"server: {who} loses its compare-and-swap", w
            elif phase != "ready":
                a = w.attempts[i]
                exists = a[9] if target & 1 else a[8]  # low bit: the move-back branch
                if exists != 1 and c.broken != "reset-by-commit-id":
                    self.answer(w, i, "404")
                else:
                    w.requests[i] = ("reset", "ready", w.head, target)
                yield f"server: {who} reads {self.name(w.head)}: {self.said(w, i)}", w
            elif w.head == read:
                w.head = target >> 1
                self.answer(w, i, "ok")
                yield f"server: {who} lands: head {self.name(read)} => {self.name(w.head)}", w
            else:
                w.requests[i] = ("reset", "again", NONE, target)
                yield f"server: {who} loses its compare-and-swap", w

    def said(self, w: World, i: int) -> str:
        r = w.requests[i]
        return "done" if r is None else r[2] if r[1] == "done" else "ready to swap"

    def answer(self, w: World, i: int, what: str) -> None:
        waits = i < self.slots and w.attempts[i][0] in ("merge?", "reset?", "b:reset?")
        w.requests[i] = ("", "done", what, NONE) if waits else None

    # ----------------------------------------------------------------------------------------------------- clients
    def act(self, s: tuple, i: int, *, alone: bool = False) -> Iterator[tuple[str, World]]:
        """One step of attempt i. `alone`: no answer is lost."""
        c, pc = self.c, s[4][i][0]
        if pc in ("unused", "end"):
            return
        w = World(self, s)
        a = Attempt(w.attempts[i])
        say = f"attempt {i}: "

        def done(label: str, to: str) -> tuple[str, World]:
            a.pc = to
            if to == "end":
                a.h, a.epoch, a.sent = NONE, 0, 0
            w.attempts[i] = a.freeze()
            return say + label, w

        back = a.pc.startswith("b:")  # the same gate steps, for the move back to the accepted ref
        step = a.pc[2:] if back else a.pc
        pre = "b:" if back else ""
        lakefs = c.store == "lakefs"
        if step == "new":
            if a.kind == CHANGED:
                a.branch, w.parent[self.staged(i)] = 1, a.inp
                yield done(f"stages {self.name(self.staged(i))} on {self.name(a.inp)}", "read")
            elif self.on("revoke-predecessors") and c.broken != "soft":
                for j in range(self.slots):
                    if j != i and w.attempts[j][1] == a.task and not w.current(j) and w.attempts[j][8] == 1:
                        w.delete_ref(j, 0)
                yield done("deletes the staging branches of earlier attempts of its task",
                           "poke first" if lakefs else "read")
            else:
                yield from self.act_as(s, i, "read", alone)
        elif step == "poke first":
            if c.broken != "no-poke":
                w.rotate()
            yield done("pokes", "read")
        elif step == "read":
            if c.broken == "fence-before-read" and a.sent == 0:
                a.sent = 1
                ok = w.current(i)
                yield done(f"fence {'holds' if ok else 'fails'} (too early)", "read" if ok else "clean")
                return
            a.h, a.sent = w.head, 0
            seen = f"reads head {self.name(w.head)}"
            if a.h == a.inp:
                if a.kind == UNCHANGED:
                    a.out = a.inp
                yield done(seen, "fence" if a.kind == CHANGED else "last fence")
            elif w.parent[a.h] == a.inp:
                yield done(seen, "classify")
            else:
                yield done(seen + ": PublishFenceError", "clean")
        elif step == "classify":
            if not w.abandoned(a.h):
                yield done(f"{self.name(a.h)} is not abandoned: fenced", "clean")
            else:
                if a.kind == UNCHANGED and a.branch == 0:
                    a.branch = 1  # an execution-named branch at the input ref
                to = "list" if lakefs and c.broken != "soft" else "fence"
                yield done(f"{self.name(a.h)} is abandoned", to)
        elif step == "fence":
            if not w.current(i) and c.broken != "fence-before-read":
                yield done("fence fails: stale", "clean")
            elif not lakefs:
                yield done("fence holds", "swap")
            elif a.h == a.inp:
                w.requests[i] = ("merge", "sent", NONE, a.h)
                yield done(f"fence holds, sends merge expecting {self.name(a.h)}", "merge?")
            else:
                self.send_reset(w, i, a, 0)
                yield done("fence holds, sends reset", "reset?")
        elif step == "swap" and back:
            if w.head == a.out and w.accepted(a.task, a.h):
                w.head = a.h
            yield done(f"tries to move back to {self.name(a.h)}", "clean")
        elif step == "swap":  # embedded lake: one conditional update
            if self.on("revoke-predecessors") and a.branch != 1:
                yield done("its staging branch was revoked", "clean")
            elif w.head == a.h:
                a.out = w.head = self.staged(i) if a.kind == CHANGED else a.inp
                yield done(f"updates head {self.name(a.h)} => {self.name(a.out)}", "last fence")
            else:
                yield done("conditional update refused", "clean")
        elif step == "merge?":
            r = w.requests[i]
            if r[1] == "done":
                w.requests[i] = None
                if r[2] == "ok":
                    a.out = self.merged(i)
                    yield done("is told: merged", "last fence")
                elif r[2] == "404":
                    yield done("is told: 404", "clean")
                else:
                    a.sent = 2 if r[2] == "gate shut" else 0
                    yield done(f"is told: 412 {r[2]}", "read back")
            elif c.loss and not alone:
                yield done("merge answer lost", "revoke")
        elif step == "revoke":
            a.branch = 2
            yield done("deletes its staging branch", "poke")
        elif step == "poke":
            if c.broken != "no-poke":
                w.rotate()
            yield done("pokes", "read back")
        elif step == "read back":
            if self.merged(i) in w.chain():
                a.out, a.sent = self.merged(i), 0
                yield done(f"finds {self.name(a.out)} on the branch", "last fence")
            else:
                to = "unlock" if a.sent == 2 and self.on("merge-releases") else "clean"
                a.sent = 0
                yield done("does not find its commit: failed", to)
        elif step == "unlock":  # a merge met a shut gate: release it if its owner is over, then fail (Transient)
            if w.shut() and not w.current(w.gates[-1][1]):
                a.epoch = w.gates[-1][0]
                yield done(f"finds gate {a.epoch} of an attempt that is over", "u:free ref")
            else:
                yield done("gate is open or its owner runs: Transient", "clean")
        elif step == "last fence":
            if w.current(i):
                w.completing[i] = 2 if c.duplicates else 1
                yield done(f"fence holds, sends COMPLETED {self.name(a.out)}", "re-read")
            else:
                yield done("last fence fails: stale", "clean")
        elif step == "re-read":
            status, out = w.tasks[a.task][0], w.tasks[a.task][3]
            ours = a.out != a.inp
            if status == COMPLETED and out != a.out and ours and w.head == a.out and not self.on("one-poll") and (
                    w.parent[out] == w.parent[a.out] or (c.broken == "move-back-to-A" and out == a.inp)):
                a.h = out
                if lakefs and c.broken != "soft":
                    a.back = 1
                yield done(f"accepted is {self.name(out)}, not {self.name(a.out)}: moves back",
                           "b:list" if lakefs and c.broken != "soft" else "b:swap")
            else:
                yield done("re-reads its task", "clean")
        elif step == "clean":
            if a.branch == 1:
                a.branch = 2
            if a.back == 1:
                a.back = 2
            yield done("cleans up", "end")
        # -- replacement under the gate, also the move back (prefix b:)
        elif step == "list":
            if w.shut():
                owner = w.gates[-1][1]
                a.epoch = w.gates[-1][0]
                if c.broken == "lease-gate":
                    w.mark_done(a.epoch)
                    yield done(f"breaks gate {a.epoch}: its lease has run out", pre + "list")
                elif w.current(owner) and not c.eager:
                    yield done("gate is held by a running attempt: Transient", "clean")
                else:
                    yield done(f"finds gate {a.epoch} of an attempt that is over", pre + "free ref")
            else:
                a.epoch = w.gates[-1][0] + 1 if w.gates else 1
                yield done(f"finds the gate open, next epoch {a.epoch}", pre + "create")
        elif step in ("free ref", "u:free ref"):
            u = "u:" if step[0] == "u" else pre
            owner = next((g for g in w.gates if g[0] == a.epoch), None)
            if owner:
                assert owner[1] != i  # an attempt closes its own gate before it opens another
                w.delete_ref(owner[1], owner[2])
            yield done(f"deletes the ref of gate {a.epoch}", u + "free poke")
        elif step in ("free poke", "u:free poke"):
            if c.broken != "no-poke":
                w.rotate()
            yield done("pokes", ("u:" if step[0] == "u" else pre) + "free done")
        elif step in ("free done", "u:free done"):
            w.mark_done(a.epoch)
            yield done(f"creates {a.epoch}.done", "clean" if step[0] == "u" else pre + "list")
        elif step == "create":
            if any(g[0] == a.epoch for g in w.gates):
                yield done(f"epoch {a.epoch} exists: Transient", "clean")
            else:
                w.gates = tuple(sorted((*w.gates, (a.epoch, i, int(back), 0))))
                yield done(f"creates epoch {a.epoch}", pre + "gate poke")
        elif step == "gate poke":
            if self.on("own-epoch-last") and c.broken != "epoch-reuse" and w.gates[-1][0] != a.epoch:
                yield done(f"epoch {a.epoch} is not the last key: Transient", pre + "undo ref")
            else:
                if c.broken != "no-poke":
                    w.rotate()
                yield done("pokes", pre + "gate read")
        elif step == "gate read":
            seen = f"reads head {self.name(w.head)} behind the gate"
            if back:
                yield done(seen, "b:gate fence" if w.head == a.out else "b:undo ref")
            else:
                a.h = w.head
                good = w.head != a.inp and w.parent[w.head] == a.inp
                yield done(seen, "gate classify" if good else "undo ref")
        elif step == "gate classify":
            ok = w.abandoned(a.h)
            yield done(f"{self.name(a.h)} is {'' if ok else 'not '}abandoned", "gate fence" if ok else "undo ref")
        elif step == "gate fence":
            ok = w.accepted(a.task, a.h) if back else w.current(i) or c.broken == "fence-before-read"
            if ok:
                self.send_reset(w, i, a, int(back))
            yield done("fence holds, sends reset" if ok else "fence fails", pre + ("reset?" if ok else "undo ref"))
        elif step == "reset?":
            r = w.requests[i]
            if r[1] == "done":
                w.requests[i] = None
                ok = r[2] == "ok"
                gated = c.broken != "soft"
                if ok and not gated:
                    a.out = self.staged(i) if a.kind == CHANGED else a.inp
                yield done(f"is told: {'204' if ok else r[2]}", pre + ("shut" if ok else "undo ref") if gated else
                           "last fence" if ok else "clean")
            elif c.loss and not alone:
                yield done("reset answer lost", pre + "undo ref" if c.broken != "soft" else "clean")
        elif step == "shut":
            w.mark_done(a.epoch)
            if not back:
                a.out = self.staged(i) if a.kind == CHANGED else a.inp
            yield done(f"creates {a.epoch}.done", "clean" if back else "last fence")
        elif step == "undo ref":
            if back:
                a.back = 2
            else:
                a.branch = 2
            yield done("deletes its ref", pre + "undo poke")
        elif step == "undo poke":
            if c.broken != "no-poke":
                w.rotate()
            yield done("pokes", pre + "undo done")
        elif step == "undo done":
            w.mark_done(a.epoch)
            sent, a.sent = a.sent, 0
            yield done(f"creates {a.epoch}.done", "clean" if back or not sent else "head?")
        elif step == "head?":
            want = self.staged(i) if a.kind == CHANGED else a.inp
            if (want in w.chain()) if a.kind == CHANGED else w.head == a.inp:
                a.out = want
                yield done(f"finds its reset in force: {self.name(want)}", "last fence")
            else:
                yield done("does not find its commit: failed", "clean")
        else:
            raise AssertionError(a.pc)

    def act_as(self, s: tuple, i: int, pc: str, alone: bool) -> Iterator[tuple[str, World]]:
        attempts = list(s[4])
        attempts[i] = (pc, *attempts[i][1:])
        yield from self.act((*s[:4], tuple(attempts), *s[5:]), i, alone=alone)

    def send_reset(self, w: World, i: int, a: Attempt, back: int) -> None:
        target = a.h if back else self.staged(i) if a.kind == CHANGED else a.inp
        w.requests[i] = ("reset", "sent", NONE, target << 1 | back)
        a.sent = 1

    # ---------------------------------------------------------------------------------------------------------- gc
    def collect(self, s: tuple) -> Iterator[tuple[str, World]]:
        step, epoch = s[8]
        w = World(self, s)
        last = max((g[0] for g in s[2] if g[3]), default=0)
        if any(g[0] < last for g in s[2]):
            v = World(self, s)
            v.gates = tuple(g for g in v.gates if g[0] >= last)
            yield f"gc: deletes the keys below {last}.done", v
        if self.c.gc == "keys":
            return
        if step == 0:
            for i in range(self.slots):
                if w.attempts[i][0] != "unused" and w.attempts[i][8] == 1 and not w.current(i):
                    v = World(self, s)
                    v.delete_ref(i, 0)
                    yield f"gc: deletes the staging branch of attempt {i}", v
            if w.shut() and not w.current(w.gates[-1][1]):
                w.delete_ref(w.gates[-1][1], w.gates[-1][2])
                w.gc = (1, w.gates[-1][0])
                yield f"gc: deletes the ref of gate {w.gc[1]}", w
        elif step == 1:
            if self.c.broken != "no-poke":
                w.rotate()
            w.gc = (2, epoch)
            yield "gc: pokes", w
        else:
            w.mark_done(epoch)
            w.gc = (0, 0)
            yield f"gc: creates {epoch}.done", w

    # ------------------------------------------------------------------------------------------------------ checks
    def successors(self, s: tuple) -> Iterator[tuple[str, World]]:
        yield from self.orchestrate(s)
        yield from self.serve(s)
        for i in range(self.n):
            yield from self.act(s, i)
        if self.c.gc:
            yield from self.collect(s)

    def violation(self, w: World) -> str:
        if w.problem:
            return w.problem
        chain = w.chain()
        for t, task in enumerate(w.tasks):
            if task[0] == COMPLETED and task[3] not in chain:
                lost, head = self.name(task[3]), self.name(w.head)
                return f"1: {lost}, accepted for task {t}, is not on the branch (head {head})"
        if w.parent[self.person] != NONE and self.person not in chain:
            return "4: the person's merge was erased"
        for commit in chain:
            p = w.parent[commit]
            if commit not in (A, self.person) and p not in (A, self.person) and not w.ever >> p & 1:
                return f"2: {self.name(commit)} was published on {self.name(p)}, which was never accepted"
        return ""

    def window(self, w: World) -> str:
        """A name for the way in which a finished workflow left an abandoned commit on the branch, or ''."""
        if not all(self.finished(w, k) for k in range(len(self.c.workflows))):
            return ""
        left = [x for x in w.chain() if x not in (A, self.person) and not w.ever >> x & 1]
        if not left:
            return ""
        a = Attempt(w.attempts[self.author(left[0])])
        status, _, tid, out, _ = w.tasks[a.task]
        task = "task failed, never retried" if status != COMPLETED else (
            "task completed with its input ref" if out == a.inp else "task completed with another ref")
        where = "stopped before it had reported"
        if a.pc in ("re-read", "clean"):
            where = "stopped after it had reported"
        elif a.pc == "end":
            where = "had ended"
        elif a.pc.startswith("b:"):
            where = "was moving back"
        return f"{task}; published under {'the same' if tid == a.tid else 'an older'} task id; publisher {where}"

    def stuck(self, s: tuple) -> str:
        """If nothing fails any more, does a retry of each unfinished task complete, or meet somebody else's commit?"""
        key = (s[0], s[1], s[2], s[3], tuple((a[1], a[2], a[8], a[9]) for a in s[4]))
        if key not in self.alone:
            self.alone[key] = self.find_stuck(s)
        return self.alone[key]

    def own(self, w: World, commit: int, task: int) -> bool:
        """Made by this task or by an earlier one of its workflow: no excuse for being fenced."""
        if commit == self.person:
            return False
        workflow, k, _ = self.tasks[w.attempts[self.author(commit)][1]]
        return workflow == self.tasks[task][0] and k <= self.tasks[task][1]

    def find_stuck(self, s: tuple) -> str:
        for t, task in enumerate(s[3]):
            if task[0] not in (RUNNING, FAILED) or (self.tasks[t][1] and s[3][t - 1][0] != COMPLETED):
                continue
            for kind in self.c.kinds:
                rest = [(FAILED, *x[1:]) if x[0] == RUNNING and u != t else x for u, x in enumerate(s[3])]
                now, why = s[:3] + (tuple(rest), s[4]) + ((None,) * len(s[5]), (0,) * len(s[6])) + s[7:], ""
                for _ in range(SPARE):
                    w = World(self, now)
                    i = self.hand_out(w, t, kind, new_id=True, spare=True)
                    now = w.freeze()
                    while now[3][t][0] == RUNNING and now[4][i][0] != "end":
                        moves = [*self.serve(now, only=i), *self.act(now, i, alone=True)]
                        if now[6][i]:
                            moves = [m for m in self.orchestrate(now) if "COMPLETED" in m[0]]
                        why, w = moves[0][0] if now[4][i][0] != "clean" else why, moves[0][1]
                        now = w.freeze()
                    if now[3][t][0] == COMPLETED:
                        break
                else:
                    w = World(self, s)
                    inp = A if self.tasks[t][1] == 0 else s[3][t - 1][3]
                    others = [x for x in w.chain() if x not in (A, inp) and not self.own(w, x, t)]
                    if not others or inp not in w.chain():
                        return f"6: retries of task {t} ({kind}) running alone never complete: {why}"
        return ""


@dataclass
class Result:
    config: Config
    states: int
    transitions: int
    seconds: float
    problem: str
    trace: list[str]
    windows: dict[str, list[str]]
    whole: bool


def explore(c: Config, *, limit: int = 0, progress: bool = True) -> Result:
    m, began = Model(c), time.monotonic()
    first = m.start()
    came: dict[tuple, tuple[tuple, str] | None] = {first: None}
    layer, transitions = [first], 0

    def trace(s: tuple, *more: str) -> list[str]:
        steps = list(more)
        while came[s] is not None:
            s, label = came[s]
            steps.append(label)
        return steps[::-1]

    def result(problem: str, steps: list[str], whole: bool = True) -> Result:
        windows = {name: trace(s) for name, s in m.windows.items()}
        return Result(c, len(came), transitions, time.monotonic() - began, problem, steps, windows, whole)

    while layer:
        following = []
        for s in layer:
            for label, w in m.successors(s):
                transitions += 1
                t = w.freeze()
                if t in came:
                    if w.problem:
                        return result(w.problem, trace(s, label))
                    continue
                came[t] = (s, label)
                problem = m.violation(w)
                if not problem and progress:
                    problem = m.stuck(t)
                if problem:
                    return result(problem, trace(t))
                name = m.window(w)
                if name and name not in m.windows:
                    m.windows[name] = t
                    listed = (NEVER_RETRIED, LATE_DUPLICATE) if c.rerun and c.duplicates else NEVER_RETRIED
                    if c.strict and not name.startswith(listed):
                        return result(f"3: a finished workflow leaves an abandoned head: {name}", trace(t))
                following.append(t)
        if limit and len(came) > limit:
            return result("", [], whole=False)
        layer = following
    return result("", [])


# --------------------------------------------------------------------------------------------------- configurations
ONLY_CHANGED = (CHANGED,)
CONFIGS = [
    Config("embedded-retries", "one task, three attempts", store="embedded", workflows=((3,),)),
    Config("embedded-tasks", "two serial tasks, two attempts each", store="embedded", workflows=((2, 2),)),
    Config("embedded-workflows", "two workflows on one branch, a person", store="embedded", workflows=((2,), (1,)),
           person=True),
    Config("embedded-rerun", "a task, a rerun, completions delivered twice", store="embedded", workflows=((2,),),
           rerun=1, duplicates=True),
    Config("retries", "one task, three attempts", workflows=((3,),)),
    Config("tasks", "two serial tasks, two attempts and one", workflows=((2, 1),)),
    Config("tasks-retried", "two serial tasks, one attempt and two", workflows=((1, 2),)),
    Config("person", "one task, two attempts, a person, gc", workflows=((2,),), person=True, gc="all"),
    Config("workflows", "two workflows on one branch, a person", workflows=((1,), (1,)), person=True),
    Config("workflows-retried", "two workflows on one branch, one retried", workflows=((2,), (1,)),
           kinds=ONLY_CHANGED, loss=False),
    Config("replacers", "an abandoned head, two attempts, a person, gc", workflows=((2,),), person=True, gc="all",
           leftover=True),
    Config("three-replacers", "an abandoned head, three attempts", workflows=((3,),), kinds=ONLY_CHANGED,
           leftover=True),
    Config("replacing-workflows", "an abandoned head, two workflows, a person", workflows=((1,), (1,)), person=True,
           leftover=True),
    Config("epochs", "an abandoned head, a paused replacer of another workflow, a person, gc of gate keys",
           workflows=((2,), (1,)), kinds=ONLY_CHANGED, person=True, gc="keys", leftover=True, paused=True,
           repoll=False, loss=False),
    Config("eager-release", "an abandoned head, two workflows, a person, gates released at any time",
           workflows=((1,), (1,)), kinds=ONLY_CHANGED, person=True, leftover=True, eager=True),
    Config("rerun", "one task, two attempts, a rerun, completions delivered twice", workflows=((2,),), rerun=1,
           duplicates=True),
    Config("rerun-tasks", "two serial tasks, a rerun from either", workflows=((1, 1),), rerun=1, duplicates=True),
    Config("rerun-workflows", "two workflows, a rerun", workflows=((1,), (1,)), rerun=1),
    Config("embedded-any-parent", "replace=any under its operating rules: one workflow, two tasks", store="embedded",
           workflows=((2, 1),), repoll=False, any_parent=True),
    Config("any-parent", "replace=any under its operating rules: one workflow, two tasks", workflows=((2, 1),),
           repoll=False, any_parent=True),
]
BY_NAME = {c.name: c for c in CONFIGS}

# Where the absence of a rule, or a broken variant, shows.
WITHOUT = {
    "task-id-final": BY_NAME["workflows-retried"],
    "one-poll": replace(BY_NAME["retries"], workflows=((2,),)),
    "accepted-stays": Config("failed-workflow", "a workflow whose second task fails, and another workflow",
                             workflows=((1, 1), (1,)), kinds=ONLY_CHANGED),
    "merge-releases": BY_NAME["replacers"],
    "own-epoch-last": BY_NAME["epochs"],
    "revoke-predecessors": BY_NAME["person"],
    "rerun-completed-only": replace(BY_NAME["rerun-workflows"], kinds=ONLY_CHANGED, repoll=False, loss=False),
}
WORST = {
    "soft": replace(BY_NAME["person"], kinds=ONLY_CHANGED),
    "fence-before-read": BY_NAME["embedded-any-parent"],
    "reset-by-commit-id": BY_NAME["three-replacers"],
    "lease-gate": BY_NAME["three-replacers"],
    "no-poke": BY_NAME["replacers"],
    "move-back-to-A": replace(BY_NAME["rerun"], rules=frozenset(SUBTLE) - {"one-poll"}),
    "epoch-reuse": BY_NAME["epochs"],
}


def report(r: Result, *, windows: bool = True) -> bool:
    size = f"{r.states:,} states, {r.transitions:,} transitions, {r.seconds:.0f} s"
    verdict = f"VIOLATED {r.problem}" if r.problem else "ok" if r.whole else "ok so far (limit reached)"
    print(f"{r.config.name:22} {r.config.about}: {size}: {verdict}")
    for n, step in enumerate(r.trace, 1):
        print(f"    {n:2} {step}")
    if windows and not r.problem:
        grouped: dict[str, list[str]] = {}
        for name, steps in sorted(r.windows.items()):
            kind, _, where = name.partition("; publisher ")
            grouped.setdefault(kind, []).append(f"{where} ({len(steps)} steps)")
        for kind, where in grouped.items():
            print(f"    abandoned head possible: {kind}; publisher {', '.join(where)}")
    sys.stdout.flush()
    return not r.problem


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--config", choices=list(BY_NAME), help="only this configuration")
    p.add_argument("--protocol", choices=["whole", "plain"], default="whole", help="plain: without those rules")
    p.add_argument("--without", nargs="?", const="all", choices=["all", *WITHOUT], help="leave out one rule")
    p.add_argument("--broken", nargs="?", const="all", choices=["all", *BROKEN], help="a broken variant")
    p.add_argument("--limit", type=int, default=0, help="stop a configuration at about this many states")
    o = p.parse_args()
    good = True
    if o.without or o.broken:
        for kind, chosen, where in (("without", o.without, WITHOUT), ("broken", o.broken, WORST)):
            for name in [n for n in where if chosen in ("all", n)]:
                base = BY_NAME[o.config] if o.config else where[name]
                c = replace(base, name=name, about=f"{kind} in '{base.name}', {(SUBTLE | BROKEN)[name]}")
                c = replace(c, broken=name) if kind == "broken" else replace(c, rules=c.rules - {name})
                good &= not report(explore(c, limit=o.limit), windows=False)
        print("every one was found" if good else "NOT FOUND: at least one")
        return 0 if good else 1
    for c in [BY_NAME[o.config]] if o.config else CONFIGS:
        if o.protocol == "plain":
            c = replace(c, rules=frozenset(), strict=False)
        good &= report(explore(c, limit=o.limit))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
