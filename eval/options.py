"""Options of a command as a frozen dataclass, from whose fields its command line is generated.

A field is an option: `games: int = argument(400, "[2, 1000000]", metavar="N")` is `--games N`, with the docstring below
it as help. A command line (`parse`) and a call in Python (`from_keywords`) both make the dataclass. It converts and
validates its fields, so both refuse the same input in the same words. Only a command line splits text: names at commas,
KEY=VALUE at the equals sign. `command_line` writes the options back as text.

Types of fields: bool (a flag), int, float, str, Path, each of these or None, `tuple[str, ...]` (several words), and
`Pairs`, words that may have a key.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path, PurePath
from textwrap import fill
from types import NoneType
from typing import Any, ClassVar, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from sparring.agents.opponents.players import display_name, find_checkpoint
from sparring.agents.run.folder import FINAL
from sparring.configs.core.allowed import Allowed, Form, complaint, field_texts
from sparring.configs.core.device import EXECUTORS, LOCAL, Executor
from sparring.configs.core.errors import (
    ConfigError,
    InputError,
    UnknownNameError,
    as_called,
    choices,
    choose,
    nearest,
    one_line,
)
from sparring.configs.core.files import unusable_text, user_path
from sparring.configs.opponents import opponent_text
from sparring.configs.schema import DEVICE
from sparring.envs.game import games

SEED = "[0, 2147483647]"
THREADS, WORKERS = "[0, 4096]", "[1, 1024]"
WIDTH = 120
HELP = ("-h", "--help")
WHO, CONDITIONS, RESULTS = "who plays", "under what conditions", "what becomes of the results"
MACHINE = "machine"
"""Groups of options in --help."""
Pairs = tuple[tuple[str, str], ...]
"""Keys and names; the key is empty for a name without one."""
Groups = tuple[tuple[str, tuple[str, ...]], ...]
"""Labels and names of groups; the label is empty if none is given."""


@dataclass(frozen=True)
class CommandText:
    """The script of a command and the texts of its --help; `env` is the game of one that has several."""

    script: str
    description: str
    examples: str = ""
    env: str = ""
    usage: str | None = None


@dataclass(frozen=True)
class ArgumentForm:
    """How a field is an option, beside its type and default."""

    allowed: Allowed | None = None
    """Allowed values; the default is always allowed."""
    metavar: str | None = None
    group: str = ""
    flags: Sequence[str] = ()
    """Its names, if it is not called as the field."""
    noun: str = ""
    """What a name is, in messages."""
    text: str = ""
    """Help that the docstring cannot be."""
    split: bool = False
    """Names are separated by spaces, commas or both; there is at least one, and none twice if they are `unique`."""
    repeat: bool = False
    """It is given once for each value."""
    positional: bool = False
    nargs: str = "+"
    unique: bool = True


def argument(default: Any, allowed: Allowed | None = None, **form: Any) -> Any:
    """Declare a field as an option of a command, with its default, allowed values and the rest of `ArgumentForm`."""
    return field(default=default, metadata={"argument": ArgumentForm(allowed, **form)})


class CommandOption:
    """One option: the field of a dataclass, with its type."""

    def __init__(self, declared: Field[Any], hint: Any) -> None:
        self.name, self.default = declared.name, declared.default
        self.form: ArgumentForm = declared.metadata["argument"]
        parts = [part for part in get_args(hint) if part is not NoneType]
        self.type = parts[0] if NoneType in get_args(hint) else hint
        self.several = get_origin(self.type) is tuple
        self.pairs = self.type == Pairs
        self.groups = self.type == Groups
        self.mapping = get_origin(self.type) is Mapping
        self.flags = tuple(self.form.flags) or (f"--{self.name.replace('_', '-')}",)
        self.flag = self.name if self.form.positional else self.flags[0]
        self.names = (f"--{self.name}",) if self.form.positional else self.flags

    def converted(self, value: Any) -> Any:
        """Return a value of a call, or text of a command line, in the type of the field. Raises `InputError`."""
        if self.mapping:
            return dict(value or {})
        if value is None or value is self.default:
            return self.default
        if self.several and value is True and (self.form.nargs == "*" or self.form.positional):
            return ()  # the option alone
        if self.several:
            items = [*value.items()] if isinstance(value, Mapping) else value
            items = items if isinstance(items, list | tuple) else [items]
            read = pair_of if self.pairs else group_of if self.groups else self._text
            texts = tuple(read(item) for item in items)
            for text in _flat(texts):
                self._usable(text)
            for value in texts:
                self._check(value)
            if self.form.split and not texts:
                raise InputError(f"{self.flag} is empty: name at least one")
            return tuple(dict.fromkeys(texts)) if self.form.split and self.form.unique else texts
        return self._check(self._single(value))

    def _single(self, value: Any) -> Any:
        if self.type is bool:
            if not isinstance(value, bool):
                raise InputError(f"{self.flag} {value!r}: must be True or False")
            return value
        if self.type is Path:
            return user_path(self.flag, value if isinstance(value, PurePath) else str(value))
        if self.type is str:
            return self._text(value)
        try:
            return self.type(str(value))
        except ValueError as error:
            allowed = f", in {self.form.allowed}" if self.form.allowed else ""
            raise InputError(f"{self.flag} {str(value)!r}: must be of type {self.type.__name__}{allowed}") from error

    def _text(self, value: Any) -> str:
        return self._usable(text_of(value))

    def _usable(self, text: str) -> str:
        if wrong := unusable_text(text):
            raise ConfigError(f"{self.flag}={text!r}: {wrong}")
        return text

    def _check(self, value: Any) -> Any:
        """Return `value` if it is allowed; raise `InputError` if it is not."""
        allowed = self.form.allowed
        if allowed is None:
            return value
        if isinstance(allowed, tuple):
            return choose(self.form.noun or self.flag, value, allowed)
        if wrong := complaint(value, allowed):
            raise InputError(f"{self.flag} {repr(value) if isinstance(allowed, Form) else value}: {wrong}")
        return value

    def words(self, value: Any) -> list[str]:
        """Return the words of a command line that give the option this value; none for its default."""
        if value == self.default:
            return []
        if self.type is bool:
            return [self.flag]
        if self.mapping:
            from sparring.configs.overrides import override_texts

            return override_texts(value)
        if self.pairs:
            texts = [f"{key}={_lasting(name)}" if key else _lasting(name) for key, name in value]
        elif self.groups:
            texts = ["=".join(filter(None, [label, ",".join(names)])) for label, names in value]
        else:
            texts = [_lasting(str(item)) for item in (value if self.several else [value])]
        if self.form.positional:
            return texts
        if self.several and not self.form.repeat:
            return [self.flag, *texts]
        return [word for text in texts for word in ([f"{self.flag}={text}"] if text[:1] == "-" else [self.flag, text])]

    def add(self, parser: argparse._ActionsContainer, text: str) -> None:
        """Add the option to a parser of a command line, which leaves it out if it is not given; `text` is its help."""
        text, form = (self.form.text or text).rstrip("."), self.form
        if self.default not in (None, "", (), False, MISSING) and "default" not in text:
            default = " ".join(self.default) if self.several and not self.pairs else self.default
            text = f"{text} (default: {default})"
        settings: dict[str, Any] = {"help": text.replace("%", "%%")}
        if form.positional:
            parser.add_argument(self.name, nargs="*", metavar=form.metavar, default=argparse.SUPPRESS, **settings)
            return
        settings |= {"dest": self.name, "default": argparse.SUPPRESS}
        if self.type is bool:
            parser.add_argument(*self.flags, action="store_true", **settings)
            return
        if self.several:
            settings |= {"action": "append"} if form.repeat else {"nargs": form.nargs}
        parser.add_argument(*self.flags, metavar=form.metavar, **settings)


@dataclass(frozen=True, kw_only=True)
class CommandOptions:
    """Options of a command, converted and validated; players and files have not been located."""

    TEXT: ClassVar[CommandText]
    ABSENT: ClassVar[Mapping[str, str]] = {}
    """Why options of other games are not options here, and what to give instead."""
    command: str = ""
    """The command line that gives these options."""

    def __post_init__(self) -> None:
        for option in options_of(type(self)):
            object.__setattr__(self, option.name, option.converted(getattr(self, option.name)))
        object.__setattr__(self, "command", self.command or command_line(self))
        for name, value in self.implied().items():
            object.__setattr__(self, name, value)
        self.check()

    def implied(self) -> dict[str, Any]:
        """Return values of fields that depend on others, such as a default, which the command line does not show."""
        return {}

    def check(self) -> None:
        """Raise `InputError` for options that do not go together."""

    @classmethod
    def from_words(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values of fields for those that a command line gives."""
        return values

    def gives(self, name: str) -> bool:
        """Return whether the option `name` is other than its default."""
        return bool(getattr(self, name) != getattr(type(self), name))

    def require_given(self, name: str, what: str) -> None:
        """Raise `InputError`, which asks for `what`, if the option `name` is empty."""
        if not getattr(self, name):
            raise InputError(f"--{name} is missing: {what}")


