"""Logs, metrics and traces of the services themselves."""
