"""One package, so that Chromium and its event loop end with the last of these tests."""
