"""Orders in answers with reasoning: marks of many models, headings, and unknown marks.

The marks are those of vLLM's and SGLang's reasoning parsers and of the models' chat templates. The orders expected are
those that stand outside of the reasoning, by hand.
"""

import pytest

from sparring.envs.diplomacy.orders.completion import parse
from sparring.envs.reasoning import without_reasoning
from tests.envs.diplomacy.prompts.asking import ask, scene

FRANCE = ask(scene({"france": "A MAR, F BRE, A PAR", "germany": "A MUN"}), "FRANCE")
A, R = "A PAR - BUR\nA MAR - SPA\nF BRE - MAO", "A PAR - PIC\nA MAR H\nF BRE - ENG"
WANTED = ["F BRE - MAO", "A MAR - SPA", "A PAR - BUR"]

MARKS = {
    "Gemma 4": f"<|channel>thought\n{R}\n<channel|>{A}",
    "Granite 3.2": f"Here is my thought process:\n{R}\nHere is my response:\n{A}",
    "Granite 3.2, quantized": f"Here's my thought process: {R}\nHere's my response: {A}",
    "Granite 3.3": f"<think>{R}</think><response>{A}</response>",
    "Cohere": f"<|START_THINKING|>{R}<|END_THINKING|><|START_RESPONSE|>{A}<|END_RESPONSE|>",
    "Seed": f"<seed:think>{R}</seed:think>{A}",
    "Kimi": f"◁think▷{R}◁/think▷{A}",
    "Kimi K3": f"<|open|>think<|sep|>{R}<|close|>think<|sep|><|open|>response<|sep|>{A}<|close|>response<|sep|>",
    "gpt-oss": f"<|channel|>analysis<|message|>{R}<|end|><|start|>assistant<|channel|>final<|message|>{A}<|return|>",
    "MiniMax M3": f"<mm:think>{R}</mm:think>{A}",
    "LongCat, begun in the prompt": f"{R}</longcat_think>{A}",
    "K2": f"<ifm|think_fast>{R}</ifm|think_fast>{A}",
    "Apertus": f"<|inner_prefix|>{R}<|inner_suffix|>{A}",
    "openPangu": f"[unused16]{R}[unused17]{A}",
    "Inkling": f"<|content_thinking|>{R}<|end_message|><|message_model|><|content_text|>{A}<|end_message|>",
    "HyperCLOVA X": f"/think\n{R}<|im_end|>\n<|im_start|>assistant\n{A}<|im_end|>",
    "Muse": f"to=self<|message|>{R}<|eom|><|start|>assistant to=user<|message|>{A}<|eot|>",
    "Solar": f"<|think|>{R}<|end|><|begin|>assistant<|content|>{A}<|end|>",
    "Open WebUI": f'<details type="reasoning" done="true">\n<summary>Thought</summary>\n> {R}\n</details>\n{A}',
    "EXAONE": f"<thought>\n{R}\n</thought>\n\n{A}",
    "Hunyuan": f"<think>\n{R}\n</think>\n<answer>\n{A}\n</answer>",
    "OpenThinker": f"<|begin_of_thought|>\n{R}\n<|end_of_thought|>\n<|begin_of_solution|>\n{A}\n<|end_of_solution|>",
    "Magistral": f"[THINK]{R}[/THINK]{A}",
    "braces": f"{{thinking}}{R}{{/thinking}}{A}",
    "braces on lines": f"{{thinking}}\n{R}\n{{/thinking}}\n{A}",
    "fence": f"```thinking\n{R}\n```\n{A}",
    "fence, then a fence of the answer": f"```Reasoning\n{R}\n```\n\n```orders\n{A}\n```",
    "tilde fence": f"~~~think\n{R}\n~~~\n{A}",
    "four ticks and an attribute": f'````thought title="x"\n{R}\n````\n{A}',
    "fence that ends behind an order": f"```thinking\n{R}```\n{A}",
    "end without a name": f"<|think|>{R}<|end|>{A}",
    "bars apart": f"<|think>{R}<think|>{A}",
    "PEM": f"-----BEGIN THINKING-----\n{R}\n-----END THINKING-----\n{A}",
    "end with a space": f"<think>{R}<end think>{A}",
    "answer between signs": f"((thinking))\n{R}\n((/thinking))\n((answer)){A}((/answer))",
    "Claude": f"<thinking>\n{R}\n</thinking>\n{A}",
    "Marco": f"<Thought>\n{R}\n</Thought>\n<Output>\n{A}\n</Output>",
    "Reflection": f"<thinking>{R}<reflection>no</reflection>{R}</thinking><output>{A}</output>",
    "DeepSeek R1": f"{R}\n</think>\n\n{A}",
    "two names": f"<thinking>{R}</think>{A}",
    "nested": f"<think>a <think> b</think>{R}</think>{A}",
    "reasoning after the answer": f"{A}\n<think>\n{R}\n</think>",
    "truncated reasoning after the answer": f"{A}\n<think>\n{R}",
    "an answer alone between tags": f"{R}\n<answer>{A}</answer>",
    "unclosed, then the answer's tag": f"<think>\n{R}\n<answer>\n{A}\n</answer>",
    "mark of the turn": f"{A}<|im_end|>",
}
HEADINGS = {
    "markdown": f"### Reasoning\n{R}\n\n### Orders\n{A}",
    "bold": f"**Reasoning**\n{R}\n\n**Final answer**\n{A}",
    "brackets": f"[Reasoning]\n{R}\n[Orders]\n{A}",
    "colons": f"Reasoning:\n{R}\n\nFinal orders:\n{A}",
    "one line": f"Reasoning: I could do A PAR - PIC.\n{A}",
    "the reasons after": f"## Orders\n{A}\n\n## Explanation\n{R}",
    "two paragraphs after": f"{A}\n\n### Reasoning\n{R}\n\n{R}",
    "rejected orders": f"Rejected orders:\n{R}\nFinal orders:\n{A}",
    "both words": f"After thinking it over, my orders are:\n{A}",
    "no heading of the answer": f"### Reasoning\nParis is threatened.\n\n{A}",
    "considered": f"I considered:\n- A PAR - PIC (too risky)\n- A MAR H (too slow)\nFinal:\n{A}",
}
SIGNS = [
    *(("((", "))"), ("(", ")"), ("[[", "]]"), ("<<", ">>"), ("{{", "}}"), ("[|", "|]"), ("{%", "%}"), ("<!--", "-->")),
    *(("**[", "]**"), ("*", "*"), ("__", "__"), ("%%", "%%"), ("=== ", " ==="), ("--- ", " ---"), ("&lt;", "&gt;")),
    *(("【", "】"), ("⟦", "⟧"), ("«", "»"), ("《", "》"), ("＜", "＞"), ("< ", " >"), ("<|", "|>"), ("||", "||")),
]
UNKNOWN = {
    "glued tags with bars": f"<|musing|>{R}<|/musing|>{A}",
    "glued end without a name": f"<|musing|>{R}<|end|>{A}",
    "fence": f"```musing\n{R}\n```\n{A}",
    "fence with an attribute": f'``` musing lang="en"\n{R}```\n{A}',
    "tags": f"<mull>\n{R}\n</mull>\n{A}",
    "signs": f"%%% musing\n{R}\n%%% done\n{A}",
    "a line": f"{R}\n-----\n{A}",
    "a word": f"{R}\n\nWait, that is bad. Better:\n\n{A}",
    "nothing but a blank line": f"{R}\n\n{A}",
    "400 lines": "Thinking.\n" + "Maybe A PAR - PIC is good.\n" * 400 + f"{R}\n%%%\n{A}",
    "a remark": f"A PAR - PIC (too risky)\n{A}",
    "a remark and a blank line": f"A PAR - PIC (too risky)\n\n{A}",
}


