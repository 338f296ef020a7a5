"""`headgate graph` where it writes, and the history commands on a graph."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate.orchestrators.machine import Machine
from headgate.settings import load

Run = Callable[..., Any]
SCHEMA = """\
node Person { name: String @key  age: I32? }
node Place { country: String  city: String  @key(country, city) }
edge Knows: Person -> Person { since: Date? }
edge Lives: Person -> Place
"""
ADD = "query add($name: String, $age: I32?) { insert Person { name: $name, age: $age } }"
LINES = [
    {"type": "Person", "data": {"name": "ann", "age": 31}},
    {"type": "Person", "data": {"name": "bob"}},
    {"type": "Place", "data": {"country": "fr", "city": "Lyon"}},
    {"edge": "Knows", "from": "ann", "to": "bob", "data": {"since": "2020-02-29"}},
    {"edge": "Lives", "from": "ann", "to": ["fr", "Lyon"]},
]


@pytest.fixture
def music(project: Path, headgate: Run) -> str:
    """A graph that the settings call music, with the rows above."""
    (project / "people.pg").write_text(SCHEMA)
    (project / "data.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    (project / "headgate.toml").write_text('[stores.music]\ngraph = "./graph"\n')
    assert headgate("graph", "init", "music", "--schema", "people.pg").code == 0
    loaded = headgate("graph", "load", "music", "data.jsonl", "-m", "first rows", "--actor", "me")
    assert loaded.err + loaded.out != ""
    assert loaded.code == 0, loaded.err
    assert "loaded 2 Person, 1 Place, 1 Knows, 1 Lives at" in loaded.out
    return "music"


def people(headgate: Run, store: str) -> list[str]:
    found = headgate("graph", "sql", store, 'select name from "Person" order by name', "--json")
    return [row["name"] for row in json.loads(found.out)["rows"]]


def test_init_dry_run_makes_nothing(project: Path, headgate: Run) -> None:
    (project / "people.pg").write_text(SCHEMA)
    told = headgate("graph", "init", "new", "--schema", "people.pg", "--dry-run")
    assert "would create new with Person, Place, Knows, Lives" in told.out
    assert not (project / "new").exists()


def test_init_twice_is_told(music: str, headgate: Run) -> None:
    again = headgate("graph", "init", music, "--schema", "people.pg")
    assert again.code == 6
    assert "there is a graph at" in again.err


def test_mutate_changes_once_per_publish_id(music: str, headgate: Run) -> None:
    add = ("graph", "mutate", music, "-e", ADD, "-p", "name=cy", "--publish-id", "p1", "--json")
    first, again = json.loads(headgate(*add).out), json.loads(headgate(*add).out)
    assert (first["changed"], first["affected"]["inserted"]) == (True, 1)
    assert (again["repeated"], again["commit"]) == (True, first["commit"])
    assert people(headgate, music) == ["ann", "bob", "cy"]


def test_mutate_dry_run_checks_and_changes_nothing(music: str, headgate: Run) -> None:
    told = headgate("graph", "mutate", music, "-e", ADD, "-p", "name=cy", "--dry-run")
    assert "would have inserted 1" in told.out
    assert people(headgate, music) == ["ann", "bob"]


def test_a_conditional_write_that_lost_says_so(music: str, headgate: Run) -> None:
    lost = headgate("graph", "mutate", music, "-e", ADD, "-p", "name=cy", "--if-commit", "01OLD")
    assert lost.code == 6
    assert "is not at the commit this write is conditional on" in lost.err


def test_a_load_with_bad_rows_names_them(project: Path, music: str, headgate: Run) -> None:
    (project / "bad.jsonl").write_text('{"type": "Person", "data": {"name": "x", "age": "old"}}\n{\n')
    for dry in ((), ("--dry-run",)):
        bad = headgate("graph", "load", music, "bad.jsonl", "--rejects", "why.jsonl", *dry)
        assert bad.code == 4
        assert "bad.jsonl:1: age must be I32" in bad.err
        assert "bad.jsonl:2: is not JSON" in bad.err
        assert len((project / "why.jsonl").read_text().splitlines()) == 2
    assert people(headgate, music) == ["ann", "bob"]


def test_a_load_dry_run_writes_nothing(project: Path, music: str, headgate: Run) -> None:
    (project / "more.jsonl").write_text('{"type": "Person", "data": {"name": "x"}}\n')
    before = sorted(path for path in (project / "graph").rglob("*") if path.is_file())
    for mode in ("append", "merge", "overwrite"):
        told = headgate("graph", "load", music, "more.jsonl", "--mode", mode, "--dry-run")
        assert told.code == (4 if mode == "overwrite" else 0), told.err
    assert sorted(path for path in (project / "graph").rglob("*") if path.is_file()) == before
    assert headgate("graph", "load", music, "more.jsonl", "--mode", "nope").code == 4


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_what_is_exported_loads_again(project: Path, music: str, headgate: Run, form: str) -> None:
    into = "out.jsonl" if form == "jsonl" else "out"
    assert headgate("graph", "export", music, into).code == 0
    assert headgate("graph", "init", "copy", "--schema", "people.pg").code == 0
    files = [into] if form == "jsonl" else [f"out/{name}.parquet" for name in ("Person", "Place", "Knows", "Lives")]
    loaded = headgate("graph", "load", "./copy", *files)
    assert loaded.code == 0, loaded.err
    for table in ("Person", "Place", "Knows", "Lives"):
        query = f'select * from "{table}" order by id'
        one, two = (headgate("graph", "sql", store, query, "--json") for store in (music, "./copy"))
        assert json.loads(one.out)["rows"] == json.loads(two.out)["rows"]
    assert headgate("graph", "export", music, into).code == 6


def test_log_show_and_diff_work_on_a_graph(music: str, headgate: Run) -> None:
    headgate("graph", "mutate", music, "-e", ADD, "-p", "name=cy", "-m", "add cy", "--actor", "me")
    log = json.loads(headgate("log", music, "--json").out)
    assert [commit["message"] for commit in log] == ["add cy", "first rows", "create the graph"]
    assert log[0]["committer"] == "me"
    assert log[0]["parents"] == [log[1]["ref"]]
    assert "~ Person  3 rows (+1)" in headgate("show", music).out
    assert headgate("diff", f"{music}@{log[2]['ref']}", f"{music}@{log[1]['ref'][:20]}").out.splitlines() == [
        "~ Knows  1 rows (+1)",
        "~ Lives  1 rows (+1)",
        "~ Person  2 rows (+2)",
        "~ Place  1 rows (+1)",
    ]
    assert "add cy" in headgate("log", "./graph").out
    mine = json.loads(headgate("log", music, "--actor", "me", "--json").out)
    assert [commit["message"] for commit in mine] == ["add cy", "first rows"]


def test_a_branch_of_a_graph_is_made_written_and_deleted(music: str, headgate: Run) -> None:
    assert "would create side" in headgate("branch", "create", f"{music}@side", "--dry-run").err
    made = headgate("branch", "create", f"{music}@side")
    assert made.code == 0, made.err
    added = headgate("graph", "mutate", music, "-e", ADD, "-p", "name=cy", "--branch", "side", "--json")
    assert added.code == 0, added.err
    assert people(headgate, music) == ["ann", "bob"]
    found = headgate("graph", "sql", music, 'select name from "Person"', "--branch", "side", "--json")
    assert len(json.loads(found.out)["rows"]) == 3
    listed = json.loads(headgate("branch", "list", music, "--json").out)
    assert [branch["name"] for branch in listed] == ["main", "side"]
    assert "+1" in headgate("diff", f"{music}@main", f"{music}@side").out
    assert headgate("branch", "create", f"{music}@side").code == 6
    assert headgate("branch", "delete", f"{music}@main", "--yes").code == 4
    assert headgate("branch", "delete", f"{music}@nobody", "--yes").code == 4
    assert headgate("branch", "delete", f"{music}@side", "--yes").code == 0
    assert [branch["name"] for branch in json.loads(headgate("branch", "list", music, "--json").out)] == ["main"]


@pytest.fixture
def diverged(music: str, headgate: Run) -> str:
    """main and side have changed ann's age in different ways; side has also added cy."""
    assert headgate("branch", "create", f"{music}@side").code == 0
    for branch, age in (("main", "32"), ("side", "33")):
        change = 'query u($age: I32) { update Person set { age: $age } where name = "ann" }'
        assert headgate("graph", "mutate", music, "-e", change, "-p", f"age={age}", "--branch", branch).code == 0
    assert headgate("graph", "mutate", music, "-e", ADD, "-p", "name=cy", "--branch", "side").code == 0
    return music


