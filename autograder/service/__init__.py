"""The course server: accounts, submissions, a durable queue, pages, exports."""
