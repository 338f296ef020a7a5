"""Settings: named stores, profiles, and where each value came from."""