def test_a_merge_with_conflicts_lists_them_and_takes_a_side(diverged: str, headgate: Run) -> None:
    told = headgate("branch", "merge", f"{diverged}@side", "--dry-run")
    assert told.code == 6
    assert "divergent_update: Person ann was changed on both sides in age (age was 31, ours 32, theirs 33)" in told.out
    refused = headgate("branch", "merge", f"{diverged}@side")
    assert refused.code == 6
    assert "Person ann was changed on both sides" in refused.err
    assert headgate("branch", "merge", f"{diverged}@side", "--resolve", "nobody").code == 4
    planned = headgate("branch", "merge", f"{diverged}@side", "--resolve", "Person=theirs", "--dry-run", "--json")
    assert planned.code == 0, planned.err
    assert json.loads(planned.out)["outcome"] == "merged"
    merged = headgate("branch", "merge", f"{diverged}@side", "--resolve", "Person=theirs", "-m", "both")
    assert merged.code == 0, merged.err
    assert people(headgate, diverged) == ["ann", "bob", "cy"]
    log = headgate("log", diverged).out
    assert "both" in log
    assert "|\\" in log
    shown = headgate("show", f"{diverged}@main").out
    assert shown.count("parent ") == 2
    assert "Person  3 rows (+1 ~1)" in shown
    assert headgate("branch", "merge", f"{diverged}@side", "--squash").code == 4
    assert headgate("branch", "merge", f"{diverged}@main", "main").code == 4


