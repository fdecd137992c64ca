"""The folder of a study: files that tell whether they are what was written, claimed by one process, readable by all."""

import hashlib
import json
import multiprocessing
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import mirror_world
from legible.errors import LegibleError
from legible.evaluation.units import Setup, Unit, unit_key
from legible.rules import RuleSet, parse_rule
from legible.settings import PlaySettings
from small_studies import SETTINGS, WORLD
from study.studies import make_study, open_study
from unfinished import forget_results


def test_two_unit_files_that_changed_places_are_noticed(study_copy) -> None:
    one, two = sorted((study_copy / "units").glob("*.npz"))[:2]
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    with pytest.raises(LegibleError, match=r"\.npz: belongs elsewhere"):
        open_study(forget_results(study_copy)).run()


@pytest.mark.parametrize("name", ["experiences.npz", "mining.npz"])
def test_files_of_another_study_are_noticed(study_copy, tmp_path, name) -> None:
    policy = study_copy / "policy.safetensors"
    other = make_study(tmp_path / "other", WORLD, policy, settings=SETTINGS, seed=1, relations=())
    other.mine()
    shutil.copy(tmp_path / "other" / name, study_copy / name)
    with pytest.raises(LegibleError, match=rf"{name}: belongs elsewhere"):
        open_study(study_copy).read(name.removesuffix(".npz"))


@pytest.mark.parametrize("name", ["study.json", "policy.safetensors", "relations/00-given.toml"])
def test_every_file_of_the_inputs_is_checked(study_copy, name) -> None:
    path = study_copy / name
    content = bytearray(path.read_bytes())
    place = content.rindex(b"1") if name == "study.json" else len(content) - 3
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(LegibleError, match=rf"{Path(name).name}: is damaged"):
        open_study(study_copy)


def test_values_that_were_changed_in_a_unit_are_noticed(study_copy) -> None:
    victim = next((study_copy / "units").glob("*.npz"))
    with np.load(victim) as data:
        arrays = dict(data)
    arrays["returns"] = arrays["returns"] + 1.0
    np.savez_compressed(victim, **arrays)  # a whole file, with its old checksum
    with pytest.raises(LegibleError, match=r"is damaged \(its content is"):
        open_study(forget_results(study_copy)).run()


@pytest.mark.parametrize("schema", [2, 99, "x"])
def test_another_schema_is_refused(study_copy, schema, raises_saved) -> None:
    document = json.loads((study_copy / "study.json").read_text())
    del document["_key"], document["_checksum"]
    (study_copy / "study.json").write_text(json.dumps({**document, "schema": schema}))
    with raises_saved(LegibleError):
        open_study(study_copy)


def test_attributes_only_read(tmp_path) -> None:
    study = make_study(tmp_path, WORLD, mirror_world.policy(), settings=SETTINGS, relations=())
    for name in ("experiences", "mining", "generalisations", "evaluation", "improvement", "explanations"):
        with pytest.raises(LegibleError, match=r"yet; .*legible run"):
            getattr(study, name)
    assert not (tmp_path / "experiences.npz").exists()


def _start(folder: str, seed: int, outcomes: "multiprocessing.Queue[str]") -> None:
    try:
        make_study(folder, WORLD, mirror_world.policy(), settings=SETTINGS, seed=seed, relations=())
        outcomes.put("made")
    except LegibleError as error:
        outcomes.put("refused" if "other settings" in str(error) else str(error))


def test_of_two_starts_at_the_same_moment_one_claims_the_folder(tmp_path) -> None:
    context = multiprocessing.get_context("fork")
    for attempt in range(5):
        outcomes: multiprocessing.Queue[str] = context.Queue()
        folder = tmp_path / str(attempt)
        starts = [context.Process(target=_start, args=(str(folder), seed, outcomes)) for seed in (0, 1)]
        for start in starts:
            start.start()
        for start in starts:
            start.join()
        assert sorted(outcomes.get() for _ in starts) == ["made", "refused"]
        assert json.loads((folder / "study.json").read_text())["seed"] in {0, 1}


def test_a_new_setting_changes_no_key_of_units_played_before_it_existed() -> None:
    """The key as it was when `PlaySettings` had its first eight settings, worked out here once more."""
    play = PlaySettings(epsilon=0.1)
    rules = RuleSet((parse_rule("+Left <- left", mirror_world.SPACE),))
    setup = Setup(mirror_world.policy(), WORLD, (rules,), play)
    content = {
        "fingerprint": "f",
        "environment": repr(WORLD),
        "play": {
            "epsilon": 0.1,
            "epsilon_when_guided": True,
            "sample": False,
            "precedence": "positive",
            "batch": 256,
            "unit_episodes": 2500,
            "step_limit": 100_000,
            "cost": "",
        },
        "treatments": [rules.to_dict()],
        "episodes": [(0, 7), (-1, 8)],
    }
    expected = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]
    assert unit_key(setup, Unit((0, -1), (7, 8)), "f") == expected
    other = replace(setup, play=replace(play, batch=8))
    assert unit_key(other, Unit((0, -1), (7, 8)), "f") != expected
