import string
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.tasks.paths import (
    Selection,
    check_glob,
    check_path,
    files_below,
    glob_matches,
    normalise_prefix,
    under_prefix,
)

segments = st.text(alphabet=string.ascii_letters + string.digits + "_-. é", min_size=1, max_size=6).filter(
    lambda s: s not in (".", "..")
)
paths = st.lists(segments, min_size=1, max_size=4).map("/".join)


@pytest.mark.parametrize(
    ("given", "normal"),
    [("/", ""), ("", ""), ("songs", "songs/"), ("songs/", "songs/"), ("/songs/a", "songs/a/"), ("a b/é", "a b/é/")],
)
def test_a_prefix_has_one_spelling(given: str, normal: str) -> None:
    assert normalise_prefix(given) == normal


@pytest.mark.parametrize(
    "given", ["//", "a//b", "a/./b", "../a", "a/..", "a\\b", "a//", "//a", "C:/x", "a\nb", "a/\x00"]
)
def test_a_prefix_with_tricks_is_refused_by_name(given: str) -> None:
    with pytest.raises(ValueError) as refused:
        normalise_prefix(given)
    assert repr(given) in str(refused.value)
    assert "; " in str(refused.value), "the fix is missing"


@given(paths)
def test_normalising_twice_changes_nothing(path: str) -> None:
    once = normalise_prefix(path)
    assert normalise_prefix(once) == once == normalise_prefix("/" + path) == normalise_prefix(path + "/")


@given(paths, paths)
def test_a_prefix_matches_whole_segments(prefix: str, path: str) -> None:
    parts, wanted = path.split("/"), prefix.split("/")
    below = parts[: len(wanted)] == wanted and len(parts) > len(wanted)
    assert under_prefix(path, normalise_prefix(prefix)) == below


@given(paths)
def test_a_longer_last_segment_is_another_folder(path: str) -> None:
    assert not under_prefix(f"{path}2/x", normalise_prefix(path))
    assert under_prefix(f"{path}/x", normalise_prefix(path))


@pytest.mark.parametrize("path", ["", "/a", "C:/a", "a//b", "./a", "a/..", "a\\b", "a/"])
def test_a_path_that_is_not_relative_posix_is_refused(path: str) -> None:
    with pytest.raises(ValueError):
        check_path(path)


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("*.json", "a.json", True),
        ("*.json", "x/a.json", False),
        ("**/*.json", "a.json", True),
        ("**/*.json", "x/y/a.json", True),
        ("x/**", "x/a", True),
        ("x/**", "x/a/b", True),
        ("x/**", "x", False),
        ("x/**/b", "x/b", True),
        ("x/**/b", "x/a/c/b", True),
        ("x/**/b", "x/ab", False),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("[ab].txt", "a.txt", True),
        ("[!ab].txt", "a.txt", False),
        ("[!ab].txt", "c.txt", True),
        ("x[!a]y", "x/y", False),
        ("[]].txt", "].txt", True),
        ("[a-c]", "b", True),
        ("[a-]", "-", True),
        ("[--a]", "A", True),
        ("[a-c-]", "-", True),
        ("[^a]", "^", True),
        ("a[b", "a[b", True),
        ("*", ".hidden", True),
        ("a.json", "A.json", False),
        ("a.json", "aXjson", False),
        ("*", "two\nlines", True),
    ],
)
def test_globs(pattern: str, path: str, matches: bool) -> None:
    assert glob_matches(pattern, path) is matches


@given(st.text(alphabet="ab*?[]!.&|~^", min_size=1, max_size=8).filter(lambda p: "**" not in p), segments)
def test_within_one_segment_a_glob_is_what_fnmatch_says(pattern: str, name: str) -> None:
    try:
        check_glob(pattern)
    except ValueError:
        return
    assert glob_matches(pattern, name) == fnmatchcase(name, pattern)


@pytest.mark.parametrize("pattern", ["a**", "**b/c", "songs/", "/abs/*", "../*", "", "[z-a]"])
def test_a_pattern_nobody_can_mean_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="; "):
        check_glob(pattern)


globs = st.lists(st.sampled_from(["**", "*", "*.json", "a*", "songs", "?"]), min_size=1, max_size=3).map("/".join)


@given(
    path=paths,
    prefix=st.sampled_from(["", "songs/", "a/"]),
    include=st.none() | st.lists(globs, min_size=1, max_size=3).map(tuple),
    exclude=st.lists(globs, max_size=3).map(tuple),
)
def test_selection_is_prefix_and_include_minus_exclude(
    path: str, prefix: str, include: tuple[str, ...] | None, exclude: tuple[str, ...]
) -> None:
    selection = Selection(prefix=prefix, include=include, exclude=exclude)
    wanted = (
        under_prefix(path, prefix)
        and (include is None or any(glob_matches(p, path) for p in include))
        and not any(glob_matches(p, path) for p in exclude)
    )
    assert selection.takes(path) is wanted
    assert (selection.why_not(path) is None) is wanted


def test_what_is_left_out_is_told_with_the_rule() -> None:
    selection = Selection(prefix="songs/", include=("songs/*.json",), exclude=("**/secret.json",))
    assert selection.takes("songs/a.json")
    assert "prefix 'songs/'" in str(selection.why_not("songs2/a.json"))
    assert "include" in str(selection.why_not("songs/a.txt"))
    assert "**/secret.json" in str(selection.why_not("songs/secret.json"))


def test_files_below_are_files_in_order(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x").write_text("")
    (tmp_path / "a").write_text("")
    (tmp_path / "empty").mkdir()
    (tmp_path / "outside").symlink_to(tmp_path / "b", target_is_directory=True)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    assert list(files_below(tmp_path)) == ["a", "b/x"]
