"""The scheduler: what comes next, from the state alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.orchestrators.engine.kit import Machine, Raw, completes, fork, loop, simple, switch, workflow

from headgate.orchestrators.engine.definitions import read_definition
from headgate.orchestrators.engine.rules import TaskRule
from headgate.orchestrators.engine.scheduler import End, TaskView, next_tasks, outline
from headgate.orchestrators.engine.steps import every


def failing(*references: str, times: int = 99, status: str = "FAILED") -> Any:
    def answer(task: TaskView) -> tuple[str, Mapping[str, Any]]:
        return (status, {}) if task.reference in references and task.retry_count < times else completes(task)

    return answer


def test_tasks_run_in_order_and_see_what_came_before() -> None:
    raw = workflow(
        simple("a", given={"x": "${workflow.input.n}"}),
        simple("b", given={"x": "${a.output.result}", "id": "${workflow.workflowId}"}),
        outputParameters={"last": "${b.output.result}", "first": "${a.input.x}", "how": "${a.status}"},
    )
    machine = Machine(raw, {"n": 7}, answer=completes)
    assert machine.run() == End(status="COMPLETED", output={"last": "b", "first": 7, "how": "COMPLETED"})
    assert [one.input for one in machine.scheduled] == [{"x": 7}, {"x": "a", "id": "wf"}]


def test_nothing_is_decided_while_an_attempt_runs() -> None:
    machine = Machine(workflow(simple("a"), simple("b")), answer=completes)
    assert machine.decide() is None
    assert next_tasks(machine.definition, machine.state) == []


def test_without_output_parameters_the_last_task_s_output_is_the_workflow_s() -> None:
    assert Machine(workflow(simple("a"), simple("b")), answer=completes).run().output == {"result": "b", "round": 0}


@pytest.mark.parametrize(
    ("value", "order"), [("x", ["a"]), (2, ["b"]), (True, ["c"]), ("none of them", ["d"]), (None, ["d"])]
)
def test_a_switch_takes_the_case_of_its_value_or_the_default(value: Any, order: list[str]) -> None:
    cases = {"x": [simple("a")], "2": [simple("b")], "true": [simple("c")]}
    machine = Machine(
        workflow(
            switch("s", "${workflow.input.v}", cases, [simple("d")]),
            simple("after", given={"chose": "${s.output.selectedCase}", "a": "${a.output.result}"}),
        ),
        {"v": value},
        answer=completes,
    )
    assert machine.run().status == "COMPLETED"
    assert machine.order == [*order, "after"]
    assert machine.scheduled[-1].input["a"] == ("a" if order == ["a"] else None)


def test_an_empty_case_falls_to_the_default() -> None:
    machine = Machine(workflow(switch("s", "x", {"x": []}, [simple("d")])), answer=completes)
    machine.run()
    assert machine.order == ["d"]


def test_a_fork_runs_side_by_side_and_its_join_waits() -> None:
    raw = workflow(
        *fork("f", [simple("a"), simple("b")], [simple("c")]),
        simple("after", given={"both": "${f_join.output}"}),
    )
    machine = Machine(raw, answer=completes)
    assert machine.decide() is None
    assert machine.order == ["a", "c"]
    end = machine.run(pick=lambda running: running[-1])
    assert end.status == "COMPLETED"
    assert machine.order == ["a", "c", "b", "after"]
    assert set(machine.scheduled[-1].input["both"]) == {"b", "c"}


def test_what_a_join_does_not_name_is_not_waited_for_but_ends_before_the_workflow() -> None:
    raw = workflow(*fork("f", [simple("slow")], [simple("c")], on=["c"]), simple("after"))
    machine = Machine(raw, answer=completes)
    end = machine.run(pick=lambda running: sorted(running, key=lambda task: task.reference == "slow")[0])
    assert end.status == "COMPLETED"
    assert [task.status for task in machine.state.tasks] == ["COMPLETED"] * 3


def test_a_loop_runs_its_body_while_its_condition_holds() -> None:
    raw = workflow(
        loop(
            "l",
            [simple("a", given={"before": "${b.output.round}"}), simple("b")],
            "$.l['iteration'] < $.limit && $.b['round'] != 9",
            {"limit": "${workflow.input.limit}"},
        ),
        simple(
            "after",
            given={"rounds": "${l.output.iteration}", "second": "${l.output.2.a.round}", "b": "${b.output.round}"},
        ),
    )
    machine = Machine(raw, {"limit": 3}, answer=completes)
    assert machine.run().status == "COMPLETED"
    assert machine.order == ["a#1", "b#1", "a#2", "b#2", "a#3", "b#3", "after"]
    assert [one.input.get("before") for one in machine.scheduled[::2]][:3] == [None, 1, 2]
    assert machine.scheduled[-1].input == {"rounds": 3, "second": 2, "b": 3}


def test_a_loop_runs_at_least_once() -> None:
    machine = Machine(workflow(loop("l", [simple("a")], "false")), answer=completes)
    machine.run()
    assert machine.order == ["a#1"]


def test_a_loop_that_would_turn_without_work_fails() -> None:
    body = [switch("s", "x", {"y": [simple("a")]})]
    end = Machine(workflow(loop("l", body, "true")), answer=completes).run()
    assert end.status == "FAILED"
    assert "for ever" in end.reason


@pytest.mark.parametrize(
    ("rule", "waits"),
    [
        (TaskRule(count=3, delay_seconds=5), [5, 5, 5]),
        (TaskRule(count=3, delay_seconds=5, logic="LINEAR_BACKOFF", backoff_scale=2), [10, 20, 30]),
        (TaskRule(count=3, delay_seconds=5, logic="EXPONENTIAL_BACKOFF", backoff_scale=7), [5, 10, 20]),
        (TaskRule(count=3, delay_seconds=5, logic="EXPONENTIAL_BACKOFF", max_delay_seconds=8), [5, 8, 8]),
    ],
)
def test_a_failed_task_is_tried_again_after_its_backoff(rule: TaskRule, waits: list[float]) -> None:
    machine = Machine(workflow(simple("a")), answer=failing("a"), rules={"t": rule})
    end = machine.run()
    assert (end.status, end.reason) == ("FAILED", "a: FAILED here")
    assert [one.after_seconds for one in machine.scheduled[1:]] == waits
    assert [one.retry_count for one in machine.scheduled] == [0, 1, 2, 3]
    assert len({task.id for task in machine.state.tasks}) == 4


def test_the_retry_count_of_the_workflow_stands_before_the_task_s() -> None:
    machine = Machine(workflow(simple("a", retryCount=1)), answer=failing("a"), rules={"t": TaskRule(count=5)})
    machine.run()
    assert len(machine.scheduled) == 2


def test_a_terminal_error_is_not_tried_again() -> None:
    raw = workflow(*fork("f", [simple("a")], [simple("c")]))
    machine = Machine(raw, answer=failing("a", status="FAILED_WITH_TERMINAL_ERROR"), rules={"t": TaskRule(count=5)})
    assert machine.run().status == "FAILED"
    assert machine.order == ["a", "c"]


def test_an_optional_task_may_fail_after_its_retries() -> None:
    raw = workflow(simple("a", optional=True), simple("b", given={"how": "${a.status}", "what": "${a.output.result}"}))
    machine = Machine(raw, answer=failing("a"), rules={"t": TaskRule(count=1, delay_seconds=0)})
    assert machine.run().status == "COMPLETED"
    assert machine.order == ["a", "a", "b"]
    assert machine.scheduled[-1].input == {"how": "COMPLETED_WITH_ERRORS", "what": None}
    assert outline(machine.definition, machine.state)[0].status == "COMPLETED_WITH_ERRORS"


def test_two_tasks_at_a_time_never_write_one_branch() -> None:
    block = {"repository": "songs", "branch": "${workflow.input.branch}"}
    raw = workflow(*fork("f", [simple("a", given={"workspace": block})], [simple("b", given={"workspace": block})]))
    end = Machine(raw, {"branch": "main"}, answer=completes, rules={"t": TaskRule(writes="workspace")}).run()
    assert end.status == "FAILED"
    assert "b would write workspace songs@main while a does" in end.reason


references = st.integers(0, 10**6).map(lambda n: f"r{n}")


@st.composite
def definitions(draw: st.DrawFn) -> Raw:
    """Any nesting of what is supported, with references that are all different."""
    used = iter(range(10**6))

    def sequence(depth: int, *, in_loop: bool) -> list[Raw]:
        steps: list[Raw] = []
        for _ in range(draw(st.integers(1, 3))):
            kind = draw(st.sampled_from(["simple"] if depth == 0 else ["simple", "switch", "fork", "loop"]))
            name = f"r{next(used)}"
            if kind == "switch":
                cases = {"x": sequence(depth - 1, in_loop=in_loop), "y": sequence(depth - 1, in_loop=in_loop)}
                steps.append(switch(name, draw(st.sampled_from(["x", "y", "z"])), cases))
            elif kind == "fork":
                steps += fork(name, *(sequence(depth - 1, in_loop=in_loop) for _ in range(draw(st.integers(1, 3)))))
            elif kind == "loop" and not in_loop:
                rounds = draw(st.integers(1, 3))
                body = [simple(f"r{next(used)}"), *sequence(depth - 1, in_loop=True)]
                steps.append(loop(name, body, f"$.{name}.iteration < {rounds}"))
            else:
                steps.append(simple(name, optional=draw(st.booleans())))
        return steps

    return workflow(*sequence(2, in_loop=False))


@settings(max_examples=80, deadline=None)
@given(raw=definitions(), random=st.randoms(use_true_random=False), failures=st.integers(0, 3))
def test_any_workflow_ends_and_hands_nothing_out_twice(raw: Raw, random: Any, failures: int) -> None:
    def answer(task: TaskView) -> tuple[str, Mapping[str, Any]]:
        return ("FAILED", {}) if random.random() < 0.1 * failures else completes(task)

    machine = Machine(raw, answer=answer, rules={"t": TaskRule(count=2, delay_seconds=0)})
    end = machine.run(pick=random.choice)
    identities = [(one.reference, one.iteration, one.retry_count) for one in machine.scheduled]
    assert len(identities) == len(set(identities))
    if not failures:
        assert end.status == "COMPLETED"
    if end.status == "COMPLETED":
        assert not machine.running()
    # Deciding is pure: the same state gives the same answer, and an end stays the end.
    assert next_tasks(machine.definition, machine.state, machine.rules) == [end]


@settings(max_examples=40, deadline=None)
@given(raw=definitions(), first=st.randoms(use_true_random=False), second=st.randoms(use_true_random=False))
def test_the_order_in_which_attempts_end_does_not_change_what_runs(raw: Raw, first: Any, second: Any) -> None:
    known = read_definition(raw)
    raw = {**raw, "outputParameters": {step.reference: f"${{{step.reference}.output}}" for step in every(known.steps)}}
    one, other = Machine(raw, answer=completes), Machine(raw, answer=completes)
    assert one.run(pick=first.choice) == other.run(pick=second.choice)
    assert sorted(one.order) == sorted(other.order)
