"""A lab from its one source: regions, manifest, release."""
