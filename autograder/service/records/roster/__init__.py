"""Who takes the course and with whom: enrolled, from a file, in teams."""
