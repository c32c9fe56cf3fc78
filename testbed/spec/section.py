"""A mapping in the experiment file, refused with one message per fault.

pydantic reports an unknown key and, beside it, the required key that it was meant to be. A section says
it once, with the nearest name.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import ErrorDetails, InitErrorDetails

from testbed.spec.faults import finding, nearest, refusal, reworded, shown, unknown


class Section(BaseModel):
    """A frozen mapping with known keys. Text is never taken for a number, nor a number for text.

    A field's `examples` hold one value as a person writes it; messages quote it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
    key_is: ClassVar[str] = "a key here"
    """What a known key is called."""
    null_is_a_value: ClassVar[bool] = False
    """Whether `key:` with nothing behind it may mean something."""

    @model_validator(mode="wrap")
    @classmethod
    def _one_message_per_fault(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(value, cls):
            return value
        if not isinstance(value, dict):
            raise refusal(f"{shown(value)} is not a mapping; write it like {cls.example()}.")
        strange = [key for key in value if key not in cls.model_fields]
        empty = [] if cls.null_is_a_value else [k for k, v in value.items() if v is None and k not in strange]
        errors = [finding((key,), unknown(key, cls.key_is, cls.model_fields)) for key in strange]
        errors += [finding((key,), f"has no value{cls._remedy(key)}") for key in empty]
        meant = {nearest(key, cls.model_fields) for key in strange} | set(empty)
        try:
            section = handler({k: v for k, v in value.items() if k not in strange and k not in empty})
        except ValidationError as error:
            details = error.errors(include_url=False)
            errors += [cls._worded(e) for e in details if not (_is_missing(e) and e["loc"][0] in meant)]
        if errors:
            raise ValidationError.from_exception_data(cls.__name__, errors)
        return section

    @classmethod
    def example(cls) -> str:
        """The required keys, or the first two, with a value each."""
        fields = cls.model_fields
        keys = [key for key, field in fields.items() if field.is_required()] or list(fields)[:2]
        return "{" + ", ".join(f"{key}: {cls._sample(key)}" for key in keys) + "}"

    @classmethod
    def _worded(cls, error: ErrorDetails) -> InitErrorDetails:
        if _is_missing(error):
            key = str(error["loc"][0])
            return finding((key,), f"is missing{cls._remedy(key)}")
        return reworded(error)

    @classmethod
    def _remedy(cls, key: str) -> str:
        sample = cls._sample(key)
        return f'; write it like "{key}: {sample}".' if sample != "..." else "."

    @classmethod
    def _sample(cls, key: str) -> str:
        return str((cls.model_fields[key].examples or ["..."])[0])


def _is_missing(error: ErrorDetails) -> bool:
    """Whether a required key of this very section is absent, rather than one further down."""
    return error["type"] == "missing" and len(error["loc"]) == 1
