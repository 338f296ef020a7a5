"""Settings: named stores, profiles, and where each value came from.

`model` says which settings there are and how to add one; `load` reads them from the environment, `.env`,
`headgate.toml` and what other tools left behind; `address` reads what people write for a store.
"""

from headgate.settings.address import StoreAddress
from headgate.settings.aws import aws_source
from headgate.settings.load import Loaded, load
from headgate.settings.model import (
    ConductorSettings,
    GcSettings,
    LakefsSettings,
    LogSettings,
    Settings,
    SparkSettings,
    StoreSettings,
    TelemetrySettings,
    WorkspaceSettings,
)

__all__ = [
    "ConductorSettings",
    "GcSettings",
    "LakefsSettings",
    "Loaded",
    "LogSettings",
    "Settings",
    "SparkSettings",
    "StoreAddress",
    "StoreSettings",
    "TelemetrySettings",
    "WorkspaceSettings",
    "aws_source",
    "load",
]
