"""The name of a Conductor server for good: in commit metadata, in the names of staging branches.

An address will not do: one server has several, and an address may become another server's. The name is kept at the
server itself, as the description of a workflow definition, the one thing there that can be created once and no more.
"""

from __future__ import annotations

from contextlib import suppress

from headgate.errors import AlreadyExists, InvalidInput, NotFound
from headgate.ids import IdSource
from headgate.orchestrators.conductor.client import Client

DEFINITION = "headgate_orchestrator_id"
VERSION = 1


def server_id(client: Client, ids: IdSource) -> str:
    """The server's name: the one it has, or one it is given now. Two who give one at a time read the same."""
    with suppress(NotFound):
        return _known(client)
    # Where somebody is faster, theirs is the name.
    with suppress(AlreadyExists):
        client.call(
            *("POST", "metadata", "workflow"),
            payload=_definition(f"conductor-{ids.new()}"),
            doing=f"keep its own id, as the workflow definition {DEFINITION}",
            kind="workflow definition",
            name=DEFINITION,
        )
    return _known(client)


def _known(client: Client) -> str:
    found = client.call(
        *("GET", "metadata", "workflow", DEFINITION),
        query={"version": VERSION},
        repeat=True,
        doing=f"show the workflow definition {DEFINITION}",
        kind="workflow definition",
        name=DEFINITION,
    )
    told = found.get("description") if isinstance(found, dict) else None
    if not isinstance(told, str) or not told.startswith("conductor-"):
        raise InvalidInput(
            message=f"the workflow definition {DEFINITION} at {client.name} does not hold an id: {told!r}",
            hint="its description was changed: put the id back, as the metadata of any published commit tells it",
        )
    return told


def _definition(name: str) -> dict[str, object]:
    """Never started; a definition needs a task, and this one does nothing."""
    nothing = {
        "name": "nothing",
        "taskReferenceName": "nothing",
        "type": "SET_VARIABLE",
        "inputParameters": {"keep": "the description is the id of this server: do not change or delete it"},
    }
    return {
        "name": DEFINITION,
        "version": VERSION,
        "description": name,
        "schemaVersion": 2,
        "ownerEmail": "headgate@localhost.localdomain",
        "timeoutPolicy": "ALERT_ONLY",
        "timeoutSeconds": 0,
        "tasks": [nothing],
    }
