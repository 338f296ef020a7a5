"""Running a command line: find the command, run it, turn whatever goes wrong into a message and an exit code.

Commands are listed in `headgate.cli.registry`, which also says how to add one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from headgate._version import __version__
from headgate.cli import invocation
from headgate.cli.registry import COMMANDS, PANELS, Command
from headgate.errors import HeadgateError, response_to

INTERRUPTED = 130
_VALUE_OPTIONS = ("--profile",)
_FLAGS = ("--debug",)


class LazyGroup(TyperGroup):
    """The commands of the registry, listed without their modules; a module is imported when its command runs."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        for row in sorted(COMMANDS, key=lambda row: PANELS.index(row.panel)):
            listed = TyperCommand(name=row.name, help=row.help, short_help=row.help, rich_help_panel=row.panel)
            self.add_command(listed)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, listed, rest = super().resolve_command(ctx, args)
        rows = {row.name: row for row in COMMANDS}
        return (name, load(rows[name]), rest) if name in rows else (name, listed, rest)


def load(row: Command) -> Any:
    """The command itself, with its module imported."""
    group = typer.main.get_group(import_module(row.module).app)
    return group.commands[row.name]


app = typer.Typer(
    name="headgate",
    cls=LazyGroup,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="--profile and --debug may stand anywhere on the line. Errors end with an exit code of their own kind.",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headgate {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def headgate(
    ctx: typer.Context,
    profile: Annotated[
        str | None, typer.Option(help="The profile of headgate.toml to use (or HEADGATE_PROFILE).", metavar="NAME")
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks and debug lines.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """The gate that decides what becomes the HEAD of a data branch."""
    invocation.begin(invocation.Invocation(profile=profile, debug=debug))
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help(), nl=False)


def globals_first(args: Sequence[str]) -> list[str]:
    """`args` with the global options moved to the front, so that they work after a command too."""
    first: list[str] = []
    rest: list[str] = []
    waiting = list(args)
    while waiting:
        arg = waiting.pop(0)
        if arg == "--":
            rest += [arg, *waiting]
            break
        if arg in _FLAGS or arg.startswith(tuple(f"{option}=" for option in _VALUE_OPTIONS)):
            first.append(arg)
        elif arg in _VALUE_OPTIONS:
            first += [arg, *waiting[:1]]
            del waiting[:1]
        else:
            rest.append(arg)
    return first + rest


def run(args: Sequence[str]) -> int:
    """Run one command line and return its exit code, with whatever went wrong told on stderr."""
    try:
        return _run(globals_first(args))
    except (BrokenPipeError, KeyboardInterrupt) as stop:
        return _stopped(stop)


def _run(args: list[str]) -> int:
    try:
        code = typer.main.get_command(app).main(args=args, prog_name="headgate", standalone_mode=False)
        sys.stdout.flush()
    except TyperException as wrong:
        return _usage(wrong)
    except typer.Abort:
        _tell("stopped: nothing was changed")
        return 1
    except (BrokenPipeError, KeyboardInterrupt):
        raise
    except Exception as error:
        return report(error, debug=invocation.current().debug)
    return code if isinstance(code, int) else 0


def report(error: Exception, *, debug: bool) -> int:
    """Print an error for a person on stderr, and return the exit code of its kind."""
    if debug:
        import traceback

        traceback.print_exception(error)
    if isinstance(error, HeadgateError):
        _tell(error.summary, lines=error.lines(), hint=error.hint)
    else:
        hint = "" if debug else "run it again with --debug for the traceback; a fault of Headgate, if it stays"
        _tell(f"{type(error).__name__}: {error}", hint=hint)
    return response_to(error).exit_code


def _usage(wrong: TyperException) -> int:
    context = getattr(wrong, "ctx", None)
    message = wrong.format_message()
    if message:  # empty where the help has been shown instead
        path = context.command_path if context is not None else "headgate"
        _tell(message, hint=f"{path} --help shows how it is called")
    return wrong.exit_code


def _stopped(stop: BaseException) -> int:
    if isinstance(stop, KeyboardInterrupt):
        _tell("interrupted")
        return INTERRUPTED
    # Whoever read our output went away; the interpreter's last flush must not complain about it.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


def _tell(message: str, *, lines: Sequence[str] = (), hint: str = "") -> None:
    for line in (f"error: {message}", *lines, *([f"hint: {hint}"] if hint else [])):
        typer.echo(line, err=True)


def main() -> None:
    """The `headgate` script."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
