"""What `scripts/quickstart` is made of; the tests on the real host use it too."""
