"""The environment that a policy was trained in.

- `environment_for`: an environment with the arguments, wrappers and stacked frames that the policy's files name.

Files are data: wrappers come from a table of known names, and nothing else that a file names is imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

from legible.environments import (
    KNOWN_WRAPPERS,
    NO_WRAPPERS,
    Env,
    EnvironmentSpec,
    UnfitEnvironmentError,
    known_name,
    parse_wrapper,
    refuse_named_code,
    with_features,
    wrapper_text,
)
from legible.play.adapted import features_read
from legible.policies import Policy
from legible.policies.protocol import traits_of
from legible.policies.rl_zoo import ENVIRONMENT_NEEDS

_LONGEST_NAME = 100
_E = TypeVar("_E", bound="EnvironmentSpec | Env")


def environment_for(policy: Policy | None, environment: _E) -> _E:
    """Return the environment with the arguments and wrappers that a policy was trained with, as far as its files say.

    - Arguments of `environment` take precedence over those of the files.
    - A wrapper of `environment` replaces the files' wrapper of the same name. Its other wrappers are applied after
      those of the files, but before frame stacking.
    - With `legible.environments.spec.NO_WRAPPERS` among the wrappers of `environment`, those of the files are left out.
    - If the rules of a guided policy see other features than the observation, the environment shows them.
    - It is an error if the files name a wrapper that is not known and not among the wrappers of `environment`.

    Parameters
    ----------
    policy
        The policy, with or without rules, as returned by `legible.policies.load_policy`; None changes nothing.
    environment
        The specification of an environment. Environment objects are returned unchanged.

    Examples
    --------
    >>> from legible.policies import FunctionPolicy
    >>> needs = {"wrappers": [["rl_zoo3.wrappers.FrameSkip", {"skip": 2}]], "frame_stack": 4}
    >>> policy = FunctionPolicy(abs, "values", 2, metadata={"environment_needs": needs})
    >>> environment_for(policy, EnvironmentSpec("CartPole-v1")).wrappers
    ('FrameSkip(skip=2)', 'VecFrameStack(n_stack=4)')
    """
    if not isinstance(environment, EnvironmentSpec):
        return environment
    # For a guided policy, the files of its network.
    needs = traits_of(getattr(policy, "network", policy)).metadata.get(ENVIRONMENT_NEEDS)
    spec: EnvironmentSpec = environment
    if isinstance(needs, Mapping):
        file_arguments = needs.get("env_arguments")
        arguments = (
            {str(key): value for key, value in file_arguments.items()} if isinstance(file_arguments, Mapping) else {}
        )
        arguments.pop("render_mode", None)  # how the training was watched
        # A policy file must not make us import code that it names.
        refuse_named_code(EnvironmentSpec("", arguments), "the files of the policy", trust=False)
        spec = replace(spec, arguments={**arguments, **spec.arguments}, wrappers=_wrappers(needs, spec.wrappers))
    features = features_read(policy)
    return cast("_E", spec if features is None else with_features(spec, features))


def _wrappers(needs: Mapping[str, Any], given: Sequence[str]) -> tuple[str, ...]:
    """Return the wrappers of the policy's files, the other ones given by the user, and the stacking of frames."""
    if NO_WRAPPERS in given:
        return tuple(given)
    left = list(given)  # without those that replace a wrapper of the files
    try:
        pairs = [(str(name), dict(arguments)) for name, arguments in needs.get("wrappers") or ()]
    except (TypeError, ValueError) as error:
        raise UnfitEnvironmentError("the wrappers in the policy's files cannot be read.") from error
    inner = [_known_or_given(name, arguments, left) for name, arguments in pairs]
    frames = needs.get("frame_stack")
    if not isinstance(frames, int) or frames <= 1:
        return (*inner, *left)
    padding = {"padding": needs["frame_padding"]} if needs.get("frame_padding") is not None else {}
    stacked = wrapper_text("VecFrameStack", {"n_stack": frames, **padding})
    if stacked in left:
        left.remove(stacked)
    return (*inner, *left, stacked)


def _known_or_given(name: str, arguments: Mapping[str, Any], given: list[str]) -> str:
    """Return a wrapper that a file names: the given one of that name, which is removed from `given`, or a known one."""
    for text in given:
        given_name, given_arguments = parse_wrapper(text)
        if given_name.rpartition(":")[2] == name.rpartition(".")[2]:
            given.remove(text)
            return text if given_arguments else wrapper_text(given_name, arguments)
    known = known_name(name)
    if known is None:
        name = name[:_LONGEST_NAME]
        module, _, class_name = name.rpartition(".")
        option = wrapper_text(f"{module or 'MODULE'}:{class_name}", {})
        raise UnfitEnvironmentError(
            f"the policy was trained with the wrapper {name}, which legible does not know. It is not imported, because "
            f"a policy file must not be able to run code. If you trust it, pass --wrap {option}; its arguments are "
            f"taken from the file. --wrap {NO_WRAPPERS} leaves out all wrappers of the file. Known wrappers are "
            f"{', '.join(KNOWN_WRAPPERS)}."
        )
    return wrapper_text(known, arguments)
