"""The page about rights says what `doctor --as` tries."""

from pathlib import Path

from headgate.lake.lakefs.rights import RIGHTS, Role

PAGE = Path(__file__).parents[2] / "docs" / "operations" / "permissions.md"


def test_the_page_has_every_right_with_its_roles() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    told = {}
    for row in rows:
        right, _, *marks = (cell.strip() for cell in row.strip("|").split("|"))
        told[right.strip("`")] = {role for role, mark in zip(Role, marks, strict=True) if mark == "x"}
    assert told == {right.name: set(right.roles) for right in RIGHTS}
