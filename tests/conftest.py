"""What every test shares."""

from hypothesis import settings

# A machine under load is slow, not wrong: no test asserts on time.
settings.register_profile("headgate", deadline=None)
settings.load_profile("headgate")
