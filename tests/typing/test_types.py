"""Type checkers find wrong declarations, and find nothing in right ones: mypy, and pyright as in people's editors."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
GOOD, WRONG = HERE / "good.py", HERE / "wrong.py"


def marked(path: Path) -> set[int]:
    lines = path.read_text().splitlines()
    return {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}


def mypy(path: Path) -> set[int]:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-context", str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = re.findall(rf"^{re.escape(str(path.relative_to(ROOT)))}:(\d+): error:", done.stdout, re.MULTILINE)
    return {int(line) for line in found}


def pyright(path: Path, tmp_path: Path) -> set[int]:
    settings = {
        "include": [path.name],
        "extraPaths": [str(ROOT / "src")],
        "pythonVersion": "3.11",
        "typeCheckingMode": "standard",
        "enableTypeIgnoreComments": False,
    }
    shutil.copy(path, tmp_path)  # pyright takes only files below its settings
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == 1, done.stdout + done.stderr
    return {
        found["range"]["start"]["line"] + 1 for found in report["generalDiagnostics"] if found["severity"] == "error"
    }


@pytest.mark.slow
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
@pytest.mark.parametrize("path", [GOOD, WRONG], ids=lambda path: path.stem)
def test_a_checker_finds_what_is_wrong_and_nothing_else(checker: str, path: Path, tmp_path: Path) -> None:
    found = mypy(path) if checker == "mypy" else pyright(path, tmp_path)
    assert found == marked(path)


def test_the_file_of_wrong_declarations_has_some() -> None:
    assert len(marked(WRONG)) >= 25
    assert not marked(GOOD)
