"""What a person says about a run: its options, its input as JSON, and where it reads and publishes.

Each STORE@BRANCH is resolved once, as a task's input names it.
"""

from __future__ import annotations

import json as jsons
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headgate.errors import InvalidInput

if TYPE_CHECKING:
    from headgate.orchestrators.machine import Machine
    from headgate.tasks.declaration import TaskDeclaration

Block = dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """How a run was asked for."""

    on: tuple[str, ...] = ()
    jobs: int = 0
    dry_run: bool = False
    json: bool = False


def store_blocks(machine: Machine, on: Sequence[str], *, builds_on: Sequence[str]) -> dict[str, Block]:
    """The block of each address by its input key: a lake's is `workspace`, a graph's is `graph`.

    A head that was never accepted is refused for the keys in `builds_on`: it would become the parent of new work.
    """
    from headgate.orchestrators.addresses import check_to_build_on, resolve_address
    from headgate.settings import StoreAddress

    blocks: dict[str, Block] = {}
    for text in on:
        address = StoreAddress.parse(text, default_at="main")
        key, block, head = resolve_address(machine, address)
        if key in blocks:
            raise InvalidInput(
                message=f"two stores are named for the {key}: {text!r} is the second",
                hint="name one lake and one graph at most",
            )
        if key in builds_on:
            check_to_build_on(machine, address, key, head)
        blocks[key] = block
    return blocks


def check_stores(declarations: Sequence[TaskDeclaration], blocks: dict[str, Block]) -> None:
    """Every store a task needs is named, and none that no task needs."""
    needed = {store for declaration in declarations for store in declaration.stores}
    if missing := sorted(needed - set(blocks)):
        what = " and ".join({"workspace": "a lake", "graph": "a graph"}[key] for key in missing)
        raise InvalidInput(message=f"these tasks need {what}", hint="add --on STORE@BRANCH for each store")
    if spare := sorted(set(blocks) - needed):
        raise InvalidInput(message=f"no task of these has a {spare[0]}", hint="leave --on out for that store")


def json_object(text: str, option: str) -> dict[str, Any]:
    hint = """write it like '{"limit": 3}'"""
    try:
        given = jsons.loads(text)
    except ValueError as error:
        raise InvalidInput(message=f"{option} is no JSON: {error}", hint=hint) from error
    if not isinstance(given, dict):
        raise InvalidInput(message=f"{option} is no JSON object", hint=hint)
    return given


def prints_are_notes() -> AbstractContextManager[object]:
    """What a body prints is about the work, and goes to stderr: stdout holds the result alone."""
    return redirect_stdout(sys.stderr)
