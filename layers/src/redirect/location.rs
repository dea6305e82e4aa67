//! Where a redirect leads, and whether to go there.

use http::header::LOCATION;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, Method, StatusCode, Uri};

/// The URL at which the request is to be sent again; `None` if the answer is no redirect, or one that is not followed.
pub(super) fn next_hop(
    method: &Method,
    current: &Uri,
    status: StatusCode,
    headers: &HeaderMap,
) -> Option<Uri> {
    // RFC 9110 §15.4: 307 and 308 alone keep method and body. A GET keeps both under the others too.
    let keeps_method = match status.as_u16() {
        307 | 308 => true,
        301..=303 => *method == Method::GET,
        _ => false,
    };
    if !keeps_method {
        return None;
    }
    let target = resolve(current, headers.get(LOCATION)?.as_bytes())?;
    (same_origin(current, &target) || is_upgrade(current, &target)).then_some(target)
}

/// RFC 6454 §5: scheme, host and port.
fn same_origin(one: &Uri, other: &Uri) -> bool {
    one.scheme() == other.scheme() && same_host(one, other) && port(one) == port(other)
}

/// From `http` to `https` on the same host: what a server that wants TLS asks for.
fn is_upgrade(from: &Uri, to: &Uri) -> bool {
    from.scheme() == Some(&Scheme::HTTP)
        && to.scheme() == Some(&Scheme::HTTPS)
        && same_host(from, to)
        && (port(from), port(to)) == (Some(80), Some(443))
}

fn same_host(one: &Uri, other: &Uri) -> bool {
    matches!((one.host(), other.host()), (Some(one), Some(other)) if one.eq_ignore_ascii_case(other))
}

fn port(uri: &Uri) -> Option<u16> {
    uri.port_u16().or_else(|| match uri.scheme_str()? {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    })
}

/// Resolves a URI reference (RFC 3986 §5.2) against an absolute `base`. `None`: it is none, or it has userinfo, which
/// must not be sent (RFC 9110 §4.2.4).
fn resolve(base: &Uri, reference: &[u8]) -> Option<Uri> {
    let reference = std::str::from_utf8(reference).ok()?.split('#').next()?;
    let (scheme, authority) = (base.scheme()?, base.authority()?);
    if let Some(path) = reference.strip_prefix("//") {
        return absolute(&format!("{scheme}://{path}"));
    }
    if has_scheme(reference) {
        return absolute(reference);
    }
    let (path, query) = match reference.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (reference, None),
    };
    let (path, query) = match path {
        "" => (base.path().to_owned(), query.or(base.query())),
        _ if path.starts_with('/') => (without_dots(path), query),
        _ => {
            let parent = base.path().rsplit_once('/').map_or("", |(parent, _)| parent);
            (without_dots(&format!("{parent}/{path}")), query)
        }
    };
    let path = query.map_or(path.clone(), |query| format!("{path}?{query}"));
    build(scheme.clone(), authority.clone(), &path)
}

fn absolute(reference: &str) -> Option<Uri> {
    let uri: Uri = reference.parse().ok()?;
    // Nothing but a host and perhaps a port; one that is no port would pass for the default.
    let authority = uri.authority().filter(|authority| {
        let host = authority.host().len();
        authority.as_str().len() == host + authority.port().map_or(0, |port| 1 + port.as_str().len())
    })?;
    let path = match uri.query() {
        Some(query) => format!("{}?{query}", without_dots(uri.path())),
        None => without_dots(uri.path()),
    };
    build(uri.scheme()?.clone(), authority.clone(), &path)
}

fn build(scheme: Scheme, authority: Authority, path: &str) -> Option<Uri> {
    let path: PathAndQuery = path.parse().ok()?;
    Uri::builder().scheme(scheme).authority(authority).path_and_query(path).build().ok()
}

/// RFC 3986 §3.1. A colon in the path or the query ends no scheme.
fn has_scheme(reference: &str) -> bool {
    let end = reference.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)));
    end.is_some_and(|end| {
        end > 0
            && reference[end..].starts_with(':')
            && reference.starts_with(|c: char| c.is_ascii_alphabetic())
    })
}

