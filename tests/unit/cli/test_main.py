"""Finding commands without importing them, and turning errors into messages and exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import typer

from headgate.cli import console, invocation, main, registry
from headgate.errors import InvalidTask, MergeConflict, NotFound, Problem, response_to

HEAVY = ("pyspark", "lance", "pyarrow", "pandas", "duckdb", "fastapi", "conductor", "lakefs_sdk", "obstore", "numpy")


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[BaseException]]:
    """A command `fail` that raises the last error put into the list; the module stands where a group's would."""
    errors: list[BaseException] = []
    app = typer.Typer()

    @app.command()
    def fail() -> None:
        raise errors[-1]

    @app.command()
    def other() -> None: ...

    group = type(sys)("headgate_failing_group")
    group.app = app  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, group.__name__, group)
    row = registry.Command("fail", group.__name__, registry.WORK, "Fails.")
    monkeypatch.setattr(main, "COMMANDS", (*registry.COMMANDS, row))
    yield errors
    invocation.begin(invocation.Invocation())


def python(code: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=check)


@pytest.mark.parametrize("line", [["--help"], ["--version"], ["version"], []])
def test_help_and_version_import_nothing_heavy(line: list[str]) -> None:
    code = f"""
import sys
from headgate.cli.main import run
assert run({line!r}) == 0
loaded = sorted({{name.split(".")[0] for name in sys.modules}} & set({HEAVY!r}))
assert not loaded, loaded
assert "headgate.settings" not in sys.modules
"""
    python(code)


def test_help_lists_every_command_without_importing_a_group() -> None:
    shown = python(
        "import sys; from headgate.cli.main import run; run(['--help']);"
        "print('imported', sorted(m for m in sys.modules if m.startswith('headgate.')))"
    ).stdout
    imported = shown.splitlines()[-1]
    for row in registry.COMMANDS:
        assert row.name in shown
        assert row.module not in imported


@pytest.mark.parametrize("row", registry.COMMANDS, ids=lambda row: row.name)
def test_every_row_of_the_registry_is_a_command_of_its_module(row: registry.Command) -> None:
    command = main.load(row)
    assert command.name == row.name
    assert command.get_short_help_str(200).rstrip(".") == row.help.rstrip(".")


@pytest.mark.parametrize("module", sorted({row.module for row in registry.COMMANDS}))
def test_every_command_of_a_group_has_its_row(module: str) -> None:
    app = typer.main.get_group(__import__(module, fromlist=["app"]).app)
    assert set(app.commands) == {row.name for row in registry.COMMANDS if row.module == module}


@pytest.mark.parametrize("module", sorted({row.module for row in registry.COMMANDS}))
def test_importing_a_group_imports_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print(sorted({{n.split('.')[0] for n in sys.modules}} & set({HEAVY!r})))"
    assert python(code).stdout == "[]\n"


def test_an_error_is_told_on_stderr_with_its_hint_and_exit_code(
    failing: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    failing.append(NotFound(message="no store is called 'sogns'", hint="did you mean songs?", kind="store"))
    assert main.run(["fail"]) == response_to(NotFound).exit_code
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "error: no store is called 'sogns' (kind=store)\nhint: did you mean songs?\n"


def test_every_problem_gets_its_line(failing: list[BaseException], capsys: pytest.CaptureFixture[str]) -> None:
    problems = (Problem("tasks.py:3", "no return annotation", "add -> R"), Problem("tasks.py:9", "two tasks named a"))
    failing.append(InvalidTask(message="2 problems in tasks", problems=problems))
    assert main.run(["fail"]) == 3
    assert capsys.readouterr().err == (
        "error: 2 problems in tasks\n  tasks.py:3: no return annotation; add -> R\n  tasks.py:9: two tasks named a\n"
    )


def test_conflicting_paths_are_named(failing: list[BaseException], capsys: pytest.CaptureFixture[str]) -> None:
    failing.append(MergeConflict(message="both sides changed 1 path", paths=("songs/a.json",)))
    assert main.run(["fail"]) == 6
    assert "  songs/a.json\n" in capsys.readouterr().err


def test_a_fault_of_ours_is_short_and_names_debug(
    failing: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    failing.append(ZeroDivisionError("division by zero"))
    assert main.run(["fail"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: ZeroDivisionError: division by zero\nhint: ")
    assert "--debug" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("line", [["--debug", "fail"], ["fail", "--debug"]])
def test_debug_shows_the_traceback(
    line: list[str], failing: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    failing.append(ZeroDivisionError("division by zero"))
    assert main.run(line) == 1
    err = capsys.readouterr().err
    assert "Traceback (most recent call last)" in err
    assert "error: ZeroDivisionError" in err


def test_interrupt_ends_with_130(failing: list[BaseException], capsys: pytest.CaptureFixture[str]) -> None:
    failing.append(KeyboardInterrupt())
    assert main.run(["fail"]) == 130
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["versoin"], "No such command 'versoin'. Did you mean 'version'"),
        (["version", "--jsn"], "No such option: --jsn"),
        (["version", "extra"], "unexpected extra argument"),
        (["--profile"], "requires an argument"),
    ],
)
def test_a_wrong_command_line_is_told_with_how_to_call_it(
    line: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(line) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert said in err
    assert "\nhint: headgate" in err


def test_globals_may_stand_anywhere_but_not_after_two_dashes() -> None:
    assert main.globals_first(["run", "x", "--profile", "prod", "--debug"]) == [
        "--profile",
        "prod",
        "--debug",
        "run",
        "x",
    ]
    assert main.globals_first(["run", "--profile=prod"]) == ["--profile=prod", "run"]
    assert main.globals_first(["run", "--", "--debug"]) == ["run", "--", "--debug"]


def test_the_global_options_reach_the_command(failing: list[BaseException]) -> None:
    failing.append(typer.Exit(9))
    assert main.run(["fail", "--profile", "prod"]) == 9
    assert invocation.current() == invocation.Invocation(profile="prod")


def test_a_reader_that_goes_away_gets_no_complaint() -> None:
    code = """
import sys
from headgate.cli import main
sys.stdin.readline()
sys.exit(main.run(["--help"]))
"""
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.close()  # before it writes its first line
    child.stdin.write("go\n")
    child.stdin.close()
    complaint = child.stderr.read()
    child.stderr.close()
    assert child.wait() == 1
    assert complaint == ""


def test_completion_knows_the_commands() -> None:
    env = {**os.environ, "_HEADGATE_COMPLETE": "complete_bash", "COMP_WORDS": "headgate vers", "COMP_CWORD": "1"}
    code = "from headgate.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)
    assert done.stdout.split() == ["version"]


def test_a_dangerous_command_without_a_terminal_asks_for_yes() -> None:
    with pytest.raises(Exception, match="--yes"):
        console.confirm("Delete branch songs@old?", yes=False)
    console.confirm("Delete branch songs@old?", yes=True)
