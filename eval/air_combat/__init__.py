"""What shows air combat: the replay in three dimensions, and the drawing that the page for flying shares with it."""
