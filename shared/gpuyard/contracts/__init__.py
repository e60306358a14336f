"""Everything that crosses a process boundary, declared once: words, messages, subjects, streams, errors.

This package imports nothing of ours. JSON Schema and AsyncAPI in docs/reference are generated from it.
"""
