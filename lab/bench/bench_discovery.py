"""Recall and precision of the discovery of relations.

    python -m lab.bench discovery

Recall: the transitions of environments whose relations ship are scrambled five times (features in a random order, with
random signs, without names), maps are proposed from them, mapped back, and proven with the check. A shipped relation is
found if the group of the proven maps contains it, up to features that either ignores. Precision: worlds with planted
symmetries, and decoys with a wall, wind, unequal rewards or a biased motor; a relation called exact is wrong if a
referee finds a state that disagrees. Each scrambling has the usual budget; what is screened or proven in one is not
screened again in the next.

The driving environments are left out, because the check refutes all of their relations, and so are value tables
(FrozenLake). `--quick` takes two scramblings of the small environments. The results are in ``results/discovery.txt``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lab.bench.discovery_worlds import FLAWS, WORLDS, PlantedWorld, count_disagreements
from legible.environments import Env, EnvironmentSpec, feature_space_of
from legible.features import FeatureSpace, cut_choices
from legible.play.stages import STAGE_EPISODES, STAGES
from legible.relations import by_name, check, load_relations, shipped_relations
from legible.relations.actions import whole_groups
from legible.relations.check.answers import CheckInputs
from legible.relations.check.settable import StateChecker, settable_checker
from legible.relations.discovery import discover_relations
from legible.relations.discovery.candidates import Candidate
from legible.relations.discovery.discover import (
    DEFAULT_STEPS,
    MOST_PROPOSING,
    PROVEN_STATES,
    DiscoveredRelation,
    Prover,
    propose,
)
from legible.relations.discovery.sampling import draw_sample
from legible.relations.discovery.signed_map import SignedMap, close
from legible.relations.values import Affine, Anything, Equal

SMALL_ENVIRONMENTS = (
    "CartPole-v1",
    "Acrobot-v1",
    "Pendulum-v1",
    "MountainCar-v0",
    "MountainCarContinuous-v0",
    "InvertedPendulum-v5",
    "Walker2d-v5",
    "LunarLander-v3",
    "LunarLanderContinuous-v3",
)
LARGE_ENVIRONMENTS = ("legible/PacmanSmall-v0", "BipedalWalker-v3")
SCRAMBLINGS = 5
SEARCH_SECONDS, PROVING_SECONDS = 60.0, 120.0
RESULTS = Path(__file__).parent / "results" / "discovery.txt"


def shipped_maps(env: Env, space: FeatureSpace) -> Iterator[tuple[str, SignedMap, frozenset[int], frozenset[int], str]]:
    """Yield name, map, ignored features, mapped actions and the verdict of the check for every shipped relation."""
    for file in shipped_relations(env):
        relations = load_relations(file.path, space)
        for name, group in by_name(relations).items():
            first = group[0]
            kinds = {type(fr.relation) for fr in first.features}
            if first.unmapped or not kinds <= {Affine, Anything, Equal}:
                continue
            images, signs = list(range(len(space))), [1] * len(space)
            for fr in first.features:
                if not isinstance(fr.relation, Anything):
                    images[fr.feature] = fr.image_feature
                    signs[fr.feature] = -1 if isinstance(fr.relation, Affine) and fr.relation.scale < 0 else 1
            pairs = {relation.action: relation.image_action for relation in group}
            if space.is_discrete:
                action_images = [pairs.get(a, a) for a in range(len(space.actions))]
                action_signs, known = [1] * len(action_images), frozenset(pairs)
            else:
                links = {link.group: link for link in whole_groups(pairs, space)}
                action_images = [links[g].image if g in links else g for g in range(len(space.groups))]
                action_signs = [-1 if g in links and links[g].negated else 1 for g in range(len(space.groups))]
                known = frozenset(range(len(space.groups)))
            signed = SignedMap(tuple(images), tuple(signs), tuple(action_images), tuple(action_signs))
            verdicts = {answer.verdict for answer in check.check_relations(env, group, space)}
            verdict = next(v for v in ("does not hold", "cannot tell", "holds approximately", "holds") if v in verdicts)
            yield name, signed, first.ignored, known, verdict


def unscrambled(signed: SignedMap, order: NDArray[np.int64], signs: NDArray[np.float64]) -> SignedMap:
    """Return a map of scrambled features as one of the original features."""
    images, its_signs = [0] * len(order), [1] * len(order)
    for new, old in enumerate(order.tolist()):
        image = int(order[signed.images[new]])
        images[old], its_signs[old] = image, int(signed.signs[new] * signs[old] * signs[image])
    return SignedMap(tuple(images), tuple(its_signs), signed.action_images, signed.action_signs)


def contains(
    found: list[DiscoveredRelation], wanted: SignedMap, ignored: frozenset[int], actions: frozenset[int]
) -> bool:
    """Return whether the group of the found maps contains a map, up to ignored features."""
    ignored = ignored.union(*(entry.candidate.ignored for entry in found))
    kept = [i for i in range(len(wanted.images)) if i not in ignored]

    def key(signed: SignedMap) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        return [(signed.images[i], signed.signs[i]) for i in kept], [
            (signed.action_images[a], signed.action_signs[a]) for a in sorted(actions)
        ]

    return any(key(element) == key(wanted) for element in close([entry.candidate.map for entry in found]))


def measure_recall(name: str, scramblings: int, lines: list[str]) -> dict[str, tuple[int, int]]:
    """Return found and wanted relations by verdict of the check, for one environment."""
    env = EnvironmentSpec(name).make()
    space = cut_choices(feature_space_of(env)).own
    shipped = list(shipped_maps(env, space))
    inputs = CheckInputs(env, space, None, PROVEN_STATES, 0, None, STAGES["discovery"].block * STAGE_EPISODES)
    settable = settable_checker(inputs, check.without_plain_wrappers(env))
    setter = settable if isinstance(settable, StateChecker) else None
    sample = draw_sample(inputs, setter, min(MOST_PROPOSING, round(0.3 * DEFAULT_STEPS)))
    prover = Prover(inputs, sample, DEFAULT_STEPS, math.inf)
    prover.screen = cache(prover.screen)  # type: ignore[method-assign]
    proven: dict[Candidate, DiscoveredRelation] = {}
    rng = np.random.default_rng(2024)
    counts: dict[str, tuple[int, int]] = {}
    hits = {entry[0]: 0 for entry in shipped}
    searching = 0.0
    for _ in range(scramblings):
        order, signs = rng.permutation(len(space)), rng.choice([-1.0, 1.0], len(space))
        started = time.monotonic()
        maps = propose(sample.relabelled(order, signs), space, deadline=started + SEARCH_SECONDS)
        searching += time.monotonic() - started
        prover.steps, prover.deadline = sample.steps, time.monotonic() + PROVING_SECONDS
        passed = prover.screen_all([unscrambled(signed, order, signs) for signed in maps])
        new = [candidate for candidate in passed if candidate not in proven]
        for entries in prover.prove(new):
            proven |= {entry.candidate: entry for entry in entries}
        found = [proven[c] for c in passed if c in proven and proven[c].verdict != "rejected"]
        for relation, wanted, ignored, actions, _ in shipped:
            hits[relation] += contains(found, wanted, ignored, actions)
    for relation, _, _, _, verdict in shipped:
        lines.append(f"{name:28s} {relation:26s} check: {verdict:20s} found {hits[relation]} of {scramblings}")
        before = counts.get(verdict, (0, 0))
        counts[verdict] = before[0] + hits[relation], before[1] + scramblings
    lines.append(
        f"{name:28s} {len(space)} features, {sample.steps} steps of proposals, search {searching / scramblings:.1f} s"
    )
    print("\n".join(lines[-len(shipped) - 1 :]), flush=True)
    env.close()
    return counts


def measure_precision(lines: list[str]) -> None:
    """Count wrong relations that are called exact, in worlds and decoys."""
    wrong = exact = planted = 0
    for world, (arguments, _) in WORLDS.items():
        for flaw in ("", *FLAWS):
            env = PlantedWorld(**arguments, flaw=flaw)
            found = discover_relations(env)
            called = [entry for entry in found.found if entry.verdict == "exact as far as seen"]
            errors = sum(count_disagreements(env, entry.relations) > 0 for entry in called)
            if flaw:
                wrong, exact = wrong + errors, exact + len(called)
            else:
                planted += bool(called) and not errors
            lines.append(
                f"{world:20s} {flaw or 'symmetric':16s} exact {len(called)}, wrong {errors}, "
                f"approximate {len(found.found) - len(called)}; "
                f"{found.screened} proposals, {found.steps} steps, {found.seconds:.0f} s"
            )
            print(lines[-1], flush=True)
    decoys = len(WORLDS) * len(FLAWS)
    lines.append(
        f"Precision: {wrong} wrong of {exact} relations called exact in {decoys} decoys; planted relations found"
    )
    lines[-1] += f" in {planted} of {len(WORLDS)} symmetric worlds."
    print(lines[-1])


def main(quick: bool = False) -> None:
    """Measure and print; full runs write the results."""
    lines: list[str] = []
    measure_precision(lines)
    totals: dict[str, tuple[int, int]] = {}
    for name in SMALL_ENVIRONMENTS if quick else SMALL_ENVIRONMENTS + LARGE_ENVIRONMENTS:
        for verdict, (hits, wanted) in measure_recall(name, 2 if quick else SCRAMBLINGS, lines).items():
            before = totals.get(verdict, (0, 0))
            totals[verdict] = before[0] + hits, before[1] + wanted
    for verdict, (hits, wanted) in sorted(totals.items()):
        lines.append(f"Recall of relations for which the check says “{verdict}”: {hits} of {wanted}")
        print(lines[-1])
    if not quick:
        RESULTS.write_text("python -m lab.bench discovery\n\n" + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
