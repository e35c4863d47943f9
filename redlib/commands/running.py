"""Commands that compute, list, publish and delete what a profile makes.

Rooms that import torch or papermill are imported by the command that needs them, so that a mistake is said at once.
"""

import argparse
import json
import shutil
import sys
from typing import Any

from redlib import config, paths
from redlib.commands.shown import add_profile, duration, existing, size


def add(commands) -> None:
    """Register run, tables, profiles, status, publish, ship and clean."""
    run = commands.add_parser("run", help="compute what is missing and execute the notebooks of a profile")
    add_profile(run, "auto")
    run.add_argument("--chapters", default="core", help="core (the default) or all")
    run.add_argument("--from", dest="start", metavar="NAME", help="start at this notebook")
    run.add_argument("--only", metavar="NAME", help="this notebook alone")
    run.add_argument("--force", action="store_true", help="execute notebooks that are current too")
    run.add_argument("--dry-run", action="store_true", help="say what would be made, and write nothing")
    run.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="replace a field of the profile")
    run.set_defaults(call=run_study)

    tables = commands.add_parser("tables", help="make some tables alone, with all that they read, and no notebook")
    tables.add_argument("names", nargs="+", metavar="TABLE", help="as its file is named in data/results")
    add_profile(tables, "full")
    tables.add_argument("--dry-run", action="store_true", help="say what would be made, and write nothing")
    tables.add_argument("--publish", action="store_true", help="put them among the profile's committed results")
    tables.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="as for run; not published")
    tables.set_defaults(call=make_tables)

    profiles = commands.add_parser("profiles", help="list the profiles and how they differ from `full`")
    profiles.set_defaults(call=list_profiles)

    status = commands.add_parser("status", help="list stages and artefacts on disk, with size and configuration")
    status.add_argument("--long", action="store_true", help="whole configurations")
    status.set_defaults(call=show_status)

    publish = commands.add_parser("publish", help="make a finished run the record")
    add_profile(publish, "full")
    publish.set_defaults(call=publish_run)

    ship = commands.add_parser("ship", help="write the small trained modules of data/modules from trained stages")
    add_profile(ship, "full")
    ship.set_defaults(call=ship_modules)

    clean = commands.add_parser("clean", help="delete leftovers of interrupted writes, a profile's artefacts, or all")
    what = clean.add_mutually_exclusive_group()
    what.add_argument("--profile", help="the run of this profile and the stages that it reads")
    what.add_argument("--all", action="store_true", help="the whole cache and all runs")
    clean.add_argument("--yes", action="store_true", help="do not ask")
    clean.set_defaults(call=clean_up)


def overrides(pairs: list[str]) -> dict[str, Any]:
    """`task1.rows=2000` as {"task1.rows": 2000}: values are JSON, anything else is text."""
    found = {}
    for pair in pairs:
        field, equals, value = pair.partition("=")
        if not equals or not field:
            raise ValueError(f"--set needs FIELD=VALUE, got {pair!r}")
        try:
            found[field] = json.loads(value)
        except json.JSONDecodeError:
            found[field] = value
    return found


def run_study(args: argparse.Namespace) -> None:
    given = overrides(args.set)
    config.load(args.profile, given)
    from redlib.study.notebooks import NOTEBOOKS, select
    from redlib.study.runner import Runner

    notebooks = select(NOTEBOOKS, args.chapters, args.start, args.only)
    runner = Runner(args.profile, given)
    if not args.only:
        notebooks = runner.on_record(notebooks)
    if args.dry_run:
        _show_plan(runner.plan(notebooks, args.force))
        return
    runner.run(notebooks, args.force, _say)
    _show_result(runner)


def make_tables(args: argparse.Namespace) -> None:
    given = overrides(args.set)
    profile = config.load(args.profile, given)
    if given and args.publish:
        raise ValueError(f"a table made with --set is no result of profile {args.profile!r}; publish without --set")
    from redlib.study.publish import publish_tables
    from redlib.study.runner import Plan
    from redlib.study.tables import stages

    made = stages(profile, args.names)
    if args.dry_run:
        missing = {stage.key: stage for table in made.values() for stage in table.missing()}
        _show_plan(Plan(tuple(missing.values()), ()))
    elif args.publish:
        publish_tables(profile, args.names, _say)
    else:
        for name, stage in made.items():
            print(stage.run(_say) / f"{name}.csv")


