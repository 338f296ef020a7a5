"""What `up` started: one file a part, in an ignored folder of the checkout, readable by its owner alone."""

from __future__ import annotations

import json
from pathlib import Path

from tools.servers.running import Pid, Server

STATE_FOLDER = Path(__file__).resolve().parents[2] / ".servers"


def save(server: Server) -> Path:
    """Remember a running server; the file holds its keys."""
    STATE_FOLDER.mkdir(mode=0o700, exist_ok=True)
    path = STATE_FOLDER / f"{server.part}.json"
    told = {
        "part": server.part,
        "version": server.version,
        "url": server.url,
        "access_key": server.access_key,
        "secret_key": server.secret_key,
        "data": str(server.data),
        "facts": server.facts,
        "pids": [[pid.pid, pid.created] for pid in server.pids],
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(told, indent=1))
    return path


def load(part: str) -> Server | None:
    """The server `up` started, running or not; None if there is none."""
    path = STATE_FOLDER / f"{part}.json"
    if not path.exists():
        return None
    told = json.loads(path.read_text())
    return Server(
        part=told["part"],
        version=told["version"],
        url=told["url"],
        access_key=told["access_key"],
        secret_key=told["secret_key"],
        data=Path(told["data"]),
        facts=told["facts"],
        pids=[Pid(pid, created) for pid, created in told["pids"]],
        keeps_running=True,
    )


def forget(part: str) -> None:
    (STATE_FOLDER / f"{part}.json").unlink(missing_ok=True)
