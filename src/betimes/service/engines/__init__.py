"""The live drivers of the core: what happens outside goes in, what the policy decides comes out."""
