"""Lines for people and for programs, with identity and without secrets."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from headgate import logs

log = logging.getLogger("headgate.test")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    yield io.StringIO()
    logs.unconfigure()
    structlog.reset_defaults()


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_people_read_a_line_and_programs_a_json_object(stream: io.StringIO, tmp_path: Path) -> None:
    logs.configure(stream=stream, file=tmp_path / "logs" / "headgate.log")
    log.info("published %s", "songs@main", extra={"ref": "abc"})
    [line] = lines(tmp_path / "logs" / "headgate.log")
    assert line["event"] == "published songs@main"
    assert (line["level"], line["logger"], line["ref"]) == ("info", "headgate.test", "abc")
    assert line["timestamp"].endswith("Z")
    assert "published songs@main" in stream.getvalue()
    assert "ref=abc" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_every_line_of_a_block_has_the_attempts_identity(stream: io.StringIO, tmp_path: Path) -> None:
    file = tmp_path / "headgate.log"
    logs.configure(stream=stream, file=file)
    with logs.bound(workflow="w1", task_id="t1", retry_count=0):
        log.info("one")
        with logs.bound(phase="stage"):
            structlog.get_logger("body").warning("two", rows=3)
        log.info("three")
    log.info("four")
    one, two, three, four = lines(file)
    assert (one["workflow"], one["task_id"], one["retry_count"]) == ("w1", "t1", 0)
    assert (two["workflow"], two["phase"], two["rows"]) == ("w1", "stage", 3)
    assert "phase" not in three
    assert "workflow" not in four


def test_identity_follows_awaits_and_stays_out_of_other_threads(stream: io.StringIO, tmp_path: Path) -> None:
    file = tmp_path / "headgate.log"
    logs.configure(stream=stream, file=file)

    async def body() -> None:
        with logs.bound(task_id="t1"):
            await asyncio.sleep(0)
            log.info("awaited")
            thread = threading.Thread(target=log.info, args=("other thread",))
            thread.start()
            thread.join()

    asyncio.run(body())
    awaited, other = lines(file)
    assert awaited["task_id"] == "t1"
    assert "task_id" not in other


def test_secrets_reach_neither_the_terminal_nor_the_file(stream: io.StringIO, tmp_path: Path) -> None:
    file = tmp_path / "headgate.log"
    logs.configure(stream=stream, file=file, secrets=["hush-hush"])
    log.warning("refused with hush-hush", extra={"auth_key": "visible?", "nested": {"a": ["hush-hush"]}})
    try:
        raise ValueError("hush-hush was wrong")
    except ValueError:
        log.exception("failed")
    logging.getLogger("urllib3").warning("GET http://user:pa55word@host/hush-hush")
    written = stream.getvalue() + file.read_text()
    assert "refused with" in written
    assert "Traceback" in written
    for secret in ("hush-hush", "visible?", "pa55word"):
        assert secret not in written


def test_the_level_holds_for_headgate_and_other_libraries_are_heard_from_warnings_up(stream: io.StringIO) -> None:
    logs.configure(stream=stream, level="debug")
    log.debug("ours")
    logging.getLogger("elsewhere").info("theirs")
    logging.getLogger("elsewhere").warning("their warning")
    assert "ours" in stream.getvalue()
    assert "their warning" in stream.getvalue()
    assert "theirs" not in stream.getvalue()
    logs.configure(stream=stream, level="debug", everything=True)
    logging.getLogger("elsewhere").debug("theirs too")
    assert "theirs too" in stream.getvalue()


def test_a_second_set_up_replaces_the_first_and_taking_it_back_leaves_nothing(stream: io.StringIO) -> None:
    root, ours = logging.getLogger(), logging.getLogger("headgate")
    before = (list(root.handlers), root.level, ours.level)
    logs.configure(stream=stream)
    logs.configure(stream=stream, level="error")
    log.error("once")
    assert stream.getvalue().count("once") == 1
    logs.unconfigure()
    assert (
        list(logging.getLogger().handlers),
        logging.getLogger().level,
        logging.getLogger("headgate").level,
    ) == before


def test_a_full_file_is_set_aside_and_only_so_many_stay(stream: io.StringIO, tmp_path: Path) -> None:
    file = tmp_path / "headgate.log"
    logs.configure(stream=stream, file=file, max_bytes=300, keep=2)
    for number in range(40):
        log.info("line", extra={"number": number})
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert kept == ["headgate.log", "headgate.log.1", "headgate.log.2", "headgate.log.lock"]
    newest_first = [path for name in ("headgate.log", "headgate.log.1", "headgate.log.2") if (path := tmp_path / name)]
    numbers = [line["number"] for path in reversed(newest_first) for line in lines(path)]
    assert numbers == list(range(40 - len(numbers), 40))


def test_processes_that_share_a_file_lose_and_mix_no_line(tmp_path: Path) -> None:
    file = tmp_path / "headgate.log"
    code = f"""
import io, logging, sys
from pathlib import Path
from headgate import logs
logs.configure(stream=io.StringIO(), file=Path({str(file)!r}), max_bytes=4000, keep=1000)
for number in range(200):
    logging.getLogger("headgate").info("line", extra={{"who": sys.argv[1], "number": number}})
"""
    writers = [subprocess.Popen([sys.executable, "-c", code, who], env=dict(os.environ)) for who in ("a", "b", "c")]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    written = [line for path in tmp_path.glob("headgate.log*") if path.suffix != ".lock" for line in lines(path)]
    assert sorted((line["who"], line["number"]) for line in written) == [(w, n) for w in "abc" for n in range(200)]


def test_what_is_not_plain_data_is_written_as_text(stream: io.StringIO, tmp_path: Path) -> None:
    file = tmp_path / "headgate.log"
    logs.configure(stream=stream, file=file)
    log.info("path\nwith a second line", extra={"at": Path("a/b"), "bad": "\udc80"})
    [line] = lines(file)
    assert line["at"] == "a/b"
    assert line["event"] == "path\nwith a second line"
