"""Packed examples score as if alone, and the loss covers answers and their end tokens."""

import pytest
import torch

pytest.importorskip("transformers")

from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from sparring.agents.language.cloning.dataset import (
    IGNORED,
    Example,
    batches,
    halve,
    pack,
    packed_length,
    shared_length,
)

PAD = 0
GROUP = [Example([7, 8, 9, 3], [11, 12, 2]), Example([7, 8, 4, 5, 3], [13, 2]), Example([7, 8, 9, 6], [14, 15, 16, 2])]
SINGLE = [Example([7, 9], [11, 2])]


def llama():
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=20, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=1, initializer_range=0.5, pad_token_id=PAD,
        )
    )  # fmt: skip


def gpt2():
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=20, n_embd=16, n_layer=2, n_head=2, n_positions=64, initializer_range=0.5)
    )


def logits(model, batch):
    return model(input_ids=batch.input_ids, position_ids=batch.position_ids, attention_mask=batch.attention_mask).logits


@pytest.mark.parametrize("make", [llama, gpt2])
def test_packed_example_scores_as_if_alone(make):
    torch.manual_seed(0)
    model = make().eval()
    batch = pack([GROUP, SINGLE], pad_id=PAD)
    with torch.no_grad():
        together, row = logits(model, batch), []
        for group, found, targets in zip((GROUP, SINGLE), together, batch.targets, strict=True):
            places = (targets != IGNORED).nonzero().flatten()
            alone = []
            for one in group:
                plain = model(torch.tensor([one.prompt + one.answer])).logits[0]
                alone.append(plain[len(one.prompt) - 1 : -1])
            row.append((found[places] - torch.cat(alone)).abs().max())
            assert targets[places].tolist() == [token for one in group for token in one.answer]
    assert max(row) < 1e-5
    assert together.std() > 0.1


def test_row_holds_shared_prefix_once():
    assert shared_length(GROUP) == 2
    assert packed_length(GROUP) == 2 + (2 + 3) + (3 + 2) + (2 + 4)
    batch = pack([GROUP], pad_id=PAD)
    assert batch.input_ids[0].tolist() == [7, 8, 9, 3, 11, 12, 2, 4, 5, 3, 13, 2, 9, 6, 14, 15, 16, 2]
    assert batch.position_ids[0].tolist() == [0, 1, 2, 3, 4, 5, 6, 2, 3, 4, 5, 6, 2, 3, 4, 5, 6, 7]


def test_equal_prompts_share_all_but_last_token():
    assert shared_length([Example([7, 8], [1]), Example([7, 8], [2])]) == 1
    assert shared_length([Example([7], [1]), Example([8], [2])]) == 0


def test_end_of_text_token_is_learned():
    """The end token is never an input here, so its embedding's gradient comes from being predicted."""
    torch.manual_seed(0)
    model = llama()
    batch = pack([GROUP, SINGLE], pad_id=PAD)
    found = logits(model, batch)
    found.retain_grad()
    wanted = batch.targets != IGNORED
    torch.nn.functional.cross_entropy(found[wanted], batch.targets[wanted]).backward()
    ends = (batch.targets == 2) & wanted
    assert ends.sum() == 4
    assert (found.grad[ends][:, 2] < -1e-3).all()
    assert (found.grad[~wanted] == 0).all()  # nothing is learned from prompts or filling


def test_padding_does_not_affect_loss():
    torch.manual_seed(0)
    model = llama().eval()
    batch = pack([GROUP, SINGLE], pad_id=PAD)
    filling = batch.input_ids.clone()
    filling[1, 4:] = 19
    with torch.no_grad():
        one = logits(model, batch)[1, :4]
        other = model(input_ids=filling, position_ids=batch.position_ids, attention_mask=batch.attention_mask).logits
    assert torch.equal(one, other[1, :4])


def test_batches_have_similar_lengths_and_all_examples_once():
    groups = [[Example([1] * size, [2])] for size in (9, 3, 30, 4, 10, 8)]
    dealt = batches(groups, 24)
    assert [[packed_length(group) for group in batch] for batch in dealt] == [[4, 5], [9, 10], [11], [31]]


def test_halves_hold_all_examples_once_with_similar_sizes():
    groups = [[Example(list(range(length)), [2])] for length in (9, 30, 11, 20, 10)]
    one, other = halve(groups)
    assert sorted(map(packed_length, one + other)) == [10, 11, 12, 21, 31]
    assert sum(map(packed_length, one)) == 31 + 11  # the longest, then whichever is shorter gets the next
    assert halve(groups[:1]) == [groups[:1]]
