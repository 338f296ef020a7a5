"""What `headgate.cli.main` believes of Typer."""

from __future__ import annotations

import pytest
import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException


def group(**attrs: object) -> TyperGroup:
    return TyperGroup(name="group", commands=[TyperCommand(name="listed", help="Listed.")], **attrs)


def test_help_is_made_from_the_listed_commands_alone(capsys: pytest.CaptureFixture[str]) -> None:
    class Refusing(TyperGroup):
        def resolve_command(self, ctx: object, args: list[str]) -> tuple[str | None, TyperCommand | None, list[str]]:
            raise AssertionError("a command was resolved to show the help")

    shown = Refusing(name="group", commands=[TyperCommand(name="listed", help="Listed.")])
    shown.main(args=["--help"], prog_name="group", standalone_mode=False)
    assert "Listed." in capsys.readouterr().out


def test_a_wrong_line_raises_a_typer_exception_with_exit_code_2() -> None:
    with pytest.raises(TyperException) as raised:
        group().main(args=["unlisted"], prog_name="group", standalone_mode=False)
    assert raised.value.exit_code == 2


def test_exit_comes_back_as_a_number() -> None:
    app = typer.Typer()

    @app.command()
    def leave() -> None:
        raise typer.Exit(9)

    assert typer.main.get_command(app).main(args=[], standalone_mode=False) == 9