def test_changes_between_refs_and_after_a_cursor(diverged: str, headgate: Run) -> None:
    lines = headgate("graph", "changes", diverged, "--from", "main", "--to", "side", "--json").out.splitlines()
    found = {(line["kind"], line["id"]): line for line in map(json.loads, lines)}
    assert set(found) == {("changed", "ann"), ("added", "cy")}
    assert (found["changed", "ann"]["before"]["age"], found["changed", "ann"]["after"]["age"]) == (32, 33)
    told = headgate("graph", "changes", diverged, "--from", "main", "--to", "side").out
    assert "~ Person ann  age 32 -> 33" in told
    every = headgate("graph", "changes", diverged, "--branch", "side", "--json").out.splitlines()
    cursor = json.loads(every[-1])["cursor"]
    assert len(every) == 5 + 1 + 1 + 1
    later = headgate("graph", "changes", diverged, "--branch", "side", "--after", cursor, "--json").out.splitlines()
    assert [json.loads(line) for line in later] == [{"cursor": cursor}]
    first = headgate("graph", "changes", diverged, "--branch", "side", "-n", "1", "--json").out.splitlines()
    assert len(first) == 5 + 1
    assert headgate("graph", "changes", diverged, "--from", "nowhere").code == 4
    assert headgate("graph", "changes", diverged, "--type", "Nobody").code == 4


def test_a_graph_is_brought_back(diverged: str, headgate: Run) -> None:
    start = json.loads(headgate("log", diverged, "--json").out)[1]["ref"]
    dry = headgate("rewind", f"{diverged}@main", "--to", start, "--why", "too soon", "--dry-run")
    assert f"would bring {diverged}@main" in dry.out
    done = headgate("rewind", f"{diverged}@main", "--to", start[:20], "--why", "too soon", "--yes")
    assert done.code == 0, done.err
    log = json.loads(headgate("log", diverged, "--json").out)
    assert "too soon" in log[0]["message"]
    assert len(log) == 4
    assert headgate("diff", f"{diverged}@{start}", f"{diverged}@main").out.strip() == "no differences"


TASKS = """
from pydantic import BaseModel
from headgate import task
from headgate.tasks.protocols import GraphTransaction

class Params(BaseModel):
    name: str = "dee"

class Result(BaseModel):
    people: int

@task(graph=["Person"], owner_email="me@example.org")
def hire(graph: GraphTransaction, params: Params) -> Result:
    graph.merge("Person", [{"name": params.name, "age": 20}])
    return Result(people=graph.read("Person").num_rows)
"""


def test_why_and_status_tell_of_a_task_on_a_branch(music: str, headgate: Run, project: Path) -> None:
    (project / "hiring.py").write_text(TASKS)
    assert headgate("branch", "create", f"{music}@side").code == 0
    ran = headgate("run", "hiring:hire", "--on", f"{music}@side")
    assert ran.code == 0, ran.err
    assert people(headgate, music) == ["ann", "bob"]
    steps = json.loads(headgate("why", f"{music}@side", "Person:dee", "--json").out)
    assert (steps[0]["task"], steps[0]["change"], steps[0]["accepted"]) == ("hire", "added", "accepted")
    assert steps[1]["message"] == "first rows"
    assert "by me, by hand" in headgate("why", f"{music}@main").out
    assert headgate("why", f"{music}@side", "Person:nobody").code == 4
    assert headgate("why", f"{music}@side", "Nobody").code == 4
    heads = {head["branch"]: head["status"] for head in json.loads(headgate("status", "--json").out)["heads"]}
    assert set(heads) == {f"{music}@main", f"{music}@side"}
    assert heads[f"{music}@side"] == "accepted"


def test_a_branch_is_not_deleted_or_brought_back_under_an_attempt(music: str, headgate: Run, project: Path) -> None:
    assert headgate("branch", "create", f"{music}@side").code == 0
    assert headgate("graph", "mutate", music, "-e", ADD, "-p", "name=cy", "--branch", "side").code == 0
    log = json.loads(headgate("log", f"{music}@side", "--json").out)
    block = {"graph": music, "branch": "side", "ref_type": "commit", "ref": log[0]["ref"]}
    with Machine(load(start=project).settings) as machine:
        machine.engine.submit("hire", {"graph": block, "params": {}})
    for line in (
        ["branch", "delete", f"{music}@side", "--yes"],
        ["rewind", f"{music}@side", "--to", log[1]["ref"], "--why", "x", "--yes"],
    ):
        refused = headgate(*line)
        assert refused.code == 5
        assert f"works on {music}@side" in refused.err
    assert "side" in headgate("branch", "list", music).out
