"""Definitions: read as a server reads them; what cannot be run is refused by name, all at once, with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.orchestrators.engine.kit import Raw, fork, loop, simple, switch, workflow

from headgate.errors import InvalidInput, Unsupported
from headgate.orchestrators.engine.definitions import read_definition, read_workflow
from headgate.orchestrators.engine.references import complete_input
from headgate.orchestrators.engine.rules import TaskRule
from headgate.orchestrators.engine.targets import check_targets

RULES = {"t": TaskRule(writes="workspace"), "reads": TaskRule()}


def problems(raw: Any, **options: Any) -> str:
    with pytest.raises(Unsupported) as caught:
        read_definition(raw, **options)
    return "\n".join(f"{problem.where}: {problem.message}: {problem.fix}" for problem in caught.value.problems)


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ({**simple("a"), "type": "HTTP"}, "the task type HTTP is not supported"),
        ({**simple("a"), "type": "DECISION"}, "use SWITCH"),
        ({**simple("a"), "type": "SUB_WORKFLOW"}, "SUB_WORKFLOW is not supported"),
        ({**simple("a"), "asyncComplete": True}, "asyncComplete of the SIMPLE task a is not supported"),
        ({**simple("a"), "permissive": True}, "permissive of the SIMPLE task a"),
        ({"type": "SIMPLE", "name": "t"}, "no taskReferenceName"),
        ({"type": "SIMPLE", "taskReferenceName": "a"}, "has no name"),
        (simple("workflow"), "'workflow'"),
        (simple("a", retryCount=-1), "retryCount is -1"),
        ({**switch("s", 1, {}), "evaluatorType": "javascript"}, "evaluatorType 'javascript' of s is not supported"),
        ({**switch("s", 1, {}), "expression": "gone"}, "'gone', which is no input parameter"),
        (loop("l", [simple("a")], "alert(1)"), "the condition of l is not supported"),
        (loop("l", [simple("a")], "$.other.x < 1"), "names 'other'"),
        (loop("l", [], "true"), "runs no task"),
        (loop("l", [simple("b"), loop("m", [simple("a")], "true")], "true"), "inside another one"),
        (fork("f", [simple("a")])[0], "has no JOIN after it"),
        (fork("f", [simple("a")])[1], "has no FORK_JOIN before it"),
        (simple("a", given={"x": "${a.output.x}"}), "has not run by then"),
        (simple("a", given={"x": "${gone.output.x}"}), "names no task"),
        (simple("a", given={"x": ["${workflow.variables.x}"]}), "${workflow.variables.x} is not supported"),
        (simple("a", given={"x": "${workflow.input"}), "is not closed"),
    ],
)
def test_what_cannot_be_run_is_refused_by_name(task: Raw, told: str) -> None:
    assert told in problems(workflow(task))


def test_everything_is_told_at_once() -> None:
    told = problems(
        {**workflow({**simple("a"), "type": "HTTP"}, simple("b"), simple("b")), "failureWorkflow": "x"}, tasks=["u"]
    )
    assert len(told.splitlines()) == 4
    for part in ("failureWorkflow", "HTTP", "two tasks have the reference 'b'", "no task 't'"):
        assert part in told


def test_a_branch_of_a_fork_does_not_see_the_other() -> None:
    raw = workflow(
        *fork("f", [simple("a")], [simple("b", given={"x": "${a.output.y}"})]),
        simple("c", given={"x": "${a.output.y}"}),
    )
    assert problems(raw).count("has not run by then") == 1


def test_a_join_waits_for_tasks_of_its_fork() -> None:
    assert "waits for 'gone'" in problems(workflow(*fork("f", [simple("a")], on=["gone"])))
    assert "waits for nothing" in problems(workflow(*fork("f", [simple("a")], on=[])))


def test_what_a_server_writes_by_default_is_taken() -> None:
    by_server = {
        "decisionCases": {},
        "defaultCase": [],
        "forkTasks": [],
        "startDelay": 0,
        "joinOn": [],
        "optional": False,
        "defaultExclusiveJoinTask": [],
        "asyncComplete": False,
        "loopOver": [],
        "onStateChange": {},
        "permissive": False,
        "rateLimited": None,
    }
    raw = {
        **workflow({**simple("a"), **by_server}),
        "failureWorkflow": "",
        "variables": {},
        "ownerEmail": "a@b.example",
    }
    assert read_definition(raw).simple[0].name == "t"


@pytest.mark.parametrize("raw", [None, [], "x", {"name": "w"}, {"tasks": [simple("a")]}, {"name": "w", "tasks": ["x"]}])
def test_what_is_no_workflow_is_refused(raw: Any) -> None:
    assert problems(raw)


def test_a_problem_names_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "w.json"
    file.write_text(json.dumps(workflow(simple("a"), {**simple("b"), "type": "HTTP"}), indent=1))
    line = file.read_text().splitlines().index('   "type": "HTTP",') + 1
    with pytest.raises(Unsupported) as caught:
        read_workflow(file)
    assert [problem.where for problem in caught.value.problems] == [f"{file}:{line}"]


def test_yaml_and_json_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(
        "name: w\ntasks:\n- name: t\n  taskReferenceName: a\n  inputParameters: {x: [1, true]}\n"
    )
    (tmp_path / "w.json").write_text(
        '{"name": "w", "tasks": [{"name": "t",\n\t"taskReferenceName": "a", "inputParameters": {"x": [1, true]}}]}'
    )
    read = [read_workflow(tmp_path / name)[1] for name in ("w.yaml", "w.json")]
    assert read[0] == read[1]


@pytest.mark.parametrize("text", ["{", "a: [", "a: b: c"])
def test_a_file_that_does_not_parse_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "w.yaml").write_text(text)
    with pytest.raises(InvalidInput, match=r"w\.yaml does not parse"):
        read_workflow(tmp_path / "w.yaml")
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_workflow(tmp_path / "gone.yaml")


def test_input_that_is_missing_or_too_much_is_told() -> None:
    raw = workflow(
        simple("a", given={"x": "${workflow.input.x.y}", "z": "${workflow.input.z}"}), inputTemplate={"z": 1}
    )
    definition = read_definition(raw)
    assert complete_input(definition, {"x": {}}) == {"x": {}, "z": 1}
    with pytest.raises(InvalidInput) as caught:
        complete_input(definition, {"xx": 1})
    told = [problem.message for problem in caught.value.problems]
    assert told == ["the input has no 'x'", "the workflow takes no such input"]


def block(branch: Any) -> dict[str, Any]:
    return {"workspace": {"repository": "songs", "branch": branch, "ref_type": "commit", "ref": "r"}}


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (block("main"), block("main"), "both write workspace songs@main"),
        (block("main"), block("${workflow.input.b}"), "both write workspace songs@main"),
        (block("main"), {"workspace": "${first.output.workspace}"}, "both write workspace songs@main"),
        (block("main"), block("${first.output.result.b}"), "what two writes is not known"),
        ({"workspace": "${free.output.result}"}, block("main"), "what one writes is not known"),
        (block("main"), block("other"), ""),
        (block("x-${workflow.input.b}"), block("${workflow.input.b}"), ""),
    ],
)
def test_a_fork_writes_only_branches_that_are_known_to_differ(one: Any, other: Any, told: str) -> None:
    raw = workflow(
        simple("first", given=block("main")),
        simple("free", name="reads"),
        *fork("f", [simple("one", given=one)], [simple("two", given=other), simple("look", name="reads", given=one)]),
    )
    definition = read_definition(raw)
    if not told:
        assert len(check_targets(definition, RULES, {"b": "main"})) >= 2
        return
    with pytest.raises(InvalidInput) as caught:
        check_targets(definition, RULES, {"b": "main"})
    assert told in str(caught.value.problems)
