"""Several processes on one embedded lake: one winner a head, no update lost."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from headgate.lake import EmbeddedLake

PROCESSES = 4
ROUNDS = 12

PUBLISHER = """
    import json, sys
    from headgate.errors import ExpectedHeadMismatch
    from headgate.lake import Changes, EmbeddedLake
    from headgate.publication import Ref
    me = sys.argv[2]
    with EmbeddedLake(sys.argv[1]) as lake:
        for line in sys.stdin:  # one line a round: the head everybody starts from
            expected = Ref(line.strip())
            branch = f"headgate-staging-{me}-{expected[:10]}"
            lake.create_branch("r", branch, at=expected)
            lake.commit("r", branch, Changes(puts={f"{me}/{expected[:10]}": me.encode()}), message=me)
            try:
                print(json.dumps(lake.merge("r", branch, "main", expected_head=expected, message=me)), flush=True)
            except ExpectedHeadMismatch:
                print("null", flush=True)
            lake.delete_branch("r", branch)
"""

COMMITTER = """
    import sys
    from headgate.lake import Changes, EmbeddedLake
    with EmbeddedLake(sys.argv[1]) as lake:
        for number in range(int(sys.argv[3])):
            path = f"{sys.argv[2]}/{number}"
            print(lake.commit("r", "main", Changes(puts={path: path.encode()}), message=path), flush=True)
"""


def start(script: str, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with EmbeddedLake(tmp_path / "lake", create=True) as lake:
        lake.create_repository("r")
    return tmp_path / "lake"


@pytest.mark.slow
def test_exactly_one_process_publishes_from_a_head(folder: Path) -> None:
    """Invariant 2: the store decides, in the same step as the update."""
    children = [start(PUBLISHER, str(folder), str(number)) for number in range(PROCESSES)]
    history = []
    with EmbeddedLake(folder) as lake:
        for _ in range(ROUNDS):
            expected = lake.head("r", "main").ref
            for child in children:
                assert child.stdin is not None
                child.stdin.write(expected + "\n")
                child.stdin.flush()
            answers = [json.loads(child.stdout.readline()) for child in children if child.stdout is not None]
            won = [answer for answer in answers if answer is not None]
            assert len(answers) == PROCESSES
            assert len(won) == 1
            assert lake.head("r", "main").ref == won[0]
            assert lake.head("r", "main").parents == (expected,)
            history.append(won[0])
        for child in children:
            child.communicate(timeout=60)
            assert child.returncode == 0
        assert [commit.ref for commit in lake.log("r", history[-1])][:-1] == history[::-1]
        assert [branch.name for branch in lake.branches("r")] == ["main"]
        assert lake.verify().whole


@pytest.mark.slow
def test_no_commit_of_several_processes_is_lost(folder: Path) -> None:
    children = [start(COMMITTER, str(folder), str(number), "15") for number in range(PROCESSES)]
    refs = []
    for child in children:
        out, _ = child.communicate(timeout=120)
        assert child.returncode == 0
        refs += out.split()
    with EmbeddedLake(folder) as lake:
        head = lake.head("r", "main").ref
        assert len(refs) == 15 * PROCESSES
        assert set(refs) == {commit.ref for commit in lake.log("r", head) if commit.parents}
        assert len(list(lake.objects("r", head))) == 15 * PROCESSES
