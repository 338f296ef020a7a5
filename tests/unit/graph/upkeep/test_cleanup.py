"""Cleanup beside readers and writers: what can be asked for stays, the rest goes."""

from __future__ import annotations

import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.unit.graph.upkeep.conftest import SCHEMA, content, songs

import headgate.graph as hg
from headgate.errors import AlreadyExists, InvalidInput, NotFound
from headgate.graph.store import Patience
from headgate.graph.upkeep import runs
from headgate.graph.upkeep.cleanup import Cleaned

NOW = timedelta(0)


@pytest.fixture
def busy(music: hg.Graph) -> hg.Graph:
    for number in range(40, 52):
        songs(music, number, number + 1)
    return music


def clean(graph: hg.Graph, **kwargs: Any) -> Cleaned:
    return graph.cleanup(**{"keep": 1, "older_than": NOW, "grace": NOW, **kwargs})


def versions(graph: hg.Graph, name: str = "Song", **at: Any) -> list[int]:
    row, pin = graph.base(**at).tables[name]
    return graph.store.tables.versions(row.path, pin.fork)


def size(graph: hg.Graph) -> int:
    return sum(path.stat().st_size for path in Path(graph.uri).rglob("*") if path.is_file())


def again(graph: hg.Graph, **kwargs: Any) -> hg.Graph:
    """The same graph as another process opens it."""
    return hg.open(graph.uri, **kwargs)


def test_the_head_stays_as_it_is_and_older_commits_are_told_to_be_gone(busy: hg.Graph) -> None:
    before, old, was = content(busy), busy.head().parent, size(busy)
    done = clean(busy)
    assert done.bytes > 0
    assert len(versions(busy)) == 1
    assert content(busy) == before
    assert content(again(busy)) == before
    assert size(busy) < was
    with pytest.raises(NotFound, match="older than what cleanup keeps"):
        again(busy).snapshot(commit=old)
    assert len(list(busy.log())) > 12, "the log is kept"
    songs(busy, 60, 61)
    assert len(content(busy)["Song"]) == 53


def test_the_last_commits_and_those_of_the_last_while_stay_readable(busy: hg.Graph) -> None:
    log = [commit.id for commit in busy.log()]
    clean(busy, keep=4)
    assert [len(content(again(busy), commit=commit)["Song"]) for commit in log[:4]] == [52, 51, 50, 49]
    with pytest.raises(NotFound):
        again(busy).snapshot(commit=log[4])
    songs(busy, 60, 61)
    clean(busy, older_than=timedelta(hours=1))
    assert len(content(again(busy), commit=log[2])["Song"]) == 50
    assert again(busy).snapshot(time=busy.commit(log[1]).time).commit == log[1]


def test_a_dry_run_tells_and_removes_nothing(busy: hg.Graph) -> None:
    before, manifest = versions(busy), busy.store.manifest.state().version
    told = clean(again(busy, mode="ro"), dry_run=True)
    assert any("Song" in name for name in told.versions)
    assert versions(busy) == before
    assert busy.store.manifest.state().version == manifest
    done = clean(busy)
    assert told.versions == done.versions
    assert clean(busy, dry_run=True).versions == {}


def test_invariant_7_a_commit_that_somebody_reads_is_left_until_they_let_go(busy: hg.Graph) -> None:
    old = [commit.id for commit in busy.log()][6]
    with again(busy) as reader:
        snapshot = reader.snapshot(commit=old)
        clean(busy)
        assert snapshot.sql("select count(*) as n from Song").to_json_rows() == [{"n": 46}]
        assert len(content(again(busy), commit=old)["Song"]) == 46, "others may read it as well"
        assert len(versions(busy)) == 2
    for lease in busy.store.leases.find():
        busy.store.objects.delete(lease.name)
    clean(busy)
    assert len(versions(busy)) == 1
    with pytest.raises(NotFound):
        again(busy).snapshot(commit=old)


def test_leases_of_dead_processes_and_old_ones_hold_nothing(busy: hg.Graph) -> None:
    old = busy.head().parent
    place = f"__leases/{old}/x.json"
    host = busy.store.leases
    busy.store.objects.put_if_absent(place, b'{"owner": {"host": "elsewhere", "pid": 1, "started": 1.0}}')
    assert host.held() == {old}
    impatient = again(busy, patience=Patience(lease_age=timedelta(microseconds=1)))
    assert impatient.store.leases.held() == set()
    assert busy.store.objects.get(place) is None


