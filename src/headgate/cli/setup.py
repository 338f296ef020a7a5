"""Set-up: what is installed, how it is configured, what is missing."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headgate._version import __version__
from headgate.cli import console, invocation
from headgate.errors import InvalidInput, InvalidSettings, response_to

if TYPE_CHECKING:
    from headgate.cli.checks import Finding

app = typer.Typer()


@app.command()
def doctor(
    json: console.JsonFlag = False,
    role: Annotated[
        Literal["reader", "author", "worker", "operator"] | None,
        typer.Option("--as", help="Also try each right that this role needs on lakeFS."),
    ] = None,
    protocol: Annotated[
        bool, typer.Option("--protocol", help="Also run every case of the publication protocol on lakeFS.")
    ] = False,
) -> None:
    """Tell what is there, what is missing and how to get it."""
    from headgate.cli.checks import Finding, State, examine
    from headgate.settings import Settings

    findings: list[Finding] = []
    try:
        loaded = invocation.current().loaded
        where = str(loaded.file) if loaded.file else f"none found from {loaded.folder}: the defaults hold"
        findings.append(Finding(subject="headgate.toml", state=State.OK, detail=where))
        settings = loaded.settings
    except InvalidInput as error:
        told = " ".join([error.message, *(line.strip() for line in error.lines())])
        findings.append(Finding(subject="headgate.toml", state=State.BROKEN, detail=told, fix=error.hint))
        settings = Settings()
    findings += examine(settings)
    if role or protocol:
        from headgate.cli import lakefs_checks

        findings += lakefs_checks.rights(settings, role) if role else ()
        findings += lakefs_checks.protocol(settings) if protocol else ()

    console.show_either(findings, as_json_text=json, draw=lambda: _drawn(findings))
    broken = [finding for finding in findings if finding.state is State.BROKEN]
    if broken:
        raise typer.Exit(response_to(InvalidSettings).exit_code)


def _drawn(findings: list[Finding]) -> Any:
    from rich.text import Text

    styles = {"ok": "green", "missing": "yellow", "broken": "bold red"}
    rows = [
        (f.subject, Text(f.state, style=styles[f.state]), f"{f.detail}\n→ {f.fix}" if f.fix else f.detail)
        for f in findings
    ]
    return console.table(("what", "state", "detail"), rows)


@app.command()
def config(
    json: console.JsonFlag = False,
    all_settings: bool = typer.Option(False, "--all", help="Also show what nothing sets and has no default."),
) -> None:
    """Show each setting, its value and where it came from."""
    from headgate.settings import aws_source

    loaded = invocation.current().loaded
    rows = [
        *loaded.rows(),
        ("(profile)", loaded.profile, "--profile or HEADGATE_PROFILE" if loaded.profile else "default"),
        ("(aws credentials)", None, aws_source()),
    ]
    listed = [{"setting": name, "value": value, "source": source} for name, value, source in rows]
    if json:
        console.show_json({"file": loaded.file, "profile": loaded.profile, "settings": listed})
        return
    shown = [row for row in rows if all_settings or row[1] is not None or row[2] != "default"]
    console.say(f"{loaded.file or 'no headgate.toml'}")
    console.show(console.table(("setting", "value", "source"), shown))


@app.command()
def version(json: console.JsonFlag = False) -> None:
    """Show the version and what it runs on."""
    facts = {"headgate": __version__, "python": platform.python_version(), "platform": platform.platform()}
    console.show_either(
        facts, as_json_text=json, draw=lambda: "\n".join(f"{name} {value}" for name, value in facts.items())
    )
