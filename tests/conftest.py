"""Settings of every test."""

from hypothesis import HealthCheck, settings

# A slow machine must not look like a wrong program.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
