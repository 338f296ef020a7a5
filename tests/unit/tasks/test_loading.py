import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from headgate.errors import HeadgateError, InvalidTask, NotFound
from headgate.tasks.loading import load_named, load_tasks

HEADER = """\
from pathlib import Path
from pydantic import BaseModel
from headgate.tasks import *
from headgate.tasks.guardrails import require_file
class P(BaseModel): n: int = 1
class R(BaseModel): n: int = 1
"""
LINES = len(HEADER.splitlines())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def problems(module: str) -> list[tuple[str, str]]:
    with pytest.raises(InvalidTask) as refused:
        load_tasks(module)
    return [(problem.where, f"{problem.message}; {problem.fix}") for problem in refused.value.problems]


def write(folder: Path, text: str, name: str = "work.py") -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEADER + dedent(text).lstrip("\n"))
    return str(path)


def test_a_module_is_found_from_the_current_folder(folder: Path) -> None:
    write(folder, "@task()\ndef b(params: P) -> R: ...\n@task()\ndef a(params: P) -> R: ...", "deep/er/work.py")
    assert [declaration.name for declaration in load_tasks("deep.er.work")] == ["b", "a"]
    assert [declaration.name for declaration in load_tasks("deep.er.work")] == ["b", "a"], "a second time"


def test_tasks_by_name(folder: Path) -> None:
    write(folder, "@task()\ndef b(params: P) -> R: ...\n@task(name='c')\ndef a(params: P) -> R: ...")
    assert [declaration.name for declaration in load_named("work", ["c", "b"])] == ["c", "b"]
    assert [declaration.name for declaration in load_named("work", [])] == ["b", "c"]
    with pytest.raises(NotFound, match="no task 'a'"):
        load_named("work", ["a"])


@pytest.mark.parametrize("module", ["nowhere", "no.where", "tests.nowhere_at_all"])
def test_a_module_that_does_not_exist(folder: Path, module: str) -> None:
    with pytest.raises(NotFound, match="there is no module") as refused:
        load_tasks(module)
    assert str(folder) in refused.value.message


@pytest.mark.parametrize(
    ("module", "hint"),
    [("deep/work.py", "write deep.work"), ("work.py", "write work"), ("a-b", "package.module"), ("", "package.module")],
)
def test_a_file_name_is_answered_with_the_module_name(folder: Path, module: str, hint: str) -> None:
    with pytest.raises(HeadgateError) as refused:
        load_tasks(module)
    assert hint in refused.value.hint


def test_a_module_without_tasks(folder: Path) -> None:
    path = write(folder, "")
    ((where, told),) = problems("work")
    assert where == path
    assert "declares no task" in told


def test_a_module_that_does_not_import(folder: Path) -> None:
    path = write(folder, "import nothing_of_that_name\n")
    assert problems("work") == [
        (
            f"{path}:{LINES + 1}",
            "it does not import: ModuleNotFoundError: No module named 'nothing_of_that_name'; install it",
        )
    ]
    path = write(folder, "def f():\n    return 1 / 0\nf()\n", "divides.py")
    ((where, told),) = problems("divides")
    assert where == f"{path}:{LINES + 2}"
    assert "ZeroDivisionError" in told
    path = write(folder, "def f(:\n", "garbled.py")
    ((where, told),) = problems("garbled")
    assert where == f"{path}:{LINES + 1}"
    assert "does not parse" in told


def test_an_error_in_a_library_is_told_at_the_line_that_calls_it(folder: Path) -> None:
    path = write(folder, "import json\njson.loads('{')\n")
    ((where, _),) = problems("work")
    assert where == f"{path}:{LINES + 2}"


def test_two_tasks_of_one_name(folder: Path) -> None:
    path = write(
        folder,
        """
        @task()
        def same(params: P) -> R: ...
        @task()
        def same(params: P) -> R: ...
        @task(name="same")
        def other(params: P) -> R: ...
        """,
    )
    found = problems("work")
    assert [where for where, _ in found] == [f"{path}:{LINES + 3}", f"{path}:{LINES + 5}"]
    assert all(f"two tasks are named same; the other one is at {path}:{LINES + 1}" in told for _, told in found)


