"""The official SDK's worker, bare: `python -m bench.worker_sdk API_URL`. Runs until it is ended."""

from __future__ import annotations

import sys
import time
from typing import Any

TASK = "bench_sdk"  # as in worker_bodies, which is not imported: this process holds the SDK and nothing of ours


def nothing(task: Any) -> dict[str, Any]:
    return {"result": {"began_ms": time.time() * 1000}}


def main(url: str) -> None:
    from conductor.client.automator.task_handler import TaskHandler
    from conductor.client.configuration.configuration import Configuration
    from conductor.client.worker.worker import Worker

    handler = TaskHandler(
        workers=[Worker(task_definition_name=TASK, execute_function=nothing)],
        configuration=Configuration(server_api_url=url),
        scan_for_annotated_workers=False,
    )
    handler.start_processes()
    handler.join_processes()


if __name__ == "__main__":
    main(sys.argv[1])
