"""What a STORE@BRANCH stands for: the head of the branch, as a task's input names it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.attempts.judging import check_head_to_build_on
from headgate.publication import Head, Ref

if TYPE_CHECKING:
    from headgate.orchestrators.machine import Machine
    from headgate.settings import StoreAddress

Block = dict[str, str]


def resolve_address(machine: Machine, address: StoreAddress) -> tuple[str, Block, Head]:
    """The input key of a store (a lake's is `workspace`, a graph's is `graph`), its block, and the branch's head."""
    branch = str(address.at)
    if machine.settings.store(address.store).graph is None:
        opened = machine.lakes.store(address.store)
        head = opened.lake.head(opened.repository, branch)
        return "workspace", _block("repository", opened.repository, head), head
    commit = machine.graph(address.store).head(branch)
    parents = (Ref(commit.parent),) if commit.parent else ()
    head = Head(branch=branch, ref=Ref(commit.id), parents=parents, metadata=commit.metadata)
    return "graph", _block("graph", address.store, head), head


def check_to_build_on(machine: Machine, address: StoreAddress, key: str, head: Head) -> None:
    """Refuse a head that was never accepted: it would become the parent of new work."""
    check_head_to_build_on(head, of=address.store, orchestrator=machine.orchestrator, store=key)


def _block(name: str, store: str, head: Head) -> Block:
    return {name: store, "branch": head.branch, "ref_type": "commit", "ref": str(head.ref)}
