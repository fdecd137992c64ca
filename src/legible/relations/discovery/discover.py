"""`discover_relations`: finds relations of an environment, and proves them on seeds that proposed none of them.

Proposals come from one set of transitions (`sampling`, `structure`, `search`). Each is screened with the check of the
environment on the same seeds; features that break an otherwise valid relation are ignored. Those that pass are proven
with the same check on seeds of their own, corrected for the number of all proposals that were screened.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from legible.environments import Env, EnvironmentSpec, as_environment, feature_space_of
from legible.errors import LegibleError
from legible.features import FeatureSpace, cut_choices
from legible.play.stages import STAGE_EPISODES, STAGES
from legible.relations.check import without_plain_wrappers
from legible.relations.check.answers import CheckInputs, OnProgress
from legible.relations.check.settable import StateChecker, settable_checker
from legible.relations.discovery.choice_search import choice_search
from legible.relations.discovery.parts import Parts
from legible.relations.discovery.proving import PROVEN_STATES, SMALL, Prover
from legible.relations.discovery.repair import MANY_FEATURES
from legible.relations.discovery.results import Discovery
from legible.relations.discovery.sampling import Sample, draw_sample
from legible.relations.discovery.search import Proposal, search_maps
from legible.relations.discovery.signed_map import SignedMap
from legible.relations.discovery.structure import Structure
from legible.streams import check_seed

DEFAULT_STEPS = 200_000
MOST_FEATURES = 120
# Minutes for at most FEW_FEATURES features, and for MOST_FEATURES; in proportion between them.
LEAST_MINUTES, MOST_MINUTES, FEW_FEATURES = 2.0, 10.0, 30
# Share of the steps for proposals, and the most that they need.
PROPOSING, MOST_PROPOSING = 0.3, 60_000
# Share of the time for the search.
SEARCH_SHARE = 0.45
# Share of that time for the search of maps of choices, and the seed of its starts.
CHOICES_SHARE, SEARCH_SEED = 0.6, 11
MOST_MISMATCH = 0.75
# Of many features, no other maps are searched with that many maps of choices: screening repairs images.
ENOUGH_PROPOSALS = 12


def discover_relations(
    environment: str | EnvironmentSpec | Env,
    space: FeatureSpace | None = None,
    *,
    steps: int = DEFAULT_STEPS,
    minutes: float | None = None,
    seed: int = 0,
    on_progress: OnProgress | None = None,
    parts_folder: Path | None = None,
) -> Discovery:
    """Find relations of an environment: signed permutations of features with a map of actions.

    Parameters
    ----------
    environment
        An id or ``module:factory``, a spec, or one environment.
    space
        Names of features and actions; by default those of `legible.environments.resolve_names`.
    steps, minutes
        Budget; by default `usual_minutes`. Proposals that time leaves no room for are not proven. Time counts over all
        runs with the same `parts_folder`.
    seed
        Random seed; the same seed gives the same relations unless time runs out.
    on_progress
        Called with the share that is done and the current activity.
    parts_folder
        Folder for finished parts. A discovery that was stopped goes on from there, with the same result as without the
        stop unless time runs out. It is deleted when the discovery is complete.
    """
    check_seed(seed)
    if steps < 2000 or (minutes is not None and minutes <= 0):
        raise LegibleError(
            f"discovery needs at least 2000 steps and some time, got {steps} steps"
            f"{'' if minutes is None else f', {minutes:g} minutes'}."
        )
    environment = as_environment(environment)
    is_made_here = isinstance(environment, EnvironmentSpec)
    env = environment.make() if isinstance(environment, EnvironmentSpec) else environment
    try:
        # Features without derived ones, which follow from the others; continuous actions cut into regions.
        named = cut_choices(feature_space_of(env, space)).own
        if len(named) > MOST_FEATURES:
            raise LegibleError(
                f"{len(named)} features are too many to search for relations (at most {MOST_FEATURES}); "
                "choose some of them with a features file, or write the relations."
            )
        minutes = usual_minutes(len(named)) if minutes is None else minutes
        key = json.dumps([repr(environment), named.names, named.action_names, steps, seed])
        parts = Parts(parts_folder, key)
        deadline = time.monotonic() - parts.seconds + 60 * minutes
        # Candidates: drawn transitions, and maps that these suggest.
        first_episode = STAGES["discovery"].block * STAGE_EPISODES
        inputs = CheckInputs(env, named, None, PROVEN_STATES, seed, on_progress, first_episode)
        # A `StateChecker` also sets the states of the sample; a checker of tables of transitions cannot.
        checker = settable_checker(inputs, without_plain_wrappers(env))
        state_checker = checker if isinstance(checker, StateChecker) else None
        inputs.report(0.05, "playing")
        sample_steps = min(round(PROPOSING * steps), MOST_PROPOSING)
        sample = parts.once("sample", lambda: draw_sample(inputs, state_checker, sample_steps))
        begun = time.monotonic()
        search_seconds = max(SEARCH_SHARE * (deadline - begun), 0.0)
        maps = parts.once(
            "proposals",
            lambda: propose(sample, named, deadline=begun + search_seconds, on_progress=on_progress),
            # A search that took longer may have been cut short.
            keep_if=lambda: time.monotonic() < begun + CHOICES_SHARE * search_seconds,
        )
        # Screening on the same seeds, and proof on others.
        prover = Prover(inputs, sample, steps, deadline, parts)
        found, rejected = prover.prove(prover.screen_all(maps))
        is_complete = time.monotonic() < deadline
        if is_complete:
            parts.remove()
        name = environment.name if isinstance(environment, EnvironmentSpec) else _name_of(env)
        return Discovery(name, named, found, rejected, prover.screened, prover.steps, parts.seconds, is_complete)
    finally:
        if is_made_here:
            env.close()


def usual_minutes(n_features: int) -> float:
    """Return the time budget of a discovery: 2 minutes up to 30 features, 10 minutes for 120.

    >>> usual_minutes(4), usual_minutes(75), usual_minutes(120)
    (2.0, 6.0, 10.0)
    """
    share = max(n_features - FEW_FEATURES, 0) / (MOST_FEATURES - FEW_FEATURES)
    return LEAST_MINUTES + share * (MOST_MINUTES - LEAST_MINUTES)


def _name_of(env: Env) -> str:
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__


def propose(
    sample: Sample, space: FeatureSpace, *, deadline: float = math.inf, on_progress: OnProgress | None = None
) -> list[SignedMap]:
    """Return signed maps that may be symmetries, the most promising first; names play no part."""
    begun = time.monotonic()

    def stop_after(share: float) -> Callable[[], bool]:
        def stop() -> bool:
            if on_progress is not None:
                on_progress(0.2, "searching")
            return time.monotonic() > begun + share * (deadline - begun)

        return stop

    search = choice_search(sample)  # None without choices: groups of flags of which exactly one is on
    proposals = search.search(np.random.default_rng(SEARCH_SEED), stop_after(CHOICES_SHARE)) if search else []
    if len(space) > MANY_FEATURES and len(proposals) >= ENOUGH_PROPOSALS:
        proposals = _alternate(proposals)
    else:
        most_mismatch = math.inf if len(space) <= SMALL else MOST_MISMATCH
        proposals += search_maps(Structure.of(sample), most_mismatch, stop_after(1.0))
    if not space.is_discrete:
        # Parts of an action map only to parts of the same kind and size.
        kinds = [(group.count, group.regions is None) for group in space.groups]
        proposals = [p for p in proposals if all(kinds[g] == kinds[i] for g, i in enumerate(p.map.action_images))]
    return [proposal.map for proposal in proposals]


def _alternate(proposals: Sequence[Proposal]) -> list[Proposal]:
    """Return proposals in another order: first the best for each image of the first action, then the second best.

    Maps that keep all actions count apart: they exchange features. Screening repairs other images, of actions, too.
    """
    counts: dict[tuple[int, bool], int] = {}
    ranked = []
    for number, proposal in enumerate(proposals):
        kind = proposal.map.action_images[0], proposal.map.changes_actions
        counts[kind] = counts.get(kind, 0) + 1
        ranked.append((counts[kind], number))
    return [proposals[number] for _, number in sorted(ranked)]
