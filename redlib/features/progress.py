"""Progress of a pass with its rate and the time that remains: a bar in a terminal, else a line every few seconds."""

import sys
from time import perf_counter
from types import TracebackType

from tqdm import tqdm

EVERY = 5.0  # seconds between two lines


class Progress:
    """Counts texts and tokens; the rate leaves out what was there at the start."""

    def __init__(self, texts: int, tokens: int, what: str, shown: bool) -> None:
        self.texts, self.tokens, self.what, self.shown = texts, tokens, what, shown
        self.done = self.done_tokens = self.old = self.old_tokens = 0
        self.bar: tqdm | None = None

    def __enter__(self) -> "Progress":
        self.begin = self.printed = perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.close()

    def start(self, texts: int, tokens: int) -> None:
        """Say how much was already there."""
        self.done = self.old = texts
        self.done_tokens = self.old_tokens = tokens
        if self.shown and sys.stderr.isatty():
            self.bar = tqdm(total=self.texts, initial=texts, desc=self.what, unit="text", leave=False)

    def add(self, texts: int, tokens: int) -> None:
        """Count what was just finished and show it."""
        self.done += texts
        self.done_tokens += tokens
        if self.bar is not None:
            self.bar.set_postfix_str(f"{self._rate(self.done_tokens - self.old_tokens):,.0f} tokens/s", refresh=False)
            self.bar.update(texts)
        elif self.shown and (perf_counter() - self.printed > EVERY or self.done == self.texts):
            self.printed = perf_counter()
            print(self.line(), flush=True)

    def line(self) -> str:
        """One line: what is done, the rate, and the seconds that remain."""
        rate = self._rate(self.done_tokens - self.old_tokens)
        remaining = (self.tokens - self.done_tokens) / rate
        return (
            f"{self.what}: {self.done:,} of {self.texts:,} texts, {self._rate(self.done - self.old):,.0f} texts/s, "
            f"{rate:,.0f} tokens/s, {remaining:.0f} s left"
        )

    def _rate(self, count: int) -> float:
        return max(count, 1) / max(perf_counter() - self.begin, 1e-9)
