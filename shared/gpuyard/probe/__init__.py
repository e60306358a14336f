"""The measuring program of `gpuyard probe`.

It is shipped to a rank as that rank's working directory and runs there as `python -m probe`, in an
environment that need not know gpuyard: modules here import torch, the standard library and each other
relatively, nothing else. What it finds it prints, one line each; `gpuyard.client.probe` reads the lines.
"""
