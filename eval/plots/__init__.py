"""Learning curves and heat maps, and the colours of all plots."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

from sparring.configs.core.errors import printable_lines, require_package

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Of lines, by M. Okabe and K. Ito ("Color universal design", 2008) that are visible on white, and are safe for
all kinds of colour blindness."""
UNDATED = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}
"""Metadata with which equal figures give equal bytes."""
INK, DIM, GRID = "#1E2228", "#70767E", "#DEE1E5"
"""Of text, of axes and notes, of the lines of a grid."""


MILLION = 1e6
"""Env steps are shown in millions."""


def check_matplotlib() -> None:
    """Raise `InputError` if matplotlib is missing; call this before long work that ends in a picture."""
    require_package("matplotlib", "plots")


def picture(figure: Figure, form: str, **options: Any) -> bytes:
    """Return the figure as png or svg data, according to `form`; control characters of its texts are escaped."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        if (shown := printable_lines(text.get_text())) != text.get_text():
            text.set_text(shown)
    buffer = BytesIO()
    figure.savefig(buffer, format=form, metadata=UNDATED[form], **options)
    return buffer.getvalue()
