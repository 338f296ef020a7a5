"""What no tracked file may hold: addresses of registries, paths of one machine, lock files with addresses."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Put together from parts, so that this file does not name what it forbids.
REGISTRIES = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("files", "pythonhosted", "org"),
        ("registry", "npmjs", "org"),
        ("proxy", "golang", "org"),
        ("sum", "golang", "org"),
        ("repo1", "maven", "org"),
        ("repo", "maven", "apache", "org"),
        ("crates", "io"),
        ("deb", "debian", "org"),
    )
]
LOCK_FILES = {"uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock", "package-lock.json", "yarn.lock", "pnpm-lock.yaml"}
# Where this checkout and its user live, and where people's folders commonly are; the root of a file system is no hint.
PLACES = {str(place) for place in (ROOT, ROOT.parent, Path.home()) if len(place.parts) > 1 and place.name != "tmp"}
MACHINE_PATH = re.compile(
    "|".join([*(rf"(?<![\w.*]){re.escape(place)}/" for place in PLACES), r"(?<![\w.*])/(?:home|Users)/[a-z]"])
)
LONGEST_MODULE = 600


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout: there are no tracked files to look at")
    return done.stdout.splitlines()


def _texts() -> dict[str, str]:
    texts = {}
    for name in _git("ls-files"):
        path = ROOT / name
        if path.is_symlink() or not path.is_file():
            continue
        data = path.read_bytes()
        if b"\0" not in data[:8192]:
            texts[name] = data.decode("utf-8", errors="replace")
    return texts


def test_no_tracked_file_names_a_registry_host() -> None:
    host = re.compile("|".join(rf"(?<![\w.-]){re.escape(name)}(?![\w-])" for name in REGISTRIES))
    found = {name: match.group() for name, text in _texts().items() if (match := host.search(text))}
    assert not found


def test_no_tracked_file_holds_a_path_of_one_machine() -> None:
    found = {name: match.group() for name, text in _texts().items() if (match := MACHINE_PATH.search(text))}
    assert not found


@pytest.mark.parametrize("text", [f"see {ROOT}/x", f"cd {Path.home()}/.cache", '"/' + 'home/me/x"'])
def test_the_pattern_of_machine_paths_finds_them(text: str) -> None:
    assert MACHINE_PATH.search(text)


@pytest.mark.parametrize("text", ["https://example.com/x/y", "a/home/b", "network/root", "the root / of it"])
def test_the_pattern_of_machine_paths_leaves_other_text_alone(text: str) -> None:
    assert not MACHINE_PATH.search(text)


def test_no_lock_file_with_addresses_is_tracked() -> None:
    assert not [name for name in _git("ls-files") if Path(name).name in LOCK_FILES]


def test_the_ci_script_can_be_executed() -> None:
    assert [line.split()[0] for line in _git("ls-files", "-s", ".ci/run")] == ["100755"]


def test_no_module_is_longer_than_a_person_reads() -> None:
    long = {
        name: count
        for name, text in _texts().items()
        if name.startswith("src/") and name.endswith(".py") and (count := text.count("\n")) > LONGEST_MODULE
    }
    assert not long
