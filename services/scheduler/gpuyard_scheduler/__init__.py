"""The scheduler: decides which gang runs where, and when. See ../README.md."""
