"""Which settings there are: plain, frozen data that a file can hold.

To add a setting, add a field with a default and a line under it that says what it does. It can then be set in
`headgate.toml`, in a profile, and as `HEADGATE_` followed by its path in capitals (`log.level` is
`HEADGATE_LOG_LEVEL`). A setting must do something: `tests/unit/settings/test_effects.py` names, for each, the test
that shows what.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from headgate.errors import NotFound

LOCATION = "location"
"""Marks a setting whose relative path is meant from the file it stands in; one in a variable, from where we run."""


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class LakefsSettings(Section):
    """The lakeFS server of the stores with `lake = "lakefs"`."""

    endpoint: str | None = None
    """Its address, such as https://lakefs.example.com."""
    access_key_id: str | None = None
    """Who we are there."""
    secret_access_key: SecretStr | None = None
    """What proves it; better in the environment than in a file."""
    fence: Literal["auto", "hard", "soft"] = "auto"
    """Who decides that a head is the expected one: `hard` is the server, else nothing is published; `soft` is us, just
    before; `auto` is the server where it runs hooks."""
    cache_gb: float = Field(default=10, ge=0)
    """How many gigabytes of downloads this machine keeps for the next task; 0 keeps none."""


class ConductorSettings(Section):
    """The Conductor server of the orchestrator `conductor`."""

    server_url: str | None = None
    """Its API, such as https://conductor.example.com/api."""
    auth_key: str | None = None
    """Who we are there, where the server asks."""
    auth_secret: SecretStr | None = None
    """What proves it; better in the environment than in a file."""


class StoreSettings(Section):
    """One named store: a lake or a graph."""

    lake: Literal["embedded", "lakefs"] | None = None
    """Files: in the embedded lake, or on a lakeFS server."""
    graph: Annotated[str | None, LOCATION] = None
    """Tables: the folder or the object store URI of a graph."""
    root: Annotated[Path | None, LOCATION] = None
    """The folder of the embedded lake; stores that share it share its files."""
    repository: str | None = None
    """The repository in the lake; the store's own name if nothing is said."""

    @model_validator(mode="after")
    def _one_kind(self) -> StoreSettings:
        if (self.lake is None) == (self.graph is None):
            raise ValueError('a store has either lake = "embedded" or "lakefs", or graph = "FOLDER"')
        if self.root is not None and self.lake != "embedded":
            raise ValueError('root is for lake = "embedded" alone')
        if self.repository is not None and self.lake is None:
            raise ValueError("repository is for lakes alone")
        return self

    @property
    def kind(self) -> Literal["lake", "graph"]:
        return "lake" if self.lake else "graph"


class LogSettings(Section):
    """What is logged, and where to."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important lines that are kept."""
    file: Annotated[Path | None, LOCATION] = None
    """Also write JSON lines to this file."""
    max_mb: float = Field(default=50, gt=0)
    """Start a new file when this one has grown to so many megabytes."""
    keep: int = Field(default=5, ge=1)
    """How many of the older files stay."""


class WorkspaceSettings(Section):
    """The local workspaces of attempts, and what stays of those that failed."""

    root: Annotated[Path | None, LOCATION] = None
    """Where workspaces are made; the folder `workspaces` in `state` if nothing is said."""
    keep_failed: Literal["none", "last", "all"] = "last"
    """Which failed attempts are moved aside to be looked at: none, the last of each task, or all."""
    keep_failed_mb: float = Field(default=2048, gt=0)
    """How many megabytes of failed attempts are kept; the oldest go first."""
    keep_failed_days: float = Field(default=14, gt=0)
    """How long a failed attempt is kept."""


class GraphSettings(Section):
    """The graphs among the stores."""

    publish_ids_days: float = Field(default=30, gt=0)
    """How long a publish id is remembered: a write with one that was used within this time changes nothing."""


