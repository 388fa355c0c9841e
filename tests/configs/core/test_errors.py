import pytest

from sparring.configs.core.errors import (
    ConfigError,
    InputError,
    MissingPackageError,
    UnknownNameError,
    choices,
    choose,
    require_package,
    require_packages,
    suggestion,
)


def test_choose_returns_known_name():
    assert choose("bot", "ace", ("ace", "chaser")) == "ace"


def test_choose_error_has_name_choices_and_nearest():
    with pytest.raises(UnknownNameError) as caught:
        choose("bot", "brawller", ("ace", "brawler"))
    assert str(caught.value) == "unknown bot 'brawller': choose from ace, brawler; did you mean 'brawler'?"


def test_no_suggestion_without_near_match():
    assert suggestion("xyz", ("ace", "brawler")) == ""
    assert suggestion("brawl", ("ace", "brawler"), likeness=0.99) == ""


def test_missing_package_names_its_extra():
    require_package("pytest", "dev")
    with pytest.raises(MissingPackageError, match=r"^no_such_package is not .*; run `sparring install train`"):
        require_package("no_such_package", "train")
    needs = {"absent_one": "play", "pytest": "dev", "absent_two": "chess", "absent_three": "play"}
    with pytest.raises(MissingPackageError, match=r"^absent_one, absent_two, absent_three are .*install play chess`$"):
        require_packages(needs)


def test_input_errors_share_base_class():
    assert issubclass(UnknownNameError, InputError)
    assert issubclass(ConfigError, InputError)
    assert issubclass(InputError, ValueError)


def test_long_list_is_truncated_after_suggestion():
    names = [f"name{number}" for number in range(40)]
    listed = ", ".join(names[:12])
    assert choices("name39x", names) == f"did you mean 'name39'? choose from {listed} ... and 28 more"
    assert choices("q", names) == f"choose from {listed} ... and 28 more"
    assert choices("q", names[:12]) == f"choose from {listed}"
