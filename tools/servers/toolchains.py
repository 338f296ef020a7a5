"""Finds the tools that build and run the servers, wherever this machine keeps them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

INSTALL = "python -m tools.servers install"


class Unavailable(Exception):
    """A server cannot run here. The text says why; `command` is what would change that."""

    def __init__(self, reason: str, *, command: str) -> None:
        super().__init__(f"{reason}; to enable it: {command}")
        self.command = command


class MissingToolchain(Unavailable):
    """A tool that builds or runs the server is not on this machine."""


class NotInstalled(Unavailable):
    """The tools are here, the server has not been installed yet."""


def go() -> Path:
    return _tool("go", package="golang")


def maven() -> Path:
    return _tool("mvn", package="maven")


def java(at_least: int) -> Path:
    """The oldest Java that is new enough: JAVA_HOME, then `java` on the path, then the others installed beside it."""
    candidates = []
    if home := os.environ.get("JAVA_HOME"):
        candidates.append(Path(home) / "bin" / "java")
    if found := shutil.which("java"):
        candidates.append(Path(found))
        beside = Path(found).resolve().parents[2]
        candidates += sorted(beside.glob("*/bin/java"))
    good = {version: path for path in reversed(candidates) if (version := java_version(path)) >= at_least}
    if not good:
        raise MissingToolchain(
            f"no Java {at_least} or newer was found", command=f"apt-get install openjdk-{at_least}-jre-headless"
        )
    return good[min(good)]


def java_version(java: Path) -> int:
    """The feature release of a Java, 0 if it does not run."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(match[1]) if match else 0


def _tool(name: str, *, package: str) -> Path:
    found = shutil.which(name)
    if found is None:
        raise MissingToolchain(f"`{name}` is not on the path", command=f"apt-get install {package}")
    return Path(found)
