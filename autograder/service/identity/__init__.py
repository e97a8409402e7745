"""Who somebody is by the word of another: sign-in elsewhere, learning platforms."""
