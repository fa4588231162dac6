"""Small helpers of all rooms: checks of options, files, signals, and names that are imported on first use."""
