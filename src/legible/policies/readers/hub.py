"""Reader of policies on the Hugging Face hub, ``hf:USER/REPO[/FILE][@REVISION]`` (the extra ``hub``).

Files are fetched into huggingface_hub's cache, and read from there without a network. Statistics and the RL Zoo's files
are fetched with a policy. Nothing that is fetched is run.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from legible.imports import optional_package
from legible.policies.protocol import Policy, PolicyError
from legible.policies.registry import LoadOptions, PolicyReader, find_reader

PREFIX = "hf:"
_ADDRESS = re.compile(r"hf:([\w.-]+/[\w.-]+?)(?:/([\w./ -]+))?(?:@([\w./-]+))?")
_TIMEOUT = 20.0
_POLICY_SUFFIXES = (".zip", ".safetensors", ".cleanrl_model", ".onnx")
_SIDECAR = re.compile(r"(.*vec_?normalize.*\.pkl|args\.yml|config\.yml|env_kwargs\.yml|.*\.normalisation\.(npz|toml))")


def is_own(source: Any) -> bool:
    """Return whether this is the address of a policy on the hub."""
    return isinstance(source, str) and source.startswith(PREFIX)


def read(source: str, options: LoadOptions) -> Policy:
    """Fetch a policy with its sidecar files, and read it."""
    path = fetch(source)
    return find_reader(path).read(path, options)


def fetch(source: str) -> Path:
    """Return the local path of a policy on the Hugging Face hub, after fetching it into the cache.

    The files that describe the policy (normalisation statistics, training settings) are fetched too.

    An address is ``hf:USER/REPO``, ``hf:USER/REPO/FILE``, or one of these with ``@REVISION``.
    """
    address = _ADDRESS.fullmatch(source)
    if address is None or ".." in source:
        raise PolicyError(f"{source!r}: write it as hf:USER/REPO or hf:USER/REPO/FILE")
    hub = optional_package("huggingface_hub", "hub", "policies on the Hugging Face hub")
    repository, file, revision = address.groups()
    # The user's environment variables win over the library's defaults, even if they were set after its import.
    endpoint_and_cache = {"endpoint": os.environ.get("HF_ENDPOINT"), "cache_dir": os.environ.get("HF_HUB_CACHE")}
    try:
        # Without a network, use what the cache holds.
        names, offline = _files(hub, repository, revision, endpoint_and_cache)
        policy_file = file or _policy_among(names, source)
        if policy_file not in names:
            raise PolicyError(f"{source!r}: the repository has no file {policy_file!r}; it has {', '.join(names[:10])}")
        # Fetch the files that describe the policy, then the policy itself.
        folder, options = Path(policy_file).parent, {"revision": revision, "local_files_only": offline}
        for name in names:
            if _SIDECAR.fullmatch(Path(name).name) and Path(name).is_relative_to(folder):
                hub.hf_hub_download(repository, name, **options, **endpoint_and_cache)
        return Path(hub.hf_hub_download(repository, policy_file, **options, **endpoint_and_cache))
    except PolicyError:
        raise
    except Exception as error:
        # The hub's library and its dependencies raise many kinds of errors.
        raise PolicyError(
            f"{source!r}: cannot be fetched, and the cache does not have it ({type(error).__name__}: "
            f"{str(error)[:200]})"
        ) from error


def _files(hub: Any, repository: str, revision: str | None, place: dict[str, str | None]) -> tuple[list[str], bool]:
    """Return the files of a repository and False; without a network, those in the cache and True."""
    try:
        # Not list_repo_files, which waits for most of a minute without a network.
        info = hub.HfApi(endpoint=place["endpoint"]).model_info(repository, revision=revision, timeout=_TIMEOUT)
        return sorted(each.rfilename for each in info.siblings or ()), False
    except Exception as error:
        try:
            cache = {"local_files_only": True, "cache_dir": place["cache_dir"]}
            kept = Path(hub.snapshot_download(repository, revision=revision, **cache))
        except Exception:
            raise error from None  # the first error is more informative
        return sorted(str(path.relative_to(kept)) for path in kept.rglob("*") if path.is_file()), True


def _policy_among(names: list[str], source: str) -> str:
    """Return the only policy among the files of a repository."""
    for suffix in _POLICY_SUFFIXES:
        fitting = [name for name in names if name.endswith(suffix) and not name.startswith("train_eval")]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            several = ", ".join(fitting[:5])
            raise PolicyError(f"{source!r}: several files could be the policy ({several}); name one of them")
    raise PolicyError(f"{source!r}: none of its files is a policy ({', '.join(names[:10])})")


READER = PolicyReader("hub", "hf:USER/REPO for a policy on the Hugging Face hub", is_own, read)
