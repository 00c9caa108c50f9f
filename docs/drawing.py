"""A small hand for SVG: the colours of ``loop.svg``, axes, lines. The same bytes every time.

>>> paper = Paper(100, 50, "A title")
>>> paper.text(10, 20, "a < b")
>>> paper.svg().splitlines()[-2]
'<text x="10" y="20" class="small">a &lt; b</text>'
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from msgspec import Struct

STYLE = """\
<style>
.paper { fill: #fbfaf7 }
.axis { stroke: #8fa3b0; stroke-width: 1.2; fill: none }
.grid { stroke: #e6e1d5; stroke-width: 1; fill: none }
.base { fill: #9fb7c6 }
.cand { fill: #e0a23d }
.void { fill: #f1ede2; stroke: #d9d4c7; stroke-width: 1 }
.limit { stroke: #b3452f; stroke-width: 1.6; stroke-dasharray: 6 4; fill: none }
.one { stroke: #10324a; stroke-width: 2.4; fill: none }
.two { stroke: #d98e1f; stroke-width: 2.4; fill: none }
.three { stroke: #8fa3b0; stroke-width: 2; fill: none }
.dot { fill: #10324a; fill-opacity: .18 }
.mark { fill: #10324a }
.small { font-size: 13px; fill: #5b6670 }
.name { font-size: 14.5px; font-weight: 600; fill: #10324a }
.letter { font-size: 13px; font-weight: 650; fill: #10324a; text-anchor: middle }
.end { text-anchor: end }
.middle { text-anchor: middle }
.warn { fill: #b3452f }
</style>"""


class Paper:
    """A page of so many points, things drawn in the order asked for."""

    def __init__(self, width: int, height: int, title: str) -> None:
        fonts = "ui-sans-serif, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"
        self._lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"',
            f'font-family="{fonts}" role="img" aria-label="{escape(title)}">',
            f"<title>{escape(title)}</title>",
            STYLE,
            f'<rect class="paper" width="{width}" height="{height}"/>',
        ]

    def text(self, x: float, y: float, words: str, style: str = "small") -> None:
        """Words, their left end (or as ``style`` says) at a point."""
        at = f'x="{number(x)}" y="{number(y)}"'
        self._lines.append(f'<text {at} class="{style}">{escape(words)}</text>')

    def box(self, x: float, y: float, width: float, height: float, style: str) -> None:
        """A rectangle."""
        size = f'width="{number(width)}" height="{number(height)}"'
        self._lines.append(f'<rect x="{number(x)}" y="{number(y)}" {size} class="{style}"/>')

    def line(self, points: Sequence[tuple[float, float]], style: str) -> None:
        """A line through points."""
        path = " ".join(f"{number(x)},{number(y)}" for x, y in points)
        self._lines.append(f'<polyline points="{path}" class="{style}"/>')

    def dot(self, x: float, y: float, radius: float, style: str) -> None:
        """A disc."""
        at = f'cx="{number(x)}" cy="{number(y)}" r="{number(radius)}"'
        self._lines.append(f'<circle {at} class="{style}"/>')

    def svg(self) -> str:
        """The whole file."""
        return "\n".join([*self._lines, "</svg>"]) + "\n"


class Scale(Struct, frozen=True, kw_only=True):
    """From values to points. ``log``: equal ratios are equally far apart.

    >>> Scale(low=1, high=100, start=0, stop=10, log=True).at(10)
    5.0
    """

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def at(self, value: float) -> float:
        """Where a value is; beyond the ends at the ends."""
        low, high, value = (
            math.log(one) if self.log else one
            for one in (self.low, self.high, min(max(value, self.low), self.high))
        )
        return self.start + (value - low) / (high - low) * (self.stop - self.start)


def axes(
    paper: Paper,
    x: Scale,
    y: Scale,
    *,
    xs: Sequence[float],
    ys: Sequence[float],
    names: tuple[str, str],
) -> None:
    """Both axes with values at ``xs`` and ``ys``, and what is on them."""
    for value in ys:
        paper.line([(x.start, y.at(value)), (x.stop, y.at(value))], "grid")
        paper.text(x.start - 8, y.at(value) + 4, f"{value:g}", "small end")
    for value in xs:
        paper.text(x.at(value), y.start + 20, f"{value:g}", "small middle")
    paper.line([(x.start, y.stop), (x.start, y.start), (x.stop, y.start)], "axis")
    paper.text((x.start + x.stop) / 2, y.start + 40, names[0], "small middle")
    paper.text(x.start, y.stop - 12, names[1], "small")


def number(value: float) -> str:
    """A coordinate to a tenth of a point, without a minus before nothing.

    >>> number(10.0), number(-0.01), number(3.14159)
    ('10', '0', '3.1')
    """
    return f"{round(value, 1) + 0.0:g}"
