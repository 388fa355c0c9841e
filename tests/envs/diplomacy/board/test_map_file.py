"""Map files: valid content, and errors with line numbers."""

import pytest

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.board.map_file import Province, read_map

SMALL = """[provinces]
AAA  coast   FRANCE   Alpha
BBB  coast   neutral  Beta Land  # a comment
INL  inland  -        Inland
WET  sea     -        Wet Sea
[coasts]
BBB  NC SC
[start]
FRANCE  A INL  F AAA
[army]
AAA: BBB INL
[fleet]
WET: AAA BBB/SC
"""
PROVINCES, COASTS, START, ARMY, FLEET = 5, 7, 9, 11, 13  # the last line of each section


def small_map(folder, line=0, text=""):
    """Write the small map to a file with one line replaced, counted from 1."""
    lines = SMALL.splitlines()
    if line:
        lines[line - 1] = text
    path = folder / "map.txt"
    path.write_text("\n".join(lines))
    return path


def test_map_is_read_into_rows(tmp_path):
    rows = read_map(small_map(tmp_path))
    assert list(rows.provinces) == ["AAA", "BBB", "INL", "WET"]
    assert rows.provinces["BBB"] == Province("BBB", "coast", "neutral", "Beta Land")
    assert rows.coasts == {"BBB": ("BBB/NC", "BBB/SC")}
    assert rows.start == [("FRANCE", "A", "INL"), ("FRANCE", "F", "AAA")]
    assert rows.edges == {"A": [("AAA", "BBB"), ("AAA", "INL")], "F": [("WET", "AAA"), ("WET", "BBB/SC")]}


@pytest.mark.parametrize(
    ("line", "text", "said"),
    [
        (1, "AAA  coast  -  Alpha", "this comes before the first section: begin with [provinces]"),
        (COASTS - 1, "[coast]", "unknown section '[coast]'"),
        (COASTS - 1, "[army]", "[army] is out of place: each section is here once, in the order [provinces] [coasts]"),
        (COASTS - 1, "[provinces]", "[provinces] is out of place"),
        (PROVINCES, "WET  sea  -", "is not a province: write code, terrain, supply centre, full name"),
        (PROVINCES, "Wet  sea  -  Wet Sea", "code 'Wet': must be three upper-case letters"),
        (PROVINCES, "AAA  sea  -  Wet Sea", "AAA Wet Sea is here twice: as AAA Alpha"),
        (PROVINCES, "WET  sea  -  Alpha", "WET Alpha is here twice: as AAA Alpha"),
        (
            PROVINCES,
            "WET  see  -  Wet Sea",
            "unknown terrain 'see': choose from inland, coast, sea; did you mean 'sea'?",
        ),
        (PROVINCES, "WET  sea  SPAIN  Wet Sea", "unknown supply centre 'SPAIN'"),
        (PROVINCES, "WET  sea  neutral  Wet Sea", "WET is a sea: it holds no supply centre"),
        (COASTS, "BBC  NC SC", "unknown province 'BBC': choose from AAA, BBB, INL, WET; did you mean 'BBB'?"),
        (COASTS, "INL  NC SC", "INL is not a coast"),
        (COASTS, "BBB  NC", "two or more different coasts"),
        (COASTS, "BBB  NC NC", "two or more different coasts"),
        (COASTS, "BBB  NC XC", "unknown coast 'XC'"),
        (START, "SPAIN  A AAA", "unknown power 'SPAIN'"),
        (START, "FRANCE  A INL  F", "write a power and its units"),
        (START, "FRANCE", "write a power and its units"),
        (START, "FRANCE  W INL", "unknown unit 'W'"),
        (START, "FRANCE  A WET", "no army stands on WET: its terrain is sea"),
        (START, "FRANCE  A BBB/SC", "no army stands on BBB/SC: it stands on BBB"),
        (START, "FRANCE  F INL", "no fleet stands on INL: its terrain is inland"),
        (START, "FRANCE  F BBB", "unknown place of a fleet in BBB 'BBB': choose from BBB/NC, BBB/SC"),
        (START, "FRANCE  F AAA  A AAA", "two units begin in AAA"),
        (START, "FRANCE  F BBB/SC  A BBB", "two units begin in BBB"),
        (ARMY, "AAA BBB", "write a place, a colon and the places it touches"),
        (ARMY, "AAA:", "write a place, a colon and the places it touches"),
        (ARMY, "AAA: IML", "unknown province 'IML': choose from AAA, BBB, INL, WET; did you mean 'INL'?"),
        (ARMY, "aaa: INL", "unknown province 'aaa'"),
        (ARMY, "AAA: WET", "no army stands on WET: its terrain is sea"),
        (ARMY, "AAA: BBB/SC", "no army stands on BBB/SC: it stands on BBB"),
        (ARMY, "AAA: BBB/", "no army stands on BBB/: it stands on BBB"),
        (ARMY, "AAA: AAA", "a province does not touch itself"),
        (ARMY, "AAA: BBB INL BBB", "AAA BBB is here twice: write an adjacency once, in one direction"),
        (FLEET, "WET: INL", "no fleet stands on INL: its terrain is inland"),
        (FLEET, "WET: BBB", "unknown place of a fleet in BBB 'BBB': choose from BBB/NC, BBB/SC"),
        (FLEET, "WET: BBB/EC", "unknown place of a fleet in BBB 'BBB/EC': choose from BBB/NC, BBB/SC"),
        (FLEET, "WET: AAA/SC", "unknown place of a fleet in AAA 'AAA/SC': choose from AAA"),
        (FLEET, "BBB/NC: BBB/SC", "a province does not touch itself"),
        (FLEET, "WET: AAA AAA", "WET AAA is here twice"),
    ],
)
def test_invalid_line_is_rejected_by_file_and_line(tmp_path, line, text, said):
    path = small_map(tmp_path, line, text)
    with pytest.raises(InputError) as caught:
        read_map(path)
    assert str(caught.value).startswith(f"{path}, line {line}: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_edge_listed_from_both_ends_is_rejected(tmp_path):
    path = small_map(tmp_path)
    path.write_text(SMALL + "AAA: WET\n")
    with pytest.raises(InputError, match="line 14: AAA WET is here twice"):
        read_map(path)


def test_truncated_file_is_rejected(tmp_path):
    path = small_map(tmp_path)
    path.write_text(SMALL.partition("[fleet]")[0])
    with pytest.raises(InputError, match=r"map.txt: ends before \[fleet\]"):
        read_map(path)
