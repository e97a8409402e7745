"""What is published of a submission, and what staff decide about whole labs and the course."""
