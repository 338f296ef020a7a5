"""The cache of installed servers: one folder a part and version, made whole or not at all, shared by every checkout."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.servers.toolchains import INSTALL, NotInstalled, go, maven


def cache_root() -> Path:
    """`HEADGATE_SERVERS_CACHE`, or `headgate/servers` in the user's cache folder."""
    if chosen := os.environ.get("HEADGATE_SERVERS_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "headgate" / "servers"


class Install:
    """One file that a part needs, under its version: `make` writes it into a folder that is moved in place."""

    def __init__(self, part: str, version: str, filename: str, make: Callable[[Path], None]) -> None:
        self.part, self.version, self.filename, self._make = part, version, filename, make

    @property
    def folder(self) -> Path:
        return cache_root() / f"{self.part}-{self.version}"

    @property
    def path(self) -> Path:
        return self.folder / self.filename

    def require(self) -> Path:
        """The installed file, or `NotInstalled` with the command that makes it."""
        if not self.path.exists():
            raise NotInstalled(
                f"{self.part} {self.version} is not installed", command=f"{INSTALL} {self.part}"
            ) from None
        return self.path

    def ensure(self) -> Path:
        """The installed file, made now if it is missing. Safe for several processes at once."""
        if self.path.exists():
            return self.path
        root = cache_root()
        root.mkdir(parents=True, exist_ok=True)
        with _locked(root / f"{self.part}-{self.version}.lock"):
            if not self.path.exists():
                with tempfile.TemporaryDirectory(dir=root, prefix=f".{self.part}-") as name:
                    made = Path(name) / "made"
                    made.mkdir()
                    self._make(made)
                    if not (made / self.filename).exists():
                        raise RuntimeError(f"installing {self.part} {self.version} made no {self.filename}")
                    shutil.rmtree(self.folder, ignore_errors=True)
                    made.replace(self.folder)
        return self.path


def from_go_module(
    module: str, version: str, *, command: str, binary: str, version_symbol: str = ""
) -> Callable[[Path], None]:
    """Builds `command` inside the module's own folder: `go install …@version` refuses modules with replacements.

    `version_symbol` is the variable that a release build stamps with its version.
    """
    stamp = ["-ldflags", f"-X {version_symbol}={version}"] if version_symbol else []

    def make(into: Path) -> None:
        said = _run([go(), "mod", "download", "-json", f"{module}@v{version}"])
        source = json.loads(said)["Dir"]
        _run([go(), "build", *stamp, "-o", str(into / binary), command], cwd=source)

    return make


def from_maven(artifact: str, *, filename: str) -> Callable[[Path], None]:
    """Copies one artifact `group:name:version:type:classifier` out of Maven, alone."""

    def make(into: Path) -> None:
        goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
        _run([maven(), "-q", "-B", goal, f"-Dartifact={artifact}", f"-DoutputDirectory={into}"], cwd=into)
        (jar,) = into.glob("*.jar")
        jar.rename(into / filename)

    return make


def _run(command: list[str | Path], *, cwd: str | Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        shown = " ".join(map(str, command))
        raise RuntimeError(f"{shown} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-4000:]}")
    return done.stdout


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
