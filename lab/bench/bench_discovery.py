"""Recall, precision and cost of the discovery of relations.

    python -m lab.bench discovery                                  # everything, on all cores
    python -m lab.bench.bench_discovery --jobs 2 CartPole-v1       # recall in some environments

Recall: every signed permutation that ships and that its check does not refute. The transitions of each environment are
scrambled (features in a random order, with random signs, without names); maps are proposed from them, mapped back, and
proven with the check. A shipped relation is found if the group of the proven maps contains it, up to features that
either ignores and features that never change, such as those of capsules in levels without any, and up to exchanges of
features that are always equal. Each scrambling is a discovery of its own with the usual budget, on seeds of its own.
`SCRAMBLINGS` did not serve the development of the search; other numbers did.

Precision: worlds with planted symmetries, and decoys with a wall, wind, unequal rewards or a biased motor; a relation
called exact is wrong if a referee finds a state that disagrees.

For driving only the verdicts of the check are listed: it refutes the mirror (the reward prefers the right lane), and
the other relations are no permutations (the last row has no image); neither are value tables (FrozenLake). `--quick`
takes two scramblings of the small environments. Full runs write ``results/discovery.txt``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

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
from legible.relations.discovery.discover import (
    DEFAULT_STEPS,
    MOST_PROPOSING,
    PROPOSING,
    SEARCH_SHARE,
    propose,
    usual_minutes,
)
from legible.relations.discovery.proving import PROVEN_STATES, Prover
from legible.relations.discovery.results import DiscoveredRelation
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
LARGE_ENVIRONMENTS = (
    "BipedalWalker-v3",
    *(f"legible/Pacman{level}-v0" for level in ("Small", "SmallNC", "Medium", "MediumNC", "Original", "OriginalNC")),
)
# The check refutes what ships for these, so that only its verdicts are listed.
REFUTED_ENVIRONMENTS = tuple(f"legible/{name}-v0" for name in ("Highway", "HighwayFast", "Merge", "Roundabout"))
# Numbers of the scramblings of reported figures.
SCRAMBLINGS = range(100, 105)
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


def count_wrong(
    found: Sequence[DiscoveredRelation],
    wanted: SignedMap,
    ignored: frozenset[int],
    actions: frozenset[int],
    alike: NDArray[np.int64],
) -> int:
    """Return how many features, but for ignored ones, the nearest map of the group of found maps maps otherwise.

    All features are wrong if no map of the group maps the actions as wanted. Features with the same number in `alike`
    are always equal, so that a map to one is a map to the other.
    """
    ignored = ignored.union(*(entry.candidate.ignored for entry in found))
    kept = [i for i in range(len(wanted.images)) if i not in ignored]

    def image_of(signed: SignedMap, action: int) -> tuple[int, int]:
        return signed.action_images[action], signed.action_signs[action]

    return min(
        (
            sum(
                (alike[element.images[i]], element.signs[i]) != (alike[wanted.images[i]], wanted.signs[i]) for i in kept
            )
            for element in close([entry.candidate.map for entry in found])
            if all(image_of(element, a) == image_of(wanted, a) for a in actions)
        ),
        default=len(wanted.images),
    )


class Recall(NamedTuple):
    """Which shipped relations one discovery found, with its cost."""

    environment: str
    scrambling: int
    wrong: dict[str, int]
    verdicts: dict[str, str]
    called: list[str]
    n_features: int
    steps: int
    seconds: float


def discover_scrambled(task: tuple[str, int]) -> Recall:
    """Discover relations of an environment from scrambled features, and look for the shipped ones."""
    name, scrambling = task
    started = time.monotonic()
    env = EnvironmentSpec(name).make()
    space = cut_choices(feature_space_of(env)).own
    deadline = started + 60 * usual_minutes(len(space))
    inputs = CheckInputs(env, space, None, PROVEN_STATES, scrambling, None, STAGES["discovery"].block * STAGE_EPISODES)
    settable = settable_checker(inputs, check.without_plain_wrappers(env))
    setter = settable if isinstance(settable, StateChecker) else None
    sample = draw_sample(inputs, setter, min(MOST_PROPOSING, round(PROPOSING * DEFAULT_STEPS)))
    rng = np.random.default_rng([2026, scrambling])
    order, signs = rng.permutation(len(space)), rng.choice([-1.0, 1.0], len(space))
    searched_until = started + SEARCH_SHARE * (deadline - started)
    maps = propose(sample.relabelled(order, signs), space, deadline=searched_until)
    prover = Prover(inputs, sample, DEFAULT_STEPS, deadline)
    found, _ = prover.prove(prover.screen_all([unscrambled(signed, order, signs) for signed in maps]))
    seconds = time.monotonic() - started
    shipped = list(shipped_maps(env, space))
    env.close()
    # Nothing tells features apart that never change, and a relation says the same whichever of them it exchanges.
    both = np.concatenate([sample.observations, sample.after])
    constant = frozenset(np.flatnonzero(np.ptp(both, axis=0) == 0.0).tolist())
    alike = np.unique(both, axis=1, return_inverse=True)[1].ravel()
    return Recall(
        environment=name,
        scrambling=scrambling,
        wrong={
            name: count_wrong(found, signed, ignored | constant, acts, alike)
            for name, signed, ignored, acts, _ in shipped
        },
        verdicts={relation: verdict for relation, *_, verdict in shipped},
        called=[f"{entry.verdict}: {entry.name}; {entry.ignored_text}" for entry in found],
        n_features=len(space),
        steps=prover.steps,
        seconds=seconds,
    )


def measure_recall(
    environments: Sequence[str], scramblings: Sequence[int], jobs: int, lines: list[str]
) -> dict[str, tuple[int, int]]:
    """Return found and wanted relations by verdict of the check."""
    # The large ones first, so that no process waits for a late one.
    tasks = [(name, scrambling) for name in reversed(environments) for scrambling in scramblings]
    results: dict[str, list[Recall]] = defaultdict(list)
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for recall in pool.imap_unordered(discover_scrambled, tasks):
            results[recall.environment].append(recall)
            names = ", ".join(relation for relation, wrong in recall.wrong.items() if not wrong) or "nothing"
            print(f"  {recall.environment} {recall.scrambling}: {recall.seconds:.0f} s, found {names}", flush=True)
            for called in recall.called:
                print(f"      {called}", flush=True)
    counts: dict[str, tuple[int, int]] = {}
    for name in environments:
        recalls = sorted(results[name], key=lambda recall: recall.scrambling)
        # With other seeds the check may say otherwise; the commonest verdict counts.
        for relation in recalls[0].wrong:
            said = [recall.verdicts[relation] for recall in recalls]
            verdict = max(sorted(set(said)), key=said.count)
            wrong = [recall.wrong[relation] for recall in recalls]
            hits = wrong.count(0)
            near = ", ".join(str(count) for count in sorted(wrong) if 0 < count < recalls[0].n_features)
            lines.append(
                f"{name:28s} {relation:26s} check: {verdict:20s} found {hits} of {len(recalls)}"
                + (f"; features wrong in others: {near}" if near else "")
            )
            before = counts.get(verdict, (0, 0))
            counts[verdict] = before[0] + hits, before[1] + len(recalls)
        seconds, steps = max(recall.seconds for recall in recalls), max(recall.steps for recall in recalls)
        lines.append(f"{name:28s} {recalls[0].n_features} features: at most {steps} steps and {seconds:.0f} s")
    return counts


def list_verdicts(name: str) -> list[str]:
    """Return the verdicts of the check on the signed permutations that ship for an environment."""
    env = EnvironmentSpec(name).make()
    shipped = shipped_maps(env, cut_choices(feature_space_of(env)).own)
    lines = [f"{name:28s} {relation:26s} check: {verdict:20s} not searched" for relation, *_, verdict in shipped]
    env.close()
    return lines


def discover_in_world(task: tuple[str, str]) -> tuple[str, str, int, int, int, str]:
    """Return world, flaw, and the numbers of exact, wrong and approximate relations, with the cost in words."""
    world, flaw = task
    arguments, _ = WORLDS[world]
    env = PlantedWorld(**arguments, flaw=flaw)
    found = discover_relations(env)
    called = [entry for entry in found.found if entry.verdict == "exact as far as seen"]
    wrong = sum(count_disagreements(env, entry.relations) > 0 for entry in called)
    cost = f"{found.screened} proposals, {found.steps} steps, {found.seconds:.0f} s"
    return world, flaw, len(called), wrong, len(found.found) - len(called), cost


def measure_precision(jobs: int, lines: list[str]) -> None:
    """Count wrong relations that are called exact, in worlds and decoys."""
    tasks = [(world, flaw) for world in WORLDS for flaw in ("", *FLAWS)]
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        results = pool.map(discover_in_world, tasks, chunksize=1)
    for world, flaw, exact, wrong, approximate, cost in results:
        lines.append(
            f"{world:20s} {flaw or 'symmetric':16s} exact {exact}, wrong {wrong}, approximate {approximate}; {cost}"
        )
    decoys = [entry for entry in results if entry[1]]
    planted = sum(entry[2] > 0 and entry[3] == 0 for entry in results if not entry[1])
    lines.append(
        f"Precision: {sum(entry[3] for entry in decoys)} wrong of {sum(entry[2] for entry in decoys)} relations called "
        f"exact in {len(decoys)} decoys; planted relations found in {planted} of {len(WORLDS)} symmetric worlds."
    )
    print("\n".join(lines), flush=True)


def describe_machine(jobs: int) -> str:
    """Return commit, processor and number of processes."""
    git = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parent,
    )
    processors = [line for line in _processor_lines() if line.startswith("model name")]
    model = processors[0].partition(":")[2].strip() if processors else platform.processor()
    return f"commit {git.stdout.strip() or 'unknown'}; {model}, {os.cpu_count()} cores, {jobs} processes at a time"


def _processor_lines() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def main(
    quick: bool = False,
    jobs: int = 0,
    environments: Sequence[str] = (),
    scramblings: Sequence[int] = SCRAMBLINGS,
) -> None:
    """Measure and print; runs of everything write the results."""
    jobs = jobs or os.cpu_count() or 1
    lines = ["python -m lab.bench discovery", describe_machine(jobs), "", "Precision", ""]
    if not environments:
        measure_precision(jobs, lines)
    lines += ["", f"Recall, scramblings {scramblings[0]} to {scramblings[-1]}", ""]
    names = environments or (SMALL_ENVIRONMENTS if quick else SMALL_ENVIRONMENTS + LARGE_ENVIRONMENTS)
    totals = measure_recall(names, scramblings[:2] if quick else scramblings, jobs, lines)
    if not quick and not environments:
        for name in REFUTED_ENVIRONMENTS:
            lines += list_verdicts(name)
    lines.append("")
    for verdict, (hits, wanted) in sorted(totals.items()):
        lines.append(f"Relations for which the check says “{verdict}”: found {hits} of {wanted}")
    print("\n".join(lines))
    if not quick and not environments:
        RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Recall, precision and cost of the discovery of relations.")
    parser.add_argument("environments", nargs="*", metavar="ENV", help="recall in these only; all by default")
    parser.add_argument("--jobs", type=int, default=0, help="processes at a time; as many as cores by default")
    parser.add_argument("--quick", action="store_true", help="two scramblings, small environments only")
    parser.add_argument("--scramblings", type=int, nargs="+", default=SCRAMBLINGS, help="their numbers")
    given = parser.parse_args()
    main(given.quick, given.jobs, given.environments, given.scramblings)
