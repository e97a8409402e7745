"""What can be asked for, a file a subject: the JSON and the pages of it."""
