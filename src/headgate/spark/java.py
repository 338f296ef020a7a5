"""The Java that Spark would start, and how new it is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

OLDEST_JAVA = 17
INSTALL_JAVA = f"install Java {OLDEST_JAVA} or later (Debian: apt install openjdk-17-jre-headless), or set JAVA_HOME"


def find_java() -> Path | None:
    """The Java that Spark would start: of JAVA_HOME, else of the PATH."""
    if home := os.environ.get("JAVA_HOME"):
        candidate = Path(home) / "bin" / "java"
        return candidate if candidate.is_file() else None
    on_path = shutil.which("java")
    return Path(on_path) if on_path else None


def java_version(java: Path) -> int | None:
    """The feature release (17, 21) of a Java; None if it does not tell."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(found.group(1)) if found else None


def java_problem() -> str | None:
    """What is wrong with the Java of this machine; None if Spark can start it."""
    found = find_java()
    if found is None:
        home = os.environ.get("JAVA_HOME")
        return f"JAVA_HOME is {home}, and there is no Java" if home else "there is no Java on the PATH"
    version = java_version(found)
    if version is None:
        return f"{found} does not tell its version"
    return f"{found} is version {version}, and Spark needs {OLDEST_JAVA}" if version < OLDEST_JAVA else None
