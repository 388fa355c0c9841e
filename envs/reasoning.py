"""Reasoning of language models in the text of their answers, and the answer without it.

Models write their reasoning between marks of their own (`without_reasoning`) or under headings (`headed_answer`). Both
kinds are tables, `FRAMES` and `HEADINGS`. The rule for marks that are in no table belongs to the game, which alone
knows an answer when it reads one. Where answers differ with unread text between them, the last counts.

Sources: the reasoning parsers of vLLM and SGLang, and the chat templates of the models.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

Holds = Callable[[str], bool]
"""Returns whether a game reads an answer, or a part of it, in a text."""


@dataclass(frozen=True)
class ReasoningFrame:
    """Marks around reasoning, or around the answer, as regular expressions.

    Attributes:
        models: who writes them.
        begin: mark before the text.
        end: mark after it.
        answer: whether the text is the answer, not the reasoning.
        prompted: whether the prompt may hold the first mark; an end alone then ends reasoning.

    """

    models: str
    begin: str
    end: str
    answer: bool = False
    prompted: bool = True


THOUGHT_TAGS = (
    "think(?:ing|_fast(?:er)?)?|thoughts?|reason(?:ing)?|scratchpad|analysis|reflection|rationale|deliberation|"
    "monologue|chain[_-]of[_-]thoughts?|cot|brainstorm(?:ing)?|planning|critique"
)
"""Names of tags around reasoning: DeepSeek, Qwen, GLM, Nemotron, Phi, Step, ERNIE, Magistral ([THINK]), MiniMax
(<mm:think>), Seed (<seed:think>), Kimi (◁think▷), EXAONE (<thought>), Cohere (<|START_THINKING|>), OpenThinker
(<|begin_of_thought|>), LongCat (<longcat_think>), K2 (<ifm|think>), Claude (<thinking>, <antThinking>)."""
FRAMES = (
    ReasoningFrame("Gemma 4", r"<\|channel>", r"<channel\|>"),
    ReasoningFrame("Granite 3.2", r"Here(?: is|['’]s) my thought process:", r"Here(?: is|['’]s) my response:"),
    ReasoningFrame("Apertus", r"<\|inner_prefix\|>", r"<\|inner_suffix\|>"),
    ReasoningFrame("Kimi K3", r"<\|open\|>think<\|sep\|>", r"<\|close\|>think<\|sep\|>"),
    ReasoningFrame("Kimi K3", r"<\|open\|>response<\|sep\|>", r"<\|close\|>response<\|sep\|>", answer=True),
    ReasoningFrame("openPangu", r"\[unused16\]", r"\[unused17\]"),
    ReasoningFrame("Inkling", r"<\|content_thinking\|>", r"<\|content_text\|>"),
    ReasoningFrame(
        "HyperCLOVA X Think", r"<\|im_start\|>assistant/think\n", r"<\|im_end\|>\s{0,9}<\|im_start\|>assistant\b"
    ),
    ReasoningFrame("Solar Open", r"<\|begin\|>assistant<\|think\|>", r"<\|begin\|>assistant<\|content\|>"),
    ReasoningFrame("Muse", r"(?<=to=self)<\|message\|>", r"(?<=to=user)<\|message\|>"),
    ReasoningFrame("fence", rf"[`~]{{3,}}[ \t]*(?:{THOUGHT_TAGS})\b[^\n`]*$", r"[`~]{3,}[ \t]*$", prompted=False),
    ReasoningFrame("Open WebUI", r'<details\b[^<>]{0,200}type="reasoning"[^<>]{0,200}>', "</details>", prompted=False),
)
"""Marks that are not tags of the names below. All begin with a bracket or with "Here"."""
ANSWER_TAGS = "answer|final(?:[_-](?:answer|orders?|response|output))?|response|output|solution|conclusion"
"""Names of tags around the answer: Hunyuan (<answer>), Granite 3.3 (<response>), Marco (<Output>), Cohere."""
_OPENERS, _CLOSERS = "<{(◁⟨⟦【«《「〈‹＜", ">})▷⟩⟧】»》」〉›＞"
_SIGN = r"|_|[^\w\s/\\.,;:!?'\"`&"
_OPEN, _CLOSE = rf"(?:&lt;{_SIGN}\]{_CLOSERS}]){{1,5}}", rf"(?:&gt;{_SIGN}\[{_OPENERS}]){{1,5}}"
_TAG = (
    rf"(?P<tag>(?P<open>{_OPEN}) ?(?P<shut>[/\\]|end[ _](?:of[ _])?)?(?:(?:begin|start)[ _](?:of[ _])?)?"
    rf"(?:[a-z]{{1,12}}[:_|]|ant)?(?:(?P<thought>{THOUGHT_TAGS})|(?P<answer>{ANSWER_TAGS}))"
    rf"(?:\s[^<>\[\]\n]{{1,80}}(?=[\]{_CLOSERS}]))?(?P<late>/)? ?(?P<close>{_CLOSE}))"
)
"""A name between signs, such as <think>, ((think)), === THINK === and &lt;think&gt;; `shut` and `late` mark an end."""
END_MARK = re.compile(
    rf"{_OPEN} ?(?:[/\\]|end[ _](?:of[ _])?)(?P<name>[\w:|-]{{1,40}}?)? ?{_CLOSE}"
    rf"|{_OPEN}(?:end|done){_CLOSE}|<(?P<token>\w{{1,40}})(?:/|\|)>",
    re.IGNORECASE,
)
"""End of a mark with any name, such as </musing>, ((/musing)) or <musing|>."""
_FRAMES = (f"(?P<b{n}>{frame.begin})|(?P<e{n}>{frame.end})" for n, frame in enumerate(FRAMES))
_MARKS = re.compile("|".join([*_FRAMES, _TAG, r"(?P<bare><\|?(?:/|end|done)\|?>)"]), re.IGNORECASE | re.MULTILINE)
_BEGINS = re.compile(r"(?:_|[^\w\s/\\.,;:!?'\"])(?=[^\w\s]{0,4}_{0,4} ?(?:[^\W_]|[/\\]))|[`~]{3}|Here(?=['’ ])")
_ALWAYS = frozenset("<◁⟨")
"""Brackets of tags that need no end."""
_SEARCHED = 100_000
"""Characters at the begin and at the end of a text that are searched for marks, which bounds the time."""
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)[^<>]{0,80}(?:<\|constrain\|>[^<>]{0,80})?<\|message\|>")
"""Channels of harmony (gpt-oss); `final` is the answer."""
_END_OF_TURN = re.compile(r"(?:(?:<\|[a-z_]{2,20}\|>|</s>|<end_of_turn>|<turn\|>)\s{0,9})+\Z")
"""Marks after the answer, which a server may leave in the text."""
_LAST = 200
"""Characters in which these are looked for."""


@dataclass(frozen=True)
class _Mark:
    """A mark in a text: the `key` of its frame, and where it stands."""

    key: str
    tag: bool
    ends: bool
    answer: bool
    prompted: bool
    span: tuple[int, int]


def without_reasoning(text: str, holds: Holds | None = None) -> tuple[str, bool]:
    """Return the answer in a model's text, and True if reasoning in it does not end. Takes bounded time.

    The answer is the last text between marks of an answer. Without marks, it is the last text outside of reasoning in
    which `holds` finds an answer, else the last non-blank text. If reasoning ends without a beginning, all text before
    its end is reasoning. In harmony, all channels but the final one are reasoning, even if a server leaves out their
    marks.
    """
    final, other = -1, False
    for channel in _CHANNEL.finditer(text):
        final, other = (channel.end(), other) if channel[1] == "final" else (final, True)
    if final >= 0 or other:
        return (text[final:].partition("<|")[0], False) if final >= 0 else ("", True)
    if text.lstrip().startswith("analysis") and "assistantfinal" in text:
        return text.rpartition("assistantfinal")[2], False
    answers, outside, unfinished = _outside(text)
    parts = [part for part in answers or outside if part.strip()]
    answering = [part for part in parts if holds(part)] if holds and len(parts) > 1 else []
    answer = (answering or parts or [""])[-1]
    if marks := _END_OF_TURN.search(answer, max(0, len(answer) - _LAST)):
        answer = answer[: marks.start()]
    return answer, unfinished


def _outside(text: str) -> tuple[list[str], list[str], bool]:
    """Return the texts marked as answers, those outside of all frames, and whether reasoning does not end."""
    marks = _marks(text)
    last_end = max((mark.span[0] for mark in marks if mark.ends and not mark.answer), default=-1)
    answers: list[str] = []
    outside: list[str] = []
    inside: list[str] = []  # frames of reasoning, the outermost first
    into, start = outside, 0
    for mark in marks:
        begin, end = mark.span
        if mark.answer:
            # Reasoning may speak of the answer's tags; where it does not end, a tag that begins a line ends it.
            begins_line = text[max(0, begin - 9) : begin].rstrip(" ")[-1:] in ("\n", "")
            if inside and (mark.ends or begin < last_end or not begins_line):
                continue
            if not inside:
                (answers if mark.ends else into).append(text[start:begin])
            inside, into, start = [], outside if mark.ends else answers, end
        elif not mark.ends:
            if not inside:
                into.append(text[start:begin])
            inside += [mark.key] * (mark.key not in inside)
        elif mark.key in inside:
            inside = inside[: inside.index(mark.key)]
            into, start = outside, end
        elif mark.prompted and not (inside and mark.tag):
            inside, answers, outside = [], [], []
            into, start = outside, end
    if not inside:
        into.append(text[start:])
    return answers, outside, bool(inside)


def _marks(text: str) -> list[_Mark]:
    """Return all marks. A tag in other signs than `_ALWAYS` counts if it is closed in these signs, or is [THINK]."""
    matches = list(_found(text))
    tags = {_tag(match) for match in matches if match["tag"]}
    closed, unclosed = {key for key, _, shut in tags if shut}, None
    marks: list[_Mark] = []
    for match in matches:
        if match["tag"]:
            key, signs, shut = _tag(match)
            alone = signs[0] in _ALWAYS or match[0].upper() == "[THINK]" or (match["shut"] and " " not in match["shut"])
            if alone or (key, signs, not shut) in tags:
                marks.append(_Mark(key, True, shut, bool(match["answer"]), True, match.span()))
                unclosed = unclosed if shut else marks[-1]
        elif match["bare"]:  # ends the last tag that has no end with its name
            if unclosed and unclosed.key not in closed:
                marks.append(replace(unclosed, ends=True, prompted=False, span=match.span()))
        else:
            edge, frame = str(match.lastgroup)[0], FRAMES[int(str(match.lastgroup)[1:])]
            marks.append(_Mark(frame.models, False, edge == "e", frame.answer, frame.prompted, match.span()))
    return marks


def _found(text: str) -> Iterator[re.Match[str]]:
    """Yield the marks in the first and the last `_SEARCHED` characters, tried only where one can begin."""
    at, half = 0, len(text) - _SEARCHED
    while begin := _BEGINS.search(text, at):
        if _SEARCHED < begin.start() < half:
            at = half
            continue
        mark = _MARKS.match(text, begin.start())
        if mark:
            yield mark
        at = mark.end() if mark else begin.end()


def _tag(tag: re.Match[str]) -> tuple[str, str, bool]:
    """Return the key and the signs that a tag and its end have in common, and whether it is an end, as <think|> is.

    Models mix <think>, <thinking>, <thought> and <reasoning>.
    """
    name = (tag["thought"] or tag["answer"]).lower()
    left, right = tag["open"].replace("|", "") or "|", tag["close"].replace("|", "") or "|"
    ends = tag["shut"] or tag["late"] or (tag["close"][0] == "|" and "|" not in tag["open"])
    return "think" if name.startswith(("think", "thought", "reason")) else name, left[-1] + right[0], bool(ends)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PLAIN, THOUGHT, ANSWER = "plain", "thought", "answer"
_DRAFTS = _words(
    "draft drafts rejected discarded considered alternative alternatives candidate candidates tentative possible "
    "preliminary contingency contingencies fallback expected predicted next future"
)
"""Words that make orders drafts, as in "Rejected orders"."""
HEADINGS = {
    THOUGHT: _DRAFTS
    | _words(
        "reasoning reason reasons thinking thought thoughts think analysis rationale explanation explanations "
        "justification considerations deliberation scratchpad reflection reflections brainstorm brainstorming "
        "monologue commentary discussion"
    ),
    ANSWER: _words("answer answers response orders moves decision output solution submission final finally"),
}
"""Words of headings over reasoning and over the answer. Any other heading tells nothing."""
_ABOUT = _words("for of behind about on")
_FILLERS = _words(
    "the a my our your their here here's is are this and so now therefore best step by internal "
    "strategic tactical brief short detailed initial first chain process in to i"
)
_EDGE = r"[-*_=\[\]【】(){}<>«»`~#]"
_TITLE = r"(?P<words>[A-Za-z][A-Za-z0-9'’ /(),&-]{0,79}?)"
_BEGIN = (
    rf"[ \t>]{{0,9}}(?P<hashes>#{{1,6}}(?!#))?[ \t]{{0,9}}(?P<open>(?:\d{{1,2}}[.)]|•|\+|{_EDGE}){{0,9}})[ \t]{{0,9}}"
)
_HEADING = re.compile(
    rf"{_BEGIN}{_TITLE}[ \t]{{0,9}}(?P<close>{_EDGE}{{0,9}})[ \t]{{0,9}}(?P<colon>[:：]?){_EDGE}{{0,9}}\s*\Z"
)
_LABEL = re.compile(rf"{_BEGIN}{_TITLE}{_EDGE}{{0,9}}[:：]{_EDGE}{{0,9}}[ \t]+(?=\S)")
_PARAGRAPH = re.compile(r"\n[ \t]*\n")
_UNMARKED = 7
"""Level of a heading without #, below those with it."""


