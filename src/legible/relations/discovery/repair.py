"""Repair of proposed maps by measured disagreement.

A search proposes maps by statistics of random play. Those can prefer a wrong map to the right one: in a maze that is no
square, states differ between the directions although every step is alike. The check of the environment is not misled.

`repair_images` lets it decide: each check of a map says for every feature in how many states its image is wrong.
`repair_actions` does the same for the images of discrete actions, `align_rare` maps features that hardly ever vary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from legible.relations.check.answers import Values
from legible.relations.discovery.sampling import Sample
from legible.relations.discovery.search import NEVER, Matcher
from legible.relations.discovery.signed_map import SignedMap

# With more features, screening repairs the images of maps.
MANY_FEATURES = 30
# Unseen pairs are assumed to disagree in this share of the level: the disagreement of the features that are looked at.
# The level begins at that of the worst feature, and is halved down to that of one state in a hundred.
UNSEEN_SHARE, LEAST_LEVEL = 0.25, 0.01
# The most rounds for one map, each of which checks a map or lowers the level, and the most checks in a row at one level
# that find no better map.
MOST_ROUNDS, MOST_VAIN_CHECKS = 40, 10
# Features that differ from their usual value in a smaller share of states may not vary in a screening.
RARE = 0.05
# Preference for staying, where features never vary.
TO_STAY = 1e-9


def repair_images(signed: SignedMap, judge: Callable[[SignedMap], Mapping[int, float]], matcher: Matcher) -> SignedMap:
    """Return the map with those images of features that disagree least.

    The disagreement of a feature hardly depends on the images of others, so that each check fills entries in a table of
    pairs. The assignment of least cost is checked next. Unseen pairs cost little compared with the worst features:
    these try other images, while the others stay. Then it is the turn of features that disagree less.

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
    all_features, structure = np.arange(n), matcher.structure
    possible = np.stack([structure.allowed, structure.opposite])[:, :n, :n]
    measured = np.full(possible.shape, np.nan)  # [2, features, images]: disagreement with equal and with opposite signs

    def pairs(of: SignedMap) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return the entries of a map in the table."""
        return (np.array(of.signs) < 0).astype(np.int64), all_features, np.array(of.images)

    def check(trial: SignedMap) -> Values:
        shares = judge(trial)
        return np.array([shares.get(i, 0.0) for i in range(n)])

    best, best_shares, checked = signed, check(signed), {signed}
    measured[pairs(best)] = best_shares
    ranks = _ranks_of_images(best, matcher)
    # Images that disagree more than about `level` are repaired now; checks are vain if they find no better map.
    level, vain_checks = best_shares.max(initial=0.0), 0
    for _ in range(MOST_ROUNDS):
        if level < LEAST_LEVEL:
            break
        costs = np.where(np.isnan(measured), UNSEEN_SHARE * level * (1 + ranks), measured)
        costs[~possible] = NEVER
        images = linear_sum_assignment(costs.min(axis=0))[1]
        signs = np.where(costs.argmin(axis=0)[all_features, images] == 0, 1, -1)
        trial = replace(signed, images=tuple(images.tolist()), signs=tuple(signs.tolist()))
        if trial in checked or vain_checks == MOST_VAIN_CHECKS:
            level, vain_checks = level / 2, 0
            continue
        checked.add(trial)
        shares = check(trial)
        if shares.sum() < best_shares.sum():
            best, best_shares, vain_checks = trial, shares, 0
            measured[pairs(best)] = best_shares
            ranks = _ranks_of_images(best, matcher)
        else:
            # Many wrong images can mislead the check about the features that kept theirs, so only changed pairs count.
            changed = (images != np.array(best.images)) | (signs != np.array(best.signs))
            measured[tuple(entry[changed] for entry in pairs(trial))] = shares[changed]
            vain_checks += 1
    return best


def repair_actions(signed: SignedMap, judge: Callable[[SignedMap, int], float]) -> SignedMap:
    """Return the map with images of discrete actions exchanged where that lowers the disagreement.

    The image of the first action stays, since the images of features were repaired with it. `judge` returns the
    disagreement of a map for one action, summed over features, reward and end.
    """
    for action in range(1, len(signed.action_images)):
        least = judge(signed, action)
        for other in range(action + 1, len(signed.action_images)):  # the images of earlier actions are settled
            images = list(signed.action_images)
            images[action], images[other] = images[other], images[action]
            trial = replace(signed, action_images=tuple(images))
            disagreement = judge(trial, action)
            if disagreement < least:
                signed, least = trial, disagreement
    return signed


def align_rare(signed: SignedMap, sample: Sample, matcher: Matcher) -> SignedMap:
    """Return the map with images of rarely varying features that occur in the images of the states they occur in.

    Example: a ghost is right here only when the path to it is short, so this flag goes where the length of its path
    goes. A feature is described by the mean state in which it differs from its usual value.
    """
    states = np.concatenate([sample.observations, sample.after])
    differs = states != np.median(states, axis=0)
    rare = np.flatnonzero(differs.mean(axis=0) < RARE)
    common = np.setdiff1d(np.arange(states.shape[1]), rare)
    images, signs = np.array(signed.images), np.array(signed.signs)
    common = common[~np.isin(images[common], rare)]
    if len(rare) < 2 or not np.isin(images[rare], rare).all():
        return signed
    standard = np.clip((states - states.mean(axis=0)) / np.maximum(states.std(axis=0), 1e-9), -3, 3)
    # means[half, rare feature, feature]: the mean state while the rare feature differs, 0 if it never does. One half is
    # compared with the other, so that a feature has no advantage from agreeing with itself. Features that nearly always
    # differ together, such as two ghosts that are scared, are separated by states in which few do, which weigh more.
    halves = np.tile(sample.units % 2, 2)
    weights = 0.1 ** differs[:, rare].sum(axis=1)
    means = np.zeros((2, len(rare), states.shape[1]))
    for half, row in np.ndindex(2, len(rare)):
        rows = differs[:, rare[row]] & (halves == half)
        if rows.any():
            means[half, row] = np.average(standard[rows], axis=0, weights=weights[rows])
    # costs[rare feature, image]: how far the mean state of the image is from the image of its own. Only
    # common features count, because their images are known.
    mapped_means, means_of_images = means[0][:, common] * signs[common], means[1][:, images[common]]
    costs = ((mapped_means[:, None, :] - means_of_images[None, :, :]) ** 2).mean(axis=2)
    costs += TO_STAY * (rare[:, None] != rare[None, :])
    equal, opposite = (
        allowed[np.ix_(rare, rare)] for allowed in (matcher.structure.allowed, matcher.structure.opposite)
    )
    costs[~(equal | opposite)] = NEVER
    columns = linear_sum_assignment(costs)[1]
    images[rare], signs[rare] = rare[columns], np.where(equal[np.arange(len(rare)), columns], 1, -1)
    return replace(signed, images=tuple(images.tolist()), signs=tuple(signs.tolist()))


def _ranks_of_images(signed: SignedMap, matcher: Matcher) -> Values:
    """Return ranks from 0 to 1 of the images of each feature, ``[2, features, images]``: the best fit to a map is 0."""
    fits = matcher.fits_of_pairs(signed)
    return np.argsort(np.argsort(-fits, axis=2, kind="stable"), axis=2, kind="stable") / fits.shape[1]