def test_a_transaction_reads_its_base_for_as_long_as_it_takes(busy: hg.Graph) -> None:
    change = again(busy).transaction()
    songs(busy, 60, 61)
    songs(busy, 61, 62)
    clean(busy)
    assert change.read("Song").num_rows == 52
    change.append("Artist", [{"name": "new"}])
    change.commit()
    assert busy.store.leases.find() == []
    assert {row["name"] for row in content(busy)["Artist"]} == {"ann", "bob", "new"}
    clean(busy)
    assert len(versions(busy)) == 1


def test_a_reader_that_opens_while_cleanup_waits_is_seen(busy: hg.Graph) -> None:
    """Its lease is written before it looks at the floors: it sees them, or cleanup sees it."""
    log = [commit.id for commit in busy.log()]
    reader, told = again(busy), []
    held = reader.snapshot(commit=log[3])

    def meanwhile(seconds: float) -> None:
        told.append(reader.snapshot(commit=log[3]).commit)
        with pytest.raises(NotFound):
            again(busy).snapshot(commit=log[5])

    cleaner = again(busy)
    object.__setattr__(cleaner.store, "wait", meanwhile)
    clean(cleaner)
    assert told == [log[3]]
    assert held.sql("select count(*) as n from Song").to_json_rows() == [{"n": 49}]


def test_branches_keep_what_they_show_and_what_they_were_made_from(busy: hg.Graph) -> None:
    log = [commit.id for commit in busy.log()]
    busy.create_branch("old", at=log[5])
    busy.create_branch("side")
    songs(busy, 70, 71, branch="side")
    songs(busy, 80, 82)
    shown = {branch: content(busy, branch=branch) for branch in ("main", "old", "side")}
    clean(busy)
    for branch, rows in shown.items():
        assert content(again(busy), branch=branch) == rows
    with again(busy) as reader:
        assert len(content(reader, commit=log[5])["Song"]) == 47
    songs(busy, 90, 91, branch="old")
    assert len(content(busy, branch="old")["Song"]) == 48
    busy.delete_branch("old")
    busy.delete_branch("side")
    impatient = again(busy, patience=Patience(orphan_age=timedelta(microseconds=1)))
    done = clean(impatient)
    assert len(done.forks) == 2
    assert len(versions(busy)) == 1
    assert content(again(busy)) == shown["main"]


def test_a_branch_is_not_made_from_a_commit_that_is_gone(busy: hg.Graph) -> None:
    old = busy.head().parent
    clean(busy)
    with pytest.raises(NotFound, match="older than what cleanup keeps"):
        busy.create_branch("late", at=old)
    assert busy.branches() == ("main",)


def test_a_dropped_type_goes_with_its_last_commit_and_a_hard_drop_at_once(busy: hg.Graph) -> None:
    before = busy.head().id
    less = SCHEMA.replace("edge By: Song -> Artist { role: String? @index }", "").replace("year: I32? @index", "")
    busy.apply_schema(less, allow_data_loss=True)
    with again(busy) as reader:
        for name in ("By", "Song"):
            with pytest.raises(NotFound, match=f"what {name} was"):
                reader.base(commit=before).snapshot(name)
        assert reader.base(commit=before).snapshot("Artist").rows == 2
    assert "year" not in content(busy)["Song"][0]
    assert len(versions(busy)) == 1
    impatient = again(busy, patience=Patience(orphan_age=timedelta(microseconds=1)))
    assert clean(impatient).tables == ["By"]
    assert "By" not in content(again(busy))


def test_a_hard_drop_on_one_branch_leaves_the_history_of_others(busy: hg.Graph) -> None:
    before, less = busy.head().id, SCHEMA.replace("year: I32? @index", "")
    busy.create_branch("side")
    songs(busy, 70, 71, branch="side")
    first = busy.head("side").id
    songs(busy, 71, 72, branch="side")
    busy.create_branch("other")
    busy.apply_schema(less, branch="other", allow_data_loss=True)
    assert content(again(busy), commit=before)["Song"][0]["year"] == 1900
    busy.apply_schema(less, allow_data_loss=True)
    assert len(content(again(busy), commit=first)["Song"]) == 53
    assert content(again(busy), branch="side")["Song"][0]["year"] == 1900
    assert busy.verify().damage == []


