"""Rules over the history of a run: a rule has a pattern, one or more signs, and the step suggested when all are seen.

With `any: true` one of the signs is enough.

`rules.yaml` beside this file holds them; a file of the same form can take its place. A sign names metrics (patterns
with *) and a detector with its thresholds; it is seen if one of the metrics shows it, or all of them with
`every: true`. With `first: true` only the first pattern that the run has is looked at. A sign with `missing` is seen if
the run lacks all of the metrics; one with `if_known: true` is then left out. A rule with `given` is looked at only in
runs that have one of those metrics, and one with `options` not in runs whose configuration has other values. Where it
does not say, as in TensorBoard files, the metrics decide, and the finding names what is unknown. A rule that does not
apply, since the run lacks a metric or is too short, is listed with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, cast

import yaml

from sparring.configs.core.errors import InputError, choose, suggestion
from sparring.configs.core.files import MOST_YAML, read_regular_text
from sparring.eval.analysis.record import History
from sparring.eval.analysis.reports.detectors import DETECTORS, Detector, Missing, needed
from sparring.eval.analysis.reports.report import SEVERITIES, Evidence, Finding
from sparring.eval.analysis.reports.series import matching, option_of_any, series_of

RULES = Path(__file__).with_name("rules.yaml")
PATTERNS = ("instability", "plateau", "bottleneck", "degradation", "scaling", "cache")
RULE_KEYS = ("name", "pattern", "severity", "given", "options", "any", "signs", "finding", "next")
SIGN_SWITCHES = ("every", "first", "if_known")
SIGN_KEYS = ("metrics", *SIGN_SWITCHES, *DETECTORS)


class RulesError(InputError):
    """A file of rules that cannot be used; the message names the rule, the key and what is allowed."""


@dataclass(frozen=True)
class RuleSign:
    """One symptom: a detector on the metrics that match `metrics`; all must show it if `every`."""

    metrics: tuple[str, ...]
    detector: Detector
    every: bool
    first: bool
    if_known: bool

    def matching(self, history: History) -> list[str]:
        """Return the metrics of the run that the sign looks at."""
        if not self.first:
            return matching(history, self.metrics)
        return next((names for pattern in self.metrics if (names := matching(history, [pattern]))), [])

    def find(self, history: History) -> list[Evidence]:
        """Return the evidence, one for each metric that shows the symptom; empty if it is not seen."""
        names = self.matching(history)
        if isinstance(self.detector, Missing) and not names:
            names = [", ".join(self.metrics)]
        results = [self.detector.find(series_of(history, name)) for name in names]
        evidence = [item for item in results if item]
        return [] if self.every and len(evidence) < len(results) else evidence

    def unknown(self, history: History) -> str:
        """Return why the sign cannot be seen in a run: no metric, or too few values; empty if it can."""
        names = self.matching(history)
        if isinstance(self.detector, Missing) or (self.if_known and not names):
            return ""
        if not names:
            return f"the run has no {' or '.join(self.metrics)}"
        most, least = max(len(series_of(history, name)) for name in names), needed(self.detector)
        return f"{' or '.join(names[:3])} has {most} values, fewer than {least}" if most < least else ""


@dataclass(frozen=True)
class Rule:
    """A named rule; `signs` must all be seen, or one of them if `any`."""

    name: str
    pattern: str
    severity: str
    given: tuple[str, ...]
    options: Mapping[str, Any]
    any: bool
    signs: tuple[RuleSign, ...]
    finding: str
    next_step: str


def load_rules(path: Path = RULES) -> list[Rule]:
    """Read the rules of a file, those of the package once in a process. Raises `RulesError`."""
    return list(_packaged() if path == RULES else _read(path))


@cache
def _packaged() -> list[Rule]:
    return _read(RULES)


def _read(path: Path) -> list[Rule]:
    try:
        content = yaml.safe_load(read_regular_text(path, most=MOST_YAML))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise RulesError(f"{path}: is not a readable YAML file ({error}); see {RULES}") from error
    entries = content.get("rules") if isinstance(content, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise RulesError(f"{path}: must be a mapping with a list of mappings under `rules`; see {RULES}")
    return [_rule(entry, f"{path}, rule {entry.get('name', number)!r}") for number, entry in enumerate(entries, 1)]


def apply_rules(rules: Sequence[Rule], history: History, config: Mapping[str, Any]) -> list[Finding]:
    """Return the findings of all rules on one run, the most severe first."""
    findings = [finding for rule in rules if (finding := _apply(rule, history, config))]
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


def skipped_rules(rules: Sequence[Rule], history: History, config: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (name, reason) of each rule that the run cannot be asked; an option with another value is one, too."""
    reasons = [(rule.name, _obstacle(rule, history, config)) for rule in rules]
    return [(name, reason) for name, reason in reasons if reason]


