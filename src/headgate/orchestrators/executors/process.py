"""An executor from outside: a child process, and the connection to it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from multiprocessing.connection import Connection
from typing import Any

from headgate.orchestrators.executors.messages import Setup

# Not `-m`: the child is to find our package where we found it, and its own children are not to.
_BEGIN = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from headgate.orchestrators.executors.child import main
main(int(sys.argv[2]))
"""


class ExecutorProcess:
    """Started when it is made, by a thread that lives as long as it is to live: it ends with that thread."""

    def __init__(self, setup: Setup) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _BEGIN, json.dumps(sys.path), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                # A group of its own: a Ctrl-C is for us to act on, and its children can be ended with it.
                start_new_session=True,
            )
        self._connection: Connection[Any, Any] = Connection(ours.detach())
        self._sending = threading.Lock()
        self.send(setup)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: Any) -> None:
        """Whether it is still there is found out by who receives."""
        with self._sending, contextlib.suppress(OSError):
            self._connection.send(message)

    def receive(self) -> Any:
        """The next message; `EOFError` when there will be none."""
        try:
            return self._connection.recv()
        except OSError as error:
            raise EOFError from error

    def end(self) -> None:
        """End it and what its bodies started, at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> int:
        """End what is left of it and of what its bodies started: how it ended, as `Popen.returncode` says it.

        One that ended by itself has its code already; only before it is waited for is its group surely its own.
        """
        with contextlib.suppress(OSError):
            self._connection.close()
        self.end()
        return self._process.wait()


def told_ending(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"it ended with {code}"
    try:
        return f"it was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"it was ended by signal {-code}"
