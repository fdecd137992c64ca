"""Rules in training: allowed choices, fading, the margin loss, and reading."""

from pathlib import Path

import numpy as np
import pytest
import torch

from flawed_network import save_flawed_network
from legible.environments import EnvironmentSpec
from legible.features import FeatureSpace
from legible.guidance import GuidedPolicy
from legible.policies import load_policy
from legible.rules import RuleSet, parse_rule
from legible.training.errors import TrainingError
from legible.training.rules import (
    RuleLayer,
    RuleMasks,
    RuleSettings,
    TrainingRules,
    guided_shift,
    margin_loss,
    read_rules,
)
from mirror_world import SPACE as MIRROR_SPACE

SPACE = FeatureSpace.of(["x", "y"], ["A", "B", "C"])
MIRROR = EnvironmentSpec("mirror_world:MirrorWorld")
WHOLE = (0, 3)


def rules_of(*texts: str, precedence: str = "positive") -> TrainingRules:
    return TrainingRules((RuleLayer(RuleSet(tuple(parse_rule(text, SPACE) for text in texts)), precedence),), SPACE)


def allowed(rules: TrainingRules, *rows: tuple[float, float]) -> list[str]:
    found = RuleMasks([rules]).allowed(np.array(rows, np.float32))
    return ["".join(name for name, yes in zip("ABC", row, strict=True) if yes) for row in found]


def test_allowed_choices() -> None:
    rules = rules_of("+A <- x > 0", "+B <- y > 0", "-C <- y > 0")
    # Nothing triggers; one enforces; another enforces; both enforce, so that only the negative one counts.
    assert allowed(rules, (-1, -1), (1, -1), (-1, 1), (1, 1)) == ["ABC", "A", "B", "AB"]
    negative = rules_of("+A <- x > 0", "-A <- x > 0", precedence="negative")
    assert allowed(negative, (1, 0)) == ["BC"]
    everything = rules_of("-A <- x > 0", "-B <- x > 0", "-C <- x > 0")
    assert allowed(everything, (1, 0)) == ["ABC"]


def test_allowed_choices_are_those_of_a_guided_policy() -> None:
    policy = load_policy(lambda o: np.stack([o[:, 0], o[:, 1], -o[:, 0]], axis=1), output="values", n_features=2)
    texts = ("+A <- x > 0.5", "-C <- x < 0", "-B <- y > 0", "+B <- y > 1")
    guided = GuidedPolicy(policy, [parse_rule(text, SPACE) for text in texts], SPACE)
    again = GuidedPolicy(guided, [parse_rule("-A <- y < -1", SPACE)], SPACE)
    rows = np.random.default_rng(0).normal(size=(400, 2)).astype(np.float32)
    for each in (guided, again):
        rules = TrainingRules.of(each)
        found = RuleMasks([rules]).allowed(rows)
        scores = each.scores(rows)
        possible = np.isfinite(scores).any(axis=1)
        np.testing.assert_array_equal(found[possible], np.isfinite(scores[possible]))
        assert found[~possible].all()
    assert rules.n_rules == 5


def test_policies_side_by_side_have_different_rules() -> None:
    masks = RuleMasks([rules_of("+A <- x > 0"), rules_of("-B <- x > 0")])
    found = masks.allowed(np.array([[1, 0], [-1, 0], [1, 0], [-1, 0]], np.float32))
    assert found.astype(int).tolist() == [[1, 0, 0], [1, 1, 1], [1, 0, 1], [1, 1, 1]]


@pytest.mark.parametrize("wrong", [{"fade": 0.0}, {"fade": float("nan")}, {"margin": -1.0}, {"margin_weight": -1.0}])
def test_wrong_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(TrainingError):
        RuleSettings(**wrong)


def test_margin_loss_worked_by_hand() -> None:
    scores = torch.tensor([[1.0, 3.0, 2.0], [1.0, 3.0, 2.0], [1.0, 3.0, 2.0], [5.0, 3.0, 2.0]])
    free = torch.tensor([[False, False, True], [True, False, True], [True, True, True], [True, False, False]])
    # C enforced: max(1 + m, 3 + m, 2) − 2; B blocked: 3 + m − 2; no rule; A enforced and 2 ahead already.
    assert margin_loss(scores, free, 0.5, WHOLE).tolist() == [1.5, 1.5, 0.0, 0.0]
    assert margin_loss(scores, free, 3.0, WHOLE).tolist() == [4.0, 4.0, 0.0, 1.0]
    # DQfD's formula, where one action is enforced.
    dqfd = (scores + 0.8 * (torch.arange(3) != 2)).max(dim=1).values - scores[:, 2]
    enforced = torch.tensor([[False, False, True]]).expand(4, 3)
    torch.testing.assert_close(margin_loss(scores, enforced, 0.8, WHOLE), dqfd)
    # Two groups: 1 − 0 and 3 − 2.
    scores, free = torch.tensor([[1.0, 0.0, 0.0, 2.0, 3.0]]), torch.tensor([[False, True, True, True, False]])
    assert margin_loss(scores, free, 0.0, (0, 2, 5)).tolist() == [2.0]


