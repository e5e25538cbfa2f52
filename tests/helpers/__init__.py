"""What several test files share: the command as a user runs it, toolchains that misbehave, and what is left running."""
