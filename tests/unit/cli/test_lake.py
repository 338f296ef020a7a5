"""Files, history and branches from the command line, on an embedded lake."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.fixture
def songs(project: Path, headgate: Run) -> Run:
    """A project with the embedded lake `songs`, made."""
    (project / "headgate.toml").write_text('[stores.songs]\nlake = "embedded"\n[stores.copy]\nlake = "embedded"\n')
    assert headgate("lake", "init", "songs").code == 0

    def run(*args: str, code: int = 0) -> Any:
        result = headgate(*args)
        assert result.code == code, result.err
        return result

    return run


@pytest.fixture
def folder(project: Path) -> Path:
    made = project / "in"
    (made / "deep").mkdir(parents=True)
    (made / "one").write_bytes(b"1")
    (made / "deep" / "two").write_bytes(b"22")
    return made


def test_a_folder_goes_in_and_comes_out(songs: Run, project: Path, folder: Path) -> None:
    ref = songs("lake", "import", str(folder), "songs").out.strip()
    assert songs("lake", "ls", "songs").out.split() == ["deep/two", "one"]
    assert songs("lake", "ls", "songs", "deep").out.split() == ["deep/two"]
    assert songs("lake", "cat", f"songs@{ref}", "one").code == 0
    songs("lake", "export", f"songs@{ref[:10]}", str(project / "out"))
    assert (project / "out" / "deep" / "two").read_bytes() == b"22"
    assert "nothing to change" in songs("lake", "import", str(folder), "songs").err
    assert songs("branch", "list", "songs", "--all", "--json").out.count('"name"') == 1


def test_import_deletes_only_when_asked(songs: Run, folder: Path) -> None:
    songs("lake", "import", str(folder), "songs", "--prefix", "p")
    (folder / "one").unlink()
    (folder / "three").write_bytes(b"3")
    songs("lake", "import", str(folder), "songs", "--prefix", "p")
    assert songs("lake", "ls", "songs").out.split() == ["p/deep/two", "p/one", "p/three"]
    songs("lake", "import", str(folder), "songs", "--prefix", "p", "--delete")
    assert songs("lake", "ls", "songs").out.split() == ["p/deep/two", "p/three"]


def test_a_ref_moves_to_another_store(songs: Run, folder: Path) -> None:
    songs("lake", "import", str(folder), "songs")
    songs("lake", "init", "copy")
    songs("lake", "import", "songs@main", "copy")
    assert songs("lake", "ls", "copy").out == songs("lake", "ls", "songs").out


def test_put_get_and_dry_run(songs: Run, project: Path, folder: Path) -> None:
    songs("lake", "put", str(folder / "one"), "songs", "a/b", "-m", "Put it")
    assert "would put 1" in songs("lake", "put", str(folder / "one"), "songs", "x", "--dry-run").err
    assert songs("lake", "ls", "songs").out.split() == ["a/b"]
    songs("lake", "get", "songs", "a/b", str(project / "got"))
    assert (project / "got").read_bytes() == b"1"
    assert "is there already" in songs("lake", "get", "songs", "a/b", str(project / "got"), code=4).err
    assert "no object" in songs("lake", "get", "songs", "nope", str(project / "x"), code=4).err


def test_log_show_and_diff(songs: Run, folder: Path) -> None:
    first = songs("lake", "import", str(folder), "songs", "-m", "First").out.strip()
    songs("branch", "create", "songs@side")
    songs("lake", "put", str(folder / "one"), "songs@side", "side", "-m", "On the side")
    songs("lake", "put", str(folder / "one"), "songs", "main", "-m", "On main")
    merged = songs("branch", "merge", "songs@side", "main", "-m", "Bring it in").out.strip()
    lines = songs("log", "songs").out.splitlines()
    assert lines[0].startswith(f"* {merged[:12]}")
    assert "(main)" in lines[0]
    assert lines[1] == "|\\"
    assert any(line.startswith("| * ") for line in lines)
    commits = json.loads(songs("log", "songs", "--json").out)
    assert commits[0]["message"] == "Bring it in"
    assert len(commits[0]["parents"]) == 2
    assert len(json.loads(songs("log", "songs", "--json", "--first-parent", "-n", "2").out)) == 2
    assert "+ side  1 bytes" in songs("show", f"songs@{merged}").out
    assert songs("diff", f"songs@{first}", "songs@main").out.splitlines() == ["+ main  1 bytes", "+ side  1 bytes"]
    assert "no differences" in songs("diff", "songs@main", "songs@main").out
    assert "different stores" in songs("diff", "songs@main", "copy@main", code=4).err


def test_branches(songs: Run) -> None:
    assert "would create" in songs("branch", "create", "songs@b", "--dry-run").err
    songs("branch", "create", "songs@b")
    assert [b["name"] for b in json.loads(songs("branch", "list", "songs", "--json").out)] == ["b", "main"]
    assert "already" in songs("branch", "create", "songs@b", code=6).err
    assert "--yes" in songs("branch", "delete", "songs@b", code=4).err
    songs("branch", "delete", "songs@b", "--yes")
    assert "no branch" in songs("branch", "delete", "songs@b", "--yes", code=4).err
    assert "names no branch" in songs("branch", "delete", "songs", "--yes", code=4).err


def test_verify_names_the_hurt_commits(songs: Run, project: Path, folder: Path) -> None:
    ref = songs("lake", "import", str(folder), "songs").out.strip()
    assert "all whole" in songs("lake", "verify", "songs").out
    checksum = songs("lake", "ls", "songs", "one", "--long").out.split()[0]
    (project / ".headgate/lake/blobs" / checksum[:2] / checksum[2:]).unlink()
    out = songs("lake", "verify", "songs", code=8).out
    assert f"missing: one of songs@{ref} (head of main)" in out


def test_gc_keeps_the_young(songs: Run, folder: Path) -> None:
    songs("branch", "create", "songs@b")
    songs("lake", "put", str(folder / "one"), "songs@b", "x")
    songs("branch", "delete", "songs@b", "--yes")
    assert "removed 0 commits" in songs("lake", "gc", "songs").out
    assert "would remove 2 commits" in songs("lake", "gc", "songs", "--keep-hours", "0", "--dry-run").out
    assert "removed 2 commits" in songs("lake", "gc", "songs", "--keep-hours", "0").out


def test_a_lake_that_is_not_there(project: Path, headgate: Run) -> None:
    (project / "headgate.toml").write_text('[stores.songs]\nlake = "embedded"\n')
    result = headgate("lake", "ls", "songs")
    assert result.code == 4
    assert "headgate lake init" in result.err
    assert json.loads(headgate("lake", "repos", "--json").out)[0]["there"] == "false"


def test_a_history_is_drawn_with_its_lanes() -> None:
    from datetime import UTC, datetime

    from headgate.cli.graph_lines import draw
    from headgate.cli.stores import ShownCommit

    def commit(text: str) -> ShownCommit:
        ref, *parents = text.split()
        at = datetime(2026, 1, 1, tzinfo=UTC)
        return ShownCommit(ref=ref, parents=tuple(parents), message="", committer="", created_at=at)

    history = ["g e f", "f d c", "e c", "d b", "c b", "b a", "a"]
    drawn = [f"{left}{shown.ref if shown else ''}" for left, shown in draw(commit(line) for line in history)]
    assert drawn == [
        "* g",
        "|\\",
        "| * f",
        "| |\\",
        "* | | e",
        "| * | d",
        "|_|/",
        "* | c",
        "|/",
        "* b",
        "* a",
    ]
