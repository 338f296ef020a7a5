"""What is claimed of attempts on the embedded lake holds on a real lakeFS: the same tests, on a server of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.lakefs.conftest import connect
from tests.unit.attempts.kit import Kit
from tests.unit.attempts.test_fences import *  # noqa: F403
from tests.unit.attempts.test_gc import *  # noqa: F403
from tests.unit.attempts.test_lifecycle import *  # noqa: F403
from tests.unit.attempts.test_lost_answers import *  # noqa: F403
from tests.unit.attempts.test_merge import *  # noqa: F403
from tests.unit.attempts.test_publish_table import *  # noqa: F403
from tools.servers import lakefs_server
from tools.servers.fixtures import available

from headgate import failpoints

pytestmark = pytest.mark.real


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Kit]:
    with available(), lakefs_server() as server:
        kit = Kit.make(tmp_path, connect(server))
        kit.lake.strength("songs")
        yield kit
        failpoints.arm(None)
        kit.close()
