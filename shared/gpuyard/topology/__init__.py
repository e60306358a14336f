"""What joins the GPUs of a machine, and which of them to take.

Pure, but for `captures`, which reads the shipped topologies from disk: text or an inventory in, a matrix of
links, a tree, a choice of GPUs or a picture out. The monitor, the scheduler and the command line all use it,
so that what a user is shown is what decides.
"""
