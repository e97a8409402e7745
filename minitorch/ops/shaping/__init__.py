"""The same elements elsewhere: views, indices, broadcasts, joins."""
