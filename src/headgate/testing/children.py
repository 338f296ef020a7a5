"""Work in a child of this process, which may be killed at any point of it.

A fork starts in milliseconds and takes any function along. It must not share an open database with its parent, which
closes its own first, and Lance does not live on in it: what uses that gets a process of its own, which takes along only
what can be imported.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from typing import Any, NoReturn


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a child ended."""

    killed: bool
    answer: Any
    """What its work returned; None if it was killed."""


def run_in_child(work: Callable[[], Any]) -> Ended:
    """Do `work` in a child and wait for it. What it returns comes back; what it raises fails here, told in full."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # Python and Lance warn of forks among threads; the child uses nothing that another thread could hold.
        warnings.simplefilter("ignore")
        pid = os.fork()
    if pid == 0:
        os.close(reader)
        _be_the_child(work, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return Ended(killed=True, answer=None)
    if not told:
        raise AssertionError(f"the child ended without an answer: {os.waitstatus_to_exitcode(status)}")
    answer, failure = pickle.loads(told)
    if failure:
        raise AssertionError(f"the child failed:\n{failure}")
    return Ended(killed=False, answer=answer)


def fresh_processes() -> ForkServerContext:
    """Makes processes by forking one that has imported everything and used nothing."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["headgate.testing.zygote"])
    return context


def run_in_fresh_process(work: Callable[..., Any], *args: Any) -> Ended:
    """As `run_in_child`, in a process that has nothing of this one; `work` and what it gets must pickle."""
    context = fresh_processes()
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(writer, work, args))
    process.start()
    writer.close()
    try:
        answer, failure = reader.recv()
    except EOFError:
        answer, failure = None, ""
    finally:
        reader.close()
        process.join()
    if process.exitcode == -signal.SIGKILL:
        return Ended(killed=True, answer=None)
    if failure or process.exitcode:
        raise AssertionError(f"the child failed: {process.exitcode}\n{failure}")
    return Ended(killed=False, answer=answer)


def _answer(writer: Connection, work: Callable[..., Any], args: tuple[Any, ...]) -> None:
    try:
        writer.send((work(*args), ""))
    except BaseException:
        writer.send((None, traceback.format_exc()))


def kill_this_process() -> NoReturn:
    """The end, as the system sees it: nothing of this process runs after this."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


def _be_the_child(work: Callable[[], Any], writer: int) -> NoReturn:
    told = b""
    try:
        told = pickle.dumps((work(), ""))
    except BaseException:
        told = pickle.dumps((None, traceback.format_exc()))
    finally:
        try:
            sys.stdout.flush()
            os.write(writer, told)
        finally:
            os._exit(0)  # nothing that belongs to the parent may be finalised here
