"""The scheduler decides here, purely: events and the time in, effects out.

The same code runs in production, in property tests and in simulations.
"""
