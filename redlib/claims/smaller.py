"""The smaller documents' statements against their own tables and formulas, as in `arithmetic`.

Each function takes the id of the claim: some of them judge several.
"""

from collections.abc import Callable

from redlib import sparse
from redlib.claims.arithmetic import Said
from redlib.claims.judging import reported
from redlib.claims.reported import load
from redlib.claims.sparse import MODELS, implied_price, percentages, source_table


def of_its_table(claim_id: str) -> Said:
    """A number of the sparse benchmark's analysis against its own table."""
    table = source_table()
    if claim_id == "sparse.decision-03":
        most = table["vram_gb"].max()
        return f"the largest of its models needs {most:g} GB", most > reported(claim_id)
    row = percentages(table).loc[claim_id]
    return f"its table gives {row['computed']:.2f}", bool(abs(row["computed"] - row["reported"]) < 1)


def smaller_name(_: str) -> Said:
    """Model names against their sizes."""
    sizes = source_table()["active_parameters_millions"]
    return ", ".join(f"{name}: {sizes[name]:g} M" for name in MODELS[:2]), bool(sizes.iloc[1] > sizes.iloc[0])


def similar_latency(_: str) -> Said:
    """Latencies called similar."""
    times = source_table()["first_token_ms"]
    ratio = times.max() / times.min()
    return f"{', '.join(f'{t:g}' for t in times)} ms: a factor of {ratio:.1f}", bool(ratio < 2)


def tokens_in_one_pass(_: str) -> Said:
    """Tokens a second against the time of the first token: how many tokens one pass would write."""
    table = source_table()
    once = table["tokens_per_second"] * table["first_token_ms"] / 1e3
    return f"{', '.join(f'{n:.0f}' for n in once)} tokens in the time of the first", bool((once < 2).all())


def one_price(_: str) -> Said:
    """Costs as a finding of their own against throughput at one price of an hour."""
    price = implied_price(source_table())
    low, high = price["low"].max(), price["high"].min()
    return f"one price of {low:.3f} to {high:.3f} dollars an hour gives all three costs", bool(low > high)


def of_its_formula(claim_id: str) -> Said:
    """An example of the savings document against its formula; the claim's group is E, k, inputs, outputs."""
    group = load().set_index("claim_id").loc[claim_id, "group"]
    saved = sparse.sparse_savings(*(int(word) for word in group.split()))
    return f"{saved:.1f} %", saved == reported(claim_id)


def less_than_a_share(_: str) -> Said:
    """Less than 0.2 % of the work against the example's own operations."""
    E, k, *_ = sparse.EXAMPLES[0]
    return f"{k} of {E:,} experts do {k / E:.1%} of the work", k / E < 0.002


def of_counts_alone(_: str) -> Said:
    """The savings of the first example with other dimensions."""
    E, k, *sizes = sparse.EXAMPLES[0]
    found = {sparse.sparse_savings(E, k, *(scale * size for size in sizes)) for scale in (1, 2, 10)}
    return f"{', '.join(f'{saved:.1f} %' for saved in found)} with dimensions 1, 2 and 10 times as large", len(
        found
    ) == 1


OF_SMALLER: dict[str, Callable[[str], Said]] = {
    function.__name__: function
    for function in (
        of_its_table,
        smaller_name,
        similar_latency,
        tokens_in_one_pass,
        one_price,
        of_its_formula,
        less_than_a_share,
        of_counts_alone,
    )
}