/// RFC 3986 §5.2.4: takes `.` and `..` out of an absolute path.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/').skip(1) {
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            _ => kept.push(segment),
        }
    }
    let ends_in_directory = matches!(path.rsplit('/').next(), Some("." | ".."));
    let slash = if ends_in_directory && !kept.is_empty() { "/" } else { "" };
    format!("/{}{slash}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn hop(method: Method, from: &str, status: u16, location: &str) -> Option<String> {
        let headers = HeaderMap::from_iter([(LOCATION, HeaderValue::from_str(location).unwrap())]);
        let status = StatusCode::from_u16(status).unwrap();
        next_hop(&method, &from.parse().unwrap(), status, &headers).map(|uri| uri.to_string())
    }

    #[test]
    fn references_are_resolved() {
        // From RFC 3986 §5.4, where the base is http://a/b/c/d;p?q
        for (reference, target) in [
            ("http://a/g", Some("http://a/g")),
            ("g", Some("http://a/b/c/g")),
            ("./g", Some("http://a/b/c/g")),
            ("g/", Some("http://a/b/c/g/")),
            ("/g", Some("http://a/g")),
            ("//A/g", Some("http://A/g")),
            ("?y", Some("http://a/b/c/d;p?y")),
            ("g?y", Some("http://a/b/c/g?y")),
            ("g?y/./x", Some("http://a/b/c/g?y/./x")),
            ("#s", Some("http://a/b/c/d;p?q")),
            ("g#s", Some("http://a/b/c/g")),
            (";x", Some("http://a/b/c/;x")),
            ("g;x=1:2", Some("http://a/b/c/g;x=1:2")),
            ("", Some("http://a/b/c/d;p?q")),
            (".", Some("http://a/b/c/")),
            ("./", Some("http://a/b/c/")),
            ("..", Some("http://a/b/")),
            ("../g", Some("http://a/b/g")),
            ("../..", Some("http://a/")),
            ("../../../g", Some("http://a/g")),
            ("/./g/../h/.", Some("http://a/h/")),
            ("http://a/x/../y?z=..", Some("http://a/y?z=..")),
            ("mailto:x", None),
            ("http://a:99999/", None),
            ("a b", None),
        ] {
            assert_eq!(
                hop(Method::POST, "http://a/b/c/d;p?q", 308, reference).as_deref(),
                target,
                "{reference}"
            );
        }
    }

    #[test]
    fn only_the_same_origin_and_an_upgrade_are_followed() {
        for (from, to, followed) in [
            ("https://h/mcp", "https://h:443/mcp/", true),
            ("https://h/mcp", "https://H/mcp/", true),
            ("http://h/mcp", "https://h/mcp", true),
            ("http://h:80/mcp", "https://h:443/mcp", true),
            ("http://h:8000/mcp", "https://h/mcp", false),
            ("http://h/mcp", "https://h:8443/mcp", false),
            ("http://h/mcp", "https://other/mcp", false),
            ("https://h/mcp", "http://h/mcp", false),
            ("https://h/mcp", "https://h:444/mcp", false),
            ("https://h/mcp", "https://h.evil/mcp", false),
            ("https://h/mcp", "https://h@evil/mcp", false),
            ("https://h/mcp", "https://user:p@h/mcp", false),
            ("https://h/mcp", "//evil/mcp", false),
            ("https://h/mcp", "/\\evil/mcp", true),
            ("https://h/mcp", "https://h:99443/mcp", false),
        ] {
            assert_eq!(hop(Method::POST, from, 307, to).is_some(), followed, "{from} to {to}");
        }
    }

    #[test]
    fn the_method_never_changes() {
        for (status, post, get, delete) in [
            (300, false, false, false),
            (301, false, true, false),
            (302, false, true, false),
            (303, false, true, false),
            (304, false, false, false),
            (307, true, true, true),
            (308, true, true, true),
            (200, false, false, false),
        ] {
            for (method, followed) in [(Method::POST, post), (Method::GET, get), (Method::DELETE, delete)] {
                assert_eq!(
                    hop(method.clone(), "http://h/a", status, "/b").is_some(),
                    followed,
                    "{method} {status}"
                );
            }
        }
    }
}
