from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headgate import logs
from headgate.cli import invocation, main


class Result:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty project as the current folder, an empty home, no variables that settings are read from."""
    import os

    for name in os.environ:
        if name.startswith(("HEADGATE_", "CONDUCTOR_", "LAKECTL_", "AWS_")):
            monkeypatch.delenv(name)
    folder, home = tmp_path / "project", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(folder)
    yield folder
    logs.unconfigure()
    invocation.begin(invocation.Invocation())


@pytest.fixture
def headgate(project: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Runs a command line in the project."""

    def run(*args: str) -> Result:
        capsys.readouterr()
        code = main.run(args)
        return Result(code, *capsys.readouterr())

    return run
