"""The database: the tables, how they are opened, brought up to date and copied."""
