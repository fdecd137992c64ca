"""Policies on the Hugging Face hub, against a stand-in for it on this machine."""

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from legible.policies import PolicyError, describe_policy, load_policy
from policies.test_normalisation import vec_normalize

pytest.importorskip("huggingface_hub")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A server that answers as the hub does for one repository, and its files by name."""
    files: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.answer(body=False)

        def do_GET(self):
            self.answer(body=True)

        def answer(self, *, body):
            path = self.path.partition("?")[0]
            if path.startswith("/api/models/someone/agent"):
                names = [{"rfilename": name} for name in files]
                content = json.dumps({"id": "someone/agent", "sha": COMMIT, "siblings": names}).encode()
                headers = {"Content-Type": "application/json"}
            elif path.startswith("/someone/agent/resolve/") and (name := path.split("/", 5)[-1]) in files:
                content = files[name]
                headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": COMMIT}
            else:
                self.send_response(404)
                self.send_header("X-Error-Code", "RepoNotFound")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(200)
            for key, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(key, value)
            self.end_headers()
            if body:
                self.wfile.write(content)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    yield files
    server.shutdown()
    server.server_close()


@pytest.fixture
def filled(hub, saved, tmp_path):
    hub["dqn-CartPole-v1.zip"] = saved("DQN").read_bytes()
    vec_normalize().save(tmp_path / "v.pkl")
    hub["vec_normalize.pkl"] = (tmp_path / "v.pkl").read_bytes()
    hub["train_eval_metrics.zip"] = b"PK"
    hub["args.yml"] = b"env: CartPole-v1\nalgo: dqn\n"
    hub["README.md"] = b"# an agent"
    return hub


def test_a_repository_is_enough(filled):
    policy = load_policy("hf:someone/agent")
    assert policy.n_actions == 3
    assert policy.normalisation.source.endswith("vec_normalize.pkl")
    assert load_policy("hf:someone/agent/dqn-CartPole-v1.zip").n_actions == 3
    said = describe_policy("hf:someone/agent")
    assert (said.format, said.env_id, said.env_id_from) == ("hub", "CartPole-v1", "args.yml")


def test_the_cache_works_without_a_network(filled, monkeypatch):
    load_policy("hf:someone/agent")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert load_policy("hf:someone/agent").normalisation is not None
    with pytest.raises(PolicyError, match="cannot be fetched, and the cache"):
        load_policy("hf:someone/other")


def test_what_is_unclear_or_missing(filled, raises_saved):
    with raises_saved(PolicyError):
        load_policy("hf:someone/agent/x.zip")
    filled["second.zip"] = b"PK"
    with raises_saved(PolicyError):
        load_policy("hf:someone/agent")
    with pytest.raises(PolicyError, match="write it as hf:USER/REPO"):
        load_policy("hf:someone")
    with pytest.raises(PolicyError, match="write it as hf:USER/REPO"):
        load_policy("hf:someone/agent/../../x.zip")
