"""Commands that ask trained methods and finished tables.

Rooms that import torch are imported by the command that needs them, so that a mistake is said at once.
"""

import argparse
import contextlib
import sys
from pathlib import Path

from redlib import bench, config, paths
from redlib.commands.shown import add_profile, duration


def add(commands) -> None:
    """Register explain, solve, evaluate, bench and compare."""
    explain = commands.add_parser("explain", help="how a trained method answers a question, as a card or JSON")
    explain.add_argument("question", metavar="QUESTION", help="such as 'What is 47 plus 38?'")
    add_profile(explain, "record")
    explain.add_argument("--method", default="red", help="a method of the study (default: red)")
    explain.add_argument("--task", default="task1", help="whose models answer: task1 (the default) or task2")
    explain.add_argument("--split", default="structure", help="structure (the default), text or phrasing")
    explain.add_argument("--recipe", default="chosen", help="chosen (the default) or source")
    explain.add_argument("--json", action="store_true", help="everything, as JSON")
    explain.set_defaults(call=explain_question)

    solve = commands.add_parser("solve", help="a chain in words: its program, every step by an expert, the answer")
    solve.add_argument("question", metavar="QUESTION", help="such as '29 minus 11 minus 9 plus 15'")
    add_profile(solve, "record")
    solve.add_argument("--planner", default="trained", help="trained (the default) or symbolic, the parser")
    solve.add_argument("--method", default="red", help="who executes steps: red (the default), softmax_moe, ...")
    solve.add_argument("--domain", default="closed", help="steps that the experts know: closed (the default) or source")
    solve.add_argument("--split", default="structure", help="of planner and experts: structure (the default) or text")
    solve.add_argument("--json", action="store_true", help="everything, as JSON")
    solve.set_defaults(call=solve_question)

    evaluate = commands.add_parser("evaluate", help="a stranger's questions (JSONL) through a trained method")
    evaluate.add_argument("--data", required=True, type=Path, metavar="FILE", help="lines with question and answer")
    add_profile(evaluate, "auto")
    evaluate.add_argument("--method", default="red", help="a method of Task 1 (default: red)")
    evaluate.add_argument("--split", default="structure", help="text, structure (the default) or phrasing")
    evaluate.add_argument("--recipe", default="chosen", help="chosen (the default) or source")
    evaluate.add_argument("--seed", default=0, type=int, help="which of the trained seeds (default: 0)")
    evaluate.set_defaults(call=evaluate_file)

    timing = commands.add_parser("bench", help="a benchmark, side by side in one run; prints rates and ratios")
    names = "; ".join(f"{name}: {about}" for name, about in bench.BENCHES.items())
    timing.add_argument("name", choices=bench.BENCHES, metavar="NAME", help=names)
    for option, (kind, about) in bench.OPTIONS.items():
        how = {"action": "store_true"} if kind is bool else {"type": kind}
        timing.add_argument(f"--{option}", default=argparse.SUPPRESS, help=about, **how)
    timing.add_argument("--write", action="store_true", default=argparse.SUPPRESS, help="data/results/bench/NAME.csv")
    timing.set_defaults(call=run_bench)

    compare = commands.add_parser("compare", help="differences between two result sets, with intervals")
    for side in ("a", "b"):
        compare.add_argument(side, help="a profile, a folder of tables or a CSV file")
    compare.set_defaults(call=compare_sets)


def explain_question(args: argparse.Namespace) -> None:
    profile = config.load(args.profile)
    from redlib.explain.notes import check_text
    from redlib.study.explaining import explainer

    check_text(args.question)
    with contextlib.redirect_stdout(sys.stderr):  # what is trained on the way says so, and is no part of the answer
        opened = explainer(profile, args.task, args.split, args.recipe)
        explained = opened.explain(args.question, args.method)
    _show(explained, args.json, profile)


def solve_question(args: argparse.Namespace) -> None:
    profile = config.load(args.profile)
    from redlib import decomposer
    from redlib.explain.notes import check_text
    from redlib.study import solving

    limits = profile.decomposer
    decomposer.check(check_text(args.question), limits.max_operations, limits.largest)
    asked = (profile, args.domain, (args.planner,), (args.method,), args.split)
    missing = solving.missing(*asked)
    if missing:
        seconds = sum(stage.seconds for stage in missing)
        first = f"{len(missing)} stages are missing: about {duration(seconds)} of training first, once"
        print(first, file=sys.stderr, flush=True)
    with contextlib.redirect_stdout(sys.stderr):  # as above
        solved = solving.solver(*asked).solve(args.question)
    _show(solved, args.json, profile)


def _show(found, as_json: bool, profile: config.Profile) -> None:
    text = found.to_json() if as_json else found.card()
    if not (as_json or profile.evidence):
        text += f"\n{profile.name}: machinery only, no evidence"
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"  # there is no stdout where the caller closed it
    print(text.encode(encoding, "replace").decode(encoding))


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
    given = vars(args)
    bench.run(args.name, {option: given[option] for option in (*bench.OPTIONS, "write") if option in given})


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
