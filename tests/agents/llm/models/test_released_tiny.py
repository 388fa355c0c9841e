"""The released tiny model is whole, small, and plays about as its page says: it has learned DumbBot's orders."""

from sparring.agents.llm.cloning.dataset import CloneDataset
from sparring.agents.llm.cloning.held_out import HeldOut
from sparring.agents.llm.models.load import TINY, load_model
from sparring.agents.llm.models.saved_model import verify_model
from sparring.agents.llm.models.tiny import game_tokenizer
from sparring.configs.language import LanguageModelConfig
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT
from sparring.envs.diplomacy.rollouts.demonstrations import BotGames

MOST_BYTES = 10_000_000


def test_its_files_are_those_of_its_manifest_and_small():
    training = verify_model(TINY)
    assert training["config"]["clone"]["bot"] == "dumbbot"
    assert sum(path.stat().st_size for path in TINY.iterdir()) < MOST_BYTES


def test_its_tokenizer_is_the_one_this_tree_makes():
    """Else prompts would mean something else to the model than they did when it learned."""
    _, tokenizer = load_model(LanguageModelConfig(name="tiny"))
    assert tokenizer.get_vocab() == game_tokenizer("diplomacy").get_vocab()


def test_it_orders_as_the_bot_does_in_games_it_never_saw():
    """More than half of the orders."""
    model, tokenizer = load_model(LanguageModelConfig(name="tiny"))
    games = BotGames(8, bot="dumbbot", last_year=1910, seed=77)
    found = HeldOut(CloneDataset(games, tokenizer), tokenizer, DIPLOMACY_TEXT).check(model)
    games.close()
    assert found["eval/held_out/accuracy"] > 0.48
    assert found["eval/held_out/order_loss"] < 1.6
