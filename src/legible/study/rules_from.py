"""Rules that come from other policies and studies, and are tested on the policy of this study.

The folder of another study is data: its confirmed rules are read, or, where it confirmed none, its mined ones, and
carried over by the names of features and actions. Another policy plays in this study's environment, and rules are mined
from that with the settings of this study.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from legible.errors import LegibleError
from legible.evaluation import Evaluation
from legible.features import FeatureSpace
from legible.files import DamagedFileError, read_json, write_json
from legible.mining import Mining, mine
from legible.play import Experiences, adapt_policy, check_can_be_studied
from legible.play.experiences import ExperienceSetup
from legible.policies import Policy
from legible.rules import Rule, parse_rule
from legible.rules.rule import RuleError
from legible.study.choices import intervals_for
from legible.study.collecting import collect_in_units
from legible.study.fingerprint import fingerprint_of, is_same_behaviour
from legible.study.folder import StudyFolder
from legible.study.inputs import found_again

if TYPE_CHECKING:
    from legible.study.study import Study

CONFIRMED = "confirmed.json"
_ADVICE = "delete it and run the study again"


@dataclass(frozen=True)
class Origin:
    """Another policy or study that rules come from.

    Parameters
    ----------
    name
        As it was given.
    rules
        The rules of a study, as texts; None for a policy, from which rules are mined.
    file
        Where the policy is found; "" for an object in memory.
    fingerprint
        Stands for how the policy acts.
    """

    name: str
    rules: tuple[str, ...] | None = None
    file: str = ""
    fingerprint: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {**asdict(self), "rules": None if self.rules is None else list(self.rules)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str) -> Origin:
        """Read what `to_dict` wrote."""
        try:
            origin = cls(**data)
            texts = [origin.name, origin.file, origin.fingerprint, *(origin.rules or ())]
        except TypeError as error:
            raise DamagedFileError(f"{where}: is damaged (no origin of rules: {error}); use another folder.") from error
        if not all(isinstance(text, str) for text in texts):
            raise DamagedFileError(f"{where}: is damaged (no origin of rules: {str(data)[:80]}); use another folder.")
        return replace(origin, rules=None if origin.rules is None else tuple(origin.rules))


class FoundOrigins(NamedTuple):
    """Origins, the policies among them that are loaded already, and rules that do not fit, in words."""

    origins: tuple[Origin, ...]
    policies: dict[str, Policy]
    left_out: tuple[str, ...]


def find_origins(
    study: Study, given: Sequence[str | Path | Policy | Mapping[str, Any]], load: Callable[..., Policy]
) -> FoundOrigins:
    """Return the studies and policies whose rules a study tests, too: rules found there, or habits mined from them.

    Parameters
    ----------
    study
        The study that tests the rules.
    given
        What the user named: folders of studies, paths or addresses of policies, or policies; for a study that is opened
        again, the records of its ``study.json``.
    load
        Loads a policy with the user's permissions: `legible.study.load_policy_for`.

    Returns
    -------
    The origins in their order, the loaded policies by fingerprint, and sentences on rules that were left out because
    they do not fit the features of this study.
    """
    environment, space = study.environment, study.given_space
    origins: list[Origin] = []
    policies: dict[str, Policy] = {}
    left_out: list[str] = []
    for number, source in enumerate(given, start=1):
        if isinstance(source, Mapping):  # a record of study.json
            origins.append(Origin.from_dict(source, "study.json"))
        elif isinstance(source, (str, Path)) and StudyFolder(source).holds_study:  # a study: its confirmed rules
            texts, unfit = _fitting(_rules_in(Path(source)), space, str(source))
            origins.append(Origin(str(source), texts))
            left_out += unfit
        else:  # a policy, whose habits are mined later
            policy = load(environment, source)
            is_path = isinstance(source, (str, Path))
            # The whole path, so that a study that is opened in another folder finds the file again.
            name, file = (str(source), found_again(str(source))) if is_path else ("", "")
            env = environment.make()
            try:
                check_can_be_studied(policy, env)
            finally:
                env.close()
            fingerprint = _fingerprint(study, policy)
            origins.append(Origin(name or f"policy {number}", None, file, fingerprint))
            policies[fingerprint] = policy
    names = [origin.name for origin in origins]
    if len(set(names)) < len(names):
        raise LegibleError(f"--rules-from {max(names, key=names.count)}: is named twice.")
    return FoundOrigins(tuple(origins), policies, tuple(left_out))


def _fingerprint(study: Study, policy: Policy) -> str:
    limit = study.settings.time_limit or None
    player = adapt_policy(policy, study.environment)
    return fingerprint_of(player, study.environment, engine=study.engine, time_limit=limit)


def _rules_in(folder: Path) -> list[str]:
    """Return the confirmed rules of a study's folder, or, if there are none, its mined ones, as texts."""
    try:
        rules = read_json(folder / CONFIRMED, advice="run that study again")["rules"]
    except FileNotFoundError:
        rules = []
    except KeyError as error:
        raise DamagedFileError(f"{folder / CONFIRMED}: is damaged (no {error}); run that study again.") from error
    if not _are_texts(rules):
        raise DamagedFileError(f"{folder / CONFIRMED}: is damaged (its rules are no texts); run that study again.")
    if rules:
        return list(rules)
    path = folder / "mining.npz"
    if not path.exists():
        raise LegibleError(f"{folder}: this study has no rules yet; 'legible run {folder} --until mine' finds some.")
    mining = Mining.load(path)
    return [mined.rule.text(mining.space) for mined in mining.rules]


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _fitting(texts: Sequence[str], space: FeatureSpace, where: str) -> tuple[tuple[str, ...], list[str]]:
    """Return the rules whose features and actions this study has, and a line about the others."""
    fitting, reason, unfit = [], "", 0
    for text in texts:
        try:
            fitting.append(parse_rule(text, space).text(space))
        except RuleError as error:
            unfit, reason = unfit + 1, reason or str(error).rstrip(".")
    if unfit and not fitting:
        raise LegibleError(
            f"--rules-from {where}: none of its {unfit} rules fits the features and actions of this study ({reason})."
        )
    line = f"{unfit} of the {len(texts)} rules of {where} do not fit this study and are not tested ({reason})"
    return tuple(dict.fromkeys(fitting)), [line] if unfit else []


