"""Supervisor of one rank: a tiny process that outlives the executor and keeps output and exit code.

Supervisors are forked by the *spawner*: a fork of a small process costs a fraction of a millisecond, the
start of an interpreter far more. Hence nothing but the standard library here, and little of it.

A supervisor works in its rank's directory:
  `plan`      what to run, written by the executor before the supervisor exists
  `lock`      locked as long as the supervisor lives: proof of life, safe against reused process ids
  `control`   socket; one JSON object per line, both ways
  `started`   id of the rank's first process, written by it before it becomes the command
  `out.N`     output as frames, in segments named by the position N of their first byte
  `exit`      how it ended, written once nothing of the rank is left
"""
