import numpy as np
import pytest

from legible.engines import InProcess
from legible.environments import EnvironmentSpec
from legible.policies import load_policy
from legible.server import viewer
from legible.server.desk import Desk, RequestError
from legible.server.states import find_states
from legible.server.viewer import (
    STEPS_BEFORE,
    STEPS_BEFORE_END,
    branch,
    list_episodes,
    repeat_branch,
    scan_episode,
    show_episode,
    show_frames,
)
from legible.workbench.arena import open_arena

LEFT, RIGHT = 0, 1


def lost(desk: Desk) -> int:
    """Return an episode in which the goal is to the left and the policy goes right."""
    return int(np.argmin(desk.recorded.returns))


def last(work, desk, **body):
    found = []
    work(desk, body, found.append)
    return found[-1]


def test_an_episode_shows_what_was_recorded(desk) -> None:
    number = lost(desk)
    found = show_episode(desk, {"episode": number, "rule": "+Left <- left"})
    seen = desk.recorded
    rows = np.flatnonzero(seen.episode_ids == number)
    assert found["steps"] == len(rows) == len(found["rewards"]) == len(found["values"])
    assert sum(found["rewards"]) == pytest.approx(found["return"], rel=1e-4)
    assert [choice for (choice,) in found["choices"]] == seen.actions[rows].tolist()
    assert len(found["frames"]["rows"]) == len(rows) + 1, "there are no pictures, so that features are shown"
    assert found["changes"]
    assert set(found["changes"]) <= set(found["fires"])


def test_an_episode_is_opened_where_it_matters(desk) -> None:
    number = lost(desk)
    with_rule, alone = (
        show_episode(desk, {"episode": number, "rule": "+Left <- left"}),
        show_episode(desk, {"episode": number}),
    )
    assert with_rule["start"] == with_rule["changes"][0]
    assert alone["start"] == max(0, alone["steps"] - STEPS_BEFORE_END)


def test_episodes_are_listed_with_the_changes_of_a_rule(desk) -> None:
    found = list_episodes(desk, {"rule": "+Left <- left"})
    assert found["of"] == len(found["episodes"]) == desk.recorded.n_episodes
    by_rule = {one["episode"]: one["changes"] for one in found["episodes"]}
    _, changed, _ = desk.effects(desk.rules_of({"rule": "+Left <- left"}))
    assert sum(by_rule.values()) == changed.sum()


def test_a_branch_has_both_futures_with_the_same_random_numbers(desk) -> None:
    number = lost(desk)
    found = branch(desk, {"episode": number, "step": 0, "choice": LEFT})
    as_played, what_if = found["replay"]["sides"]
    assert as_played["return"] == pytest.approx(float(desk.recorded.returns[number]), rel=1e-4)
    assert as_played["actions"][0] == RIGHT
    assert what_if["actions"][0] == LEFT
    assert found["replay"]["branches_at"] == 0


def test_the_return_of_a_branch_counts_from_the_start_of_the_episode(desk) -> None:
    number = lost(desk)
    step = int(desk.recorded.lengths[number]) - 1
    assert step > STEPS_BEFORE, "so that the first steps are not shown"
    taken = int(desk.recorded.actions[desk.recorded.episode_ids == number][step])
    found = branch(desk, {"episode": number, "step": step, "choice": RIGHT if taken == LEFT else LEFT})
    as_played, what_if = found["replay"]["sides"]
    assert as_played["return"] == pytest.approx(float(desk.recorded.returns[number]), rel=1e-4)
    assert as_played["earned"] == what_if["earned"] != 0.0
    for side in (as_played, what_if):
        assert side["earned"] + sum(side["rewards"]) == pytest.approx(side["return"])


@pytest.mark.parametrize("choice", [RIGHT, 3, -1, "0", None])
def test_only_other_actions_can_be_chosen(desk, choice) -> None:
    with pytest.raises(RequestError):
        branch(desk, {"episode": lost(desk), "step": 0, "choice": choice})


