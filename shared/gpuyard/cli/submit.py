"""`gpuyard submit`: hand a job over and return."""

from gpuyard.cli import terminal, wanted
from gpuyard.cli.session import AsJson, YardDir, client
from gpuyard.cli.views import job_view
from gpuyard.cli.wanted import JobOptions

NO_OPTIONS = JobOptions()


async def submit(
    *command: str, options: JobOptions = NO_OPTIONS, as_json: AsJson = False, yard_dir: YardDir = None
) -> None:
    """Submit a job and print its id."""
    spec, workdir = wanted.job(command, options)
    async with client(yard_dir) as yard:
        job = await yard.submit(spec, workdir=workdir)
    if as_json:
        terminal.print_json(job_view(job))
        return
    terminal.print_data(job.id)
    terminal.narrate(f"{job.state}; follow it with `gpuyard logs -f {job.id}`")
