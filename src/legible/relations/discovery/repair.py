"""Repair of proposed maps by measured disagreement.

A search proposes maps by statistics of random play. Those can prefer a wrong map to the right one: in a maze that is no
square, states differ between the directions although every step is alike. The check of the environment is not misled.

`repair_images` lets it decide: each check of a map says for every feature in how many states its image is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from legible.relations.check.answers import Values
from legible.relations.discovery.search import NEVER, Matcher
from legible.relations.discovery.signed_map import SignedMap

# Assumed disagreement of pairs that no check has seen: more than that of right pairs (0), and less than any that a
# check of a few hundred states can measure.
LEAST_UNSEEN, MOST_UNSEEN = 0.0005, 0.0015
# The most checks for one map, and the most in a row that find no better one.
MOST_CHECKS, MOST_VAIN_CHECKS = 60, 15


def repair_images(signed: SignedMap, judge: Callable[[SignedMap], Mapping[int, float]], matcher: Matcher) -> SignedMap:
    """Return the map with those images of features that disagree least.

    The disagreement of a feature hardly depends on the images of others. So every check fills one entry of each row of
    a table of costs, and the assignment of least cost is checked next. Unseen pairs count as nearly right: a feature
    keeps a right image, and tries another one after a wrong image.

    Parameters
    ----------
    signed
        The map to repair; its actions stay.
    judge
        Returns the shares of states in which features have wrong images, by feature; those with right ones may be
        missing.
    matcher
        Says which pairs are possible, and which of the unseen ones fit best to the best map so far.
    """
    n = len(signed.images)
    every, structure = np.arange(n), matcher.structure
    possible = np.stack([structure.allowed, structure.opposite])[:, :n, :n]  # 0: equal signs, 1: opposite signs
    measured = np.full(possible.shape, np.nan)
    best, least, vain_checks, trial = signed, np.inf, 0, signed
    for _ in range(MOST_CHECKS):
        shares = judge(trial)
        opposed = (np.array(trial.signs) < 0).astype(np.int64)
        measured[opposed, every, list(trial.images)] = [shares.get(i, 0.0) for i in range(n)]
        total = sum(shares.values())
        best, least, vain_checks = (trial, total, 0) if total < least else (best, least, vain_checks + 1)
        if least == 0.0 or vain_checks == MOST_VAIN_CHECKS:
            break
        costs = np.where(np.isnan(measured), _assumed_costs(best, matcher), measured)
        costs[~possible] = NEVER
        cheapest_signs = costs.argmin(axis=0)
        images = linear_sum_assignment(costs.min(axis=0))[1]
        signs = np.where(cheapest_signs[every, images] == 0, 1, -1)
        trial = replace(signed, images=tuple(images.tolist()), signs=tuple(signs.tolist()))
        if not np.isnan(measured[(signs < 0).astype(np.int64), every, images]).any():
            break  # all pairs of the best assignment are measured
    return best


def _assumed_costs(signed: SignedMap, matcher: Matcher) -> Values:
    """Return costs ``[2, features, images]`` of unseen pairs: the lower, the better they fit the images of a map."""
    fits = matcher.fits_of_pairs(signed)
    ranks = np.argsort(np.argsort(-fits, axis=2, kind="stable"), axis=2, kind="stable") / fits.shape[1]
    return LEAST_UNSEEN + (MOST_UNSEEN - LEAST_UNSEEN) * ranks
