from pathlib import Path
from typing import Any

import pytest

from headgate.errors import InvalidTask
from headgate.tasks import GraphSpec, ReadOnly, Selection, WorkspaceSpec
from headgate.tasks.guardrails import require_file


def test_a_spec_is_normalised_and_frozen() -> None:
    spec = WorkspaceSpec(prefix="/songs", pre=[require_file("songs/a")], include=["songs/*.json"])
    assert spec.prefix == "songs/"
    assert spec.pre == (require_file("songs/a"),)
    assert spec.selection == Selection(prefix="songs/", include=("songs/*.json",))
    assert WorkspaceSpec().selection.takes("anything/at/all")
    with pytest.raises(Exception, match="frozen"):
        spec.prefix = "x"  # type: ignore[misc]


def test_equal_specs_are_equal_and_hashable() -> None:
    one, two = (WorkspaceSpec(prefix="a", pre=[require_file("a/x")]) for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"prefix": "a/../b"}, "'..'"),
        ({"prefix": 3}, "WorkspaceSpec.prefix is 3"),
        ({"include": "songs/*"}, "is not a list; write"),
        ({"include": []}, "selects nothing"),
        ({"exclude": ["/abs"]}, "is absolute"),
        ({"exclude": [3]}, "is no pattern"),
        ({"pre": ["songs/a"]}, "is no guardrail"),
        ({"pre": require_file("a")}, "is not a list"),
        ({"replace": "never"}, "replace is 'never'"),
        ({"read_only": "yes"}, "read_only is 'yes'"),
        ({"readonly": True}, "did you mean 'read_only'?"),
    ],
)
def test_a_wrong_workspace_spec(values: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidTask) as refused:
        WorkspaceSpec(**values)
    assert told in str(refused.value)
    assert f"{__file__}:" in str(refused.value)


@pytest.mark.parametrize(
    ("types", "told"),
    [("Song", "is not a list"), (["Song", "Song"], "listed twice"), (["a b"], "not the name"), ([3], "3")],
)
def test_a_wrong_graph_spec(types: Any, told: str) -> None:
    with pytest.raises(InvalidTask, match=told):
        GraphSpec(types=types)


def test_read_only_of_every_spelling() -> None:
    assert ReadOnly("songs/") == WorkspaceSpec(prefix="songs/", read_only=True)
    assert ReadOnly(["Song"]) == GraphSpec(types=["Song"], read_only=True)
    assert ReadOnly(GraphSpec(types=["Song"])) == GraphSpec(types=["Song"], read_only=True)
    spec = WorkspaceSpec(prefix="songs/", exclude=["**/x"])
    assert ReadOnly(spec).read_only
    assert ReadOnly(spec).exclude == ("**/x",)
    assert not spec.read_only


def test_any_callable_is_a_guardrail() -> None:
    def tidy(workspace: Path) -> None: ...

    assert WorkspaceSpec(post=[tidy]).post == (tidy,)
