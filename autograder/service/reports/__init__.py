"""What is read off the records: the gradebook, exports, what is alike."""
