"""The one of the environment, which the hook of `in_process` must not keep from running."""

import builtins

builtins.environment_was_set_up = True
