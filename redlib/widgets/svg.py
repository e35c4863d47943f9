"""Small pictures in SVG, made as text: quick, without pyplot, and safe on any thread.

Every picture says its numbers in its label, so that a screen reader has them; text takes the colour of the page.
"""

import html
from collections.abc import Iterable

BLUE, ORANGE, GREY = "#0072B2", "#E69F00", "#8a8a8a"
HATCH = (
    '<defs><pattern id="down" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    f'<rect width="5" height="5" fill="{ORANGE}"/><rect width="1.6" height="5" fill="#fff"/></pattern></defs>'
)


def picture(width: int, height: int, label: str, parts: Iterable[str]) -> str:
    """An SVG picture that says `label` to who cannot see it."""
    return (
        f'<svg role="img" aria-label="{html.escape(label)}" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" style="display:block;font:11px sans-serif" fill="currentColor">'
        f"{''.join(parts)}</svg>"
    )


def box(x: float, y: float, width: float, height: float, fill: str, more: str = "") -> str:
    """A rectangle; `more` holds further attributes."""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}" {more}/>'


def text(x: float, y: float, words: str, anchor: str = "start", more: str = "") -> str:
    """Words that end, begin or are centred at x."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{html.escape(words)}</text>'


def line(x: float, y: float, to_x: float, to_y: float, more: str = "") -> str:
    """A line in the colour of the page."""
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" stroke="currentColor" {more}/>'


def band(x: float, y: float, width: float, height: float, k: int) -> str:
    """The background of range k: darker and lighter in turn."""
    return box(x, y, width, height, GREY, f'fill-opacity="{0.10 if k % 2 else 0.24}"')
