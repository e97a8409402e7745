"""Models whose shape depends on their data: recurrent cells over sequences and trees."""
