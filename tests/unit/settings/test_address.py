from __future__ import annotations

import pytest

from headgate.errors import InvalidInput
from headgate.settings import StoreAddress


@pytest.mark.parametrize(
    ("text", "store", "at"),
    [("songs@main", "songs", "main"), ("songs", "songs", None), (" songs@feature/a ", "songs", "feature/a")],
)
def test_a_store_and_what_follows_the_at(text: str, store: str, at: str | None) -> None:
    assert StoreAddress.parse(text) == StoreAddress(store, at)
    assert str(StoreAddress.parse(text)) == text.strip()


def test_the_default_stands_in_where_nothing_follows() -> None:
    assert StoreAddress.parse("songs", default_at="main") == StoreAddress("songs", "main")
    assert StoreAddress.parse("songs@old", default_at="main") == StoreAddress("songs", "old")


@pytest.mark.parametrize("text", ["", "@main", "songs@", "songs@a@b", "my songs@main"])
def test_what_is_no_address_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        StoreAddress.parse(text)
    assert "songs@main" in refused.value.hint
