"""Every figure from small tables: what it says, the same bytes again, and what it is kept and shown as."""

import io
import re
import threading
from itertools import product

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from PIL import Image

from redlib import claims, evaluation, figures
from redlib.expressions import Expression, LabelSpace
from redlib.figures import style

SPACE = LabelSpace()
METHODS = ("red", "softmax_moe", "global_head", "uniform_average", "red_uniform")


def predictions() -> tuple[pd.DataFrame, pd.DataFrame]:
    """A small pool over the source's label space, and made-up predictions of five methods on both splits."""
    expressions = [Expression((a, b), ("+",)) for a, b in product(range(2, 51, 3), repeat=2)]
    pool = pd.DataFrame({"expression": [e.text for e in expressions], "value": [e.value for e in expressions]})
    pool["structure"] = [e.structure_key for e in expressions]
    pool["range"] = [SPACE.range_of(value) for value in pool["value"]]
    pool = pool.rename_axis("row").reset_index()
    rng = np.random.default_rng(0)
    frames = []
    for split, part, method, seed in product(("text", "structure"), ("validation", "test"), METHODS, (0, 1)):
        right = rng.random(len(pool)) < (0.9 if split == "text" else 0.6) - 0.1 * METHODS.index(method)
        guess = np.where(right, pool["value"], rng.integers(2, 101, len(pool)))
        ranges = np.asarray(SPACE.range_index)[guess - SPACE.lo]
        router = np.clip(pool["range"] + (rng.random(len(pool)) < 0.1), 0, 4) if method in METHODS[:2] else -1
        about = {"split": split, "part": part, "recipe": "chosen", "method": method, "seed": seed, "confidence": 0.5}
        frames.append(
            pool.drop(columns="expression").assign(
                **about, predicted_value=guess, predicted_range=ranges, router_range=router
            )
        )
    return pd.concat(frames, ignore_index=True), pool


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    frame, pool = predictions()
    test = frame[frame["part"] == "test"]
    task1 = evaluation.evaluate(frame, SPACE, resamples=50)
    about = {"seed": "all", "group": "all", "part": "validation", "split": "structure"}
    probes = [
        about | {"variant": "depth", "layer": layer, "pooling": pooling, "method": method, "metric": metric}
        for layer, pooling, method, metric in product(
            (0, 8, -1), ("mean", "last"), ("linear", "mlp"), ("value_accuracy", "range_accuracy")
        )
    ]
    tried = [(2, "mean", 72), (4, "mean", 72), (2, "last", 72), (2, "mean", 36)]
    selection = [
        about
        | {"layer": layer, "pooling": pooling, "rank": rank, "own": int(i == 0), "method": "red", "metric": metric}
        for (i, (layer, pooling, rank)), metric in product(enumerate(tried), ("value_accuracy", "range_accuracy"))
    ]
    curves = [
        {"variant": "chosen", "split": "structure", "method": name, "metric": metric, "epoch": epoch}
        for name, metric, epoch in product(("classifier", "experts"), ("train_loss", "valid_loss"), range(1, 6))
    ]
    learning = [
        about | {"variant": variant, "split": split, "method": method, "rows": rows, "metric": "value_accuracy"}
        for (variant, rows), split, method in product(
            (("chosen/rows", 100), ("chosen/rows", 1000), ("chosen/pairs", 400)), ("text", "structure"), METHODS[:3]
        )
    ]
    checks = [
        {"split": split, "part": part, "group": group, "metric": metric, "value": 120.0}
        for split, part, group, metric in product(
            ("text", "structure"), style.PARTS, SPACE.names, ("rows", "expressions", "structures")
        )
    ]
    made_up = {"value": 0.5, "low": 0.4, "high": 0.6}
    return {
        "task1": task1,
        "pairs": evaluation.operand_map(test, pool, SPACE, ["red", "global_head"]),
        "confusion": evaluation.range_confusion(test, SPACE),
        "bias": evaluation.bias_by_value(test, SPACE),
        "claims": claims.beside(task1, ("4.6.1", "4.6.2", "4.6.3")),
        "probes": pd.DataFrame(probes).assign(**made_up),
        "selection": pd.DataFrame(selection).assign(**made_up),
        "curves": pd.DataFrame(curves).assign(**made_up),
        "learning": pd.DataFrame(learning).assign(**made_up),
        "checks": pd.DataFrame(checks),
        "toy": figures.toy_mixing(),
        "circles": figures.value_circles(SPACE.values, (2, 10, 100), 37),
    }


