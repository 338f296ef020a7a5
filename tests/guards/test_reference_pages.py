"""The reference pages say what the code says."""

import tools.reference


def test_no_reference_page_is_stale() -> None:
    assert tools.reference.stale() == [], "run: python tools/reference.py"


def test_every_row_is_on_its_page() -> None:
    from headgate.errors import RESPONSES
    from headgate.tasks.failures import FAILURES

    failures, errors = tools.reference.failure_table(), tools.reference.error_table()
    assert all(f"`{cause}`" in failures for cause in FAILURES)
    assert all(f"| `{cls.__name__}` |" in errors for cls in RESPONSES)
