"""Readers of policies: found by what a file is, added from outside, and a refusal that says what is supported."""

from pathlib import Path

import numpy as np
import pytest

from legible.policies import FunctionPolicy, PolicyError, load_policy, policy_readers, register_reader, remove_reader


@pytest.fixture
def scores_reader():
    """A format that the package does not know: the score of each action, in a line of text."""

    def read(path, options):
        scores = np.loadtxt(path)
        return FunctionPolicy(lambda batch: np.tile(scores, (len(batch), 1)), "values", len(scores))

    def is_own(source):
        return isinstance(source, Path) and source.suffix == ".scores"

    yield register_reader("scores", supports="a .scores file", is_own=is_own, read=read)
    remove_reader("scores")


def test_a_new_format_in_a_few_lines(scores_reader, tmp_path, raises_saved):
    path = tmp_path / "lazy.scores"
    path.write_text("0.5 2 1")
    policy = load_policy(str(path), n_actions=3)
    np.testing.assert_array_equal(policy.scores(np.zeros((2, 7), np.float32)), [[0.5, 2, 1]] * 2)
    with raises_saved(PolicyError):
        load_policy(path, n_actions=4)


def test_a_reader_from_outside_comes_before_the_shipped_ones(tmp_path):
    path = tmp_path / "model.zip"
    path.write_text("mine")
    mine = FunctionPolicy(lambda batch: np.zeros((len(batch), 2)), "values", 2)
    register_reader("mine", supports="mine", is_own=lambda source: source == path, read=lambda source, options: mine)
    try:
        assert load_policy(path) is mine
        assert policy_readers()[0].name == "mine"
    finally:
        remove_reader("mine")
    with pytest.raises(PolicyError, match="no zip file"):
        load_policy(path)


def test_a_reader_of_the_same_name_is_replaced(scores_reader):
    before = len(policy_readers())
    register_reader("scores", supports="other", is_own=lambda source: False, read=scores_reader.read)
    assert len(policy_readers()) == before
    assert "other" in [reader.supports for reader in policy_readers()]


@pytest.mark.parametrize("source", ["file", "folder", 3, "nonsense:x y"])
def test_unsupported_sources_are_refused_with_what_is_supported(tmp_path, source):
    if source == "file":
        source = tmp_path / "model.bin"
        source.write_bytes(b"\x00something")
    elif source == "folder":
        source = tmp_path
    with pytest.raises(PolicyError) as caught:
        load_policy(source)
    for reader in policy_readers():
        assert reader.supports in str(caught.value)