def test_everything_that_is_wrong_with_a_module_comes_at_once(folder: Path) -> None:
    """Invariant 9: every wrong line is named, with the fix."""
    path = write(
        folder,
        """
        @task(workspace=WorkspaceSpec(prefix="a/../b"), owner_email="nobody")
        def one(workspace: Path, params: P) -> R: ...

        @task(controls=TaskControls(timeout=TimeoutPolicy(response_seconds=0)))
        def two(params: P): ...

        @task(workspace="songs/", colour="red", controls=TaskControls(
            publish=PublishBudget(observed_publish_p99_seconds=29)))
        def three(workspace: Path, params: P) -> R: ...

        @task(workspace="songs//deep")
        def short(workspace: Path, params: P) -> R: ...

        @task()
        def fine(params: P) -> R: ...

        @task(name="fine")
        def four(params: P) -> R: ...

        raise SystemError("and it does not import")
        """,
    )
    found = problems("work")
    lines = [int(where.removeprefix(f"{path}:")) - LINES for where, _ in found]
    told = [text for _, text in found]
    for line, part in (
        (1, "WorkspaceSpec.prefix"),
        (1, "no e-mail"),
        (4, "TimeoutPolicy.response_seconds is 0"),
        (4, "the return value has no annotation"),
        (8, "publish_timeout_seconds"),
        (7, "takes no keyword 'colour'"),
        (11, "WorkspaceSpec.prefix"),
        (20, "SystemError"),
    ):
        assert any(at == line and part in text for at, text in zip(lines, told, strict=True)), (line, part, found)


def test_models_that_json_cannot_hold_are_problems_of_the_module(folder: Path) -> None:
    path = write(
        folder,
        """
        from collections.abc import Callable
        class Odd(BaseModel): thing: Callable[[], int]
        @task()
        def one(params: Odd) -> Odd: ...
        """,
    )
    found = problems("work")
    assert [where for where, _ in found] == [f"{path}:{LINES + 3}"] * 2
    assert "the params model Odd" in found[0][1]
    assert "the result model Odd" in found[1][1]


def test_uses_of_the_decorator_that_cannot_be_are_told_and_the_rest_is_looked_at(folder: Path) -> None:
    path = write(
        folder,
        """
        @task
        def bare(params: P) -> R: ...
        @task("named")
        def positional(params: P) -> R: ...
        @task()
        class Thing: ...
        @task()
        def last(params: P): ...
        """,
    )
    found = problems("work")
    assert [where.removeprefix(f"{path}:") for where, _ in found] == [str(LINES + line) for line in (1, 3, 5, 7)]
    told = [text for _, text in found]
    assert "with parentheses" in told[0]
    assert "name the argument" in told[1]
    assert "no plain function" in told[2]
    assert "no annotation" in told[3]


def test_an_invalid_task_raised_while_importing_keeps_its_message(folder: Path) -> None:
    write(
        folder,
        "from headgate.tasks.taskdef import task_def\n@task()\ndef one(params: P) -> R: ...\ntask_def(task_of(one))",
    )
    ((_, told),) = problems("work")
    assert "has no owner" in told


def test_a_module_with_problems_is_not_left_half_imported(folder: Path) -> None:
    write(folder, "@task(owner_email='nobody')\ndef one(params: P) -> R: ...")
    problems("work")
    assert "work" not in sys.modules
    with pytest.raises(InvalidTask, match="nobody"):
        import work  # type: ignore[import-not-found]  # noqa: F401


def test_a_task_of_another_module_is_not_ours(folder: Path) -> None:
    write(folder, "@task()\ndef one(params: P) -> R: ...", "library.py")
    write(folder, "from library import one\n@task()\ndef two(params: P) -> R: ...")
    assert [declaration.name for declaration in load_tasks("work")] == ["two"]


def test_a_package_gathers_the_tasks_of_its_modules(folder: Path) -> None:
    write(folder, "@task()\ndef one(params: P) -> R: ...", "gathered/part.py")
    (folder / "gathered/__init__.py").write_text("from gathered.part import one\n")
    assert [declaration.name for declaration in load_tasks("gathered")] == ["one"]


def test_declaring_and_loading_import_nothing_heavy(folder: Path) -> None:
    write(folder, "@task()\ndef one(params: P) -> R: ...")
    program = (
        "import sys; from headgate.tasks.loading import load_tasks; load_tasks('work')\n"
        "print(sorted({'pyspark', 'lance', 'pyarrow', 'duckdb', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
