//! What a host would configure: who it is, what it can do, and how it answers what a server asks.

use mcp_streamable_http::{JsonRpcError, RawJson};
use serde_json::{Value, json};

use crate::schema;

/// Who this client says it is.
pub(crate) fn info() -> Value {
    json!({ "name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION") })
}

/// What a server may ask of it: to fill in forms.
pub(crate) fn capabilities() -> Value {
    json!({ "elicitation": {} })
}

/// The answer to what a server asks, be it by a request of its own (legacy era) or in the result of ours (modern era).
pub(crate) fn answer(method: &str, params: Option<&RawJson>) -> Result<Value, JsonRpcError> {
    let params: Value = params.map(RawJson::to).transpose().map_err(invalid)?.unwrap_or_default();
    match method {
        "ping" => Ok(json!({})),
        "elicitation/create" => elicit(&params),
        _ => Err(JsonRpcError::new(
            JsonRpcError::METHOD_NOT_FOUND,
            "this client declared no capability for this",
        )),
    }
}

/// Fills a form in as a user would who accepts what is proposed, and declines it where nothing is.
fn elicit(params: &Value) -> Result<Value, JsonRpcError> {
    if params["mode"].as_str().is_some_and(|mode| mode != "form") {
        return Err(invalid("this client fills in forms only"));
    }
    Ok(match schema::defaults(&params["requestedSchema"]) {
        Some(content) => json!({ "action": "accept", "content": content }),
        None => json!({ "action": "decline" }),
    })
}

fn invalid(reason: impl ToString) -> JsonRpcError {
    JsonRpcError::new(JsonRpcError::INVALID_PARAMS, reason.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(method: &str, params: Value) -> Result<Value, i64> {
        answer(method, Some(&params.into())).map_err(|error| error.code())
    }

    #[test]
    fn a_form_is_accepted_with_its_defaults() {
        let schema = json!({ "properties": { "name": { "type": "string", "default": "Jo" } } });
        let accepted = json!({ "action": "accept", "content": { "name": "Jo" } });
        assert_eq!(
            ask("elicitation/create", json!({ "requestedSchema": schema.clone() })),
            Ok(accepted.clone())
        );
        let named = json!({ "mode": "form", "requestedSchema": schema });
        assert_eq!(ask("elicitation/create", named), Ok(accepted));
    }

    #[test]
    fn a_form_that_needs_more_is_declined() {
        let schema = json!({ "properties": { "name": { "type": "string" } }, "required": ["name"] });
        let declined = json!({ "action": "decline" });
        assert_eq!(ask("elicitation/create", json!({ "requestedSchema": schema })), Ok(declined));
    }

    #[test]
    fn what_was_not_declared_is_refused() {
        assert_eq!(ask("elicitation/create", json!({ "mode": "url" })), Err(JsonRpcError::INVALID_PARAMS));
        assert_eq!(ask("sampling/createMessage", json!({})), Err(JsonRpcError::METHOD_NOT_FOUND));
    }

    #[test]
    fn a_ping_is_answered_with_or_without_params() {
        assert_eq!(ask("ping", json!({})), Ok(json!({})));
        assert_eq!(answer("ping", None), Ok(json!({})));
    }
}
