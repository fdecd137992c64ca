"""Tab completion: environments, policies of the zoo, relations that come with the package, studies, other paths.

Shells ask the program itself (Click's shell completion; ``legible --help`` says how it is switched on).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from click.shell_completion import BashComplete, CompletionItem, add_completion_class, split_arg_string

# Everything else is imported when Tab is pressed: these functions are only named when the program starts.


def complete_env(_context: Any, _parameter: Any, incomplete: str) -> list[CompletionItem]:
    """Ids that Gymnasium knows, legible's included."""
    import gymnasium  # noqa: PLC0415

    return _items(gymnasium.registry, incomplete)


def complete_env_or_folder(context: Any, parameter: Any, incomplete: str) -> list[CompletionItem]:
    """Ids of environments, and studies."""
    return _or_paths([*_studies(incomplete), *complete_env(context, parameter, incomplete)], incomplete, "dir")


def complete_study(_context: Any, _parameter: Any, incomplete: str) -> list[CompletionItem]:
    """Folders of studies, and files."""
    return _or_paths([*_studies(incomplete)], incomplete, "file")


def complete_policy(_context: Any, _parameter: Any, incomplete: str) -> list[CompletionItem]:
    """``zoo:NAME``, and files."""
    from legible.policies.zoo import PREFIX, zoo_names  # noqa: PLC0415

    # Without a beginning there are hundreds of names: files are more likely.
    names = [f"{PREFIX}{name}" for name in zoo_names()] if incomplete.startswith(PREFIX) else [PREFIX]
    return _or_paths(_items(names, incomplete) if incomplete else [], incomplete, "file")


def complete_setting(_context: Any, _parameter: Any, incomplete: str) -> list[CompletionItem]:
    """Names of settings, for ``--set``."""
    from legible.settings import all_settings  # noqa: PLC0415

    return _items([f"{setting.dotted}=" for setting in all_settings()], incomplete)


def complete_relations(context: Any, _parameter: Any, incomplete: str) -> list[CompletionItem]:
    """Names of the relations that come with the package for the environment, and files."""
    from legible.environments import shipped_relations  # noqa: PLC0415

    # Click does not tell the environment while an option lacks its value: then it may be any.
    env = str(context.params.get("env") or context.params.get("target") or "")
    names = [entry.name for entry in shipped_relations(env.rpartition(":")[2])] if env else _all_relations()
    return _or_paths(_items([*names, "discover", "none"], incomplete), incomplete, "file")


def complete_env_or_relations(context: Any, parameter: Any, incomplete: str) -> list[CompletionItem]:
    """Ids of environments, and names of all relations that come with the package."""
    return [*_items(_all_relations(), incomplete), *complete_env(context, parameter, incomplete)]


def _all_relations() -> list[str]:
    from legible.environments import all_domains  # noqa: PLC0415

    return list(dict.fromkeys(file.name for domain in all_domains() for file in domain.relations))


def _items(words: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(word) for word in words if word.startswith(incomplete)]


def _studies(incomplete: str) -> Iterator[CompletionItem]:
    """Studies whose paths begin like this, also those one folder further down, as in ``studies/NAME``."""
    folder, _, _ = incomplete.rpartition("/")
    place = Path(folder or ("/" if incomplete.startswith("/") else "."))
    for pattern in ("*/study.json", "*/*/study.json"):
        for found in sorted(place.glob(pattern)):
            path = str(found.parent)
            if path.startswith(incomplete):
                yield CompletionItem(path)


def _or_paths(words: list[CompletionItem], incomplete: str, kind: str) -> list[CompletionItem]:
    """Words, or where none fits whatever path the shell finds: given both, bash forgets the words."""
    return words or [CompletionItem(incomplete, type=kind)]


class ColonBashComplete(BashComplete):
    """Completion for bash, which takes ``zoo:NAME`` for three words and replaces the last of them."""

    name = "bash"

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the one that is completed, and the typed beginning of that word."""
        words, place = split_arg_string(os.environ["COMP_WORDS"]), int(os.environ["COMP_CWORD"])
        typed = [*words[1:place], words[place] if place < len(words) else ""]
        joined: list[str] = []
        for word in typed:
            if joined and (word == ":" or joined[-1].endswith(":")):
                joined[-1] += word
            else:
                joined.append(word)
        # Where bash split the word, it keeps what stands before the colon; quoted, or in a test, the word is whole.
        is_split = joined[-1] != typed[-1]
        self._kept = joined[-1][: joined[-1].rfind(":") + 1] if is_split else ""
        return joined[:-1], joined[-1]

    def format_completion(self, item: CompletionItem) -> str:
        """Leave out what stands before the colon already."""
        return super().format_completion(CompletionItem(item.value.removeprefix(self._kept), item.type))


add_completion_class(ColonBashComplete)
