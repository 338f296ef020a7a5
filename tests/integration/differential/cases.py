"""Workflows to be run by a Conductor server and by the embedded engine: what each task answers is part of the case."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.unit.orchestrators.engine.kit import Raw, fork, loop, simple, switch, workflow

from headgate.orchestrators.engine.rules import TaskRule

AT_ONCE = TaskRule(count=0, delay_seconds=0, response_seconds=3600)


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One attempt that was handed out."""

    reference: str
    iteration: int
    retry_count: int
    input: Mapping[str, Any]


@dataclass(frozen=True)
class Answer:
    """What a worker makes of an attempt. No status: it takes the attempt and is never heard of again."""

    status: str | None
    output: Mapping[str, Any] = field(default_factory=dict)


def done(**output: Any) -> Answer:
    return Answer("COMPLETED", output)


FAIL, FATAL, SILENCE = Answer("FAILED"), Answer("FAILED_WITH_TERMINAL_ERROR"), Answer(None)
NOBODY = "nobody"
"""Tasks of this name are never polled."""


def echo(turn: Turn) -> Answer:
    return done(got=dict(turn.input), reference=turn.reference, iteration=turn.iteration)


def fails(*references: str, times: int = 99, how: Answer = FAIL) -> Callable[[Turn], Answer]:
    """Each of these fails so many times; all else echoes."""
    return lambda turn: how if turn.reference in references and turn.retry_count < times else echo(turn)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A workflow, its input, the rules of its tasks, and how its tasks answer."""

    name: str
    definition: Raw
    given: Mapping[str, Any] = field(default_factory=dict)
    rules: Mapping[str, TaskRule] = field(default_factory=dict)
    answer: Callable[[Turn], Answer] = echo

    def shown(self, reference: str, status: str) -> str:
        """The status of an attempt. That of an optional task which failed is overwritten by a server, or not, according
        to what comes after it; `${ref.status}` is what counts."""
        optional = reference in self.optional and status not in ("COMPLETED", "CANCELED")
        return "FAILED, OPTIONAL" if optional else status

    @property
    def optional(self) -> set[str]:
        def found(raw: Any) -> Iterator[str]:
            if isinstance(raw, dict):
                if raw.get("optional"):
                    yield raw["taskReferenceName"]
                for value in raw.values():
                    yield from found(value)
            elif isinstance(raw, list):
                for value in raw:
                    yield from found(value)

        return set(found(self.definition))

    def rule(self, name: str) -> TaskRule:
        return self.rules.get(name, AT_ONCE)


def case(name: str, *tasks: Raw | list[Raw], given: Mapping[str, Any] | None = None, **more: Any) -> Case:
    flat = [one for part in tasks for one in (part if isinstance(part, list) else [part])]
    fields = {key: more.pop(key) for key in list(more) if key not in ("rules", "answer")}
    return Case(name=name, definition=workflow(*flat, **{**fields, "name": name}), given=given or {}, **more)


def retried(count: int = 1, **more: Any) -> TaskRule:
    return TaskRule(**{"count": count, "delay_seconds": 0, "response_seconds": 3600, **more})


VALUES = {
    "n": 3,
    "big": 12345678901,
    "half": 0.5,
    "yes": True,
    "none": None,
    "list": [1, "b"],
    "map": {"k": "v"},
    "text": "t",
}


def _taken(value: Any, reference: str) -> Raw:
    cases = {"a": [simple("in_a")], "3": [simple("in_3")], "true": [simple("in_true")], "null": [simple("in_null")]}
    return switch(reference, value, cases, [simple("in_default")])


CASES: Sequence[Case] = [
    # expressions
    case(
        "values_keep_their_types",
        simple("a", given={key: f"${{workflow.input.{key}}}" for key in VALUES}),
        simple(
            "b",
            given={
                "all": "${a.output.got}",
                "one": "${a.output.got.list[1]}",
                "deep": {"x": ["${a.output.got.map.k}"]},
            },
        ),
        given=VALUES,
        outputParameters={"b": "${b.output.got}", "const": 1},
    ),
    case(
        "values_in_texts",
        simple("a", given={key: f"<${{workflow.input.{key}}}>" for key in VALUES}),
        simple("b", given={"two": "${a.output.got.n} and ${workflow.input.text}", "plain": "no $ expression {x}"}),
        given=VALUES,
    ),
    case(
        "what_does_not_resolve",
        simple("a", given={"in": "${workflow.input.map.nothing.at.all}", "text": "<${workflow.input.map.nothing}>"}),
        simple(
            "b",
            given={
                "index": "${workflow.input.list[9]}",
                "through": "${workflow.input.text.more}",
                "of_number": "${workflow.input.n.more}",
                "output": "${a.output.nothing}",
                "nested": {"x": ["${a.output.got.nothing.more}"]},
            },
        ),
        given={key: VALUES[key] for key in ("map", "list", "text", "n")},
        outputParameters={"none": "${b.output.nothing}", "text": "<${b.output.nothing}>"},
    ),
    case(
        "facts_of_tasks",
        simple("a", given={"x": 1}),
        simple("b", given={"status": "${a.status}", "given": "${a.input}", "given_x": "${a.input.x}"}),
        simple(
            "c",
            given={"name": "${workflow.workflowType}", "version": "${workflow.version}", "all": "${workflow.input}"},
        ),
        given={"k": [1]},
    ),
    case("without_output_parameters", simple("a"), simple("b", given={"x": 1})),
    case(
        "input_template",
        simple("a", given={"x": "${workflow.input.x}", "y": "${workflow.input.y}"}),
        given={"x": 1},
        inputTemplate={"x": 0, "y": 2},
    ),
    # switches
    *(
        case(
            f"switch_{name}",
            _taken("${workflow.input.by}", "s"),
            simple("after", given={"took": "${s.output}", "a": "${in_a.output.reference}"}),
            given={"by": value},
        )
        for name, value in {"case": "a", "default": "zzz", "number": 3, "true": True, "null": None, "list": [1]}.items()
    ),
    case(
        "switch_without_default",
        switch("s", "zzz", {"a": [simple("in_a")]}),
        simple("after", given={"took": "${s.output}"}),
    ),
    case("switch_last", simple("a"), switch("s", "x", {"x": [simple("b"), simple("c")]})),
    case("switch_last_nothing", simple("a"), switch("s", "y", {"x": [simple("b")]})),
    case(
        "switch_in_switch", switch("s", "x", {"x": [switch("t", "y", {"y": [simple("b")]}), simple("c")]}), simple("d")
    ),
    # forks
    case(
        "fork",
        fork("f", [simple("a"), simple("b", given={"a": "${a.output.reference}"})], [simple("c")]),
        simple("after", given={"joined": "${f_join.output}", "b": "${b.output.got}"}),
    ),
    case("fork_last", fork("f", [simple("a")], [simple("b")])),
    case(
        "fork_waits_for_one",
        fork("f", [simple("a")], [simple("b"), simple("c")], on=["a"]),
        simple("after", given={"joined": "${f_join.output}"}),
        outputParameters={"after": "${after.output}", "c": "${c.output}"},
    ),
    case(
        "fork_fails",
        fork("f", [simple("a")], [simple("b"), simple("c")]),
        simple("after"),
        answer=fails("b"),
        outputParameters={"b": "${b.output}"},
    ),
    case(
        "fork_fails_early",
        fork("f", [simple("a", name=NOBODY)], [simple("b")], on=["a", "b"]),
        answer=fails("b", how=FATAL),
        outputParameters={"b": "${b.output}"},
    ),
    case(
        "fork_optional",
        fork("f", [simple("a", optional=True)], [simple("b")]),
        simple("after", given={"j": "${f_join.output}"}),
        answer=fails("a"),
    ),
    case(
        "fork_in_fork",
        fork("f", [*fork("g", [simple("a")], [simple("b")])], [simple("c")], on=["g_join", "c"]),
        simple("d", given={"j": "${f_join.output}"}),
    ),
    case(
        "fork_with_switch",
        fork("f", [switch("s", "x", {"x": [simple("a")]})], [simple("b")], on=["s", "b"]),
        simple("d", given={"j": "${f_join.output}"}),
    ),
    # loops
    case(
        "loop",
        loop(
            "l",
            [simple("a", given={"round": "${l.output.iteration}"})],
            "if ($.l['iteration'] < 3) { true; } else { false; }",
        ),
        simple("after", given={"loop": "${l.output}", "last": "${a.output}"}),
    ),
    case(
        "loop_so_far",
        loop("l", [simple("a", given={"so_far": "${l.output}", "status": "${l.status}"})], "$.l['iteration'] < 3"),
    ),
    case(
        "loop_optional",
        loop("l", [simple("a", optional=True), simple("b")], "$.l['iteration'] < 2"),
        simple("c", given={"l": "${l.output}"}),
        answer=fails("a"),
    ),
    case(
        "loop_join_inside",
        loop(
            "l",
            [*fork("f", [simple("a")], [simple("b")]), simple("c", given={"j": "${f_join.output}"})],
            "$.l['iteration'] < 2",
        ),
    ),
    case(
        "fork_facts",
        fork("f", [simple("a")], [simple("b")]),
        simple("c", given={"f": "${f.output}", "s": "${f.status}", "j": "${f_join.status}"}),
    ),
    case("fork_last_long_branch", fork("f", [simple("a"), simple("b")], [simple("c")])),
    case("fork_last_switch", fork("f", [switch("s", "x", {"x": [simple("a")]})], [simple("b")], on=["s", "b"])),
    case(
        "fork_output_on_failure",
        fork("f", [simple("a")], [simple("b")]),
        answer=fails("a"),
        outputParameters={"a": "${a.output}", "f": "${f.output}"},
    ),
    case("loop_last", loop("l", [simple("a"), simple("b")], "$.l['iteration'] < 2")),
    case("loop_once", loop("l", [simple("a")], "false")),
    case(
        "loop_by_input",
        loop("l", [simple("a")], "$.l['iteration'] < $.times", {"times": "${workflow.input.times}"}),
        given={"times": 2},
    ),
    case("loop_by_output", loop("l", [simple("a")], "$.a['iteration'] < 2")),
    case(
        "loop_retries",
        loop("l", [simple("a")], "$.l['iteration'] < 2"),
        rules={"t": retried(2)},
        answer=fails("a", times=1),
    ),
    case(
        "loop_fails", loop("l", [simple("a"), simple("b")], "$.l['iteration'] < 2"), simple("after"), answer=fails("b")
    ),
    case(
        "loop_with_switch",
        loop("l", [switch("s", "${l.output.iteration}", {"1": [simple("a")]}, [simple("b")])], "$.l['iteration'] < 2"),
        simple("after", given={"l": "${l.output}"}),
    ),
    case(
        "loop_with_fork",
        loop("l", fork("f", [simple("a")], [simple("b")]), "$.l['iteration'] < 2"),
        simple("after", given={"l": "${l.output}"}),
    ),
    case(
        "loop_reads_the_round_before",
        loop("l", [simple("a", given={"last": "${a.output.iteration}"})], "$.l['iteration'] < 3"),
    ),
    # failures and retries
    case(
        "fails",
        simple("a"),
        simple("b"),
        answer=fails("b"),
        outputParameters={"a": "${a.output.reference}", "b": "${b.output}"},
    ),
    case("fails_without_output_parameters", simple("a"), simple("b"), answer=fails("b")),
    case("retries", simple("a", given={"x": 1}), rules={"t": retried(3)}, answer=fails("a", times=2)),
    case("retries_used_up", simple("a"), rules={"t": retried(2)}, answer=fails("a")),
    case("retries_of_the_step", simple("a", retryCount=2), rules={"t": retried(0)}, answer=fails("a")),
    case("retries_of_the_step_none", simple("a", retryCount=0), rules={"t": retried(3)}, answer=fails("a")),
    case("fatal", simple("a"), simple("b"), rules={"t": retried(3)}, answer=fails("a", how=FATAL)),
    case(
        "optional",
        simple("a", optional=True),
        simple("b", given={"a": "${a.output}", "status": "${a.status}"}),
        rules={"t": retried(1)},
        answer=fails("a"),
    ),
    case("optional_last", simple("a"), simple("b", optional=True), answer=fails("b")),
    case(
        "optional_fatal",
        simple("a", optional=True),
        simple("b", given={"status": "${a.status}"}),
        rules={"t": retried(1)},
        answer=fails("a", how=FATAL),
    ),
    case(
        "optional_in_loop",
        loop("l", [simple("a", optional=True), simple("b")], "$.l['iteration'] < 2"),
        answer=fails("a"),
    ),
    *(
        case(f"waits_{name}", simple("a"), rules={"t": retried(3, **fields)}, answer=fails("a"))
        for name, fields in {
            "fixed": {"delay_seconds": 1},
            "linear": {"logic": "LINEAR_BACKOFF", "delay_seconds": 1},
            "linear_scaled": {"logic": "LINEAR_BACKOFF", "delay_seconds": 1, "backoff_scale": 2},
            "exponential": {"logic": "EXPONENTIAL_BACKOFF", "delay_seconds": 1},
            "exponential_scaled": {"logic": "EXPONENTIAL_BACKOFF", "delay_seconds": 1, "backoff_scale": 3},
            "capped": {"logic": "EXPONENTIAL_BACKOFF", "delay_seconds": 1, "max_delay_seconds": 2},
        }.items()
    ),
    case("start_delay", simple("a", startDelay=2)),
    case("start_delay_retried", simple("a", startDelay=1), rules={"t": retried(1)}, answer=fails("a", times=1)),
    # time limits
    *(
        case(
            f"silence_{policy}",
            simple("a"),
            simple("b"),
            rules={"t": retried(1, response_seconds=1, policy=policy)},
            answer=fails("a", times=1, how=SILENCE),
        )
        for policy in ("RETRY", "TIME_OUT_WF", "ALERT_ONLY")
    ),
    case(
        "silence_for_good",
        simple("a"),
        rules={"t": retried(1, response_seconds=1, policy="RETRY")},
        answer=fails("a", how=SILENCE),
    ),
    case(
        "silence_optional",
        simple("a", optional=True),
        simple("b"),
        rules={"t": retried(0, response_seconds=1, policy="RETRY")},
        answer=fails("a", how=SILENCE),
    ),
    *(
        case(
            f"too_slow_{policy}",
            simple("a"),
            simple("b"),
            rules={"t": retried(1, seconds=3, response_seconds=3, policy=policy)},
            answer=fails("a", times=1, how=SILENCE),
        )
        for policy in ("RETRY", "TIME_OUT_WF")
    ),
    *(
        case(
            f"nobody_polls_{policy}",
            simple("a", name=NOBODY),
            rules={NOBODY: retried(1, poll_seconds=1, policy=policy)},
        )
        for policy in ("RETRY", "TIME_OUT_WF")
    ),
    *(
        case(
            f"in_all_too_slow_{policy}",
            simple("a"),
            rules={"t": retried(9, delay_seconds=8, total_seconds=12, policy=policy)},
            answer=fails("a"),
        )
        for policy in ("RETRY", "TIME_OUT_WF", "ALERT_ONLY")
    ),
    *(
        case(
            f"in_all_silent_{policy}",
            simple("a"),
            rules={"t": retried(9, delay_seconds=0, response_seconds=3600, total_seconds=3, policy=policy)},
            answer=fails("a", how=SILENCE),
        )
        for policy in ("RETRY", "TIME_OUT_WF")
    ),
    case(
        "too_slow_optional",
        simple("a", optional=True),
        simple("b"),
        rules={"t": retried(0, seconds=1, response_seconds=1, policy="TIME_OUT_WF")},
        answer=fails("a", how=SILENCE),
    ),
    case(
        "nobody_polls_optional",
        simple("a", name=NOBODY, optional=True),
        simple("b"),
        rules={NOBODY: retried(0, poll_seconds=1, policy="RETRY")},
    ),
    case(
        "in_all_optional",
        simple("a", optional=True),
        simple("b", given={"s": "${a.status}"}),
        rules={"t": retried(9, delay_seconds=8, total_seconds=12, policy="RETRY")},
        answer=fails("a"),
    ),
    case(
        "workflow_too_slow",
        simple("a"),
        simple("b"),
        answer=fails("b", how=SILENCE),
        timeoutSeconds=4,
        timeoutPolicy="TIME_OUT_WF",
        outputParameters={"a": "${a.output.reference}"},
    ),
]