@dataclass(frozen=True, kw_only=True)
class TaskOptions(CommandOptions):
    """Options of a command whose work is independent tasks (`agents/distributed/tasks.py`)."""

    executor: str = argument(LOCAL, EXECUTORS, metavar="E", group=MACHINE)
    """Where tasks are done: local, or ray, a cluster whose nodes share the folder of the results."""
    address: str = argument("auto", metavar="A", group=MACHINE, flags=["--executor-address"])
    """Address of the Ray cluster; auto is the one of this machine."""
    workers: int = argument(1, WORKERS, metavar="N", group=MACHINE)
    """Tasks at a time on this machine, each in a process."""

    @property
    def runner(self) -> Executor:
        """Where the tasks are done."""
        threads = vars(self)["threads"]  # an option of every such command, with its own place in --help
        return Executor(self.executor, self.address, self.workers, threads)


@dataclass(frozen=True, kw_only=True)
class PlayerOptions(CommandOptions):
    """Options of a command that plays matches."""

    ckpt: str = argument("", metavar="C", group=WHO)
    """A path, a run's name, or final.pt (the newest run's)."""
    seed: int = argument(0, SEED, metavar="N", group=CONDITIONS)
    """Seed of the matches (default: 0)."""
    device: str = argument("auto", DEVICE, metavar="D", group=CONDITIONS)
    """Device of the policies: auto, cpu, cuda, cuda:1 and so on."""
    threads: int = argument(0, THREADS, metavar="N", group=CONDITIONS)
    """CPU threads; 0 is every core (default)."""
    out: Path | None = argument(None, metavar="DIR", group=RESULTS)  # noqa: RUF009 - it is `field`
    """Write the results there."""
    quiet: bool = argument(False, group=RESULTS)
    """No bar, no table; only what failed."""


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(PlayerOptions):
    """Options of `eval/run.py` in every game."""

    env: str = argument("", metavar="ENV")
    """The game, by default the game of --ckpt: dogfight, diplomacy, chess, air_combat, openspiel_text (kuhn_text and
    leduc_text are two of its games), gymnasium, pettingzoo, openspiel."""


