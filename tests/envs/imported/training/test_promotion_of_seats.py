"""A sequential test for promotion is refused in games of other than two seats, before anything is loaded or written."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("game", "seats"),
    [
        (["+run=openspiel", "env.id=leduc_poker", "env.kwargs={players: 3}"], 3),
        (["+run=pettingzoo", "env.id=mpe2.simple_spread_v3"], 3),
    ],
)
def test_promotion_by_sprt_is_refused_for_three_seats(game, seats, tmp_path):
    words = [*game, "self_play.promotion=sprt", f"checkpoint_dir={tmp_path}", "name=three"]
    code = "import sys; from sparring.train import main; code = main(sys.argv[1:]); "
    code += "print('torch' in sys.modules); sys.exit(code)"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (2, "False"), done.stderr
    (line,) = done.stderr.splitlines()
    assert "self_play.promotion=sprt: tests games of two seats, and" in line
    assert f"has {seats}; give always" in line
    assert not any(tmp_path.iterdir())
