"""Set-up: what is installed and how it is configured."""

from __future__ import annotations

import platform

import typer

from headgate._version import __version__
from headgate.cli import console

app = typer.Typer()


@app.command()
def version(json: console.JsonFlag = False) -> None:
    """Show the version and what it runs on."""
    facts = {"headgate": __version__, "python": platform.python_version(), "platform": platform.platform()}
    console.show_either(
        facts, as_json_text=json, draw=lambda: "\n".join(f"{name} {value}" for name, value in facts.items())
    )
