"""Sources of hypotheses: generators that yield rule sets and are sent their effects, in rounds."""

import mirror_world
from legible.engines import InProcess
from legible.errors import LegibleError
from legible.evaluation import evaluate
from legible.evaluation.units import Setup, run_units
from legible.hypotheses import (
    SOURCES,
    MeasuredEffect,
    Named,
    Proposal,
    SourceInput,
    Trial,
    register_source,
    run_sources,
)
from legible.play import stage_seeds
from legible.rules import Rule, RuleSet, parse_rule
from legible.settings import EvaluationSettings, PlaySettings, StudySettings
from legible.study import Study
from mirror_world import WORLD

GOOD, BAD = (RuleSet((parse_rule(text, mirror_world.SPACE),)) for text in ("+Left <- left", "+Stay <- left"))


def rule_set(action: int) -> RuleSet:
    return RuleSet((Rule("+", action, ()),))


def test_every_source_is_sent_the_effects_of_its_own_rule_sets() -> None:
    received: dict[str, list[list[float]]] = {"one": [], "two": []}

    def source(name: str, rounds: list[list[int]]):
        for actions in rounds:
            effects = yield [rule_set(action) for action in actions]
            received[name].append([effect.mean for effect in effects])

    calls: list[list[int]] = []

    def measure(named: list[Named]) -> list[MeasuredEffect]:
        actions = [one.rule_set.rules[0].action for one in named]
        calls.append(actions)
        return [MeasuredEffect(float(action), 0.0, 1.0) for action in actions]

    tested = run_sources({"one": source("one", [[1, 2], [3]]), "two": source("two", [[], [7], [8]])}, measure)
    assert calls == [[1, 2], [3, 7], [8]]  # one call a round, and none for a source that is done
    assert received == {"one": [[1.0, 2.0], [3.0]], "two": [[], [7.0], [8.0]]}
    expected = [*(("one", action) for action in (1, 2, 3)), *(("two", action) for action in (7, 8))]
    assert [(name, found.rules[0].action) for name, found in tested] == expected


def test_what_a_source_only_tries_is_not_tested(raises_saved) -> None:
    heard: list[float] = []

    def source():
        effects = yield Trial([rule_set(1), rule_set(2)], changes=5, seeds=10)
        heard.extend(effect.mean for effect in effects)
        yield Proposal([rule_set(2)], [effects[1]])

    def explore(trial: Trial) -> list[MeasuredEffect]:
        assert (trial.changes, trial.seeds) == (5, 10)
        return [MeasuredEffect(float(found.rules[0].action), 0.0, 1.0) for found in trial.rule_sets]

    def measure(named: list[Named]) -> list[MeasuredEffect]:
        assert [one.shown for one in named] == [MeasuredEffect(2.0, 0.0, 1.0)]
        return [MeasuredEffect(0.0, 0.0, 1.0)]

    assert run_sources({"one": source()}, measure, explore) == [("one", rule_set(2))]
    assert heard == [1.0, 2.0]
    with raises_saved(LegibleError):
        run_sources({"one": source()}, measure)


def test_a_source_can_go_on_where_an_effect_was_good() -> None:
    """A toy search: of two first rule sets the better one decides what comes next."""
    sent: list[MeasuredEffect] = []

    def search():
        effects = yield [BAD, GOOD]
        sent.extend(effects)
        best = max(range(2), key=lambda i: effects[i].mean)
        yield [GOOD | BAD if best == 0 else GOOD | RuleSet((parse_rule("+Right <- right", mirror_world.SPACE),))]

    setup = Setup(mirror_world.policy(), WORLD, (), PlaySettings(batch=8, unit_episodes=40))
    settings = EvaluationSettings(method="paper", episodes=40, confirmation_episodes=0)
    found = evaluate(setup, seed=3, settings=settings, sources={"toy": search()})
    assert [len(verdict.rule_set) for verdict in found.verdicts] == [1, 1, 2]
    assert {verdict.found_by for verdict in found.verdicts} == {"toy"}
    assert sent[1].mean > 0 > sent[0].mean
    assert [effect.mean for effect in sent] == [verdict.difference for verdict in found.verdicts[:2]]
    assert [effect.p for effect in sent] == [verdict.p for verdict in found.verdicts[:2]]
    # The second round plays seeds that the first has not seen.
    from legible.evaluation import play_blocks

    again = Setup(mirror_world.policy(), WORLD, (found.verdicts[2].rule_set,), setup.play)
    (last,) = play_blocks(again, [(0, stage_seeds(3, "screening", 3 * 40, 40))], run_units)
    assert found.verdicts[2].sample.mean == last.returns.mean()


def test_a_source_from_outside_the_package_joins_a_study(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("legible.hypotheses.source.SOURCES", SOURCES)
    monkeypatch.setitem(SOURCES, "always_left", None)

    def always_left(known: SourceInput):
        assert len(known.experiences) > 0
        yield [GOOD]

    register_source("always_left", always_left)
    settings = StudySettings(
        episodes=40,
        sources="always_left",
        play=PlaySettings(batch=8, unit_episodes=40),
        evaluation=EvaluationSettings(method="paper", episodes=40, confirmation_episodes=40),
    )
    study = Study(tmp_path, WORLD, mirror_world.policy(), settings=settings, engine=InProcess(), relations=())
    (verdict,) = study.evaluate().verdicts
    assert verdict.found_by == "always_left"
    assert verdict.is_confirmed


def test_unknown_sources_are_refused_before_anything_is_played(tmp_path, raises_saved) -> None:
    settings = StudySettings(episodes=40, sources="mined, guessed", play=PlaySettings(batch=8))
    with raises_saved(LegibleError):
        Study(tmp_path / "s", WORLD, mirror_world.policy(), settings=settings, engine=InProcess(), relations=())
    assert not Study.is_in(tmp_path / "s")