class OtherRules:
    """The rules of other policies and studies, tested on the policy of a study.

    `load` is `legible.study.load_policy_for` with what the user allows.
    """

    def __init__(self, study: Study, found: FoundOrigins, load: Callable[..., Policy]) -> None:
        self._study, self._found, self._load = study, found, load

    @property
    def origins(self) -> tuple[Origin, ...]:
        """Where rules come from."""
        return self._found.origins

    @property
    def left_out(self) -> tuple[str, ...]:
        """Rules that do not fit the names of this study, in words."""
        return self._found.left_out

    def mine(self) -> list[dict[str, Any]]:
        """Return the rules of every origin; they are mined where it is a policy.

        Episodes that the folder holds are not played again.
        """
        folder = self._study.folder / "rules-from"
        folder.mkdir(exist_ok=True)
        entries = []
        for number, origin in enumerate(self.origins):
            rules, steps = origin.rules, 0
            if rules is None:
                rules, steps = self._mine(origin, folder / f"{number:02}")
            entries.append({"name": origin.name, "rules": list(rules), "steps": steps})
        return entries

    def _mine(self, origin: Origin, place: Path) -> tuple[tuple[str, ...], int]:
        """Return the rules mined from another policy, which plays in this environment, and the steps that it played.

        Its episodes are kept in the file `place` with the suffix ``.npz``.
        """
        study, path = self._study, place.with_suffix(".npz")
        player = adapt_policy(self._policy(origin), study.environment, study.space)
        if not path.exists():
            setup = ExperienceSetup.of(player, study.environment, study.settings.play)
            played = collect_in_units(study, setup, "others", seeds_of="experiences", folder=place)
            played.with_choices(study.space).save(path, study.key)
        seen = Experiences.load(path, study.key)
        mining = mine(
            player, seen, seed=study.seed, settings=study.settings.mining, intervals=intervals_for(study, seen)
        )
        return tuple(mined.rule.text(seen.space) for mined in mining.rules), int(seen.lengths.sum())

    def _policy(self, origin: Origin) -> Policy:
        """Return the policy of an origin, which must act as it did when it was given."""
        if origin.fingerprint in self._found.policies:
            return self._found.policies[origin.fingerprint]
        study = self._study
        if not origin.file:
            raise LegibleError(
                f"{origin.name}, whose rules this study tests, was an object in memory, which the folder cannot hold. "
                "Continue in a program that passes the object again."
            )
        policy = self._load(study.environment, origin.file)
        if not is_same_behaviour(_fingerprint(study, policy), origin.fingerprint):
            raise LegibleError(
                f"{origin.file}: the policy has changed since it was named as a source of rules. Restore the file, or "
                "make a new study."
            )
        return policy

    def _entries(self) -> list[dict[str, Any]]:
        return self._study.read("rules from") if self.origins else []

    def rules(self) -> dict[str, tuple[Rule, ...]]:
        """Return the rules of every origin, by its name, without those on regions that the policy never uses."""
        rules_of = {}
        for entry in self._entries():
            rules = []
            for text in entry["rules"]:
                with suppress(RuleError):  # continuous actions have fewer regions where a policy never goes
                    rules.append(parse_rule(text, self._study.space))
            rules_of[entry["name"]] = tuple(dict.fromkeys(rules))
        return rules_of

    def steps(self) -> dict[str, int]:
        """Return the environment steps that were played to mine rules, by the name of the origin."""
        return {entry["name"]: entry["steps"] for entry in self._entries()}


def write_others(path: Path, found: Sequence[Mapping[str, Any]], key: str) -> None:
    """Write what `OtherRules.mine` returned."""
    write_json(path, {"origins": list(found)}, key)


def read_others(path: Path, key: str) -> list[dict[str, Any]]:
    """Read what `write_others` wrote."""
    try:
        found: list[dict[str, Any]] = read_json(path, key, _ADVICE)["origins"]
        for entry in found:
            if not (isinstance(entry["name"], str) and isinstance(entry["steps"], int)):
                raise TypeError("an origin has a name and a number of steps")
            if not _are_texts(entry["rules"]):
                raise TypeError("its rules are no texts")
    except (KeyError, TypeError) as error:
        raise DamagedFileError(f"{path}: is damaged ({error}); {_ADVICE}.") from error
    return found


def keep_confirmed(study: Study, evaluation: Evaluation) -> None:
    """Write the confirmed rules of a study into its folder, as texts, for other studies."""
    write_json(study.folder / CONFIRMED, {"rules": _confirmed_texts(study, evaluation)}, study.key)


def are_confirmed_kept(study: Study, evaluation: Evaluation) -> bool:
    """Return whether the folder holds the confirmed rules; a file that was deleted or damaged does not."""
    try:
        kept = read_json(study.folder / CONFIRMED, study.key)
    except (LegibleError, FileNotFoundError):
        return False
    return kept == {"rules": _confirmed_texts(study, evaluation)}


def _confirmed_texts(study: Study, evaluation: Evaluation) -> list[str]:
    rules = [rule for verdict in evaluation.confirmed for rule in verdict.rule_set.stated]
    return list(dict.fromkeys(rule.text(study.space) for rule in rules))
