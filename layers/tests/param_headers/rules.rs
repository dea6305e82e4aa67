//! The rules for annotations: a tool that keeps them stays in a listing, one that does not is left out.

use super::support::*;

/// Whether the tool with this input schema is left out of a listing. The one beside it always stays.
#[track_caller]
fn is_left_out(schema: &str) -> bool {
    let described = format!(r#"{{"name":"t","inputSchema":{schema}}}"#);
    let beside = annotated("a", "A");
    let mut client = Client::new();
    let shown = client.list(&format!(r#"{{"tools":[{described},{beside}]}}"#));
    assert_eq!(client.known(), "a", "{schema}");
    if shown == format!(r#"{{"tools":[{beside}]}}"#) {
        assert_eq!(client.tools.len(), 1, "it is not learned: {schema}");
        true
    } else {
        assert_eq!(shown, format!(r#"{{"tools":[{described},{beside}]}}"#));
        false
    }
}

fn of_property(property: &str) -> String {
    format!(r#"{{"type":"object","properties":{{"p":{property}}}}}"#)
}

const GOOD: &str = r#"{"type":"string","x-mcp-header":"P"}"#;

#[test]
fn a_header_is_named_by_a_token_and_nothing_else() {
    for byte in 0..0x80u8 {
        let name = serde_json::to_string(&format!("x{}", char::from(byte))).unwrap();
        // RFC 9110 §5.6.2.
        let is_token = byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let property = format!(r#"{{"type":"string","x-mcp-header":{name}}}"#);
        assert_eq!(is_left_out(&of_property(&property)), !is_token, "{name}");
    }
    for name in [r#""""#, r#""é""#, r#""\u0000""#, "1", "true", "null", r#"["P"]"#, r#"{"P":1}"#] {
        let property = format!(r#"{{"type":"string","x-mcp-header":{name}}}"#);
        assert!(is_left_out(&of_property(&property)), "{name}");
    }
}

#[test]
fn only_strings_integers_and_booleans_are_mirrored() {
    for (kind, is_allowed) in [
        (r#""string""#, true),
        (r#""integer""#, true),
        (r#""boolean""#, true),
        (r#""number""#, false),
        (r#""object""#, false),
        (r#""array""#, false),
        (r#""null""#, false),
        (r#"["string","null"]"#, false),
        (r#""String""#, false),
        ("null", false),
    ] {
        let property = format!(r#"{{"x-mcp-header":"P","type":{kind}}}"#);
        assert_eq!(is_left_out(&of_property(&property)), !is_allowed, "{kind}");
    }
    assert!(is_left_out(&of_property(r#"{"x-mcp-header":"P"}"#)), "no type at all");
}

#[test]
fn a_name_occurs_once_whatever_its_case_and_wherever_it_stands() {
    let of_two = |first: &str, second: &str| {
        let property = |name: &str| format!(r#"{{"type":"string","x-mcp-header":"{name}"}}"#);
        let deep = format!(r#"{{"type":"object","properties":{{"p":{}}}}}"#, property(second));
        let flat = format!(r#"{{"properties":{{"p":{},"q":{}}}}}"#, property(first), property(second));
        (
            is_left_out(&flat),
            is_left_out(&format!(r#"{{"properties":{{"p":{},"o":{deep}}}}}"#, property(first))),
        )
    };
    assert_eq!(of_two("Region", "Region"), (true, true));
    assert_eq!(of_two("Region", "rEGION"), (true, true));
    assert_eq!(of_two("Region", "Region2"), (false, false));
}

#[test]
fn an_annotation_stands_where_only_properties_lead() {
    for schema in [
        // Of the whole input there is no header, nor of the parts of lists and of alternatives.
        GOOD.to_owned(),
        of_property(&format!(r#"{{"items":{GOOD}}}"#)),
        of_property(&format!(r#"{{"items":{{"properties":{{"q":{GOOD}}}}}}}"#)),
        of_property(&format!(r#"{{"prefixItems":[{GOOD}]}}"#)),
        of_property(&format!(r#"{{"contains":{GOOD}}}"#)),
        of_property(&format!(r#"{{"unevaluatedItems":{GOOD}}}"#)),
        of_property(&format!(r#"{{"anyOf":[{GOOD},{{"type":"null"}}]}}"#)),
        of_property(&format!(r#"{{"not":{GOOD}}}"#)),
        format!(r#"{{"oneOf":[{{"properties":{{"q":{GOOD}}}}}]}}"#),
        format!(r#"{{"allOf":[{{"properties":{{"q":{GOOD}}}}}]}}"#),
        format!(r#"{{"if":{{"properties":{{"q":{GOOD}}}}}}}"#),
        format!(r#"{{"then":{{"properties":{{"q":{GOOD}}}}}}}"#),
        format!(r#"{{"else":{{"properties":{{"q":{GOOD}}}}}}}"#),
        format!(r#"{{"additionalProperties":{GOOD}}}"#),
        format!(r#"{{"patternProperties":{{"^x":{GOOD}}}}}"#),
        format!(r#"{{"dependentSchemas":{{"d":{{"properties":{{"q":{GOOD}}}}}}}}}"#),
        // What is only referred to.
        format!(r##"{{"$defs":{{"q":{GOOD}}},"properties":{{"q":{{"$ref":"#/$defs/q"}}}}}}"##),
        format!(r#"{{"definitions":{{"q":{GOOD}}}}}"#),
        format!(
            r#"{{"properties":{{"p":{GOOD}}},"allOf":[{{"properties":{{"q":{{"type":"string","x-mcp-header":"Q"}}}}}}]}}"#
        ),
    ] {
        assert!(is_left_out(&schema), "{schema}");
    }
}

#[test]
fn data_and_names_are_no_annotations() {
    for schema in [
        of_property(GOOD),
        of_property(&of_property(&of_property(GOOD))),
        of_property(r#"{"default":{"x-mcp-header":""}}"#),
        of_property(r#"{"enum":[{"x-mcp-header":""}],"const":{"x-mcp-header":1}}"#),
        of_property(r#"{"examples":[{"properties":{"q":{"x-mcp-header":""}}}]}"#),
        of_property(r#"{"description":"see x-mcp-header"}"#),
        r#"{"properties":{"x-mcp-header":{"type":"string"}}}"#.to_owned(),
        r#"{"properties":{"x-mcp-header":{"type":"string","x-mcp-header":"X"}},"required":["x-mcp-header"]}"#
            .to_owned(),
        r#"{"properties":{"items":{"type":"string","x-mcp-header":"Items"}}}"#.to_owned(),
        r#"{"properties":{"default":{"type":"string","x-mcp-header":"Default"}}}"#.to_owned(),
        r#"{"$defs":{"x-mcp-header":{"type":"string"}}}"#.to_owned(),
        r#"{"properties":{"p":true,"q":false},"additionalProperties":false}"#.to_owned(),
    ] {
        assert!(!is_left_out(&schema), "{schema}");
    }
}

#[test]
fn keys_with_escapes_are_seen() {
    for key in [r"x-mcp-h\u0065ader", r"\u0078-mcp-header", r"x\u002dmcp\u002Dheader"] {
        let property = format!(r#"{{"type":"string","{key}":"V"}}"#);
        let mut client = Client::having_read(&[tool("a", &format!(r#""v":{property}"#))]);
        assert_eq!(client.header_of("a").as_deref(), Some("v"), "{key}");
        assert!(is_left_out(&of_property(&format!(r#"{{"type":"number","{key}":"V"}}"#))), "{key}");
        let described =
            format!(r#"{{"n\u0061me":"a","input\u0053chema":{{"p\u0072operties":{{"v":{property}}}}}}}"#);
        let mut client = Client::having_read(&[described]);
        assert_eq!(client.header_of("a").as_deref(), Some("v"), "{key}");
    }
}
