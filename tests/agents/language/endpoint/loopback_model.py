"""Answers of the loopback server: a model with made-up logits, masked and sampled like vLLM.

A choice or a regex lets through every spelling in tokens of what it says, as in vLLM with xgrammar; llguidance reads
grammars of token ids, as there. Quirks make it another kind of server.
"""

import hashlib
from functools import cache

import llguidance
import llguidance.hf
import numpy as np
import regex
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from sparring.agents.language.decoding.constraint import decode, encode
from sparring.envs.diplomacy.prompts.requests import CLOSING, OPENING, probes

RAW, UNMASKED, NO_IDS, HOT = "raw", "unmasked", "no_ids", "hot"
TOP_TWO, BEGINS, OPENAI, STRIPPED = "top_two", "begins", "openai", "stripped"
"""Log-probabilities of the bare model; those at the temperature but of all tokens, as llama.cpp's; no token ids; one
temperature for all; a cut distribution; a token put before every prompt; none of vLLM's additions; a text's white space
cut off."""


@cache
def byte_tokenizer(pieces=343):
    """A tokenizer of bytes and of so many longer pieces.

    With pieces, as most models have them, a line has many spellings, and the tokenizer's own is one of them. Without
    any, each line has one spelling, and a mask over text is the same as one over tokens.
    """
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split("\n", "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    options = {"initial_alphabet": alphabet, "special_tokens": ["<end>"], "show_progress": False}
    trainer = trainers.BpeTrainer(vocab_size=len(alphabet) + 1 + pieces, **options)
    tokenizer.train_from_iterator([*probes(), OPENING, CLOSING], trainer)
    name = "pieces" if pieces else "letters"
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", name_or_path=name)


class GuidanceMask:
    """The tokens that llguidance allows, as in vLLM; `structured` is as in a request."""

    def __init__(self, tokenizer, structured):
        ((kind, what),) = structured.items()
        self._matcher = llguidance.LLMatcher(engine(tokenizer), llguidance.grammar_from(kind, what))
        assert not self._matcher.get_error(), self._matcher.get_error()

    def allowed(self):
        bits = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        return np.flatnonzero(np.unpackbits(bits, bitorder="little"))

    def take(self, token):
        assert self._matcher.consume_token(token)


class TextMask:
    """The tokens that a regex allows: those after which the text can still be extended to a match."""

    def __init__(self, tokenizer, pattern):
        self._pattern, self._end, self._text = regex.compile(pattern), tokenizer.eos_token_id, ""
        self._words = [decode(tokenizer, [token]) for token in range(len(tokenizer))]

    def allowed(self):
        whole = [self._end] if self._pattern.fullmatch(self._text) else []
        return np.array([token for token, word in enumerate(self._words) if self._fits(token, word)] + whole)

    def _fits(self, token, word):
        return token != self._end and word and self._pattern.fullmatch(self._text + word, partial=True)

    def take(self, token):
        self._text += self._words[token]


@cache
def engine(tokenizer):
    return llguidance.hf.from_tokenizer(tokenizer)


def made_up_logits(ids, size):
    """Logits [size] that depend on all ids so far."""
    digest = hashlib.sha256(np.array(ids, dtype=np.int64).tobytes()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "little")).normal(0, 2, size)


class LoopbackModel:
    """Completes prompts; `logits` maps the ids so far and the size of the vocabulary to logits."""

    def __init__(self, tokenizer, quirks=(), logits=made_up_logits):
        self.tokenizer, self.quirks, self.logits = tokenizer, frozenset(quirks), logits

    def complete(self, body):
        """Return the answer to a request body, like vLLM's /completions or /chat/completions."""
        text_of = body["messages"][0]["content"] if "messages" in body else body["prompt"]
        prompt = encode(self.tokenizer, [text_of])[0] if isinstance(text_of, str) else list(text_of)
        if BEGINS in self.quirks:
            prompt = [self.tokenizer.eos_token_id, *prompt]
        ids, steps, finish = self._write(prompt, body)
        text = decode(self.tokenizer, [token for token in ids if token != self.tokenizer.eos_token_id])
        text = text.strip() if STRIPPED in self.quirks else text
        choice = {"index": 0, "finish_reason": finish}
        choice |= {"message": {"role": "assistant", "content": text}} if "messages" in body else {"text": text}
        if body.get("return_token_ids") and NO_IDS not in self.quirks:
            choice |= {"token_ids": ids, "prompt_token_ids": prompt}
        if body.get("logprobs"):
            choice["logprobs"] = {"top_logprobs": [self._shown(step, body["logprobs"]) for step in steps]}
        usage = {"prompt_tokens": len(prompt), "completion_tokens": len(ids)}
        usage["prompt_tokens_details"] = {"cached_tokens": len(prompt) // 16 * 16}
        return {"id": "cmpl-1", "object": "text_completion", "choices": [choice], "usage": usage}

    def _write(self, prompt, body):
        """Return token ids, the (log-probabilities, id) of each, and the finish reason."""
        end, mask = self.tokenizer.eos_token_id, self._mask(body.get("structured_outputs"))
        rng, ids, steps = np.random.default_rng(body.get("seed", 0)), [], []
        while len(ids) < body["max_tokens"]:
            bare = self.logits([*prompt, *ids], len(self.tokenizer))
            logprobs = self._drawn_from(bare, mask, body["temperature"])
            token = int(rng.choice(len(logprobs), p=np.exp(logprobs)))
            steps.append((self._told(bare, logprobs, body["temperature"]), token))
            ids.append(token)
            if token == end:
                return ids, steps, "stop"
            if mask:
                mask.take(token)
        return ids, steps, "length"

    def _mask(self, structured):
        if not structured or OPENAI in self.quirks:
            return None
        ((kind, what),) = structured.items()
        if kind == "grammar":
            return GuidanceMask(self.tokenizer, structured)
        return TextMask(self.tokenizer, what if kind == "regex" else "|".join(map(regex.escape, what)))

    def _told(self, logits, drawn_from, temperature):
        """Return the log-probabilities that are shown."""
        if RAW in self.quirks:
            return _log_softmax(logits)
        return _log_softmax(logits / temperature) if UNMASKED in self.quirks else drawn_from

    def _drawn_from(self, logits, mask, temperature):
        """Return the log-probabilities of the sampling distribution."""
        logits = logits / (1.0 if HOT in self.quirks else temperature or 1e-6)
        if mask:
            kept = mask.allowed()
            masked = np.full(len(logits), -np.inf)
            masked[kept] = logits[kept]
            logits = masked
        if TOP_TWO in self.quirks:
            logits = np.where(logits >= np.sort(logits)[-2], logits, -np.inf)
        return _log_softmax(logits)

    def _shown(self, step, count):
        """Return the alternatives of one token: the drawn one and the `count` likeliest."""
        logprobs, token = step
        best = np.argsort(-logprobs, kind="stable")[:count].tolist()
        return {self._name(each): max(float(logprobs[each]), -9999.0) for each in (token, *best)}

    def _name(self, token):
        return decode(self.tokenizer, [token]) if NO_IDS in self.quirks else f"token_id:{token}"


def _log_softmax(logits):
    shifted = logits - logits.max()
    return shifted - np.log(np.exp(shifted).sum())
