"""What Tab completes: environments, policies of the zoo, relations that come with the package, files and folders.

Shells ask the program itself (Click's shell completion; ``legible --help`` says how it is switched on).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from click.shell_completion import CompletionItem

# Everything is imported when Tab is pressed: these functions are only named when the program starts.


def complete_env(_context: Any, _parameter: Any, incomplete: str) -> list[CompletionItem]:
    """Ids that Gymnasium knows, which includes those of legible."""
    import gymnasium  # noqa: PLC0415

    return _items(gymnasium.registry, incomplete)


def complete_env_or_folder(context: Any, parameter: Any, incomplete: str) -> list[CompletionItem]:
    """Ids of environments, and folders."""
    return [*complete_env(context, parameter, incomplete), CompletionItem(incomplete, type="dir")]


def complete_policy(_context: Any, _parameter: Any, incomplete: str) -> list[CompletionItem]:
    """``zoo:NAME``, and files."""
    from legible.policies.zoo import PREFIX, zoo_names  # noqa: PLC0415

    return [*_items((f"{PREFIX}{name}" for name in zoo_names()), incomplete), CompletionItem(incomplete, type="file")]


def complete_relations(context: Any, _parameter: Any, incomplete: str) -> list[CompletionItem]:
    """Names of the relations that come with the package for the environment that was given, and files."""
    from legible.environments import shipped_relations  # noqa: PLC0415

    env = str(context.params.get("env") or context.params.get("target") or "")
    names = (entry.name for entry in shipped_relations(env.rpartition(":")[2]))
    return [*_items(names, incomplete), CompletionItem(incomplete, type="file")]


def _items(words: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(word) for word in words if word.startswith(incomplete)]
