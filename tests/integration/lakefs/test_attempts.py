"""What is claimed of attempts on the embedded lake holds on a real lakeFS: the same tests, on its repositories."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.lakefs.conftest import connect
from tests.unit.attempts.kit import Kit, fresh_repository
from tests.unit.attempts.test_fences import *  # noqa: F403
from tests.unit.attempts.test_gc import *  # noqa: F403
from tests.unit.attempts.test_lifecycle import *  # noqa: F403
from tests.unit.attempts.test_lost_answers import *  # noqa: F403
from tests.unit.attempts.test_merge import *  # noqa: F403
from tests.unit.attempts.test_publish_table import *  # noqa: F403
from tools.servers import Server

from headgate import failpoints

pytestmark = pytest.mark.real


@pytest.fixture
def kit(lakefs: Server, tmp_path: Path) -> Iterator[Kit]:
    kit = Kit.make(tmp_path, connect(lakefs), repository=fresh_repository())
    kit.lake.strength(kit.repository)
    yield kit
    failpoints.arm(None)
    kit.close()
