//! The annotations in a tool's input schema.

use std::collections::HashSet;

use http::HeaderName;
use serde_json::Value;

/// The annotation (MCP 2026-07-28 §Schema Extension).
pub(super) const ANNOTATION: &str = "x-mcp-header";

/// How much memory the parameters of one tool may take up. A deep path under long names costs each of them all of it.
const MAX_BYTES: usize = 1 << 20;

/// A parameter that is mirrored in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    /// The whole name: `mcp-param-…`.
    pub(super) header: HeaderName,
    /// The names of the properties that lead to it.
    pub(super) path: Box<[Box<str>]>,
}

impl Parameter {
    /// How much memory it takes up, about.
    pub(super) fn bytes(&self) -> usize {
        let names: usize = self.path.iter().map(|name| name.len() + size_of::<Box<str>>()).sum();
        size_of::<Self>() + self.header.as_str().len() + names
    }

    /// One that was stored.
    pub(super) fn stored(header: &str, path: Vec<Box<str>>) -> Result<Self, String> {
        let name = header.strip_prefix("mcp-param-").filter(|name| !name.is_empty() && !path.is_empty());
        let header = name.and_then(|_| HeaderName::from_bytes(header.as_bytes()).ok());
        let header = header.ok_or_else(|| "a stored header is none of a parameter".to_owned())?;
        Ok(Self { header, path: path.into() })
    }
}

/// Reads the annotations of an input schema.
///
/// # Errors
/// One violates a constraint; the text says which.
pub(super) fn parameters(schema: &Value) -> Result<Vec<Parameter>, String> {
    let mut reader = Reader { found: Vec::new(), headers: HashSet::new(), path: Vec::new(), bytes: 0 };
    reader.schema(schema, Place::Root)?;
    Ok(reader.found)
}

struct Reader<'v> {
    found: Vec<Parameter>,
    headers: HashSet<HeaderName>,
    path: Vec<&'v str>,
    bytes: usize,
}

/// Where in the schema a subschema stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    /// Reached by `properties` alone, so it describes one value of the arguments.
    Property,
    Elsewhere,
}

impl<'v> Reader<'v> {
    /// The depth of the recursion is bounded, as that of what serde_json reads is.
    fn schema(&mut self, schema: &'v Value, place: Place) -> Result<(), String> {
        let members = match schema {
            Value::Object(members) => members,
            Value::Array(items) => {
                return items.iter().try_for_each(|item| self.schema(item, Place::Elsewhere));
            }
            _ => return Ok(()),
        };
        if let Some(annotation) = members.get(ANNOTATION) {
            if place != Place::Property {
                return Err(format!("`{ANNOTATION}` stands where no chain of `properties` leads"));
            }
            self.parameter(annotation, members.get("type"))?;
        }
        for (keyword, value) in members {
            match (keyword.as_str(), value) {
                // These hold data, not schemas.
                (ANNOTATION | "const" | "enum" | "default" | "examples", _) => {}
                ("properties", Value::Object(properties)) => {
                    let place = if place == Place::Elsewhere { place } else { Place::Property };
                    for (name, property) in properties {
                        self.path.push(name);
                        self.schema(property, place)?;
                        self.path.pop();
                    }
                }
                // Their members are names, not keywords.
                (
                    "$defs" | "definitions" | "patternProperties" | "dependentSchemas" | "dependentRequired"
                    | "dependencies",
                    Value::Object(schemas),
                ) => {
                    schemas.values().try_for_each(|schema| self.schema(schema, Place::Elsewhere))?;
                }
                _ => self.schema(value, Place::Elsewhere)?,
            }
        }
        Ok(())
    }

