//! What a message failed with.

use std::fmt;

use http::StatusCode;
use mcp_streamable_http::Error;
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::{AuthRequiredError, InsufficientScopeError};

/// Why a message was not sent, or a request not answered: what [`ServiceError::TransportSend`] and
/// [`ClientInitializeError::TransportError`] hold.
///
/// If the server asked for other credentials, an [`AuthRequiredError`] (401) or an [`InsufficientScopeError`] (403) is in
/// its chain of sources, for `auth_challenge()` and `is_authorization_required()` of those two. It has every
/// `WWW-Authenticate` of the answer, joined by `", "` (RFC 9110 §5.3).
pub struct TransportError {
    error: Error,
    challenge: Option<Challenge>,
}

enum Challenge {
    AuthRequired(AuthRequiredError),
    InsufficientScope(InsufficientScopeError),
}

impl TransportError {
    pub(crate) fn new(error: impl Into<Error>) -> Self {
        let error = error.into();
        let challenge = Challenge::of(&error);
        Self { error, challenge }
    }

    /// The transport's own error, which knows the status, the `Retry-After`, and whether the request
    /// [may have run](Error::may_have_run).
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// The one that a call failed with, if it was the transport that failed.
    pub fn of_call(error: &ServiceError) -> Option<&Self> {
        match error {
            ServiceError::TransportSend(error) => Self::inside(error),
            _ => None,
        }
    }

    /// The one that starting failed with, if it was the transport that failed. A reply to `initialize` that has begun and fails
    /// then is [`ClientInitializeError::JsonRpcError`], of what [`Error::to_json_rpc`] makes of it.
    pub fn of_startup(error: &ClientInitializeError) -> Option<&Self> {
        match error {
            ClientInitializeError::TransportError { error, .. } => Self::inside(error),
            ClientInitializeError::LegacyFallbackFailed { fallback, .. } => Self::of_startup(fallback),
            _ => None,
        }
    }

    fn inside(error: &DynamicTransportError) -> Option<&Self> {
        error.error.downcast_ref()
    }
}

impl Challenge {
    fn of(error: &Error) -> Option<Self> {
        let texts: Vec<_> =
            error.challenges().iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        if texts.is_empty() {
            return None;
        }
        let header = texts.join(", ");
        match error.status()? {
            StatusCode::UNAUTHORIZED => Some(Self::AuthRequired(AuthRequiredError::new(header))),
            StatusCode::FORBIDDEN => {
                let scope = parameter(&header, "scope");
                Some(Self::InsufficientScope(InsufficientScopeError::new(header, scope)))
            }
            _ => None,
        }
    }
}

/// The first parameter of this name in a list of challenges (RFC 9110 §11.6.1). It need not be quoted, even where it must be:
/// scopes have colons.
fn parameter(challenges: &str, name: &str) -> Option<String> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    let parameters = challenges.split(|c: char| {
        is_quoted ^= c == '"' && !is_escaped;
        is_escaped = is_quoted && !is_escaped && c == '\\';
        !is_quoted && (c == ',' || c.is_ascii_whitespace())
    });
    let mut values = parameters.filter_map(|parameter| {
        let (found, value) = parameter.split_once('=')?;
        found.eq_ignore_ascii_case(name).then_some(value)
    });
    let value = values.next()?;
    match value.strip_prefix('"') {
        Some(quoted) => quoted.strip_suffix('"').map(|value| value.replace('\\', "")),
        None => (!value.is_empty()).then(|| value.to_owned()),
    }
}

/// Without the challenge.
impl fmt::Debug for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TransportError").field(&self.error).finish()
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for TransportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.challenge {
            Some(Challenge::AuthRequired(error)) => Some(error),
            Some(Challenge::InsufficientScope(error)) => Some(error),
            None => self.error.source(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_found_wherever_it_is() {
        for (challenges, scope) in [
            (
                r#"Bearer error="insufficient_scope", scope="files:read files:write""#,
                Some("files:read files:write"),
            ),
            ("Bearer scope=read:data, error=insufficient_scope", Some("read:data")),
            (r#"Basic realm="scope=no", Bearer SCOPE="a""#, Some("a")),
            (r#"Bearer realm="a \" scope=no", scope="b\"c""#, Some("b\"c")),
            (r#"Bearer scope="""#, Some("")),
            (r#"Bearer scope="open"#, None),
            ("Bearer scope=", None),
            (r#"Bearer telescope="far""#, None),
            ("Bearer", None),
            ("", None),
        ] {
            assert_eq!(parameter(challenges, "scope").as_deref(), scope, "{challenges}");
        }
    }
}
