"""The worker's metrics and health: one endpoint, in the supervisor; executors report to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headgate.attempts.names import PREFIX
from headgate.errors import HeadgateError
from headgate.orchestrators.executors import Pool
from headgate.orchestrators.machine import Machine
from headgate.settings import Settings
from headgate.telemetry import SILENT, Observation, Recorder
from headgate.telemetry.endpoint import Sources, serving
from headgate.telemetry.metrics import ABANDONED, LEASE_REMAINING, STAGING_BRANCHES

_COUNT_EVERY = 30.0


class StagingBranches:
    """How many staging branches there are in the lakes of the settings; they are asked now and then, not each time."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._counted: float | None = None
        self._counted_at = -_COUNT_EVERY

    def count(self) -> float | None:
        """None for what cannot be told: a lake that does not answer."""
        now = self._machine.clock.monotonic()
        if now - self._counted_at >= _COUNT_EVERY:
            self._counted_at = now
            try:
                found = (store.lake.branches(store.repository, prefix=PREFIX) for store in self._machine.lakes.all())
                self._counted = float(sum(1 for branches in found for _ in branches))
            except HeadgateError:
                self._counted = None
        return self._counted


class Telemetry:
    """Takes observations; keeps them only where somebody can ask for them."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    @classmethod
    def silent(cls) -> Telemetry:
        return cls(SILENT)

    @classmethod
    @contextmanager
    def serving(
        cls, settings: Settings, pool: Pool, machine: Machine, unready: Callable[[], str | None]
    ) -> Iterator[Telemetry]:
        """Answer at the address of the settings while the block runs; nothing is kept where there is none."""
        address = settings.telemetry.address
        if address is None:
            yield cls.silent()
            return
        from headgate.telemetry.registry import CONTENT_TYPE, MetricsRegistry

        registry = MetricsRegistry()

        def lease_remaining() -> float | None:
            now = machine.clock.monotonic()
            return min((running.lease_remaining(now) for running in pool.running()), default=None)

        registry.ask(LEASE_REMAINING, lease_remaining)
        registry.ask(ABANDONED, lambda: float(len(machine.records.abandoned_publications())))
        registry.ask(STAGING_BRANCHES, StagingBranches(machine).count)
        sources = Sources(metrics=registry.text, content_type=CONTENT_TYPE, unready=unready, broken=lambda: pool.broken)
        with serving(address, sources):
            yield cls(registry)

    def record(self, seen: Observation) -> None:
        self._recorder.record(seen)
