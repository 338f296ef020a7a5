"""What a Conductor server made of each case, as it was seen: so that the engine is held against it where none runs.

python -m tests.integration.differential.recorded API    records it anew, from the server at that address
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.integration.differential.cases import CASES
from tests.integration.differential.drivers import Attempt, OnConductor, Seen

FILE = Path(__file__).parents[2] / "data" / "conductor-3.32.3-workflows.json"


def recorded() -> dict[str, Seen]:
    held: dict[str, Any] = json.loads(FILE.read_text())
    return {
        name: Seen(one["status"], one["output"], [Attempt(**attempt) for attempt in one["attempts"]])
        for name, one in held.items()
    }


def record(seen: dict[str, Seen]) -> None:
    FILE.write_text(json.dumps({name: asdict(one) for name, one in sorted(seen.items())}, indent=1) + "\n")


if __name__ == "__main__":
    record(OnConductor(sys.argv[1]).run(CASES))
