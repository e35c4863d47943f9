"""The command line: `python -m redlib --help`.

A mistake of the caller is one sentence and exit code 2, a failed notebook exit code 1; `--debug` shows the traceback.
"""

import argparse
import errno
import json
import shutil
import sys
from pathlib import Path
from typing import Any, NoReturn

from redlib import config, paths

# Rooms that import torch or papermill are imported by the command that needs them, so that a mistake is said at once.


class Parser(argparse.ArgumentParser):
    """Says a mistake in one sentence instead of after the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def parser() -> Parser:
    """The commands and their options."""
    top = Parser(prog="redlib", description="A study of routed residual experts.")
    top.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = top.add_subparsers(dest="command", required=True)

    run = commands.add_parser("run", help="compute what is missing and execute the notebooks of a profile")
    _profile(run, "auto")
    run.add_argument("--chapters", default="core", help="core (the default) or all")
    run.add_argument("--from", dest="start", metavar="NAME", help="start at this notebook")
    run.add_argument("--only", metavar="NAME", help="this notebook alone")
    run.add_argument("--force", action="store_true", help="execute notebooks that are current too")
    run.add_argument("--dry-run", action="store_true", help="say what would be made, and write nothing")
    run.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="replace a field of the profile")
    run.set_defaults(call=run_study)

    profiles = commands.add_parser("profiles", help="list the profiles and how they differ from `full`")
    profiles.set_defaults(call=list_profiles)

    status = commands.add_parser("status", help="list stages and artefacts on disk, with size and configuration")
    status.add_argument("--long", action="store_true", help="whole configurations")
    status.set_defaults(call=show_status)

    publish = commands.add_parser("publish", help="make a finished run the record")
    _profile(publish, "full")
    publish.set_defaults(call=publish_run)

    clean = commands.add_parser("clean", help="delete leftovers of interrupted writes, a profile's artefacts, or all")
    what = clean.add_mutually_exclusive_group()
    what.add_argument("--profile", help="the run of this profile and the stages that it reads")
    what.add_argument("--all", action="store_true", help="the whole cache and all runs")
    clean.add_argument("--yes", action="store_true", help="do not ask")
    clean.set_defaults(call=clean_up)

    evaluate = commands.add_parser("evaluate", help="a stranger's questions (JSONL) through a trained method")
    evaluate.add_argument("--data", required=True, type=Path, metavar="FILE", help="lines with question and answer")
    _profile(evaluate, "auto")
    evaluate.add_argument("--method", default="red", help="a method of Task 1 (default: red)")
    evaluate.add_argument("--split", default="structure", help="text, structure (the default) or phrasing")
    evaluate.add_argument("--recipe", default="chosen", help="chosen (the default) or source")
    evaluate.add_argument("--seed", default=0, type=int, help="which of the trained seeds (default: 0)")
    evaluate.set_defaults(call=evaluate_file)

    bench = commands.add_parser("bench", help="a benchmark, side by side in one run; prints rates and ratios")
    bench.add_argument("name", choices=["features"], help="features: the pass through the backbone")
    bench.add_argument("--rows", type=int, default=16_000, help="texts of Task 1 that the pass is about (16000)")
    bench.add_argument("--write", action="store_true", help="write data/results/bench/NAME.csv")
    bench.set_defaults(call=run_bench)

    compare = commands.add_parser("compare", help="differences between two result sets, with intervals")
    for side in ("a", "b"):
        compare.add_argument(side, help="a profile, a folder of tables or a CSV file")
    compare.set_defaults(call=compare_sets)
    return top


def _profile(command: argparse.ArgumentParser, default: str) -> None:
    names = ", ".join(config.PROFILES)
    command.add_argument(
        "--profile", default=default, help=f"{names}, or auto: $REDLIB_PROFILE, else smoke ({default})"
    )


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
    if args.dry_run:
        _show_plan(runner.plan(notebooks, args.force))
        return
    runner.run(notebooks, args.force, lambda line: print(line, flush=True))
    _show_result(runner)


def _show_plan(plan) -> None:
    for stage in plan.stages:
        print(f"stage     {stage.name}: about {_duration(stage.seconds)}, {_bytes(stage.bytes)}")
    for notebook in plan.notebooks:
        print(f"notebook  {notebook.name}")
    free = _bytes(shutil.disk_usage(_existing(paths.cache())).free)
    print(f"{len(plan.stages)} stages missing: about {_duration(plan.seconds)}, {_bytes(plan.bytes)} of {free} free")
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
        print(f"{artefact.kind:9} {_bytes(artefact.bytes):>9}  {artefact.name}  {note}".rstrip())
    total = _bytes(sum(artefact.bytes for artefact in found))
    print(f"{len(found)} artefacts, {total}; cache {paths.cache()}, runs {paths.runs('')}")


def publish_run(args: argparse.Namespace) -> None:
    config.load(args.profile)
    from redlib.study.notebooks import NOTEBOOKS
    from redlib.study.publish import publish
    from redlib.study.runner import Runner

    publish(Runner(args.profile), NOTEBOOKS)


def clean_up(args: argparse.Namespace) -> None:
    from redlib.study import artefacts

    if args.profile:
        found = artefacts.of_profile(config.load(args.profile))
    else:
        found = artefacts.everything() if args.all else artefacts.leftovers()
    for artefact in found:
        print(f"{artefact.kind:9} {_bytes(artefact.bytes):>9}  {artefact.path}")
    print(f"{_bytes(sum(artefact.bytes for artefact in found))} to free")
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


def evaluate_file(args: argparse.Namespace) -> None:
    profile = config.load(args.profile)
    from redlib.study.strangers import evaluate

    table, rejects, how = evaluate(profile, args.data, args.method, args.split, args.recipe, args.seed)
    for reject in rejects.itertuples():
        print(f"line {reject.line} rejected: {reject.reason}")
    note = "" if profile.evidence else ", machinery only, no evidence"
    print(f"{args.method}, recipe {args.recipe}, split {args.split}, seed {args.seed}, profile {profile.name}{note}")
    for row in table.itertuples():
        print(
            f"{row.metric} {row.value:.4f} [{row.low:.4f}, {row.high:.4f}], n = {row.n}, {len(rejects)} rejects, {how}"
        )


def run_bench(args: argparse.Namespace) -> None:
    from redlib import bench

    bench.features(args.rows, write=args.write)


def compare_sets(args: argparse.Namespace) -> None:
    from redlib import results

    print(results.compare(_result_set(args.a), _result_set(args.b)).to_string(index=False))


def _result_set(name: str) -> Path:
    """A profile's committed tables, else those of its last run; or the folder or CSV file that `name` is."""
    places = [Path(name)]
    if name in config.PROFILES:
        profile = config.PROFILES[name]
        places = [paths.results(profile.reads or name), paths.runs(name) / "results"]
    for place in places:
        if place.exists():
            return place
    raise FileNotFoundError(
        f"no result set {name!r}; give a folder, a CSV file or a profile that has been run: "
        f"{', '.join(config.PROFILES)}"
    )


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def _existing(path: Path) -> Path:
    return path if path.exists() else _existing(path.parent)


def sentence(error: BaseException) -> str:
    """What went wrong, for someone who did not write the code."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
        free = _bytes(shutil.disk_usage(_existing(paths.cache())).free)
        where = f" at {error.filename}" if error.filename else ""
        what = f"the disk is full or a file may not grow further{where} ({free} free at {paths.cache()})"
        return f"{what}; make room or set REDLIB_CACHE to another disk"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror + (f": {error.filename}" if error.filename else "")
    return str(error)


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    args = parser().parse_args(arguments)
    try:
        args.call(args)
    except KeyboardInterrupt:
        print("interrupted; the same command continues where it stopped", file=sys.stderr)
        return 130
    except (ValueError, OSError, ArithmeticError, RuntimeError) as error:
        if args.debug:
            raise
        print(f"redlib: {sentence(error)}", file=sys.stderr)
        return 1 if type(error).__name__ == "NotebookError" else 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
