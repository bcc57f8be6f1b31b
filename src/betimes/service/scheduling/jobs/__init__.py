"""A job from its submission to its end, and why it waits."""
