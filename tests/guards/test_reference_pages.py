"""The reference pages say what the code says."""

import tools.reference


def test_no_reference_page_is_stale() -> None:
    assert tools.reference.stale() == [], "run: python -m tools.reference"


def test_every_row_is_on_its_page() -> None:
    from headgate.errors import RESPONSES
    from headgate.tasks.failures import FAILURES

    failures, errors = tools.reference.failure_table(), tools.reference.error_table()
    assert all(f"`{cause}`" in failures for cause in FAILURES)
    assert all(f"| `{cls.__name__}` |" in errors for cls in RESPONSES)


def test_every_setting_says_what_it_does() -> None:
    from headgate.settings import StoreSettings
    from headgate.settings.fields import scalars

    silent = [".".join(path) for path, field in (*scalars(), *scalars(StoreSettings)) if not field.description]
    assert not silent
