"""Which version of the task's code ran: the git commit of its module, and whether the working tree was changed."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_SECONDS = 5.0
"""A repository on a slow disk must not hold up an attempt for the sake of a note in its metadata."""


@dataclass(frozen=True)
class CodeVersion:
    """`commit` is empty, and `dirty` None, where the module is under no version control that we can ask."""

    commit: str = ""
    dirty: bool | None = None


def code_version(file: str) -> CodeVersion:
    """The version of the code in the folder of `file`; asked once in a process, since imported code does not change."""
    return _version_of(str(Path(file).parent))


@cache
def _version_of(folder: str) -> CodeVersion:
    try:
        commit = _git(folder, "rev-parse", "HEAD")
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return CodeVersion()
    return CodeVersion(commit, bool(changed))


def _git(folder: str, *args: str) -> str:
    # Without optional locks a question never disturbs the person who works in that tree.
    command = ["git", "--no-optional-locks", "-C", folder, *args]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_SECONDS)
    return done.stdout.strip()
