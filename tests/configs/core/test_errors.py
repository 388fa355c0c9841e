import pytest

from sparring.configs.core.errors import (
    ConfigError,
    InputError,
    MissingPackageError,
    UnknownNameError,
    choices,
    choose,
    require_package,
    suggestion,
)


def test_choose_returns_a_known_name():
    assert choose("bot", "ace", ("ace", "chaser")) == "ace"


def test_choose_names_the_name_the_choices_and_the_nearest():
    with pytest.raises(UnknownNameError) as caught:
        choose("bot", "brawller", ("ace", "brawler"))
    assert str(caught.value) == "unknown bot 'brawller': choose from ace, brawler; did you mean 'brawler'?"


def test_no_suggestion_where_nothing_is_near():
    assert suggestion("xyz", ("ace", "brawler")) == ""
    assert suggestion("brawl", ("ace", "brawler"), likeness=0.99) == ""


def test_a_missing_package_is_named_with_the_extra_that_has_it():
    require_package("pytest", "dev")
    with pytest.raises(MissingPackageError, match=r"^no_such_package is not .*; run `sparring install train`"):
        require_package("no_such_package", "train")


def test_bad_input_is_one_family():
    assert issubclass(UnknownNameError, InputError)
    assert issubclass(ConfigError, InputError)
    assert issubclass(InputError, ValueError)


def test_a_long_list_is_cut_and_the_suggestion_comes_first():
    names = [f"name{number}" for number in range(40)]
    listed = ", ".join(names[:12])
    assert choices("name39x", names) == f"did you mean 'name39'? choose from {listed} ... and 28 more"
    assert choices("q", names) == f"choose from {listed} ... and 28 more"
    assert choices("q", names[:12]) == f"choose from {listed}"