def _say(line: str) -> None:
    print(line, flush=True)


def _show_plan(plan) -> None:
    for stage in plan.stages:
        print(f"stage     {stage.name}: about {duration(stage.seconds)}, {size(stage.bytes)}")
    for notebook in plan.notebooks:
        print(f"notebook  {notebook.name}")
    free = size(shutil.disk_usage(existing(paths.cache())).free)
    print(f"{len(plan.stages)} stages missing: about {duration(plan.seconds)}, {size(plan.bytes)} of {free} free")
    print(f"{len(plan.notebooks)} notebooks would run")


def _show_result(runner) -> None:
    tables = paths.results(runner.profile.reads) if runner.profile.reads else runner.out / "results"
    for what, folder in {
        "notebooks": runner.out / "notebooks",
        "figures": runner.out / "figures",
        "tables": tables,
    }.items():
        print(f"{what + ':':10} {folder}")
    if (tables / "task1.csv").is_file():
        from redlib import results
        from redlib.study.publish import headline

        note = "" if runner.profile.evidence else " (machinery only, no evidence)"
        print(f"\nTask 1, test rows, profile {runner.profile.name}{note}\n")
        print(headline(results.read(tables / "task1.csv")).to_string(index=False))


def list_profiles(args: argparse.Namespace) -> None:
    full = _flat(config.PROFILES["full"].model_dump(mode="json"))
    for name, profile in config.PROFILES.items():
        kind = (
            f"reads the committed results of {profile.reads}, never trains" if profile.reads else profile.backbone.name
        )
        print(f"{name:7} {kind}, {profile.task1.rows:,} rows of Task 1{'' if profile.evidence else ', no evidence'}")
        for field, value in _flat(profile.model_dump(mode="json")).items():
            if value != full.get(field) and field not in ("name", "evidence", "reads"):
                print(f"        {field}: {value} (full: {full.get(field, 'none')})")


def _flat(tree: dict, prefix: str = "") -> dict[str, Any]:
    flat = {}
    for name, value in tree.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat


def show_status(args: argparse.Namespace) -> None:
    from redlib.study import artefacts

    found = artefacts.inventory()
    for artefact in found:
        note = artefact.note if args.long or len(artefact.note) <= 100 else artefact.note[:97] + "..."
        print(f"{artefact.kind:9} {size(artefact.bytes):>9}  {artefact.name}  {note}".rstrip())
    total = size(sum(artefact.bytes for artefact in found))
    print(f"{len(found)} artefacts, {total}; cache {paths.cache()}, runs {paths.runs('')}")


def publish_run(args: argparse.Namespace) -> None:
    config.load(args.profile)
    from redlib.study.notebooks import NOTEBOOKS
    from redlib.study.publish import publish
    from redlib.study.runner import Runner

    runner = Runner(args.profile)
    publish(runner, runner.on_record(NOTEBOOKS))


def ship_modules(args: argparse.Namespace) -> None:
    profile = config.load(args.profile)
    from redlib.study.shipped import ship

    ship(profile)


def clean_up(args: argparse.Namespace) -> None:
    from redlib.study import artefacts

    if args.profile:
        found = artefacts.of_profile(config.load(args.profile))
    else:
        found = artefacts.everything() if args.all else artefacts.leftovers()
    for artefact in found:
        print(f"{artefact.kind:9} {size(artefact.bytes):>9}  {artefact.path}")
    print(f"{size(sum(artefact.bytes for artefact in found))} to free")
    if not found:
        return
    if not args.yes:
        if not sys.stdin.isatty():
            raise ValueError("clean deletes only when told to: answer at a terminal, or give --yes")
        if input("delete? [y/N] ").strip().lower() not in ("y", "yes"):
            print("nothing deleted")
            return
    artefacts.remove(found)
    print("deleted")
