"""Rates and paired differences against values worked out by hand, or printed by those who proposed the method."""

from __future__ import annotations

from math import sqrt

import pytest

from facet_dagster.reports.statistics import paired, rate


def of_cells(both: int, only_first: int, only_second: int, neither: int):  # type: ignore[no-untyped-def]
    first = [True] * (both + only_first) + [False] * (only_second + neither)
    second = [True] * both + [False] * only_first + [True] * only_second + [False] * neither
    return paired(first, second)


def test_a_rate_has_wilsons_interval() -> None:
    found = rate(1, 4)
    z, p, n = 1.959964, 0.25, 4
    middle, reach = (
        (p + z**2 / (2 * n)) / (1 + z**2 / n),
        z * sqrt(p * (1 - p) / n + z**2 / (4 * n**2)) / (1 + z**2 / n),
    )
    assert (found.rate, found.low, found.high) == pytest.approx((0.25, middle - reach, middle + reach), abs=1e-6)


@pytest.mark.parametrize(("count", "low", "high"), [(0, 0.0, 0.27753), (10, 0.72247, 1.0)])
def test_none_and_all_of_ten_have_an_interval(count: int, low: float, high: float) -> None:
    # z^2 / (n + z^2) = 3.8415 / 13.8415
    found = rate(count, 10)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-5)


def test_nothing_has_no_rate() -> None:
    assert (rate(0, 0).rate, rate(0, 0).low) == (None, None)


@pytest.mark.parametrize(
    ("only_first", "only_second", "p"),
    [
        (0, 0, 1.0),
        (1, 0, 1.0),  # 2 * 1/2
        (5, 0, 2 / 2**5),
        (6, 1, 2 * (1 + 7) / 2**7),
        (3, 3, 1.0),
    ],
)
def test_the_test_counts_discordant_pairs_exactly(only_first: int, only_second: int, p: float) -> None:
    assert of_cells(4, only_first, only_second, 2).p == pytest.approx(p)
    assert of_cells(4, only_second, only_first, 2).p == pytest.approx(p)


@pytest.mark.parametrize(
    ("cells", "difference", "low", "high"),
    [  # Newcombe 1998, Statistics in Medicine 17, 2635-2650, method 10
        ((36, 12, 2, 0), 0.2, 0.0569, 0.3404),
        ((20, 12, 2, 16), 0.2, 0.0562, 0.3292),
    ],
)
def test_the_difference_has_newcombes_interval(
    cells: tuple[int, int, int, int], difference: float, low: float, high: float
) -> None:
    found = of_cells(*cells)
    assert (found.difference, found.low, found.high) == pytest.approx((difference, low, high), abs=6e-5)
    both, first, second, neither = cells
    mirrored = of_cells(both, second, first, neither)
    assert (mirrored.difference, mirrored.low, mirrored.high) == pytest.approx((-difference, -high, -low), abs=6e-5)


def test_equal_measures_have_no_difference_and_an_interval_around_it() -> None:
    found = of_cells(5, 0, 0, 0)
    assert (found.difference, found.p) == (0.0, 1.0)
    assert found.low == pytest.approx(-(found.high or 0))


def test_no_subjects_give_no_figures() -> None:
    found = paired([], [])
    assert (found.subjects, found.difference, found.low, found.p) == (0, None, None, None)


def test_measures_of_other_subjects_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        paired([True], [])
