"""What turns a loop program into something that runs, a package each."""
