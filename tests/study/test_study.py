"""Studies: everything on disk as soon as it is known, resumed after any kind of death, never mixed."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import mirror_world
from legible.engines import InProcess, LocalProcesses
from legible.environments import EnvironmentSpec
from legible.errors import LegibleError
from legible.guidance import GuidedPolicy
from legible.policies import Policy, PolicyError, load_policy
from legible.study import Study, fingerprint, fingerprint_of
from legible.study.fingerprint import is_same_behaviour
from small_studies import SETTINGS, WORLD
from small_studies import small_study as study
from unfinished import forget_results


def outcome(made: Study) -> dict[str, object]:
    """Everything a study says, to the bit."""
    improvement, explanations = made.improve(), made.explain()
    made.play_references()
    return {
        "rules": [mined.rule for mined in made.mining.rules],
        "verdicts": [(v.p, v.difference, v.is_confirmed, v.sample) for v in made.evaluation.verdicts],
        "steps": improvement.steps,
        "effect": improvement.effect,
        "explanations": [explanation.to_dict() for explanation in explanations],
        "symmetry": made.do("symmetry"),
        "units": sorted(made._folder.units),
    }


def test_from_policy_to_guided_policy(tmp_path, policy_file) -> None:
    told: list[tuple[str, int, int]] = []
    made = study(tmp_path / "s", policy_file, progress=lambda *news: told.append(news))
    improvement = made.run()
    assert made.evaluation.confirmed
    assert improvement.effect.low > 0
    guided = GuidedPolicy.load(tmp_path / "s" / "guided.safetensors")
    assert guided.rules.rules == improvement.composition.rules
    last = {stage: (done, of) for stage, done, of in told}
    assert last["experiences"] == (60, 60)
    steps = ["experiences", "first look", "importance", "rules", "screening", "confirmation", "improvement"]
    assert list(last) == [*steps, "references", "symmetry", "explanation", "ledger", "failures"]
    assert all(done == of for done, of in last.values())


def test_a_second_run_plays_nothing_and_says_the_same(study_copy, policy_file, monkeypatch) -> None:
    first = outcome(study(forget_results(study_copy), policy_file))
    monkeypatch.setattr("legible.evaluation.units.play_in_slots", None)
    monkeypatch.setattr("legible.study.collecting.collect_unit", None)
    monkeypatch.setattr("legible.study.steps.mine", None)
    assert outcome(study(study_copy, policy_file)) == first


@pytest.mark.slow
def test_one_process_and_two_give_the_same_bits(tmp_path, study_copy, policy_file) -> None:
    inline = outcome(study(study_copy, policy_file))
    with LocalProcesses(2) as engine:
        assert outcome(study(tmp_path / "two", policy_file, engine=engine)) == inline


def test_ray_gives_the_same_bits(tmp_path, policy_file, monkeypatch) -> None:
    pytest.importorskip("ray", reason="ray is not installed: pip install 'legible-rl[ray]'")
    from legible.engines import RayEngine

    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))  # where Ray's workers find mirror_world
    inline = outcome(study(tmp_path / "inline", policy_file))
    with RayEngine(workers=2) as engine:
        assert outcome(study(tmp_path / "ray", policy_file, engine=engine)) == inline


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, "seed was 0, is now 1"),
        ({"settings": replace(SETTINGS, episodes=61)}, "settings.episodes was 60, is now 61"),
        ({"relations": ()}, "relations"),
        ({"rules": ["+Left <- left"]}, "rules"),
        ({"policy": mirror_world.policy()}, "behaves differently"),
    ],
)
def test_changed_settings_are_noticed_not_mixed(tmp_path, policy_file, change, message) -> None:
    study(tmp_path, policy_file)
    with pytest.raises(LegibleError, match=message):
        study(tmp_path, **{"policy": policy_file, **change})


def test_rules_of_the_users_own_are_tested_like_the_mined_ones(tmp_path) -> None:
    own = "+Right <- right & luck > -9"
    made = study(tmp_path, mirror_world.policy(), rules=[own])
    made.evaluate()
    assert made.rule_sets[-1].source.text(made.space) == own
    assert len(made.rule_sets[-1]) == 2
    assert made.evaluation.verdicts[-1].is_confirmed


def test_a_vetoed_rule_is_not_in_the_composition(tmp_path) -> None:
    free = study(tmp_path / "free", mirror_world.policy())
    free.improve()
    vetoed = [rule.text(free.space) for rule in free.improvement.composition.rules]
    assert vetoed
    assert not (tmp_path / "free" / "guided.safetensors").exists()  # the policy has no weights
    bound = study(tmp_path / "bound", mirror_world.policy(), veto=vetoed)
    assert not set(bound.improve().composition.rules) & set(free.improvement.composition.rules)


def test_a_folder_is_all_that_it_takes_to_open_a_study(tmp_path, policy_file) -> None:
    (tmp_path / "mirror.toml").write_text(mirror_world.MIRROR)
    given = Path(tmp_path / "given.safetensors")
    given.write_bytes(policy_file.read_bytes())
    spec = EnvironmentSpec("mirror_world:MirrorWorld", {"noise": 0.5})
    made = Study(
        tmp_path / "s",
        spec,
        given,
        relations=[tmp_path / "mirror.toml"],
        rules=["+Right <- right & luck > -9"],
        veto=["+Stay <- left"],
        seed=3,
        settings=SETTINGS,
        engine=InProcess(),
    )
    before = outcome(made)
    given.unlink()
    (tmp_path / "mirror.toml").unlink()
    opened = Study.open(tmp_path / "s", engine=InProcess(), trust=True)
    assert opened.environment == spec
    assert (opened.seed, opened.settings, opened.policy_name) == (3, SETTINGS, str(given))
    assert opened.versions["numpy"] == np.__version__
    assert outcome(opened) == before
    assert opened.guided_policy().rules == made.improvement.composition


def test_relations_that_were_objects_are_opened_as_files(finished_study) -> None:
    assert Study.open(finished_study, engine=InProcess(), trust=True).relations == mirror_world.mirror()


def test_what_a_folder_cannot_hold_is_asked_for(tmp_path, raises_saved) -> None:
    study(tmp_path / "object", mirror_world.policy())
    with raises_saved(LegibleError):
        Study.open(tmp_path / "object", trust=True)
    assert Study.open(tmp_path / "object", policy=mirror_world.policy(), trust=True).policy_name == ""
    spec = EnvironmentSpec("mirror_world:MirrorWorld", {"noise": np.float32(2)})
    Study(tmp_path / "argument", spec, mirror_world.policy(), settings=SETTINGS)
    with raises_saved(LegibleError):
        Study.open(tmp_path / "argument", policy=mirror_world.policy(), trust=True)
    with pytest.raises(LegibleError, match="no such folder"):
        Study.open(tmp_path / "nowhere")
    with pytest.raises(LegibleError, match="holds no study"):
        Study.open(tmp_path)


def test_without_relations_the_mined_rules_themselves_are_tested(tmp_path) -> None:
    made = study(tmp_path, mirror_world.policy(), relations=())
    made.evaluate()
    assert all(len(rule_set) == 1 for rule_set in made.rule_sets)
    assert made.evaluation.confirmed == ()


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from legible.engines import LocalProcesses
from test_study import study
if __name__ == "__main__":
    with LocalProcesses(2) as engine:
        made = study(Path({folder!r}), {policy!r}, engine=engine)
        made.run()
    print("done", flush=True)
"""