Given = TypeVar("Given", bound=CommandOptions)


class _Parser(argparse.ArgumentParser):
    """Parser of a command line that raises `InputError` with one line, without the usage."""

    def __init__(self, kind: type[CommandOptions], *, helps: bool = False) -> None:
        text, owners = kind.TEXT, [*reversed(kind.__mro__)] if helps else []
        texts = {name: meaning for owner in owners for name, meaning in field_texts(owner).items()}
        super().__init__(
            prog=f"python {text.script} --env {text.env}" if text.env else f"python {text.script}",
            usage=text.usage,
            description=fill(text.description, WIDTH),
            epilog=text.examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        groups: dict[str, argparse._ActionsContainer] = {"": self}
        for option in options_of(kind):
            group = option.form.group
            if group not in groups:
                groups[group] = self.add_argument_group(group)
            option.add(groups[group], texts.get(option.name, ""))

    def format_help(self) -> str:
        """Return the help, with commands as they are called."""
        return as_called(super().format_help())

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing and exiting."""
        raise InputError(f"{message}; --help lists the options")


def options_of(kind: type[CommandOptions]) -> tuple[CommandOption, ...]:
    """Return the options of a command, group by group in the order of their first fields."""
    hints = get_type_hints(kind)
    options = [CommandOption(entry, hints[entry.name]) for entry in fields(kind) if entry.metadata]
    groups = list(dict.fromkeys(["", *(option.form.group for option in options)]))
    return tuple(sorted(options, key=lambda option: groups.index(option.form.group)))


def parse(kind: type[Given], words: Sequence[str]) -> Given:
    """Return the options that a command line gives. Raises `InputError`, in one line; exits after --help."""
    parser = _Parser(kind, helps=bool({*HELP} & {*words}))
    values, unknown = parser.parse_known_intermixed_args(words)
    for text in unknown:
        if text.startswith("-"):
            _refuse(text.partition("=")[0], kind)
        parser.error(f"unexpected {text!r}: say which option it belongs to, as in --ckpt {text}")
    return kind(**kind.from_words(_split(kind, vars(values))))


def parse_known(kind: type[Given], words: Sequence[str]) -> Given:
    """Return those of the options that a command line gives, which may give others, and --help."""
    values, _ = _Parser(kind).parse_known_args([word for word in words if word not in HELP])
    return kind(**_split(kind, vars(values)))


def _split(kind: type[CommandOptions], values: dict[str, Any]) -> dict[str, Any]:
    names = {option.name for option in options_of(kind) if option.form.split}
    return {name: split_names(value) if name in names else value for name, value in values.items()}


def from_keywords(kind: type[Given], keywords: Mapping[str, Any]) -> Given:
    """Return the options of a call. None, and False for what is not a flag, are left out. Raises `InputError`."""
    by_flag = {flag: option for option in options_of(kind) for flag in option.names}
    values = {}
    for key, value in keywords.items():
        if value is None or value is False:
            continue
        option = by_flag.get(f"--{key.rstrip('_').replace('_', '-')}")
        if option is None:
            _refuse(f"--{key.replace('_', '-')}", kind)
        values[option.name] = value
    return kind(**values)


def command_line(options: CommandOptions) -> str:
    """Return the command with these options, with a run's name in place of a path that means another run later."""
    words = [word for option in options_of(type(options)) for word in option.words(getattr(options, option.name))]
    return f"{as_called(f'python {options.TEXT.script}')} {shlex.join(words)}".strip()


def split_names(words: Iterable[str]) -> list[str]:
    """Return the names in words of a command line, separated by commas.

    Options of a player, as in search:seconds=1,seed=2, stay with it.
    """
    names: list[str] = []
    keys = {player.kind: player.keys for game in games() for player in game.built_players}
    for part in (part.strip() for word in words for part in word.split(",")):
        kind = names[-1].partition(":")[0].rpartition("=")[2] if names else ""
        if part.partition("=")[0] in keys.get(kind, ()):
            names[-1] = f"{names[-1]},{part}"
        elif part:
            names.append(part)
    return names


def check_number(option: str, value: float, allowed: str) -> None:
    """Raise `InputError` unless `value` lies in the interval `allowed`."""
    if wrong := complaint(value, allowed):
        raise InputError(f"{option} {value}: {wrong}")


def check_suffix(option: str, path: Path | None, *suffixes: str, hint: str = "") -> None:
    """Raise `InputError` unless the path of an option, if it is given, ends in one of `suffixes`."""
    if path is not None and path.suffix.lower() not in suffixes:
        raise InputError(f"{option} {str(path)!r}: must end in {' or '.join(suffixes)}{hint}")


def check_page(path: Path | None, instead: str = "", *, option: str = "--replay") -> None:
    """Raise `InputError` unless the path of `option`, if any, ends like a page; `instead` offers another output."""
    if path is not None and path.suffix.lower() not in (".html", ".htm") and not path.is_dir():
        raise InputError(f"{option} {str(path)!r}: is a page for a browser; give a name that ends in .html{instead}")


def pair_of(item: Any) -> tuple[str, str]:
    """Return the key and the name of KEY=NAME, or of an item of a mapping; only in text a key may stand."""
    if isinstance(item, tuple):
        key, value = item
        return str(key), text_of(value)
    key, equals, name = item.partition("=") if isinstance(item, str) else ("", "", text_of(item))
    return (key, name) if equals and ":" not in key else ("", item if isinstance(item, str) else name)


def group_of(item: Any) -> tuple[str, tuple[str, ...]]:
    """Return the label and the names of a group, or of an item that is one name."""
    if not isinstance(item, tuple):
        return "", (text_of(item),)
    label, names = item
    if isinstance(names, str | PurePath):
        raise InputError(f"{label}: {str(names)!r} is one name; give a list, [{str(names)!r}]")
    return one_line(str(label)), tuple(map(text_of, names))


def text_of(value: Any) -> str:
    """Return the text that names a value of a call: a Python object is registered, a path is never an option."""
    text = opponent_text(value)
    is_path = isinstance(value, PurePath) or text == str(getattr(value, "path", None))
    return f"./{text}" if is_path and (text.startswith("-") or (":" in text and "/" not in text)) else text


def _flat(texts: Any) -> Iterator[str]:
    """Yield every text in nested tuples."""
    for item in texts:
        yield from [item] if isinstance(item, str) else _flat(item)


def _refuse(name: str, kind: type[CommandOptions]) -> NoReturn:
    """Raise for an unknown option, of the game if the command has several games, since it may be one of another game.

    The dashes are left out of the search, which every option would share.
    """
    if name in kind.ABSENT:
        raise InputError(f"{name}: {kind.ABSENT[name]}")
    flags = [*HELP, *(flag for option in options_of(kind) if not option.form.positional for flag in option.flags)]
    near = nearest(name.lstrip("-"), [flag.lstrip("-") for flag in flags])
    hint = f"--{near}" if near and f"--{near}" in flags else ""
    game = kind.TEXT.env
    other = f"; these are the options of {game}, --env names another game" if game else ""
    raise UnknownNameError(f"unknown option {name!r}: {choices(name, flags, near=hint)}{other}")


def _lasting(name: str) -> str:
    """Return a name for the stored command; the name of a run replaces a path that means another run later."""
    if Path(name).name != FINAL:
        return name
    try:
        return display_name(find_checkpoint(name))
    except InputError:
        return name  # refused where it is used
