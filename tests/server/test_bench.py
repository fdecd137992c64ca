import pytest

import legible
from legible.engines import InProcess
from legible.errors import LegibleError
from legible.rules import parse_rule
from legible.server.bench import claims_of, confirm_on_bench, keep_rule, read_rule, try_on_bench
from legible.server.desk import MOST_TEXT, Desk, RequestError
from legible.server.jobs import Job, StoppedError
from legible.server.overview import overview_of
from legible.study import Study
from legible.workbench.arena import arena_of
from legible.workbench.checks import read_checks
from small_studies import WORLD

GOOD, USELESS = "+Left <- left", "+Stay <- luck > 9"


def messages(work, desk, **body):
    found = []
    work(desk, body, found.append)
    return found


def test_a_rule_is_read_in_words_and_shown_at_work(desk) -> None:
    found = read_rule(desk, {"rule": GOOD})
    fired, changed, _ = desk.effects(desk.rules_of({"rule": GOOD}))
    seen = desk.recorded
    at_left = seen.observations[:, 0] == 1
    assert (fired == at_left).all()
    assert (changed == (at_left & (seen.actions != 0))).all(), "the policy seldom goes left by itself"
    assert (found["work"]["fired"], found["work"]["changed"]) == (fired.sum(), changed.sum())
    assert "instead of Right" in found["work"]["replaced"]
    assert found["words"] == ["Do “Left” when left"]


def test_thresholds_have_a_place_a_range_and_a_distribution(desk) -> None:
    text = "+Left <- left & -0.5 < luck <= 1.25\n-Right <- luck > 2"
    found = read_rule(desk, {"rule": text})["thresholds"]
    assert [one["name"] for one in found] == ["luck"] * 3
    assert [text[one["start"] : one["end"]] for one in found] == ["-0.5", "1.25", "2"]
    assert sum(found[0]["counts"]) == len(desk.recorded)


@pytest.mark.parametrize(
    "rule", ["", "+Left <- nothing", "+Up <- left", "Left", "+Left <- left &", "x" * 3000, "\n" * 99]
)
def test_half_a_rule_is_a_problem_in_words(desk, rule) -> None:
    assert read_rule(desk, {"rule": rule})["problem"]


@pytest.mark.parametrize("body", [{}, {"rule": 3}, {"rule": ["a"]}, {"chosen": [0]}, {"chosen": "0"}, {"chosen": [-1]}])
def test_requests_that_make_no_sense_are_refused(desk, body) -> None:
    with pytest.raises(RequestError):
        desk.rules_of(body)
    assert MOST_TEXT < 10_000


def test_the_verdict_is_that_of_try_to_the_bit(desk, policy_file) -> None:
    for rule in (GOOD, "-Right <- luck > 1"):
        found = messages(try_on_bench, desk, rule=rule)
        plain = legible.try_rule(WORLD, policy_file, rule, engine=InProcess(), relations="none", cache=False).first
        (shown,) = found[-1]["rules"]
        assert found[-1]["kind"] == "verdict"
        assert (shown["effect"], tuple(shown["interval"])) == (plain.effect, (plain.interval.low, plain.interval.high))
        assert (shown["verdict"], shown["sentence"]) == (plain.verdict, plain.sentence())
        assert {"figures", "progress"} <= {message["kind"] for message in found[:-1]}


def test_a_study_is_tried_on_the_seeds_of_its_own(study_desk) -> None:
    found = messages(try_on_bench, study_desk, rule=GOOD)[-1]
    plain = legible.try_rule(study_desk.study, None, GOOD, engine=InProcess())
    assert [one["sentence"] for one in found["rules"]] == [one.sentence() for one in plain.rules]


def test_rules_of_a_composition_are_tried_together(study_desk) -> None:
    assert study_desk.composition
    found = messages(try_on_bench, study_desk, chosen=list(range(len(study_desk.composition))))[-1]
    assert len(found["rules"]) == 1
    assert found["rules"][0]["verdict"] == "helps"