    fn parameter(&mut self, annotation: &Value, kind: Option<&Value>) -> Result<(), String> {
        let at = || self.path.join(".");
        let Value::String(name) = annotation else {
            return Err(format!("the `{ANNOTATION}` of `{}` is no string", at()));
        };
        // RFC 9110 §5.1: a name is a token, which is what `HeaderName` checks, with a prefix that is one.
        let header = HeaderName::from_bytes(format!("mcp-param-{name}").as_bytes());
        let header = header.ok().filter(|_| !name.is_empty());
        let header =
            header.ok_or_else(|| format!("the `{ANNOTATION}` of `{}` is no token: {name:?}", at()))?;
        if !matches!(kind.and_then(Value::as_str), Some("string" | "integer" | "boolean")) {
            return Err(format!("`{}` is of another type than string, integer or boolean", at()));
        }
        if !self.headers.insert(header.clone()) {
            return Err(format!("the `{ANNOTATION}` {name:?} occurs twice"));
        }
        let path = self.path.iter().map(|name| Box::from(*name)).collect();
        let parameter = Parameter { header, path };
        self.bytes += parameter.bytes();
        if self.bytes > MAX_BYTES {
            return Err(format!("its annotations take up more than {MAX_BYTES} bytes"));
        }
        self.found.push(parameter);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(schema: Value) -> Result<Vec<(String, String)>, String> {
        let found = parameters(&schema)?;
        Ok(found.into_iter().map(|found| (found.header.to_string(), found.path.join("."))).collect())
    }

    #[test]
    fn annotated_properties_are_found_at_any_depth() {
        let schema = json!({ "type": "object", "properties": {
            "region": { "type": "string", "x-mcp-header": "Region" },
            "plain": { "type": "string" },
            "o": { "type": "object", "properties": { "deep": { "type": "integer", "x-mcp-header": "Deep" } } },
            // Names of properties, and data, are no annotations.
            "x-mcp-header": { "type": "boolean", "x-mcp-header": "Odd" },
            "data": { "default": { "x-mcp-header": "" }, "enum": [{ "x-mcp-header": 1 }] },
        } });
        let mut found = read(schema).unwrap();
        found.sort();
        let expected =
            [("mcp-param-deep", "o.deep"), ("mcp-param-odd", "x-mcp-header"), ("mcp-param-region", "region")];
        assert_eq!(found, expected.map(|(header, path)| (header.to_owned(), path.to_owned())));
    }

    #[test]
    fn every_constraint_is_checked() {
        let property = |property: Value| json!({ "properties": { "p": property } });
        let good = json!({ "type": "string", "x-mcp-header": "P" });
        for (why, schema) in [
            ("empty", property(json!({ "type": "string", "x-mcp-header": "" }))),
            ("no token", property(json!({ "type": "string", "x-mcp-header": "a b" }))),
            ("no token", property(json!({ "type": "string", "x-mcp-header": "a\r\nb" }))),
            ("no token", property(json!({ "type": "string", "x-mcp-header": "a:b" }))),
            ("no token", property(json!({ "type": "string", "x-mcp-header": "é" }))),
            ("no string", property(json!({ "type": "string", "x-mcp-header": 1 }))),
            ("number", property(json!({ "type": "number", "x-mcp-header": "P" }))),
            ("object", property(json!({ "type": "object", "x-mcp-header": "P" }))),
            ("array", property(json!({ "type": "array", "x-mcp-header": "P" }))),
            ("null", property(json!({ "type": "null", "x-mcp-header": "P" }))),
            ("two types", property(json!({ "type": ["string", "null"], "x-mcp-header": "P" }))),
            ("no type", property(json!({ "x-mcp-header": "P" }))),
            ("twice", json!({ "properties": { "a": good, "b": { "type": "string", "x-mcp-header": "p" } } })),
            ("root", json!({ "type": "string", "x-mcp-header": "P" })),
            ("items", property(json!({ "items": { "properties": { "q": good } } }))),
            ("prefixItems", property(json!({ "prefixItems": [good] }))),
            ("additionalProperties", json!({ "additionalProperties": good })),
            ("patternProperties", json!({ "patternProperties": { "default": good } })),
            ("oneOf", json!({ "oneOf": [{ "properties": { "q": good } }] })),
            ("anyOf", property(json!({ "anyOf": [good] }))),
            ("allOf", property(json!({ "allOf": [good] }))),
            ("not", property(json!({ "not": good }))),
            ("if", json!({ "if": { "properties": { "q": good } } })),
            ("then", json!({ "then": { "properties": { "q": good } } })),
            ("else", json!({ "else": { "properties": { "q": good } } })),
            ("$defs", json!({ "$defs": { "d": { "properties": { "q": good } } } })),
            ("definitions", json!({ "definitions": { "d": good } })),
            ("dependentSchemas", json!({ "dependentSchemas": { "d": { "properties": { "q": good } } } })),
            ("another keyword", json!({ "x-else": { "deep": good } })),
        ] {
            assert!(read(schema.clone()).is_err(), "{why}: {schema}");
        }
    }
}
