"""One way to configure, start, be ready, drain, stop and report health, shared by the four services."""