def test_a_play_ends_when_nobody_listens(desk) -> None:
    sent = []
    job = Job(lambda emit: try_on_bench(desk, {"rule": "+Stay <- luck > 0.3"}, emit), sent.append)
    job.stop()
    job.run()
    assert sent == [None]
    with pytest.raises(StoppedError):
        job.emit({})


def test_a_confirmation_is_kept_and_played_once(study_desk) -> None:
    rule = "+Left <- left"
    with pytest.raises(RequestError):
        confirm_on_bench(study_desk, {"rule": rule}, lambda _: None)
    messages(try_on_bench, study_desk, rule=rule)
    first = messages(confirm_on_bench, study_desk, rule=rule)[-1]
    assert first["kind"] == "claim"
    assert first["is_confirmed"]
    assert first["low"] > 0
    level = study_desk.ledger.level()
    assert level > first["level"], "a confirmed rule earns a higher level"
    (again,) = messages(confirm_on_bench, study_desk, rule=rule)
    assert again == {**first, "is_earlier": True}, "nothing is played"
    assert study_desk.ledger.level() == level
    shown = messages(try_on_bench, study_desk, rule=rule)[-1]["rules"]
    assert shown[0]["claim"]["sentence"] == first["sentence"]
    assert [one["claim"] for one in shown[1:]] == [None] * len(shown[1:]), "related forms are other rules"
    reopened = Study.open(study_desk.study.folder, trust=True, engine=InProcess())
    kept = claims_of(Desk(arena_of(reopened, engine=InProcess()), reopened), {})
    assert [claim["effect"] for claim in kept["claims"]] == [first["effect"]]


def test_a_rule_is_saved_vetoed_and_exported(study_desk, tmp_path) -> None:
    assert "Saved" in keep_rule(study_desk, {"rule": GOOD, "what": "rule"})["words"]
    assert "already" in keep_rule(study_desk, {"rule": GOOD, "what": "rule"})["words"]
    assert "Vetoed" in keep_rule(study_desk, {"rule": USELESS, "what": "veto"})["words"]
    reopened = Study.open(study_desk.study.folder, trust=True)
    assert parse_rule(GOOD, study_desk.space) in reopened.rules
    assert parse_rule(USELESS, study_desk.space) in reopened.veto
    assert not reopened.has("improvement"), "the composition has to be made again"
    path = tmp_path / "checks.toml"
    path.write_text(keep_rule(study_desk, {"rule": GOOD, "what": "check"})["text"])
    (check,) = read_checks(path, study_desk.space).weaknesses
    assert check.rule_set.rules == (parse_rule(GOOD, study_desk.space),)


def test_related_forms_are_named_or_the_reason_why_there_are_none(desk, study_desk) -> None:
    assert read_rule(desk, {"rule": GOOD})["related"]["any"] is False
    assert "several rules" in read_rule(study_desk, {"rule": f"{GOOD}\n{USELESS}"})["related"]["words"]
    assert read_rule(study_desk, {"rule": GOOD})["related"] == {"any": True, "words": "Left → Right"}
    exported = keep_rule(study_desk, {"rule": GOOD, "form": "with related forms", "what": "check"})["text"]
    assert "+Left" in exported
    assert "+Right" in exported


def test_the_last_results_stay_in_the_overview_after_a_rule_is_saved(study_desk) -> None:
    before = overview_of(study_desk.study.folder, trust=True)
    assert "is_before_changes" not in before
    keep_rule(study_desk, {"rule": "+Left <- left & luck > 1", "what": "rule"})
    after = overview_of(study_desk.study.folder, trust=True)
    assert after["is_before_changes"]
    assert {name: after[name] for name in ("headline", "weaknesses", "guided")} == {
        name: before[name] for name in ("headline", "weaknesses", "guided")
    }


def test_without_a_study_there_is_nothing_to_save_to(desk) -> None:
    with pytest.raises(LegibleError):
        keep_rule(desk, {"rule": GOOD, "what": "rule"})
    with pytest.raises(LegibleError):
        keep_rule(desk, {"rule": GOOD, "what": "/etc/passwd"})