def texts(reading):
    return [option.text for option in reading.chosen]


@pytest.mark.parametrize("text", [*MARKS.values(), *HEADINGS.values()], ids=[*MARKS, *HEADINGS])
def test_orders_in_reasoning_are_not_read(text):
    reading = parse(text, FRANCE)
    assert texts(reading) == WANTED
    assert reading.complete


@pytest.mark.parametrize("text", UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_marks_use_last_block_and_name_draft(text):
    reading = parse(text, FRANCE)
    assert texts(reading) == WANTED
    assert any("before the last orders" in line.problem for line in reading.problems)


@pytest.mark.parametrize("end", ["/", "end_", "END ", "end of ", "\\"])
@pytest.mark.parametrize("name", ["think", "reasoning", "musing"])
def test_name_in_any_brackets_marks_reasoning(name, end):
    for left, right in SIGNS:
        glued = f"{left}{name}{right}{R}{left}{end}{name}{right}{A}"
        lines = f"{left}{name}{right}\n{R}\n{left}{end}{name}{right}\n{A}"
        assert [texts(parse(text, FRANCE)) for text in (glued, lines)] == [WANTED, WANTED], (left, right)


@pytest.mark.parametrize(
    "text",
    [
        "A PAR - BUR (end of turn)\nA MAR - SPA (done)\nF BRE - MAO [end]",
        "*A PAR - BUR*\n**A MAR - SPA**\n`F BRE - MAO`",
        "```A PAR - BUR```\n```A MAR - SPA```\n```F BRE - MAO```",
        f"(thinking about Burgundy) A MAR - SPA\n{A}",
        f"((answer))\n{A}",
    ],
)
def test_brackets_around_orders_and_remarks_are_not_reasoning(text):
    assert texts(parse(text, FRANCE)) == WANTED


def test_mark_ending_in_order_line_hides_no_order():
    reading = parse(f"⟦musing⟧{R}⟦/musing⟧{A}", FRANCE)
    assert texts(reading) == WANTED


@pytest.mark.parametrize(
    "text",
    [
        *(f"<think>\n{R}", f"<|channel>thought\n{R}", f"Here is my thought process:\n{R}", f"[THINK]{R}"),
        *(f"<|START_THINKING|>{R}", f"<|channel|>analysis<|message|>{R}", f"[unused16]{R}"),
        *(f"<think>{R}</think>I pass.", f"<think>{R}</think>", f"<thinking>a<reflection>b</reflection>{R}"),
        f"<think>I will write <answer> tags. {R}",
        *(f"### Reasoning\n{R}", f"[Reasoning]\n{R}", f"### Reasoning\n{R}\n\n### Final answer\nI hold everything."),
    ],
)
def test_only_reasoning_gives_no_orders(text):
    assert parse(text, FRANCE).empty


def test_open_reasoning_is_removed_and_truncated():
    assert without_reasoning(f"<|channel>thought\n{R}") == ("", True)
    assert without_reasoning(f"<think>{R}</think>{A}") == (A, False)


@pytest.mark.parametrize(
    "text",
    [
        "1. A PAR - BUR\n   - takes Burgundy\n2. A MAR - SPA\n   - takes Spain\n3. F BRE - MAO\n   - sails",
        "The army goes first:\nA PAR - BUR\n\nThen Spain.\nA MAR - SPA\n\nF BRE - MAO",
        f"{A}\n\nThe key to it all:\nA PAR - BUR",
    ],
)
def test_explanations_between_orders_are_not_drafts(text):
    assert texts(parse(text, FRANCE)) == WANTED


def test_first_order_of_unit_counts_in_one_block():
    assert texts(parse(f"{A}\nA PAR - PIC", FRANCE)) == WANTED