def test_a_soft_drop_stays_readable_at_earlier_commits(busy: hg.Graph) -> None:
    before = busy.head().id
    busy.apply_schema(SCHEMA.replace("year: I32? @index", ""))
    clean(busy, keep=2)
    assert content(again(busy), commit=before)["Song"][0]["year"] == 1900


def test_tables_that_a_writer_left_behind_go_once_they_are_old(busy: hg.Graph) -> None:
    import pyarrow as pa

    busy.store.tables.create("tables/99-orphan", pa.schema({"id": pa.string()}))
    assert clean(busy).tables == []
    impatient = again(busy, patience=Patience(orphan_age=timedelta(microseconds=1)))
    assert clean(impatient).tables == ["99-orphan"]
    assert list(Path(busy.uri, "tables/99-orphan").rglob("*.manifest")) == []


STAGE = """
import sys, os
import headgate.graph as hg
from headgate import failpoints
from headgate.failpoints import Failpoint
failpoints.arm(lambda point: os._exit(3) if point is Failpoint.GRAPH_STAGED else None)
hg.open(sys.argv[1]).mutate('query q() { insert Song { title: "never" } }')
"""


def test_what_a_dead_writer_staged_is_removed_and_what_a_living_one_did_is_not(busy: hg.Graph) -> None:
    path = busy.base().tables["Song"][0].path
    before = busy.store.tables.unnamed_files(path)
    dead = subprocess.run([sys.executable, "-c", STAGE, busy.uri], check=False)
    assert dead.returncode == 3
    assert len(busy.store.tables.unnamed_files(path)) == len(before) + 1
    living = again(busy)
    with living.transaction() as change:
        change.append("Song", [{"title": "soon"}])
        clean(busy)
    assert {"soon"} < {row["title"] for row in content(again(busy))["Song"]}
    # Files that are younger than the record of a living writer may be its own: these two have ended.
    living.close()
    busy.store.staging.end(busy.store.objects)
    clean(busy)
    assert busy.store.tables.unnamed_files(path) == []
    assert len(content(again(busy))["Song"]) == 53


@pytest.mark.parametrize("wrong", [{"keep": 0}, {"keep": -1}, {"older_than": timedelta(-1)}, {"grace": timedelta(-1)}])
def test_the_head_cannot_be_cleaned_up(busy: hg.Graph, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        clean(busy, **wrong)


def test_two_runs_at_once_are_told_so_and_nothing_is_lost(busy: hg.Graph) -> None:
    before = content(busy)
    with runs.upkeep_run(busy.store, "cleanup"), pytest.raises(AlreadyExists, match="cleanup is running on this graph"):
        clean(again(busy))
    assert content(busy) == before
    clean(busy)


def test_a_run_that_was_left_behind_is_taken_over(busy: hg.Graph) -> None:
    owner = b'{"what": "cleanup", "operation": "o", "owner": {"host": "%s", "pid": 99999999, "started": 1.0}}'
    from headgate.graph.recovery.owner import this_process

    busy.store.objects.put_if_absent(runs.NAME, owner % this_process().host.encode())
    clean(busy)
    assert busy.store.objects.get(runs.NAME) is None
    busy.store.objects.put_if_absent(runs.NAME, b"not json")
    with pytest.raises(AlreadyExists):
        clean(busy)


def test_writers_go_on_while_it_runs(busy: hg.Graph) -> None:
    writer = again(busy)

    def write() -> None:
        for number in range(100, 110):
            songs(writer, number, number + 1)

    thread = threading.Thread(target=write)
    thread.start()
    while thread.is_alive():
        clean(busy)
    thread.join()
    assert {row["title"] for row in content(again(busy))["Song"]} >= {f"s{n}" for n in range(100, 110)}
    clean(busy)
    assert len(versions(busy)) == 1


def test_the_manifest_and_its_history_shrink(busy: hg.Graph) -> None:
    for number in range(120):
        busy.mutate("query q($n: String) { insert Artist { name: $n } }", {"n": f"x{number}"})
    clean(busy)
    kinds = [row.object_id.partition(":")[0] for row in busy.store.manifest.history.rows("true")]
    assert kinds.count("pin") < 10
    assert kinds.count("commit") > 90
    assert len(list(Path(busy.uri, "__manifest/_versions").iterdir())) < 10
    assert len(list(Path(busy.uri, "__history/_versions").glob("*.manifest"))) == 1
    busy.mutate('query q() { insert Artist { name: "last" } }')
    assert len(list(again(busy).log())) == 137
