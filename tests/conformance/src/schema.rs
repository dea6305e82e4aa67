//! Values for JSON schemas: only as much as flat forms and simple tools need.

use serde_json::{Map, Value, json};

/// The value of every property that has a default. `None`: one that is required has none.
pub(crate) fn defaults(schema: &Value) -> Option<Map<String, Value>> {
    let has_default = |(name, property): (&String, &Value)| {
        property.get("default").map(|default| (name.clone(), default.clone()))
    };
    let values: Map<_, _> = properties(schema).filter_map(has_default).collect();
    required(schema).all(|name| values.contains_key(name)).then_some(values)
}

/// A value of the right type for every property that is required.
pub(crate) fn sample(schema: &Value) -> Map<String, Value> {
    required(schema).map(|name| (name.to_owned(), sample_of(&schema["properties"][name]))).collect()
}

fn sample_of(property: &Value) -> Value {
    if let Some(given) = property.get("default").or(property.get("const")).or(property["enum"].get(0)) {
        return given.clone();
    }
    match property["type"].as_str() {
        Some("integer" | "number") => json!(3),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        Some("null") => Value::Null,
        _ => json!("sample"),
    }
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}

fn required(schema: &Value) -> impl Iterator<Item = &str> {
    schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_of_every_type_are_taken_as_they_are() {
        let schema = json!({ "type": "object", "required": ["name"], "properties": {
            "name": { "type": "string", "default": "John Doe" },
            "age": { "type": "integer", "default": 30 },
            "score": { "type": "number", "default": 95.5 },
            "status": { "type": "string", "enum": ["on", "off"], "default": "off" },
            "verified": { "type": "boolean", "default": false },
            "nickname": { "type": "string" },
        } });
        let filled =
            json!({ "name": "John Doe", "age": 30, "score": 95.5, "status": "off", "verified": false });
        assert_eq!(defaults(&schema).map(Value::Object), Some(filled));
    }

    #[test]
    fn nothing_is_made_up_for_what_is_required() {
        let schema = json!({ "properties": { "a": { "default": 1 }, "b": {} }, "required": ["a", "b"] });
        assert_eq!(defaults(&schema), None);
        assert_eq!(defaults(&json!({ "required": ["absent"] })), None);
    }

    #[test]
    fn a_schema_that_asks_for_nothing_is_filled_with_nothing() {
        for schema in [json!({}), json!({ "properties": {} }), Value::Null, json!({ "properties": 1 })] {
            assert_eq!(defaults(&schema), Some(Map::new()), "{schema}");
            assert_eq!(sample(&schema), Map::new(), "{schema}");
        }
    }

    #[test]
    fn samples_are_of_the_type_that_is_required() {
        let schema = json!({ "properties": {
            "number": { "type": "number" },
            "integer": { "type": "integer" },
            "boolean": { "type": "boolean" },
            "array": { "type": "array" },
            "object": { "type": "object" },
            "null": { "type": "null" },
            "string": { "type": "string" },
            "enum": { "type": "string", "enum": ["first", "second"] },
            "const": { "const": 7 },
            "default": { "type": "integer", "default": 5 },
            "optional": { "type": "string" },
        }, "required": [
            "number", "integer", "boolean", "array", "object", "null", "string", "enum", "const", "default", "absent"
        ] });
        let expected = json!({
            "number": 3, "integer": 3, "boolean": true, "array": [], "object": {}, "null": null, "string": "sample",
            "enum": "first", "const": 7, "default": 5, "absent": "sample",
        });
        assert_eq!(Value::Object(sample(&schema)), expected);
    }
}
