"""`python -m tools.servers install|up|down|status [PART …]`."""

from __future__ import annotations

import argparse
import sys
import time

from tools.servers import state
from tools.servers.recipes import PARTS
from tools.servers.running import ServerFailed
from tools.servers.toolchains import Unavailable


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.servers", description="Real servers on this machine.")
    parser.add_argument("action", choices=["install", "up", "down", "status"])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all of them if none is named")
    asked = parser.parse_args(argv)
    unknown = [part for part in asked.parts if part not in PARTS]
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    act = {"install": install, "up": up, "down": down, "status": status}[asked.action]
    failed = False
    for part in asked.parts or PARTS:
        try:
            act(part)
        except (Unavailable, ServerFailed, RuntimeError) as problem:
            print(f"{part}: {problem}", file=sys.stderr)
            failed = True
    return 1 if failed else 0


def install(part: str) -> None:
    began = time.monotonic()
    print(f"{part}: {PARTS[part].about} …", flush=True)
    print(f"{part}: {PARTS[part].install()} ({time.monotonic() - began:.0f} s)")


def up(part: str) -> None:
    running = state.load(part)
    if running is not None and running.running:
        print(f"{part}: already up at {running.url}")
        return
    if running is not None:
        down(part)
    PARTS[part].install()
    server = PARTS[part].serve(keeps_running=True)
    print(f"{part}: up at {server.url}, keys in {state.save(server)}")


def down(part: str) -> None:
    server = state.load(part)
    if server is None:
        print(f"{part}: not up")
        return
    server.remove()
    state.forget(part)
    print(f"{part}: down")


def status(part: str) -> None:
    server = state.load(part)
    if server is None:
        print(f"{part}: not up")
        return
    print(f"{part}: {'up' if server.running else 'ended'} at {server.url}, version {server.version}")
    for name, value in server.facts.items():
        print(f"  {name}: {value}")
    print(f"  data: {server.data}")


if __name__ == "__main__":
    sys.exit(main())
