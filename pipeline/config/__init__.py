"""The configuration: one pydantic model per section, read from YAML."""
