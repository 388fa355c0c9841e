"""Sequential promotion tests are rejected early in games with other than two seats."""

import json
import subprocess
import sys

GAMES = (
    ["+run=openspiel", "env.id=leduc_poker", "env.kwargs={players: 3}"],
    ["+run=pettingzoo", "env.id=mpe2.simple_spread_v3"],
)


def test_promotion_by_sprt_is_rejected_for_three_seats(tmp_path):
    more = ["self_play.promotion_games=400", f"checkpoint_dir={tmp_path}", "name=three"]
    code = "import json, sys; from sparring.train import main; "
    code += "print([main(words) for words in json.loads(sys.argv[1])], 'torch' in sys.modules)"
    command = [sys.executable, "-c", code, json.dumps([[*game, *more] for game in GAMES])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[2, 2] False", done.stderr
    first, second = done.stderr.splitlines()
    for line in (first, second):
        assert "self_play.promotion_games=400: tests in games of two seats, and" in line
        assert "has 3; give 0" in line
    assert not any(tmp_path.iterdir())
