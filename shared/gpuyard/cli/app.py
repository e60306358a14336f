"""The list of commands. Each lives in a module of its own and is imported when it is called."""

from cyclopts import App

COMMANDS = {
    "up": ("yard:up", "Start a yard on this machine: a message bus and the four services."),
    "down": ("yard:down", "Stop the yard."),
    "demo": ("yard:demo", "Start a yard, train a small network on it, and stop it again."),
    "doctor": ("yard:doctor", "Check this machine and the yard, and say how to fix what is wrong."),
    "run": (
        "run:run",
        """Run a command as a job, follow it, and exit with its code.

        The current directory is shipped with the job. Ctrl-C leaves the job running.
        Example: gpuyard run --gpus 2 -- python train.py""",
    ),
    "submit": (
        "submit:submit",
        """Submit a job, print its id, and return.

        The current directory is shipped with the job; a job file says itself what to ship.
        Examples: gpuyard submit -f job.toml; gpuyard submit --gpus 2 -- python train.py""",
    ),
    "ps": ("jobs:ps", "List jobs."),
    "show": ("jobs:show", "Show one job: its state, why, where, and what happened."),
    "logs": (
        "logs:logs",
        """Print what jobs wrote, search it, or write it to a file.

        Lines of several ranks or jobs begin with whose they are. Output goes to stdout, errors to stderr.
        Examples: gpuyard logs -f JOB --fold; gpuyard logs JOB --rank 0,8-15 --since 10m --grep nan -C 5;
        gpuyard logs --all --grep 'NCCL.*timeout' -i --label team=vision""",
    ),
    "metrics": (
        "metrics:metrics",
        """Show the numbers that a job prints: a table, curves in a picture, or all points in a file.

        Example: gpuyard metrics train --name '*loss' --plot loss.png""",
    ),
    "cancel": ("jobs:cancel", "Stop jobs for good."),
    "events": ("events:events", "Print what happened, to one job, to all jobs, or to nodes."),
    "nodes": ("nodes:nodes", "Show nodes and their GPUs."),
    "topo": (
        "topo:topo",
        """Show what joins the GPUs of a node: as a tree, as a matrix and as a picture.

        Example: gpuyard topo --capture azure-ndv2-v100-8gpu --svg node.svg""",
    ),
    "place": (
        "place:place",
        """Show which GPUs of a captured machine a job would get, and why.

        Example: gpuyard place --capture azure-ndv2-v100-8gpu --gpus 2 --free 0,2-7""",
    ),
    "gpu-top": (
        "gpu_top:gpu_top",
        """Show all GPUs of the cluster, one line each: live on a terminal, once elsewhere.

        Press ? for the keys.""",
    ),
    "probe": (
        "probe:probe",
        """Measure the links between a node's GPUs.

        Copies between all pairs and all-reduces are timed and checked; placement uses the figures.""",
    ),
}


def _app() -> App:
    app = App(
        name="gpuyard",
        help="Run deep-learning training on GPU machines.",
        help_flags=("--help", "-h"),
        version_flags=("--version", "-V"),
        result_action="return_value",
        exit_on_error=False,
        print_error=False,
        suppress_keyboard_interrupt=False,
    )
    for name, (place, text) in COMMANDS.items():
        app.command(f"gpuyard.cli.{place}", name=name, help=text)
    return app


app = _app()