@pytest.mark.parametrize(
    "body", [{"episode": 10**9}, {"episode": "../x"}, {"episode": True}, {"source": "/etc", "episode": 0}, {}]
)
def test_episodes_that_do_not_exist_are_refused(desk, body) -> None:
    with pytest.raises(RequestError):
        show_episode(desk, body)


def test_many_futures_have_a_distribution_and_an_interval(desk) -> None:
    where = {"episode": lost(desk), "step": 2, "choice": LEFT}
    found = last(repeat_branch, desk, **where)
    differences = np.subtract(found["other"], found["taken"])
    assert len(differences) == 32
    assert found["differences"] == differences.tolist()
    assert found["low"] < found["mean"] < found["high"]
    assert last(repeat_branch, desk, **where)["differences"] == found["differences"]
    assert last(repeat_branch, desk, **where, again=1)["differences"] != found["differences"]


def test_the_costliest_decision_is_found(desk) -> None:
    found = last(scan_episode, desk, episode=lost(desk))
    assert found["kind"] == "done"
    if "step" in found:
        assert "costliest" in found["sentence"]


def test_an_environment_that_cannot_be_copied_is_replayed_and_drawn() -> None:
    def push_to_the_pole(rows):
        return np.stack([rows[:, 2] < 0, rows[:, 2] >= 0], axis=1).astype(float)

    policy = load_policy(push_to_the_pole, output="values", n_features=4, n_actions=2)
    spec = EnvironmentSpec("CartPole-v1")
    desk = Desk(open_arena(spec, policy, engine=InProcess(), cache=False))
    found = show_episode(desk, {"episode": 0})
    assert found["kind"] == "pictures"
    assert found["frames"]["pictures"][0].startswith("data:image/")
    middle = show_frames(desk, {"episode": 0, "first": 20})
    assert middle["first"] == 20
    taken = found["choices"][10][0]
    both = branch(desk, {"episode": 0, "step": 10, "choice": 1 - taken})
    assert both["replay"]["kind"] == "pictures"
    assert "nothing is random" in last(repeat_branch, desk, episode=0, step=10, choice=1 - taken)["sentence"].lower()


def test_states_are_found_by_conditions_and_by_actions(desk) -> None:
    seen = desk.recorded
    everything, at_left = find_states(desk, {"filter": ""}), find_states(desk, {"filter": "left"})
    goes_right, does_not = (find_states(desk, {"filter": f"{sign}Right <- left"}) for sign in "+-")
    fits = [np.sum(found["map"]["fit"]) for found in (everything, at_left, goes_right, does_not)]
    assert fits[0] == len(seen)
    assert fits[1] == (seen.observations[:, 0] == 1).sum() == fits[2] + fits[3]
    assert {state["action"] for state in goes_right["states"]} == {"Right"}
    assert "Right" not in {state["action"] for state in does_not["states"]}
    assert find_states(desk, {"filter": "lef"})["problem"]


def test_a_proven_mistake_is_preferred_to_a_search(desk, monkeypatch) -> None:
    number = lost(desk)
    proven = [{"step": step, "taken": 1, "better": 0, "gain": step, "words": "words"} for step in (1, 2)]
    monkeypatch.setattr(viewer, "_mistakes", lambda *_: proven)
    found = last(scan_episode, desk, episode=number)
    assert (found["step"], found["choice"]) == (2, LEFT)
    assert "proven mistake" in found["sentence"]


def test_no_decision_is_named_whose_alternative_is_worse_in_new_futures(desk, monkeypatch) -> None:
    def play(_desk, _setup, units):
        """Others are better in the search, which compares all choices, and worse when two of them are repeated."""
        shapes = [(unit.choices.shape[1], unit.seeds.shape[1]) for unit in units]
        returns = [np.zeros(shape) for shape in shapes]
        for of_decision in returns:
            of_decision[1:] = -66.1 if len(of_decision) == 2 else 1.0
        return returns

    monkeypatch.setattr(viewer, "_play", play)
    found = last(scan_episode, desk, episode=lost(desk))
    assert "step" not in found
    assert found["sentence"].startswith("No costly decision was found")