class GcSettings(Section):
    """What `headgate gc` takes for gone."""

    unknown_after_hours: float = Field(default=24, ge=1)
    """A staging branch whose task the orchestrator does not know is left alone until it is this old."""


class TelemetrySettings(Section):
    """What operators see of a worker. Metrics and traces need `headgate[telemetry]`."""

    address: str | None = None
    """Where `headgate worker` answers `/metrics`, `/livez` and `/readyz`, such as 127.0.0.1:9464; nowhere if nothing is
    said."""
    traces: bool = False
    """Send an OpenTelemetry trace of each attempt where the `OTEL_*` variables say."""


_SECRETIVE = re.compile(r"secret|password|token|access[.]?key|credential", re.IGNORECASE)


class SparkSettings(Section):
    """The Spark session of the tasks that take one."""

    master: str = "local[*]"
    """Where Spark runs: `local[*]` is this machine, `spark://HOST:PORT` a cluster."""
    s3a: Literal["fetch", "installed"] = "fetch"
    """Where Spark finds `hadoop-aws`, which it needs for stores on lakeFS: `fetch` has it downloaded once, from Maven;
    `installed` is for a Spark that has it."""
    conf: dict[str, str | SecretStr] = {}
    """Options of Spark's own, such as spark.sql.shuffle.partitions = 8."""

    @field_validator("conf", mode="before")
    @classmethod
    def _flat(cls, given: Any) -> Any:
        """Dotted keys that TOML reads as tables within tables, as the one name that Spark means."""
        return dict(_flat_options(given)) if isinstance(given, Mapping) else given


def _flat_options(given: Mapping[str, Any], under: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in given.items():
        name = f"{under}{key}"
        if isinstance(value, Mapping):
            yield from _flat_options(value, f"{name}.")
        elif isinstance(value, bool):
            yield name, str(value).lower()
        elif isinstance(value, int | float | str):
            yield name, SecretStr(str(value)) if _SECRETIVE.search(name) else str(value)
        else:
            yield name, value


class Settings(Section):
    state: Annotated[Path, LOCATION] = Path(".headgate")
    """The folder for what Headgate keeps on this machine: the embedded lake, the engine, kept attempts."""
    orchestrator: Literal["embedded", "conductor"] = "embedded"
    """Who hands out work."""
    owner_email: str | None = None
    """The owner of the tasks that name none: servers want an e-mail address for each."""
    stores: dict[str, StoreSettings] = {}
    """The stores by the names tasks and people use."""
    lakefs: LakefsSettings = LakefsSettings()
    conductor: ConductorSettings = ConductorSettings()
    log: LogSettings = LogSettings()
    workspace: WorkspaceSettings = WorkspaceSettings()
    gc: GcSettings = GcSettings()
    graph: GraphSettings = GraphSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    spark: SparkSettings = SparkSettings()
    replace: Literal["auto", "any"] = "auto"
    """Which heads on top of the input ref attempts may replace: `any` is for all tasks, `auto` leaves it to each."""

    @property
    def workspace_root(self) -> Path:
        return self.workspace.root or self.state / "workspaces"

    def store(self, name: str) -> StoreSettings:
        """The store of that name, with the repository and the embedded lake's folder filled in."""
        if name not in self.stores:
            raise NotFound(message=f"no store is called {name!r}", hint=self._nearest(name), kind="store", name=name)
        found = self.stores[name]
        if not found.lake:
            return found
        filled = {"repository": found.repository or name}
        if found.lake == "embedded":
            return found.model_copy(update={**filled, "root": found.root or self.state / "lake"})
        return found.model_copy(update=filled)

    def _nearest(self, name: str) -> str:
        if near := get_close_matches(name, self.stores, n=1):
            return f"did you mean {near[0]!r}?"
        if self.stores:
            return f"the settings name {', '.join(sorted(self.stores))}; headgate.toml takes more as [stores.{name}]"
        return f'name it in headgate.toml: [stores.{name}] with lake = "embedded"'
