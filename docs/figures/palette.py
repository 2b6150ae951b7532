"""The palette of a picture of the page, which makes its file a third as large."""

from __future__ import annotations

from PIL import Image

COLOURS = 255  # a GIF needs one more, for what stays as it was
NEAR = 9  # in each part of a colour, of 255: no eye tells them apart


def palette_of(picture: Image.Image) -> Image.Image:
    """Return what holds the commonest colours of a picture, exactly as they are, and of those near to one no other."""
    chosen: list[tuple[int, ...]] = []
    for _, colour in sorted(picture.getcolors(picture.width * picture.height) or [], reverse=True):
        assert isinstance(colour, tuple), "it is in RGB"
        if all(max(abs(a - b) for a, b in zip(colour, other, strict=True)) > NEAR for other in chosen):
            chosen.append(colour)
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for colour in chosen[:COLOURS] for part in colour])
    return palette
