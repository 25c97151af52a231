"""Commands that `cli` mounts, a module a room; nothing heavy is imported before a command runs."""