def start(tmp_path: Path, folder: Path, policy_file: Path) -> subprocess.Popen[bytes]:
    script = tmp_path / f"run-{time.monotonic_ns()}.py"
    script.write_text(SCRIPT.format(tests=str(Path(__file__).parent), folder=str(folder), policy=str(policy_file)))
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.Popen(
        [sys.executable, str(script)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def wait_for_units(folder: Path, count: int, process: subprocess.Popen[bytes]) -> None:
    over = time.monotonic() + 120
    while time.monotonic() < over:
        if len(list(folder.glob("units/*.npz"))) >= count:
            return
        if process.poll() is not None:
            raise AssertionError(f"the study ended before it was disturbed: {process.communicate()}")
        time.sleep(0.02)
    raise AssertionError("no units appeared")


@pytest.mark.subprocess
@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_study_goes_on_as_if_nothing_had_happened(tmp_path, policy_file, blow) -> None:
    undisturbed = outcome(study(tmp_path / "undisturbed", policy_file))
    folder = tmp_path / "killed"
    process = start(tmp_path, folder, policy_file)
    wait_for_units(folder, 2, process)
    process.send_signal(blow)
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    if blow == signal.SIGINT:
        assert errors.count(b"KeyboardInterrupt") <= 1  # none from the workers
    before = {path.name: path.read_bytes() for path in folder.glob("units/*.npz")}
    again = start(tmp_path, folder, policy_file)
    output, errors = again.communicate(timeout=180)
    assert output.strip() == b"done", errors.decode()
    for name, content in before.items():
        assert (folder / "units" / name).read_bytes() == content  # nothing is played twice
    assert not list(folder.glob("**/*.part"))
    assert outcome(study(folder, policy_file)) == undisturbed


def test_what_a_killed_process_was_just_writing_is_cleared_away(tmp_path, policy_file) -> None:
    made = study(tmp_path, policy_file)
    (tmp_path / "units").mkdir()
    (tmp_path / "units" / ".abc.npz.123.part").write_bytes(b"half")
    assert made.collect()
    assert not list(tmp_path.rglob("*.part"))


def test_two_processes_do_not_work_in_one_folder(tmp_path, policy_file) -> None:
    made = study(tmp_path, policy_file)
    with made._folder.lock(), pytest.raises(LegibleError, match="another process is working"):
        study(tmp_path, policy_file).collect()


def test_a_damaged_unit_is_named(study_copy, policy_file) -> None:
    expected = outcome(study(study_copy, policy_file))
    victim = next((study_copy / "units").glob("*.npz"))
    victim.write_bytes(b"half of it")
    with pytest.raises(LegibleError, match=rf"{victim.name}: is damaged .*delete it"):
        outcome(study(forget_results(study_copy), policy_file))
    victim.unlink()
    assert outcome(study(forget_results(study_copy), policy_file)) == expected


@pytest.mark.parametrize(
    ("name", "message"), [("study.json", "is damaged"), ("mining.npz", "delete it"), ("experiences.npz", "damaged")]
)
def test_damaged_files_are_named(study_copy, policy_file, name, message) -> None:
    (study_copy / name).write_bytes(b"half of it")
    with pytest.raises(LegibleError, match=rf"{name}: .*{message}"):
        study(study_copy, policy_file).read(name.split(".")[0] if name != "study.json" else "mining")


def rounding_otherwise(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    """Let all answers of policies differ by a share of their size, as on another machine."""
    answers = fingerprint._outputs
    differ = np.random.default_rng(1)

    def elsewhere(policy: Policy, seen: np.ndarray) -> np.ndarray:
        here = np.asarray(answers(policy, seen), np.float64)
        return here * (1.0 + share * differ.uniform(-1.0, 1.0, here.shape))

    monkeypatch.setattr(fingerprint, "_outputs", elsewhere)


def test_a_study_goes_on_where_the_last_digits_differ(study_copy, policy_file, monkeypatch) -> None:
    first = outcome(study(study_copy, policy_file))
    monkeypatch.setattr("legible.evaluation.units.play_in_slots", None)  # nothing is played again
    monkeypatch.setattr("legible.study.collecting.collect_unit", None)
    rounding_otherwise(monkeypatch, 1e-6)
    made = study(study_copy, policy_file)
    assert made.fingerprint != fingerprint_of(load_policy(policy_file), WORLD)
    assert outcome(made) == first


def test_what_differs_by_more_than_rounding_is_another_policy(tmp_path, policy_file, monkeypatch) -> None:
    study(tmp_path, policy_file)
    rounding_otherwise(monkeypatch, 1e-3)
    with pytest.raises(LegibleError, match="behaves differently"):
        study(tmp_path, policy_file)


def test_fingerprints_are_compared_by_bits_or_by_their_numbers() -> None:
    numbers = "10 1 2 3 0 0 0 0 5 4 3 2"
    assert is_same_behaviour(f"abc {numbers}", f"abc {numbers[::-1]}")  # the bits are the same
    for here, there, same in (
        (" 1 ", " 1.00009 ", True),  # 0.00001 of a length of 10
        (" 1 ", " 1.00011 ", False),
        (" 0 5", " 0.001 5", False),  # there were no rewards
    ):
        assert is_same_behaviour(f"abc {numbers}", "def " + numbers.replace(here, there)) is same
    assert is_same_behaviour("abc", f"abc {numbers}")  # of an older version
    assert not is_same_behaviour("abc", f"def {numbers}")


def test_fingerprints_tell_policies_and_environments_apart() -> None:
    marks = {
        fingerprint_of(mirror_world.policy(), WORLD),
        fingerprint_of(mirror_world.best_policy(), WORLD),
        fingerprint_of(mirror_world.policy(), EnvironmentSpec("mirror_world:MirrorWorld", {"noise": 2.0})),
    }
    assert len(marks) == 3
    assert fingerprint_of(mirror_world.policy(), WORLD) in marks


@pytest.mark.parametrize(
    ("name", "value"),
    [("seed", "3"), ("seed", True), ("wrappers", [None]), ("rules", None), ("about", []), ("environment", {})],
)
def test_a_folder_of_an_older_version_that_says_nonsense(tmp_path, policy_file, name, value) -> None:
    """Files of older versions carry no checksum, so what they say is looked at."""
    study(tmp_path, policy_file)
    kept = json.loads((tmp_path / "study.json").read_text())
    older = {key: entry for key, entry in kept.items() if not key.startswith("_")}
    (tmp_path / "study.json").write_text(json.dumps({**older, name: value}))
    with pytest.raises(LegibleError, match=f"study.json: is damaged .'{name}' is"):
        Study.open(tmp_path, trust=True)
    del older["about"]["lost arguments"]
    (tmp_path / "study.json").write_text(json.dumps(older))
    with pytest.raises(LegibleError, match="no 'lost arguments'"):
        Study.open(tmp_path, trust=True)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_torchscript_needs_trust_also_when_it_is_typed(tmp_path) -> None:
    program = str(tmp_path / "program.pt")
    torch.jit.script(torch.nn.Linear(4, 2)).save(program)
    typed = {"environment": "CartPole-v1", "policy": program, "policy_options": {"output": "values"}}
    with pytest.raises(PolicyError, match="is a program"):
        Study(tmp_path / "s", **typed)
    assert Study(tmp_path / "s", **typed, trust=True).policy.n_actions == 2
    with pytest.raises(PolicyError, match="is a program"):
        Study.open(tmp_path / "s").policy  # noqa: B018
    assert Study.open(tmp_path / "s", trust=True).policy.n_actions == 2
