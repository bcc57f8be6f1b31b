"""Where runs are carried out: on this machine, or on a virtual one."""
