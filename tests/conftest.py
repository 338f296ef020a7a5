"""What every test shares."""

import pytest
from hypothesis import settings

# A machine under load is slow, not wrong: no test asserts on time.
settings.register_profile("headgate", deadline=None)
settings.load_profile("headgate")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on Spark share one test process, so that there is one JVM."""
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))
