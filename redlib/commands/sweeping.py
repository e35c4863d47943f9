"""The command that makes many runs at once."""

import argparse
import contextlib
from pathlib import Path

from redlib.commands.running import overrides
from redlib.commands.shown import add_profile, duration


def add(commands) -> None:
    """Register sweep."""
    sweep = commands.add_parser("sweep", help="many runs at once, on this machine or on a Ray cluster")
    sweep.add_argument("file", metavar="FILE", help="a TOML file of runs, or ablations or tuned: those of the study")
    add_profile(sweep, "auto")
    sweep.add_argument(
        "--set", action="append", default=[], metavar="FIELD=VALUE", help="replace a field of the profile"
    )
    sweep.add_argument("--engine", choices=["process", "ray"], default="process", help="who runs them (process)")
    sweep.add_argument("--address", help="of a Ray cluster that is there: host:port, or auto")
    sweep.add_argument("--cpus", type=int, help="threads of a run (as many as torch would use)")
    sweep.add_argument("--gpus", type=float, default=0, help="graphics cards of a run, with the engine ray (0)")
    sweep.add_argument("--dry-run", action="store_true", help="say what would be made")
    sweep.set_defaults(call=run_sweep)


def run_sweep(args: argparse.Namespace) -> None:
    from redlib import sweep

    if args.address and args.engine != "ray":
        raise ValueError("--address needs --engine ray")
    profile, runs = sweep.read(args.file, args.profile, overrides(args.set))
    resources = sweep.Resources(gpus=args.gpus) if args.cpus is None else sweep.Resources(args.cpus, args.gpus)
    resources.apply()
    planned = sweep.plan(profile, runs, sharded=not args.dry_run)
    print(
        f"{len(runs)} runs, {len(planned.done)} of them there; {len(planned.jobs)} jobs, {_about(planned)}", flush=True
    )
    if args.dry_run:
        print("\n".join(f"  {job.name}" for job in planned.jobs))
        return
    with contextlib.ExitStack() as stack:
        executor = None
        if args.engine == "ray" and planned.jobs:
            from redlib.sweep.engines import RayExecutor

            executor = stack.enter_context(RayExecutor(resources, args.address))
        report = sweep.schedule(planned.jobs, executor, resources, lambda line: print(line, flush=True))
    _show(profile, args.file, runs)
    report.check()


def _about(planned) -> str:
    return f"about {duration(planned.seconds)} of work"


def _show(profile, file: str, runs) -> None:
    """The accuracies of the runs that are there."""
    from redlib import results, sweep

    frame, about = sweep.table(profile, runs)
    if frame.empty:
        return
    sweep.keep(profile, Path(file).stem, frame, about)
    rows = results.select(frame, seed="all", metric=["value_accuracy", "range_accuracy"])
    print(results.table(rows, ["task", "split", "variant", "n"], "metric").to_string())
    if not profile.evidence:
        print(f"{profile.name}: machinery only, no evidence")
