"""The error object, for the operations of the APIs that answer it."""

from web.generation.openai_format.errors import Error as Error
from web.generation.openai_format.errors import ErrorDetails as ErrorDetails
