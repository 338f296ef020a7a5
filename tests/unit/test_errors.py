"""The tree of errors: its shape, that each crosses a process boundary whole, and that each has its answer."""

from __future__ import annotations

import pickle
from dataclasses import fields
from typing import Any

import pytest

from headgate import errors
from headgate.errors import RESPONSES, HeadgateError, OrchestratorStatus, Problem, response_to

TREE = """\
HeadgateError
  InvalidTask
    InvalidResult
    ResultTooLarge
  InvalidInput
    InvalidSettings
    NotFound
    Unsupported
    MissingExtra
    GuardrailFailed
    NothingChanged
  Fenced
    StaleAttemptError
    PublishFenceError
  Conflict
    ExpectedVersionMismatch
    ExpectedHeadMismatch
    KeyConflict
    MergeConflict
    AlreadyExists
  OutcomeUnknown
  RecoveryRequired
    StoreDamaged
  Transient
    Contention
    AccessDenied
    DiskFull"""


def tree(cls: type[HeadgateError], depth: int = 0) -> list[str]:
    below = [child for child in cls.__subclasses__() if child.__module__ == errors.__name__]
    return [f"{'  ' * depth}{cls.__name__}", *(line for child in below for line in tree(child, depth + 1))]


def every() -> list[type[HeadgateError]]:
    return [getattr(errors, line.strip()) for line in TREE.splitlines()]


def filled(cls: type[HeadgateError]) -> HeadgateError:
    """An error of that class with a value in each of its fields."""
    samples: dict[str, Any] = {
        "str": "value of {}",
        "int": 7,
        "int | None": 7,
        "tuple[str, ...]": ("a", "b"),
        "tuple[Any, ...]": ("c", "d"),
        "tuple[Problem, ...]": (Problem("tasks.py:3", "no return annotation", "add one"),),
    }
    values = {f.name: samples[str(f.type)] for f in fields(cls)}
    return cls(**{name: v.format(name) if isinstance(v, str) else v for name, v in values.items()})


def test_the_tree_has_the_shape_that_callers_catch_by() -> None:
    assert "\n".join(tree(HeadgateError)) == TREE


@pytest.mark.parametrize("cls", every())
def test_an_error_comes_back_from_pickle_with_every_field(cls: type[HeadgateError]) -> None:
    error = filled(cls)
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is cls
    assert {f.name: getattr(back, f.name) for f in fields(cls)} == {f.name: getattr(error, f.name) for f in fields(cls)}
    assert str(back) == str(error)
    assert back.args == error.args


@pytest.mark.parametrize("cls", every())
def test_an_error_says_what_happened_to_what_and_what_to_do(cls: type[HeadgateError]) -> None:
    error = filled(cls)
    said = str(error)
    assert said.startswith("value of message")
    assert "value of hint" in said
    for name, value in error.details().items():
        shown = [f"{name}={value}"] if isinstance(value, str | int) else [str(item) for item in value]
        assert all(item in said for item in shown)


@pytest.mark.parametrize("cls", every())
def test_every_error_has_a_row_of_its_own(cls: type[HeadgateError]) -> None:
    assert cls in RESPONSES
    assert response_to(cls) == response_to(filled(cls)) == RESPONSES[cls]


@pytest.mark.parametrize("cls", every())
def test_every_row_is_an_answer_each_boundary_understands(cls: type[HeadgateError]) -> None:
    row = RESPONSES[cls]
    assert 400 <= row.http <= 599
    assert 1 <= row.exit_code <= 125
    assert row.exit_code != 2, "2 is a wrong command line"
    assert row.orchestrator in (OrchestratorStatus.FAILED, OrchestratorStatus.TERMINAL)
    assert row.action


def test_a_child_answers_with_the_exit_code_of_its_group_unless_the_caller_acts_otherwise() -> None:
    groups = [(cls, cls.__bases__[0]) for cls in every() if cls.__bases__[0] not in (Exception, HeadgateError)]
    differing = {cls for cls, group in groups if RESPONSES[cls].exit_code != RESPONSES[group].exit_code}
    assert differing == {errors.AccessDenied}


def test_a_class_without_a_row_answers_as_its_parent() -> None:
    class Local(errors.KeyConflict):
        pass

    assert response_to(Local) == RESPONSES[errors.KeyConflict]


def test_any_other_exception_is_a_fault_of_ours() -> None:
    assert response_to(ZeroDivisionError()) == RESPONSES[HeadgateError]


def test_fields_that_say_nothing_are_left_out() -> None:
    assert str(errors.NotFound(message="no such branch")) == "no such branch"
    assert errors.NotFound(message="no such branch", name="main").details() == {"name": "main"}


def test_of_many_conflicting_paths_the_first_are_shown_and_the_rest_counted() -> None:
    told = str(errors.MergeConflict(message="conflict", paths=tuple(f"p{i}" for i in range(25)))).splitlines()
    assert told[1] == "  p0"
    assert told[-1] == "  … and 5 more"
    assert len(told) == 22


def test_facts_are_passed_by_keyword_alone() -> None:
    with pytest.raises(TypeError):
        HeadgateError("message")  # type: ignore[misc]