@dataclass
class _Section:
    """Lines under a heading; `level` is 1 for #, 2 for ## and so on."""

    kind: str
    level: int = 0
    lines: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The lines as one text."""
        return "\n".join(self.lines)


def headed_answer(text: str, holds: Holds) -> str:
    """Return the part of a text that is under headings of the answer, or under none of reasoning.

    Sections under a heading of the answer count if `holds` finds an answer there, else those that are under no heading
    of reasoning. If all are, the text after the first paragraph under each counts. Without headings the text is
    returned as it is.
    """
    if len(text) > _SEARCHED:
        return text
    sections = _sections(text)
    if all(section.kind == PLAIN for section in sections):
        return text
    for kind in (ANSWER, PLAIN):
        texts = [section.text for section in sections if section.kind == kind and holds(section.text)]
        if texts:
            return "\n\n".join(texts)
    if any(section.kind == ANSWER for section in sections):
        return ""
    later = "\n\n".join(text for section in sections for text in _PARAGRAPH.split(section.text.strip(), maxsplit=1)[1:])
    return later if holds(later) else ""


def _sections(text: str) -> list[_Section]:
    """Divide a text at headings. "Reasoning: ..." on one line is that line alone."""
    sections = [_Section(PLAIN)]
    for line in text.split("\n"):
        kind, level, rest = _heading(line)
        now = sections[-1]
        if not kind or (kind == PLAIN and (now.kind != THOUGHT or level > now.level)):
            now.lines.append(line)
        elif kind == THOUGHT and rest:
            sections += [_Section(THOUGHT, now.level, [line]), _Section(now.kind, now.level)]
        else:
            sections.append(_Section(kind, level, [rest] if rest else []))
    return sections


def _heading(line: str) -> tuple[str, int, str]:
    """Return the kind of heading that a line is, or an empty string, its level, and the text after it."""
    alone = _HEADING.match(line)
    match = alone or _LABEL.match(line)
    if not match:
        return "", 0, line
    words = match["words"].lower().replace("’", "'").split()
    kind, plain = _kind(words), all(word in _KNOWN for word in words)
    level = len(match["hashes"] or "") or _UNMARKED
    if alone and match["hashes"]:
        return kind or PLAIN, level, ""
    marked = alone and (match["colon"] or (match["open"] and match["close"]))
    if kind and (plain or marked):
        return kind, level, line[match.end() :] if not alone else ""
    return "", 0, line


_KNOWN = HEADINGS[THOUGHT] | HEADINGS[ANSWER] | _FILLERS


def _kind(words: list[str]) -> str:
    """Return what a heading of these words is over; the last word of the table decides."""
    if _DRAFTS.intersection(words):
        return THOUGHT
    kinds = [next((kind for kind, table in HEADINGS.items() if word.strip("(),") in table), "") for word in words]
    if {THOUGHT, ANSWER} <= set(kinds) and {"and", "&", "with", "/"} & set(words):
        return ""
    for index, kind in enumerate(kinds):
        if kind == THOUGHT and index + 1 < len(words) and words[index + 1] in _ABOUT:
            return THOUGHT
    return next((kind for kind in reversed(kinds) if kind), "")
