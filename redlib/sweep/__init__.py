"""Many runs, on one machine or on many: every result is made once, whichever worker makes it.

A run (`study.ablations.Run`) is a pure function of its description and its profile; it writes one folder of the cache
atomically, under a key. So runs are distributed, not notebooks: what is there is skipped, a run that was killed has
left nothing, and the same command goes on where the last one stopped. The tables find what a sweep has made.

    python -m redlib sweep FILE                       this machine, as many runs at a time as its cores allow
    python -m redlib sweep ablations --profile laptop every run behind the tables of the ablations
    python -m redlib sweep tuned --profile laptop     those that tune layers of the backbone: 2 to 2.5 hours on 2 cores
    python -m redlib sweep FILE --dry-run             what is missing, and nothing is made

FILE is TOML (`sweep.read`): a profile, its overrides, and runs that say what they do otherwise than RED. Every [[runs]]
is combined with every combination of the values under [grid].

    profile = "laptop"
    [overrides]
    "ablations.rows" = 8000
    [[runs]]
    task = "task1"
    seeds = 5
    [grid]
    rank = [1, 8, 72]
    split = ["text", "structure"]

Several machines work through Ray (`pip install "redlib[cluster]"`). All of them need this project, installed with the
same versions, and one folder for $REDLIB_CACHE that all of them see; a worker that does not see it says so.

    laptop   python -m redlib sweep FILE --engine ray
    Slurm    in the batch script of an allocation, with $REDLIB_CACHE on its shared file system:
                 head=$(hostname):6379
                 ray start --head --port=6379
                 srun --exclude=$(hostname) --ntasks-per-node=1 ray start --address=$head --block &
                 python -m redlib sweep FILE --engine ray --address $head
    cloud    `ray up cluster.yaml`, whose machines mount a network disk as $REDLIB_CACHE and install the project in
             setup_commands; then `ray submit`, or on its head
                 python -m redlib sweep FILE --engine ray --address auto

A run has `--cpus` threads (by default as many as torch would use here) and, with Ray, `--gpus`. The number of threads
is part of a key, because it changes last digits: give the value that the tables will be read with.
"""

from redlib.sweep.files import ABLATIONS, TUNED, read
from redlib.sweep.plan import Plan, plan
from redlib.sweep.processes import Processes, WorkerDied
from redlib.sweep.schedule import Job, Report, Resources, SweepError, run, schedule
from redlib.sweep.table import keep, table

__all__ = [
    "ABLATIONS",
    "TUNED",
    "Job",
    "Plan",
    "Processes",
    "Report",
    "Resources",
    "SweepError",
    "WorkerDied",
    "keep",
    "plan",
    "read",
    "run",
    "schedule",
    "table",
]