def _apply(rule: Rule, history: History, config: Mapping[str, Any]) -> Finding | None:
    if _obstacle(rule, history, config):
        return None
    observed = [sign.find(history) for sign in rule.signs if not sign.if_known or sign.matching(history)]
    if not (any if rule.any else all)(observed):
        return None
    evidence = tuple(item for sign in observed for item in sign)
    unknown = [name for name in rule.options if option_of_any(config, name) is None]
    text = f"{rule.finding} (The run does not record {', '.join(unknown)}.)" if unknown else rule.finding
    return Finding(rule.name, rule.pattern, rule.severity, text, rule.next_step, evidence)


def _obstacle(rule: Rule, history: History, config: Mapping[str, Any]) -> str:
    """Return why a rule is not looked at in a run, empty if it is."""
    if rule.given and not matching(history, rule.given):
        return f"the run has no {' or '.join(rule.given)}"
    for name, allowed in rule.options.items():
        value = option_of_any(config, name)
        if value is not None and value not in (allowed if isinstance(allowed, list) else [allowed]):
            return f"{name} is {value}"
    reasons = [sign.unknown(history) for sign in rule.signs]
    return "" if rule.any and not all(reasons) else next(filter(None, reasons), "")


def _rule(entry: dict[str, Any], where: str) -> Rule:
    _check_keys(entry, RULE_KEYS, where)
    for key in ("name", "pattern", "severity", "finding", "next"):
        if not isinstance(entry.get(key), str):
            raise RulesError(f"{where}: {key}={entry.get(key)!r}: must be a text")
    choose(f"pattern of {where}", entry["pattern"], PATTERNS)
    choose(f"severity of {where}", entry["severity"], SEVERITIES)
    signs, options, some = entry.get("signs"), entry.get("options", {}), _switch(entry, "any", where)
    if not isinstance(signs, list) or not signs or not isinstance(options, dict):
        raise RulesError(f"{where}: signs must be a list of at least one sign, and options a mapping")
    return Rule(
        entry["name"],
        entry["pattern"],
        entry["severity"],
        _names(entry.get("given", []), f"{where}: given"),
        options,
        some,
        tuple(_sign(sign, f"{where}, sign {number}") for number, sign in enumerate(signs, 1)),
        " ".join(entry["finding"].split()),
        " ".join(entry["next"].split()),
    )


def _sign(entry: object, where: str) -> RuleSign:
    if not isinstance(entry, dict):
        raise RulesError(f"{where}: must be a mapping with metrics and a detector")
    _check_keys(entry, SIGN_KEYS, where)
    kinds = [key for key in entry if key in DETECTORS]
    if len(kinds) != 1:
        raise RulesError(
            f"{where}: must have exactly one detector, not {len(kinds)}; choose from {', '.join(DETECTORS)}"
        )
    switches = {key: _switch(entry, key, where) for key in SIGN_SWITCHES}
    metrics = _names(entry.get("metrics"), f"{where}: metrics")
    return RuleSign(metrics, _detector(kinds[0], entry[kinds[0]] or {}, where), **switches)


def _switch(entry: dict[str, Any], key: str, where: str) -> bool:
    value = entry.get(key, False)
    if not isinstance(value, bool):
        raise RulesError(f"{where}: {key}={value!r}: must be true or false")
    return value


def _detector(kind: str, limits: object, where: str) -> Detector:
    """Build a detector; its thresholds must be known, complete and numbers."""
    detector = DETECTORS[kind]
    if not isinstance(limits, dict):
        raise RulesError(f"{where}: {kind}={limits!r}: must be a mapping of thresholds")
    _check_keys(limits, [field.name for field in fields(detector)], f"{where}: {kind}")
    for key, value in limits.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise RulesError(f"{where}: {kind}.{key}={value!r}: must be a finite number")
    try:
        return cast(Detector, detector(**limits))
    except TypeError as error:
        raise RulesError(f"{where}: {kind}: {str(error).partition(' ')[2]}") from error


def _names(value: object, where: str) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise RulesError(f"{where}={value!r}: must be a metric or a list of metrics")
    return tuple(names)


def _check_keys(entry: dict[str, Any], allowed: Sequence[str], where: str) -> None:
    for key in entry:
        if key not in allowed:
            raise RulesError(
                f"{where}: unknown key {key!r}: choose from {', '.join(allowed)}{suggestion(key, allowed)}"
            )
