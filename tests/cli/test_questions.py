"""``legible try``, ``compare`` and ``verify``: what they print, their files and their exit codes."""

import json
import re

import pytest

ENV = "mirror_world:MirrorWorld"
QUICK = ("--engine", "inline")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LEGIBLE_CACHE", str(tmp_path / "cache"))


def test_try_prints_the_verdict_first(legible, place) -> None:
    said = legible("try", ENV, place / "policy.safetensors", "-Right <- left", "--relations", "none", *QUICK)
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0] == "-Right <- left"
    assert lines[1].strip().startswith("It helps: +")
    assert "Preliminary" in said.err
    assert "with --confirm" in " ".join(said.out.split())


def test_try_as_json_and_of_a_study(legible, place, copied) -> None:
    words = ("+Left <- left", "-Right <- right", "--alone", "--json", *QUICK)
    found = json.loads(legible("try", ENV, place / "policy.safetensors", *words).out)
    assert [rule["verdict"] for rule in found["rules"]] == ["helps", "harms"]
    said = legible("try", copied, "+Left <- left", "--save", copied, "--trust", *QUICK)
    assert said.code == 0
    assert "legible run" in said.err


@pytest.mark.parametrize(
    "words",
    [(), (ENV, "policy.safetensors"), (ENV, "policy.safetensors", "+Up <- left"), (ENV, "none.zip", "+Left <- left")],
)
def test_try_refuses_wrong_words(legible, place, monkeypatch, words, snapshot) -> None:
    monkeypatch.chdir(place)
    said = legible("try", *words, *QUICK)
    assert said.code == 2
    assert said.err == snapshot


def test_compare_says_who_is_better_and_where(legible, place, tmp_path) -> None:
    html = tmp_path / "report.html"
    policies = (place / "policy.safetensors", "mirror_world:right_scores")
    words = (*policies, "--policy-output", "values", "--episodes", "300", "--name", "old", "--name", "new")
    said = legible("compare", ENV, *words, "--html", html, *QUICK)
    assert said.code == 0
    assert said.out.startswith("new beats old by")
    assert "Where" in said.out
    assert "hold together with 95 %" in said.out
    assert html.is_file()
    found = json.loads(legible("compare", ENV, *words, "--json", *QUICK).out)
    assert found["ranking"][0]["policy"] == "new"


def test_compare_finds_nothing_between_a_policy_and_itself(legible, place, copied) -> None:
    policy = place / "policy.safetensors"
    said = legible("compare", ENV, policy, policy, "--episodes", "100", *QUICK)
    assert said.out.startswith("No difference: both policies")
    of_study = legible("compare", copied, policy, "--trust", "--episodes", "100", *QUICK)
    assert of_study.out.startswith("No difference: both policies")


def test_compare_ranks_more_policies(legible, place) -> None:
    policy = place / "policy.safetensors"
    words = (policy, policy, "mirror_world:right_scores", "--policy-output", "values", "--episodes", "100")
    said = legible("compare", ENV, *words, *QUICK)
    assert "right_scores is the best" in said.out
    assert "2 to 3" in said.out


def test_verify_has_an_exit_code_for_every_outcome(legible, copied, place, tmp_path) -> None:
    policy = place / "policy.safetensors"
    files = ("--junit", tmp_path / "out.xml", "--markdown", tmp_path / "out.md")
    passed = legible("verify", copied, policy, "--trust", "--margin", "2", *files, *QUICK)
    assert passed.code == 0
    assert passed.out.startswith("Passed: 1 claim shown")
    assert "<testsuite" in (tmp_path / "out.xml").read_text()
    assert (tmp_path / "out.md").read_text().startswith("**Passed")
    undecided = legible("verify", copied, policy, "--trust", "--margin", "1", "--seeds", "20", *QUICK)
    assert undecided.code == 3
    assert "seeds would decide" in undecided.out
    checks = copied / "weaknesses.toml"
    checks.write_text(re.sub('"known"', '"absent"', checks.read_text()))
    failed = legible("verify", copied, policy, "--trust", "--margin", "2", "--json", *QUICK)
    assert failed.code == 1
    assert json.loads(failed.out)["exit_code"] == 1
    wrong = legible("verify", copied, "none.zip", "--trust", *QUICK)
    assert wrong.code == 2
    assert legible("verify", copied, *QUICK).code == 2


def test_verify_ends_with_four_when_something_else_goes_wrong(legible, copied) -> None:
    said = legible("verify", copied, "failing_policy:scores", "--policy-output", "values", "--trust", *QUICK)
    assert said.code == 4
    assert "sensor" in said.err
