"""Starting ranks: processes or threads of this machine, from a notebook or a script."""

from ddp_lab.launch.launcher import launch as launch
