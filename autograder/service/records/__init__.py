"""What the course knows, and how it changes: people, submissions, gradings, marks, dates."""
