"""The Conductor server of the settings."""

from __future__ import annotations

from headgate.clock import SYSTEM_CLOCK, Clock
from headgate.errors import InvalidSettings
from headgate.orchestrators.conductor.client import Client, Endpoint
from headgate.orchestrators.conductor.orchestrator import ConductorOrchestrator
from headgate.settings import ConductorSettings


def endpoint_of(settings: ConductorSettings) -> Endpoint:
    if not settings.server_url:
        raise InvalidSettings(
            message="no Conductor server is named",
            hint="set conductor.server_url in headgate.toml, or CONDUCTOR_SERVER_URL",
        )
    secret = settings.auth_secret.get_secret_value() if settings.auth_secret is not None else None
    return Endpoint(url=settings.server_url, auth_key=settings.auth_key, auth_secret=secret)


def open_conductor(
    settings: ConductorSettings, *, domain: str | None = None, clock: Clock = SYSTEM_CLOCK
) -> ConductorOrchestrator:
    """Nothing is asked of the server yet."""
    return ConductorOrchestrator(Client(endpoint_of(settings)), domain=domain, clock=clock)
