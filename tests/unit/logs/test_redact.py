from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.logs import HIDDEN, Redactor


@pytest.mark.parametrize(
    "name",
    ["auth_secret", "password", "DB_PASSWD", "x-api-key", "Authorization", "access_key_id", "token"],
)
def test_a_fact_is_hidden_by_its_name(name: str) -> None:
    assert Redactor().fact(name, "abc") == HIDDEN


@pytest.mark.parametrize("name", ["task", "workflow", "key_count", "ref", "path"])
def test_other_facts_are_shown(name: str) -> None:
    assert Redactor().fact(name, "abc") == "abc"


def test_names_count_however_deep_they_are() -> None:
    shown = Redactor().value({"request": {"headers": [{"Authorization": "Bearer abc", "Accept": "*/*"}]}})
    assert shown == {"request": {"headers": [{"Authorization": HIDDEN, "Accept": "*/*"}]}}


def test_a_password_in_an_address_is_hidden() -> None:
    assert Redactor().text("GET https://me:pw1@host/x failed") == f"GET https://{HIDDEN}@host/x failed"


def test_of_two_secrets_of_which_one_begins_the_other_both_go() -> None:
    assert Redactor(["abcd", "abcdef"]).text("abcdef abcd") == f"{HIDDEN} {HIDDEN}"


@given(st.text(min_size=4), st.text(), st.text())
def test_a_known_secret_never_comes_through(secret: str, before: str, after: str) -> None:
    redactor = Redactor([secret])
    shown = redactor.text(f"{before}{secret}{after}")
    assert secret not in shown or secret in before + HIDDEN + after
