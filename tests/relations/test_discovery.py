"""Discovery of relations, in worlds with planted symmetries and in decoys."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from lab.bench.discovery_worlds import FLAWS, WORLDS, PlantedWorld, count_disagreements
from legible.cli.relations import relations as relations_command
from legible.engines import InProcess
from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.features import cut_choices
from legible.relations import generalise, parse_relations, resolve_relations
from legible.relations.check import check_relations
from legible.relations.check.answers import CheckInputs
from legible.relations.discovery import discover_relations
from legible.relations.discovery.candidates import Candidate
from legible.relations.discovery.choice_search import ChoiceSearch
from legible.relations.discovery.discover import propose
from legible.relations.discovery.parts import Parts
from legible.relations.discovery.proving import Prover
from legible.relations.discovery.repair import align_rare, repair_actions, repair_images
from legible.relations.discovery.sampling import Sample
from legible.relations.discovery.search import Matcher
from legible.relations.discovery.signed_map import SignedMap, close
from legible.relations.discovery.structure import Structure, find_choices
from legible.rules import RuleSet, parse_rule
from legible.study import Study
from small_studies import SETTINGS

TURN = SignedMap((1, 2, 3, 0), (1, 1, 1, 1), (1, 2, 3, 0), (1, 1, 1, 1))
FLIP = SignedMap((0, 3, 2, 1), (1, 1, 1, 1), (0, 3, 2, 1), (1, 1, 1, 1))


def test_group_of_the_square():
    assert TURN.order == 4
    assert FLIP.then(FLIP).is_identity
    group = close([TURN, FLIP])
    assert len(group) == 8
    assert FLIP.then(TURN) in group
    assert FLIP not in close([TURN])


def test_signs_multiply():
    mirror = SignedMap((0, 1), (-1, 1), (0,), (-1,))
    both = mirror.then(SignedMap((1, 0), (1, -1), (0,), (-1,)))
    assert (both.images, both.signs, both.action_signs) == ((1, 0), (-1, -1), (1,))


def test_ignored_features_keep_their_place():
    signed = SignedMap((1, 0, 2), (1, 1, -1), (0,), (1,))
    candidate = Candidate(signed, (0.0, 0.0, 0.0)).ignoring(frozenset({0}))
    assert candidate.ignored == {0, 1}
    assert candidate.map.changes == (2,)
    images = candidate.apply(np.array([[1.0, 2.0, 3.0]]))
    assert images.tolist() == [[1.0, 2.0, -3.0]]


def test_relations_that_ignore_more_follow_from_those_that_ignore_less():
    signed = SignedMap((1, 0, 2), (1, 1, -1), (0,), (1,))
    full = Candidate(signed, (0.0, 0.0, 0.0))
    part = full.ignoring(frozenset({2}), {2: 0.25})
    assert part.prices == ((2, 0.25),)
    assert part.follows_from([full])
    assert not full.follows_from([part])


def test_wrong_images_are_corrected():
    matcher = Matcher(Structure.of(drawn_sample()))
    turn = SignedMap((1, 0, 2), (1, -1, 1), (1, 2, 3, 0), (1, 1, 1, 1))
    wrong = replace(turn, signs=(1, 1, 1))
    assert matcher.correct(wrong, frozenset({1}), {(1, 0, 1)}) == turn


def drawn_sample(n: int = 6000, seed: int = 0) -> Sample:
    """Transitions of a plane with four moves, in which x and y are alike and so are all directions."""
    rng = np.random.default_rng(seed)
    states, actions = rng.uniform(-1, 1, (n, 3)), rng.integers(4, size=n)
    moves = np.array([[0.1, 0], [0, 0.1], [-0.1, 0], [0, -0.1]])[actions]
    after = states.copy()
    after[:, :2] = 0.9 * states[:, :2] + moves
    after[:, 2] = 0.5 * states[:, 2] + 0.2 * (states[:, 0] ** 2 + states[:, 1] ** 2)
    return Sample(
        states, actions, -(states[:, :2] ** 2).sum(axis=1), after, np.zeros(n, bool), 4, states[:50], n, np.arange(n)
    )


def test_the_plane_has_the_symmetries_of_the_square():
    sample = drawn_sample()
    maps = propose(sample, PlantedWorld(carts=1, meter=True).feature_space)[:40]
    turn = SignedMap((1, 0, 2), (1, -1, 1), (1, 2, 3, 0), (1, 1, 1, 1))
    flip = SignedMap((0, 1, 2), (1, -1, 1), (0, 3, 2, 1), (1, 1, 1, 1))
    square = {signed for signed in close([turn, flip]) if not signed.is_identity}
    assert len(square) == 7
    assert square <= set(maps)


def wide_field(n: int = 6000, seed: int = 0) -> Sample:
    """Steps north, east, south and west to a goal in a field of 9 by 4 cells, which is thus no square.

    Features: the direction of the goal (north, east, south, west, here), which directions are open, the distance.
    """
    rng = np.random.default_rng(seed)
    steps, size = np.array([[0, 1], [1, 0], [0, -1], [-1, 0]]), np.array([9, 4])
    places, goals = rng.integers(0, size, (2, n, 2))
    actions = rng.integers(4, size=n)
    sideways = rng.random(n) < 0.5

    def show(places):
        way = goals - places
        along_x = (way[:, 1] == 0) | (sideways & (way[:, 0] != 0))
        direction = np.where(along_x, 2 - np.sign(way[:, 0]), 1 - np.sign(way[:, 1]))
        direction[(way == 0).all(axis=1)] = 4
        reached = places[:, None] + steps
        is_open = ((reached >= 0) & (reached < size)).all(axis=2)
        return np.column_stack([np.eye(5)[direction], is_open, np.abs(way).sum(axis=1)]).astype(float)

    moved = np.clip(places + steps[actions], 0, size - 1)
    here = (moved == goals).all(axis=1)
    return Sample(show(places), actions, here.astype(float), show(moved), here, 4, show(places)[:50], n, np.arange(n))


def test_choices_turn_in_a_field_that_is_no_square():
    order, signs = np.array([7, 2, 9, 0, 4, 5, 1, 8, 3, 6]), np.array([1, -1, 1, 1, -1, 1, 1, -1, 1, 1.0])
    sample = wide_field().relabelled(order, signs)
    (choice,) = find_choices(sample)
    assert set(order[choice].tolist()) == {0, 1, 2, 3, 4}
    search = ChoiceSearch(Structure.of_support(sample), [choice])
    proposals = search.search(np.random.default_rng(0))
    turn = np.array([1, 2, 3, 0, 4, 6, 7, 8, 5, 9])
    # In the scrambled sample, feature k is the original feature order[k], with its sign.
    places, signs = np.argsort(order), signs[order]
    images = tuple(places[turn[order]].tolist())
    turned = SignedMap(images, tuple((signs * signs[list(images)]).astype(int).tolist()), (1, 2, 3, 0), (1, 1, 1, 1))
    assert turned in close([proposal.map for proposal in proposals[:3]])


def test_relabelling_relabels_the_mismatch():
    sample = drawn_sample()
    turned = SignedMap((1, 0, 2), (1, -1, 1), (1, 2, 3, 0), (1, 1, 1, 1))
    matcher = Matcher(Structure.of(sample))
    good = matcher.mismatch(np.array([1, 2, 3, 0]), np.array(turned.images), np.array(turned.signs, float))
    bad = matcher.mismatch(np.array([1, 0, 3, 2]), np.array(turned.images), np.array(turned.signs, float))
    assert good < 0.2
    assert bad > 2 * good
    other = sample.relabelled(np.array([2, 0, 1]), np.array([1.0, -1.0, 1.0]))
    matcher = Matcher(Structure.of(other))
    # Features are now (meter, x, -y): the turn takes x to -(-y) and -y to x.
    again = matcher.mismatch(np.array([1, 2, 3, 0]), np.array([0, 2, 1]), np.array([1.0, -1.0, 1.0]))
    assert again == pytest.approx(good, abs=1e-6)


def test_exchanging_equal_features_is_no_relation():
    sample = drawn_sample(200)
    sample = replace(sample, observations=sample.observations[:, [0, 0, 2]], after=sample.after[:, [0, 0, 2]])
    world = PlantedWorld(carts=1, meter=True)
    inputs = CheckInputs(world, cut_choices(world.feature_space).own, 1, 64, 0)
    prover = Prover(inputs, sample, 10_000, math.inf)
    prover._settle = lambda signed: Candidate(signed, (0.0, 0.0, 0.0))
    actions = tuple(range(len(world.feature_space.actions)))
    ones = (1,) * len(actions)
    assert prover.screen(SignedMap((1, 0, 2), (1, 1, 1), actions, ones)) is None
    assert prover.screen(SignedMap((0, 1, 2), (-1, 1, 1), actions, ones)) is not None


@pytest.mark.slow
@pytest.mark.parametrize("name", list(WORLDS)[:1])  # all of them: python -m lab.bench discovery
def test_planted_relations_are_found_and_exact(name):
    arguments, toml = WORLDS[name]
    world = PlantedWorld(**arguments)
    found = discover_relations(world, steps=150_000)
    assert all(entry.verdict == "exact as far as seen" for entry in found.found)
    assert all(count_disagreements(world, entry.relations, 500) == 0 for entry in found.found)
    assert all(0 < entry.bound < 0.01 for entry in found.found)
    (planted,) = {tuple(sorted(r.ignored)) for r in parse_relations(toml, cut_choices(world.feature_space))}
    assert planted in {tuple(sorted(entry.candidate.ignored)) for entry in found.found}


@pytest.mark.slow
@pytest.mark.parametrize("flaw", FLAWS[:2])
def test_decoys_have_no_exact_relation(flaw):
    found = discover_relations(PlantedWorld(flaw=flaw), steps=60_000)
    assert not [entry for entry in found.found if entry.verdict == "exact as far as seen"]


@pytest.mark.slow
def test_same_seed_same_relations_and_file():
    world = PlantedWorld()
    one, other = (discover_relations(world, steps=30_000, seed=3) for _ in range(2))
    assert one.toml() == other.toml()
    assert replace(one, seconds=0.0).to_dict() == replace(other, seconds=0.0).to_dict()
    read = parse_relations(one.toml(), cut_choices(world.feature_space))
    assert [(r.action, r.image_action, r.features) for r in read] == [
        (r.action, r.image_action, r.features) for r in one.relations
    ]
    assert one.found[0].bound == pytest.approx(math.log(one.screened / 0.05) / one.found[0].transitions)


def test_features_that_rarely_vary_follow_the_others():
    states = np.random.default_rng(0).standard_normal((3000, 2))
    # The third is on where the first is large, the fourth where the second is, the last two never.
    states = np.column_stack([states, states > 2.2, np.zeros((3000, 2))])
    none = np.zeros(3000)
    sample = Sample(states, none.astype(int), none, states, none > 0, 1, states[:5], 3000, np.arange(3000))
    swapped = SignedMap((1, 0, 2, 3, 4, 5), (1,) * 6, (0,), (1,))
    aligned = align_rare(swapped, sample, Matcher(Structure.of(sample)))
    assert aligned == replace(swapped, images=(1, 0, 3, 2, 4, 5))


def test_images_of_actions_are_repaired():
    turn = SignedMap((0,), (1,), (1, 2, 3, 0), (1, 1, 1, 1))
    wrong = replace(turn, action_images=(1, 0, 2, 3))
    judge = lambda signed, action: float(signed.action_images[action] != turn.action_images[action])  # noqa: E731
    assert repair_actions(wrong, judge) == turn


class StoppedError(Exception):
    """The process ends here."""


@pytest.mark.slow
@pytest.mark.parametrize("last_part", ["sample", "proposals", "screened-0", "proven-0"])
def test_a_discovery_that_was_stopped_goes_on_with_the_same_result(tmp_path, monkeypatch, last_part):
    world, folder = EnvironmentSpec("lab.bench.discovery_worlds:PlantedWorld"), tmp_path / "parts"
    undisturbed = discover_relations(world, steps=30_000, seed=3)
    finished = []
    once = Parts.once

    def once_until_stopped(parts, name, compute, keep_if=lambda: True):
        result = once(parts, name, compute, keep_if)
        finished.append(name)
        if name == last_part:
            raise StoppedError
        return result

    monkeypatch.setattr(Parts, "once", once_until_stopped)
    with pytest.raises(StoppedError):
        discover_relations(world, steps=30_000, seed=3, parts_folder=folder)
    assert {f"{name}.npz" for name in finished} < {path.name for path in folder.iterdir()}

    computed = []

    def once_counted(parts, name, compute, keep_if=lambda: True):
        return once(parts, name, lambda: (computed.append(name), compute())[1], keep_if)

    monkeypatch.setattr(Parts, "once", once_counted)
    again = discover_relations(world, steps=30_000, seed=3, parts_folder=folder)
    assert not set(computed) & set(finished)
    assert replace(again, seconds=0.0).to_dict() == replace(undisturbed, seconds=0.0).to_dict()
    assert not folder.exists()


def test_parts_of_other_settings_are_not_taken(tmp_path):
    folder = tmp_path / "parts"
    assert Parts(folder, "one").once("sample", lambda: (1, 2)) == (1, 2)
    assert Parts(folder, "one").once("sample", lambda: (3,)) == (1, 2)
    assert Parts(folder, "other").once("sample", lambda: (3,)) == (3,)


def test_a_part_that_was_cut_short_is_not_saved(tmp_path):
    parts = Parts(tmp_path / "parts", "key")
    assert parts.once("proposals", lambda: (1,), lambda: False) == (1,)
    assert parts.once("proposals", lambda: (2,)) == (2,)
    assert parts.seconds >= 0.0


def test_images_are_repaired_by_measured_disagreement():
    sample = drawn_sample()
    turn = SignedMap((1, 0, 2), (1, -1, 1), (1, 2, 3, 0), (1, 1, 1, 1))
    wrong = replace(turn, images=(0, 1, 2), signs=(1, 1, 1))
    checked = []

    def judge(signed):
        checked.append(signed)
        pairs = zip(signed.images, signed.signs, turn.images, turn.signs, strict=True)
        return {i: 0.5 for i, (image, sign, *right) in enumerate(pairs) if [image, sign] != right}

    assert repair_images(wrong, judge, Matcher(Structure.of(sample))) == turn
    assert checked[0] == wrong
    assert len(checked) <= 5


class SlightlyBiased(PlantedWorld):
    """A cart whose motor pushes a little harder to one side."""

    def step(self, action):
        self.state = self.state.copy()
        if action == 1:
            self.state[1] += 0.005
        return super().step(action)


def test_slight_deviations_to_one_side_are_named():
    env = SlightlyBiased()
    space = cut_choices(env.feature_space)
    answers = check_relations(env, parse_relations(WORLDS["cart"][1], space), space, states=300)
    assert {answer.verdict for answer in answers} == {"holds approximately", "holds"}
    assert all(("same side" in answer.note) == (answer.verdict == "holds approximately") for answer in answers)


def test_repeated_steps_count_once():
    sample = drawn_sample(500)
    twice = replace(
        sample,
        **{
            name: np.concatenate([getattr(sample, name)] * 2)
            for name in ("observations", "actions", "rewards", "after", "ended", "units")
        },
    )
    assert np.array_equal(twice.without_repetitions().observations, sample.observations)


def test_too_small_a_budget_is_refused():
    with pytest.raises(LegibleError, match="at least 2000 steps"):
        discover_relations(PlantedWorld(), steps=10)


@pytest.mark.slow
def test_command_writes_a_relations_file(tmp_path):
    file = tmp_path / "found.toml"
    ran = CliRunner().invoke(relations_command, ["discover", "CartPole-v1", "-o", str(file), "--steps", "40000"])
    assert ran.exit_code == 0, ran.output
    assert "mirror left-right (discovered)" in file.read_text()
    assert "Exact as far as seen" in ran.output


def push_right(observation: np.ndarray) -> int:
    """A policy that knows one side only."""
    return 1 if observation[0] < 0.5 else 2


@pytest.mark.slow
def test_a_study_discovers_relations_once(tmp_path, monkeypatch):
    world = EnvironmentSpec("lab.bench.discovery_worlds:PlantedWorld")
    study = Study(tmp_path, world, push_right, relations="discover", settings=SETTINGS, engine=InProcess())
    (text,) = study.relation_texts
    assert text.name == "discovered"
    study.collect()

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the relations were discovered before")

    monkeypatch.setattr("legible.relations.discovery.discover.discover_relations", refuse)
    again = Study(tmp_path, world, push_right, relations="discover", settings=SETTINGS, engine=InProcess())
    assert again.relation_texts[0].checksum == text.checksum
    rule = parse_rule("+Right0 <- cart0.position < 0", again.given_space)
    related = generalise(rule, text.relations(again.given_space))
    assert again.discovered_behind(related) == ("mirror left-right (discovered)",)
    assert again.discovered_behind(RuleSet((rule,))) == ()


def test_discover_without_relations_is_reported():
    chosen = resolve_relations("CartPole-v1", PlantedWorld().feature_space, "discover", lambda: "")
    assert not chosen.texts
    assert "none was found" in chosen.left_out[0]
