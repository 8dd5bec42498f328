"""The one-line notation of the networks."""

from __future__ import annotations

import pytest

from trigpoint.core.errors import TrigpointError
from trigpoint.core.spec import OUT, Conv, Level, parse


def test_hourglass_alone() -> None:
    """Two resolutions, the upper with a skip-link; the first convolution leads to the output."""
    spec = parse("32/out 16 S3 P 64/8 64")
    assert spec.stem == ()
    assert spec.tail == ()
    assert spec.levels == (
        Level((Conv(32, OUT), Conv(16, None)), skip=3),
        Level((Conv(64, 8), Conv(64, None)), skip=0),
    )


def test_stem_and_tail() -> None:
    spec = parse("D24 16 P | 32/32 S1 P 48 S2 P 64 | U 24 T8 out1")
    assert spec.stem == ("D24", "16", "P")
    assert spec.tail == ("U", "24", "T8", "out1")
    assert [level.skip for level in spec.levels] == [1, 2, 0]


@pytest.mark.parametrize(
    ("text", "stem_reduction", "reduction", "enlargement"),
    [
        ("32/out", 1, 1, 1),
        ("32/out P 32 P 32 P 32", 1, 8, 1),
        ("32 P | 64 P 64 | out1", 2, 4, 1),
        ("D32 D32 | 64 P 64 | U out", 4, 8, 2),
        ("| 64 S2 P 128 | T32 U 16 out", 1, 2, 4),
        ("32 P | 64/out |", 2, 2, 1),
    ],
)
def test_sizes_follow_from_the_layers(
    text: str, stem_reduction: int, reduction: int, enlargement: int
) -> None:
    spec = parse(text)
    assert (spec.stem_reduction, spec.reduction, spec.enlargement) == (stem_reduction, reduction, enlargement)


def test_spaces_do_not_matter() -> None:
    assert parse(" 16 P|32  S1 P 32|out1 ") == parse("16 P | 32 S1 P 32 | out1")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("32/out X P 32", "'X'"),
        ("32/out U P 32", "'U'"),  # upsampling belongs to the tail
        ("32/out D32", "'D32'"),  # strides to the stem
        ("32/", "'32/'"),
        ("32/out -4", "'-4'"),
        ("32/out 1.5", "'1.5'"),
        ("S1 | 32 | out", "'S1'"),  # skip-links to the hourglass
        ("32/8 | 32 | out", "'32/8'"),  # so do mirrored widths
        ("16 P | 32 | P out", "'P'"),  # pooling before the tail
        ("16 P | 32 | out2", "'out2'"),
        ("16 p | 32 | out", "'p'"),
    ],
)
def test_unknown_layers_are_named(text: str, found: str) -> None:
    with pytest.raises(TrigpointError) as caught:
        parse(text)
    assert str(caught.value) == f"Unknown layer {found} in the network {text!r}."


@pytest.mark.parametrize("text", ["16 P | 32/out", "1 | 2 | 3 | out"])
def test_number_of_parts(text: str) -> None:
    with pytest.raises(TrigpointError) as caught:
        parse(text)
    assert str(caught.value) == f"A network is written 'stem | hourglass | tail'; got {text!r}."


@pytest.mark.parametrize("text", ["", "P 32/out", "32/out P", "32/out P P 32", "16 | | out", "S2 P 32/out"])
def test_empty_levels(text: str) -> None:
    with pytest.raises(TrigpointError) as caught:
        parse(text)
    assert str(caught.value) == f"A level of the network {text!r} has no convolution."


@pytest.mark.parametrize(
    "text", ["32", "32 32/out", "32 P 32/out", "16 | 32 | 16", "16 | 32 | out U", "| 32 |"]
)
def test_networks_that_do_not_end_in_out(text: str) -> None:
    with pytest.raises(TrigpointError) as caught:
        parse(text)
    assert str(caught.value) == f"The network {text!r} must end in 'out'."
