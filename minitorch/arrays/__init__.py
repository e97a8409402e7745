"""Arrays of any library: what they are, where their memory comes from. Knows no operator."""
