"""The settings page says what the settings model says."""

from __future__ import annotations

from tools import settings_page

from headgate.settings import StoreSettings
from headgate.settings.fields import scalars


def test_the_page_is_not_stale() -> None:
    written = settings_page.PAGE.read_text(encoding="utf-8")
    assert written == settings_page.page(), "run `python -m tools.settings_page`"


def test_every_setting_says_what_it_does() -> None:
    silent = [".".join(path) for path, field in (*scalars(), *scalars(StoreSettings)) if not field.description]
    assert not silent
