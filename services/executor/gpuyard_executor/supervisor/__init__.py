"""Supervisor of one rank: a tiny process that outlives the executor and keeps output and exit code.

Supervisors are forked by the *spawner*: a fork of a small process costs a fraction of a millisecond, the
start of an interpreter far more. Hence nothing but the standard library here, and little of it.

A rank in a container has a *keeper* instead, which only keeps the output: the engine does the rest.

Both work in their rank's directory:
  `rank`      what to run, then the id of its first process, then how it ended; locked as long as the
              supervisor lives: proof of life, safe against reused process ids
  `pipes/`    of a rank in a container: its two named pipes and the script that starts it
  `control`   socket; one JSON object per line, both ways
  `out.N`     output as frames, in segments named by the position N of their first byte
"""