DRAWN = {
    "data_balance": (figures.draw_data_balance, "checks"),
    "pair_counts": (figures.draw_pair_counts, "checks"),
    "probe_depth": (figures.draw_probe_depth, "probes"),
    "selection": (figures.draw_selection, "selection"),
    "training_curves": (figures.draw_training_curves, "curves"),
    "learning_curve": (figures.draw_learning_curve, "learning"),
    "accuracy_by_range": (figures.draw_accuracy_by_range, "task1"),
    "memorisation_gap": (figures.draw_memorisation_gap, "task1"),
    "differences": (figures.draw_differences, "task1"),
    "operand_map": (figures.draw_operand_map, "pairs"),
    "range_confusion": (figures.draw_range_confusion, "confusion"),
    "router_reliability": (figures.draw_router_reliability, "task1"),
    "bias_by_value": (figures.draw_bias_by_value, "bias"),
    "reported_beside_measured": (figures.draw_reported_beside_measured, "claims"),
}


def texts(fig) -> str:
    return "\n".join(text.get_text() for text in fig.texts)


@pytest.mark.parametrize("name", DRAWN)
def test_every_figure_says_what_it_shows_and_leaves_matplotlib_alone(name, tables):
    draw, table = DRAWN[name]
    before = {name: matplotlib.rcParams[name] for name in style.RC}
    fig = draw(tables[table], "laptop", "tiny backbone", figures.NO_EVIDENCE)
    assert {name: matplotlib.rcParams[name] for name in style.RC} == before
    assert plt.get_fignums() == []
    assert "profile laptop" in texts(fig)
    assert "tiny backbone" in texts(fig)
    assert "split " in texts(fig)
    assert figures.NO_EVIDENCE in texts(fig)
    shown = [ax for ax in fig.axes if ax.get_visible()]
    assert any(ax.get_xlabel() for ax in shown)
    assert any(ax.get_ylabel() or ax.get_yticklabels() for ax in shown)
    whole = fig.bbox
    for text in fig.texts:
        box = text.get_window_extent()
        assert box.x0 >= 0
        assert box.x1 <= whole.x1
    assert all(one.get_window_extent().y0 > two.bbox.y1 for one in fig.texts for two in shown)


@pytest.mark.parametrize("name", DRAWN)
def test_a_figure_without_its_rows_names_what_is_missing(name, tables):
    draw, table = DRAWN[name]
    frame = tables[table]
    with pytest.raises(LookupError, match=r"no row with .*; present:"):
        draw(frame[frame["metric"] == frame["metric"].iloc[0]].assign(metric="other"), "laptop")


@pytest.mark.parametrize("name", ["accuracy_by_range", "operand_map", "training_curves"])
def test_a_figure_drawn_again_has_the_same_bytes(name, tables, tmp_path):
    draw, table = DRAWN[name]
    first = figures.save(draw(tables[table], "laptop"), tmp_path / "a", name)
    again = figures.save(draw(tables[table].sample(frac=1, random_state=1), "laptop"), tmp_path / "b", name)
    assert [path.name for path in first] == [f"{name}.png", f"{name}.svg"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
    assert b"<dc:date>" not in first[1].read_bytes()
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [f"{name}.png", f"{name}.svg"]


def test_text_of_an_svg_stays_text(tables, tmp_path):
    _, svg = figures.save(figures.draw_toy_mixing(tables["toy"]), tmp_path, "toy")
    said = re.findall(r"<text style=\"([^\"]*)\".*?>(.*?)</text>", svg.read_text())
    label = figures.draw_toy_mixing(tables["toy"]).axes[0].get_xlabel().split("\n")[0]
    assert label in [text for _, text in said]
    assert all("sans-serif" in style for style, _ in said), "a reader without the font sees another without serifs"


def test_a_failed_save_leaves_nothing_behind(tmp_path, tables):
    fig = figures.draw_toy_mixing(tables["toy"])
    fig.axes[0].set_xlabel("$\\nonsense$")
    with pytest.raises(ValueError, match="nonsense"):
        figures.save(fig, tmp_path, "toy")
    assert list(tmp_path.iterdir()) == []


def test_notebooks_show_a_figure_without_pyplot(tables):
    fig = figures.draw_toy_mixing(tables["toy"])
    assert fig._repr_png_().startswith(b"\x89PNG")
    assert fig._repr_png_() == fig._repr_png_()


def test_what_is_saved_and_shown_is_drawn_once_and_again_when_it_changes(tables, tmp_path, monkeypatch):
    fig, drawn = figures.draw_toy_mixing(tables["toy"]), []
    whole = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda *args, **more: drawn.append(more["format"]) or whole(*args, **more))
    png, _ = figures.save(fig, tmp_path, "toy")
    shown = fig._repr_png_()
    assert (drawn, fig.png) == (["svg", "png"], png.read_bytes())
    fig.axes[0].set_xlabel("something else")
    assert fig._repr_png_() != shown
    assert figures.save(fig, tmp_path, "toy")[0].read_bytes() == fig.png
    assert drawn == ["svg", "png", "png", "svg", "png"]


