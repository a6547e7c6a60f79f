"""Trees of arrays on disk: versions that are complete or not there, written and read by all devices and processes at once."""
