"""Tasks that come with Headgate, for workflows. Registered and served as the module `headgate.shipped`.

`headgate_resolve` gives the commit that a branch is at, for the tasks after it to read; `headgate_merge` merges one
branch of a lake into another, staged, fenced and published as the work of any task.
"""

from __future__ import annotations

from pydantic import BaseModel, Field

from headgate.orchestrators.addresses import check_to_build_on, resolve_address
from headgate.orchestrators.machine import current_machine
from headgate.settings import StoreAddress
from headgate.tasks import RetryPolicy, TaskControls, task
from headgate.tasks.protocols import MergeWorkspace

_SOON = TaskControls(retry=RetryPolicy(count=3, delay_seconds=5))


class ResolveParams(BaseModel):
    on: str = Field(min_length=1, description="STORE@BRANCH; the branch is main if none is named")
    builds_on: bool = Field(default=True, description="Refuse a head that no orchestrator has accepted")


class Resolved(BaseModel):
    ref: str
    block: dict[str, str] = Field(description="What a task takes as its `workspace` or `graph`")


@task(controls=_SOON)
def headgate_resolve(params: ResolveParams) -> Resolved:
    """Give the commit that a branch of a store is at."""
    machine = current_machine()
    address = StoreAddress.parse(params.on, default_at="main")
    key, block, head = resolve_address(machine, address)
    if params.builds_on:
        check_to_build_on(machine, address, key, head)
    return Resolved(ref=str(head.ref), block=block)


class MergeParams(BaseModel):
    source: str = Field(min_length=1, description="The branch to be merged")


class Merged(BaseModel):
    source: str
    source_ref: str


# Only these tasks have such a workspace, and the types of `@task` do not tell of it.
@task(workspace="/", controls=_SOON)  # type: ignore[call-overload]
def headgate_merge(workspace: MergeWorkspace, params: MergeParams) -> Merged:
    """Merge a branch of a lake into the branch of the input, if both are as they were."""
    return Merged(source=workspace.source, source_ref=str(workspace.source_ref))
