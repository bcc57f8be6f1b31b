"""Decides which job runs where: no clock, socket, disk, process or thread (an import contract holds that)."""