@pytest.mark.parametrize("share", [0.0, 0.25, 0.9, 1.0])
def test_forbidden_choices_keep_a_share_of_their_probability(share: float) -> None:
    logits = torch.tensor([[2.0, 1.0, 0.0, 30.0], [2.0, 1.0, 0.0, 1.0]])
    free = torch.tensor([[True, True, False, False], [True, True, True, True]])
    shift = guided_shift(logits, free, torch.tensor(share), (0, 4))
    own, guided = logits.softmax(dim=1), (logits + shift).softmax(dim=1)
    torch.testing.assert_close(guided[0, 2:], (1 - share) * own[0, 2:])
    assert float(guided[0].sum()) == pytest.approx(1.0)
    if share:
        assert float(guided[0, 0] / guided[0, 1]) == pytest.approx(np.e, rel=1e-4)
    assert torch.equal(shift[1], torch.zeros(4))
    if share == 0.0:
        torch.testing.assert_close(shift, torch.zeros_like(shift), atol=1e-5, rtol=0)


# --- Reading ---------------------------------------------------------------------------------------------------------


def guided_mirror(tmp_path: Path, *texts: str) -> Path:
    policy = load_policy(save_flawed_network(tmp_path / "flawed.safetensors"))
    GuidedPolicy(policy, [parse_rule(text, MIRROR_SPACE) for text in texts], MIRROR_SPACE).save(
        tmp_path / "guided.safetensors"
    )
    return tmp_path / "guided.safetensors"


def test_rules_of_files_folders_and_texts(tmp_path) -> None:
    file = guided_mirror(tmp_path, "+Left <- left", "-Right <- wall.right")
    (tmp_path / "rules.txt").write_text("# the fault\n+Left <- left\n\n-Right <- wall.right\n+Left <- left\n")
    found = [read_rules(source, MIRROR) for source in (file, tmp_path, tmp_path / "rules.txt")]
    assert found[0] == found[1] == found[2]
    assert found[0].n_rules == 2
    (layer,) = found[0].description()["layers"]
    assert layer["rules"].splitlines() == ["+Left <- left", "-Right <- wall.right"]
    assert layer["precedence"] == "positive"


def test_files_that_cannot_be_read_are_refused_in_one_line(tmp_path) -> None:
    file = guided_mirror(tmp_path, "+Left <- left")

    def refused(source: Path | str, message: str, environment: str = MIRROR.name) -> None:
        with pytest.raises(Exception, match=message) as error:
            read_rules(source, EnvironmentSpec(environment))
        assert "\n" not in str(error.value)

    refused(file, r"to another environment: they have 5 features, but CartPole-v1 has 4", "CartPole-v1")
    refused(tmp_path / "flawed.safetensors", "is a policy without rules")
    refused(tmp_path / "nowhere.txt", "no such file or folder")
    (tmp_path / "study").mkdir()
    refused(tmp_path / "study", "holds no study")
    (tmp_path / "study" / "study.json").write_text("{}")
    refused(tmp_path / "study", "not finished .* or its composition is empty")
    (tmp_path / "rules.txt").write_text("+Left <- left\n+Up <- left\n")
    refused(tmp_path / "rules.txt", r"rules\.txt, line 2: .*Up")
    (tmp_path / "rules.txt").write_text("# nothing\n")
    refused(tmp_path / "rules.txt", "no rules in it")
    refused(tmp_path / "rules.txt", "need the regions of a study", "Pendulum-v1")


def test_rules_in_training_see_the_observation_only(tmp_path, raises_saved) -> None:
    (tmp_path / "names.toml").write_text('[derived]\nleaving = "change(left)"\n')
    (tmp_path / "rules.txt").write_text("+Left <- left\n")
    assert read_rules(tmp_path / "rules.txt", MIRROR, tmp_path / "names.toml").n_rules == 1
    (tmp_path / "rules.txt").write_text("+Left <- leaving > 0\n")
    with raises_saved(TrainingError):
        read_rules(tmp_path / "rules.txt", MIRROR, tmp_path / "names.toml")


def test_names_of_another_environment_are_refused(tmp_path, raises_saved) -> None:
    space = FeatureSpace.of(["cart", "velocity", "pole", "turn"], ["Left", "Right"])
    policy = load_policy(torch.nn.Sequential(torch.nn.Linear(4, 2)), output="values", n_features=4, n_actions=2)
    GuidedPolicy(policy, [parse_rule("+Left <- pole < 0", space)], space).save(tmp_path / "guided.safetensors")
    with raises_saved(TrainingError):
        read_rules(tmp_path / "guided.safetensors", EnvironmentSpec("CartPole-v1"))
