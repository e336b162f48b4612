// check_schema: is a JSON value a valid JSON Schema?  Called by text/protocol for tool parameters and response formats.
#pragma once

#include "base/status.h"
#include "text/json_text.h"

namespace deepinfer {

// Checks `schema` against the rules of the JSON Schema 2020-12 meta-schema (of older drafts where "$schema" names one),
// that every pattern compiles, and that every "$ref" leads somewhere inside the schema or to a meta-schema.
// No pattern is ever run.  Time is linear in the schema.  Error: invalid argument with the first broken rule.
Status check_schema(const Json& schema);

}  // namespace deepinfer