def test_what_is_saved_and_shown_is_the_picture_in_nearly_the_same_colours(tables):
    fig = figures.draw_toy_mixing(tables["toy"])
    saved, shown = (Image.open(io.BytesIO(one)) for one in (fig.png, fig._repr_png_()))
    assert saved.info["dpi"] == pytest.approx((150, 150), abs=0.1)
    assert (saved.width, shown.width) == (round(150 * fig.get_figwidth()), round(100 * fig.get_figwidth()))
    whole = io.BytesIO()
    fig.savefig(whole, format="png", dpi=150)
    picture = Image.open(whole).convert("RGB")
    assert len(fig._repr_png_()) < len(fig.png) < 0.5 * len(whole.getvalue())
    for one in (saved, shown):
        own = (
            np.asarray(image, int) for image in (picture.resize(one.size, Image.Resampling.HAMMING), one.convert("RGB"))
        )
        assert np.abs(np.subtract(*own)).max() <= 24


def test_figures_drawn_in_threads_are_the_same_as_alone(tables):
    alone = figures.draw_toy_mixing(tables["toy"])._repr_png_()
    drawn: list[bytes] = []

    def work():
        drawn.append(figures.draw_toy_mixing(tables["toy"])._repr_png_())

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert drawn == [alone] * 3


def test_the_toy_routes_weights_sum_to_one_and_end_in_their_class():
    toy = figures.toy_mixing()
    np.testing.assert_allclose(toy.groupby("route")["alpha"].sum(), 1)
    for route, rows in toy.groupby("route"):
        step = rows[["dx", "dy"]].to_numpy()
        at = rows[["x", "y"]].to_numpy()[0] + rows["alpha"].to_numpy() @ step
        winner = rows["expert"].iloc[(step @ at).argmax()]
        assert winner == ("R3" if route == "wrong route" else "R2")


def test_a_value_is_the_only_one_with_its_points_on_all_circles(tables):
    circles = tables["circles"]
    np.testing.assert_allclose(circles["x"] ** 2 + circles["y"] ** 2, 1)
    total = circles.groupby("value")["score"].mean()
    assert total.idxmax() == 37
    assert total[37] == 1
    assert total.drop(37).max() < 1
    same_digit = circles[(circles["period"] == 10) & (circles["value"] % 10 == 7)]
    np.testing.assert_allclose(same_digit["score"], 1)
    fig = figures.draw_value_circles(circles)
    assert [ax.get_title() for ax in fig.axes[:2]] == ["period 10", "period 100"]
    fig = figures.draw_value_circles(figures.value_circles(range(2, 101), (2, 5, 20, 200), 37))
    assert [ax.get_title() for ax in fig.axes[:2]] == ["period 5", "period 200"]


def test_differences_show_the_asked_methods_and_name_an_unknown_one(tables):
    fig = figures.draw_differences(tables["task1"], "laptop", methods=["global_head", "softmax_moe"])
    labels = {tick.get_text() for tick in fig.axes[0].get_yticklabels()}
    assert labels == {style.look("global_head").label, style.look("softmax_moe").label}
    with pytest.raises(LookupError, match="no row with method=top2"):
        figures.draw_differences(tables["task1"], "laptop", methods=["top2"])


def test_methods_are_told_apart_without_colour():
    seen = [(look.marker, str(look.line)) for look in style.METHODS.values()]
    assert len(set(seen)) == len(seen)
    assert len({(look.marker, look.hatch) for look in style.METHODS.values()}) == len(seen)
    assert style.look("a new method") == style.look("a new method")
    assert style.look("a_new_method").label == "a new method"
