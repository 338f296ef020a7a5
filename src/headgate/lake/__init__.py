"""Versioned files: the `Lake` interface, the embedded lake, transfer.

`interface` says what every lake does; `embedded` is the lake in a folder; `transfer` moves objects to and from a
workspace. Below them: `tree` (sets of objects that share what they have in common), `blobs` (bytes by digest), `leases`
(what the living use), `disk` (the calls durability hangs on), `paths` (which keys there are), `files` (moving bytes).
"""

from headgate.lake.embedded import EmbeddedLake
from headgate.lake.interface import (
    MAIN,
    STAGING_PREFIX,
    Branch,
    Change,
    ChangeKind,
    Changes,
    Fetched,
    FileStat,
    Lake,
    LakeCommit,
    LakeObject,
    LocalFile,
    Progress,
    Source,
    Wanted,
)
from headgate.lake.transfer import download
from headgate.lake.workspace import Baseline, WorkspaceChanges, detect_changes

__all__ = [
    "MAIN",
    "STAGING_PREFIX",
    "Baseline",
    "Branch",
    "Change",
    "ChangeKind",
    "Changes",
    "EmbeddedLake",
    "Fetched",
    "FileStat",
    "Lake",
    "LakeCommit",
    "LakeObject",
    "LocalFile",
    "Progress",
    "Source",
    "Wanted",
    "WorkspaceChanges",
    "detect_changes",
    "download",
]
