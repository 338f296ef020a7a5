"""Starts a server, waits until it is healthy, and stops exactly the processes that were started here."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import urllib3

LOOPBACK = "127.0.0.1"
_LOG_TAIL = 3000


class ServerFailed(Exception):
    """A server ended before it was healthy, or did not become healthy in time; the text holds the end of its log."""


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(frozen=True, kw_only=True)
class Command:
    """One process of a server, and how to tell that it is healthy."""

    argv: Sequence[str]
    healthy: Callable[[], bool]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None


@dataclass(frozen=True)
class Pid:
    """A process by its id and the moment it was made: an id alone may name another process later."""

    pid: int
    created: float

    def process(self) -> psutil.Process | None:
        """The process, if it is still this one and runs."""
        try:
            found = psutil.Process(self.pid)
            same = abs(found.create_time() - self.created) < 1 and found.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return None
        return found if same else None


@dataclass
class Server:
    """A server on this machine, with its own data folder; it can be killed, and started again on the same data."""

    part: str
    version: str
    url: str
    data: Path
    access_key: str = ""
    secret_key: str = ""
    commands: Sequence[Command] = ()
    pids: list[Pid] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    """Further addresses and switches, by name: `s3_endpoint`, `master`, …"""
    keeps_running: bool = False
    """Outlives the process that started it: what `up` wants, and tests do not."""
    _children: list[subprocess.Popen[bytes]] = field(default_factory=list, repr=False)

    @property
    def log(self) -> Path:
        return self.data / "log"

    @property
    def running(self) -> bool:
        return bool(self.pids) and all(pid.process() is not None for pid in self.pids)

    def start(self, *, within: float = 240.0) -> None:
        """Start every process in order, each healthy before the next. Nothing stays behind if one fails."""
        try:
            for command in self.commands:
                process = self._spawn(command)
                self._children.append(process)
                self.pids.append(Pid(process.pid, psutil.Process(process.pid).create_time()))
                self._wait(command, process, within)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Ask each process to end, and end it if it does not. The data stays."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End each process at once, as a crash would. The data stays."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Start again on the same ports and data."""
        self.stop()
        self.start()

    def remove(self) -> None:
        """Stop, and delete the data."""
        self.stop()
        shutil.rmtree(self.data, ignore_errors=True)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def _spawn(self, command: Command) -> subprocess.Popen[bytes]:
        argv = list(command.argv)
        setpriv = shutil.which("setpriv")
        if setpriv and not self.keeps_running and threading.current_thread() is threading.main_thread():
            # A test run that is killed takes its servers along. The signal comes when the starting thread ends.
            argv = [setpriv, "--pdeathsig", "KILL", "--", *argv]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                argv,
                env={**os.environ, **command.env},
                cwd=command.cwd or self.data,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _wait(self, command: Command, process: subprocess.Popen[bytes], within: float) -> None:
        deadline = time.monotonic() + within
        while not command.healthy():
            if process.poll() is not None:
                raise ServerFailed(f"{self.part} ended with {process.returncode}:\n{self._log_tail()}")
            if time.monotonic() > deadline:
                raise ServerFailed(f"{self.part} was not healthy within {within:g} s:\n{self._log_tail()}")
            time.sleep(0.05)

    def _end(self, how: signal.Signals) -> None:
        for pid in reversed(self.pids):
            process = pid.process()
            if process is not None:
                with contextlib.suppress(psutil.Error):
                    children = process.children(recursive=True)
                    for one in (process, *children):
                        with contextlib.suppress(psutil.Error):
                            one.send_signal(how)
                    _, alive = psutil.wait_procs([process, *children], timeout=10)
                    for one in alive:
                        with contextlib.suppress(psutil.Error):
                            one.kill()
                    psutil.wait_procs(alive, timeout=10)
        self.pids.clear()
        for child in self._children:
            child.wait(timeout=10)
        self._children.clear()

    def _log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-_LOG_TAIL:] if self.log.exists() else "(no log)"


def data_folder(part: str) -> Path:
    """A fresh temporary folder for a server's data."""
    return Path(tempfile.mkdtemp(prefix=f"headgate-{part}-"))


def answers(url: str, *, statuses: Sequence[int] = (200,)) -> Callable[[], bool]:
    """Healthy once a GET of `url` is answered with one of `statuses`."""
    pool = urllib3.PoolManager(timeout=2.0, retries=False)

    def healthy() -> bool:
        try:
            return pool.request("GET", url).status in statuses
        except urllib3.exceptions.HTTPError:
            return False

    return healthy
