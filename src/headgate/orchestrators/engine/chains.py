"""A chain of tasks as a workflow: each gets what the one before it published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headgate.tasks.declaration import TaskDeclaration


def chain_definition(declarations: Sequence[TaskDeclaration]) -> dict[str, Any]:
    """The definition of a workflow that runs the tasks in order; its input has the stores' blocks and the params.

    `params` holds those of each task by the task's reference, which is its name, and a number where a name comes again.
    """
    latest: dict[str, str] = {}
    tasks: list[dict[str, Any]] = []
    for declaration, reference in zip(declarations, references(declarations), strict=True):
        blocks = {store: latest.get(store, f"${{workflow.input.{store}}}") for store in declaration.stores}
        latest |= {store: f"${{{reference}.output.{store}}}" for store in declaration.stores}
        tasks.append(
            {
                "name": declaration.name,
                "taskReferenceName": reference,
                "type": "SIMPLE",
                "inputParameters": {**blocks, "params": f"${{workflow.input.params.{reference}}}"},
            }
        )
    return {
        "name": "_then_".join(declaration.name for declaration in declarations),
        "version": 1,
        "schemaVersion": 2,
        "inputParameters": [*latest, "params"],
        "tasks": tasks,
        "outputParameters": {
            **latest,
            "results": {task["taskReferenceName"]: f"${{{task['taskReferenceName']}.output.result}}" for task in tasks},
        },
    }


def references(declarations: Sequence[TaskDeclaration]) -> list[str]:
    """A name for each task of a chain that no other one has."""
    found: list[str] = []
    for declaration in declarations:
        reference, number = declaration.name, 1
        while reference in found:
            number += 1
            reference = f"{declaration.name}_{number}"
        found.append(reference)
    return found
