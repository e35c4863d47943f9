"""What every section of a profile is made of."""

from pydantic import BaseModel, ConfigDict


class Config(BaseModel):
    """Base of every configuration: immutable, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
