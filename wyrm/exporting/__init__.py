"""Programs that leave Python: trained and training ones as object files for C and others, without an allocation."""
