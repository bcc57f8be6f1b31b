"""The live drivers of the core: outside events go in, decisions of the policy come out."""
