//! What the answer to a `tools/list` says of headers.

use memchr::memmem;
use serde_json::Value;

use super::schema::ANNOTATION;
use super::tools::{InvalidTool, ToolHeaders};
use crate::error::Preview;
use crate::raw_json::{Scanner, text};
use crate::{Event, JsonRpcMessage, RawJson};

/// Learns from the page of a listing in `event`, the one at `cursor`, and takes the tools out of it whose annotations break
/// the rules.
pub(super) fn page(tools: &ToolHeaders, cursor: Option<&str>, mut event: Event) -> Event {
    let message = event.message.take();
    event.message = match message {
        Some(JsonRpcMessage::Response(response)) => {
            let filtered = response.outcome().ok().and_then(|result| read(tools, cursor, result));
            Some(JsonRpcMessage::Response(match filtered {
                Some(result) => response.with_result(result),
                None => response,
            }))
        }
        message => message,
    };
    event
}

/// Of a tool's definition, what matters here.
struct Tool<'t> {
    text: &'t str,
    name: Option<&'t str>,
    schema: Option<&'t str>,
}

/// Of a page of a listing, the same: found in one pass.
#[derive(Default)]
struct Page<'t> {
    tools: Vec<Tool<'t>>,
    next: Option<&'t str>,
}

impl<'t> Page<'t> {
    /// `None`: it has no list of tools.
    fn read(result: &'t str) -> Option<Self> {
        let (mut tools, mut next) = (None, None);
        let mut scanner = Scanner::new(result);
        scanner.space();
        scanner.object(|name, scanner| {
            match name {
                "tools" if scanner.peek() == Some(b'[') => tools = Some(Self::list(scanner)?),
                "nextCursor" => next = Some(scanner.value()?),
                _ => drop(scanner.value()?),
            }
            Some(())
        })?;
        Some(Self { tools: tools?, next })
    }

    fn list(scanner: &mut Scanner<'t>) -> Option<Vec<Tool<'t>>> {
        let mut tools = Vec::new();
        scanner.array(|scanner| {
            let start = scanner.here();
            let (mut name, mut schema) = (None, None);
            if scanner.peek() == Some(b'{') {
                scanner.object(|member, scanner| {
                    let value = scanner.value()?;
                    match member {
                        "name" => name = Some(value),
                        "inputSchema" => schema = Some(value),
                        _ => {}
                    }
                    Some(())
                })?;
            } else {
                scanner.value()?;
            }
            tools.push(Tool { text: scanner.since(start)?, name, schema });
            Some(())
        })?;
        Some(tools)
    }
}

/// Whether a result is the last page of a listing, and none of its tools has an annotation. To search for a few words is
/// much faster than to read all of it. If they occur elsewhere, or may be written with escapes, it is read.
fn is_plain(result: &str) -> bool {
    let has = |word: &str| memmem::find(result.as_bytes(), word.as_bytes()).is_some();
    ![ANNOTATION, "\\u", "nextCursor"].into_iter().any(has) && lists_tools(result)
}

/// Whether it has a list of tools, as far as the first member of that name tells.
fn lists_tools(result: &str) -> bool {
    let mut found = false;
    let mut scanner = Scanner::new(result);
    scanner.space();
    // Ends early, as what follows does not matter.
    let _ = scanner.object(|name, scanner| match name {
        "tools" => {
            found = scanner.peek() == Some(b'[');
            None
        }
        _ => scanner.value().map(drop),
    });
    found
}

/// Returns the result without the tools that are refused; `None`: all may stay, and it is left as it is.
fn read(tools: &ToolHeaders, cursor: Option<&str>, result: &RawJson) -> Option<RawJson> {
    if tools.is_empty() && is_plain(result.as_str()) {
        // There is nothing to note, to forget or to take out.
        tools.end_page(tools.begin_page(cursor), None);
        return None;
    }
    let page = Page::read(result.as_str())?;
    let listing = tools.begin_page(cursor);
    let keeps: Vec<bool> = page.tools.iter().map(|tool| keep(tools, tool, listing)).collect();
    tools.end_page(
        listing,
        page.next.and_then(|next| serde_json::from_str::<Option<String>>(next).ok().flatten()),
    );
    if keeps.iter().all(|keep| *keep) {
        return None;
    }
    let list: Vec<&str> = page.tools.iter().map(|tool| tool.text).collect();
    without(result.as_str(), &list, &keeps)
}

/// Whether a tool may stay.
fn keep(tools: &ToolHeaders, tool: &Tool<'_>, listing: Option<u64>) -> bool {
    let Some(name) = tool.name.and_then(text) else { return true };
    // Most tools have none. A key may be written with escapes.
    let schema = tool.schema.filter(|schema| schema.contains(ANNOTATION) || schema.contains("\\u"));
    let Some(schema) = schema else {
        tools.forget(&name);
        return true;
    };
    let noted = match serde_json::from_str::<Value>(schema) {
        Ok(schema) => tools.note(&name, &schema, listing.unwrap_or(0)),
        Err(error) => {
            // Its annotations cannot be told from broken ones.
            tools.forget(&name);
            Err(InvalidTool::unreadable(&error))
        }
    };
    match noted {
        Ok(()) => true,
        Err(reason) => {
            let (tool, reason) = (Preview::of(name.as_bytes()), Preview::of(reason.to_string().as_bytes()));
            tracing::warn!(%tool, %reason, "a tool is left out of the list, as its definition is invalid");
            false
        }
    }
}

/// The result without some of the tools in its `list`; all else is copied as it is.
fn without(text: &str, list: &[&str], keeps: &[bool]) -> Option<RawJson> {
    let at = |part: &str| (part.as_ptr() as usize).checked_sub(text.as_ptr() as usize);
    let (first, last) = (list.first()?, list.last()?);
    let mut filtered = String::with_capacity(text.len());
    filtered.push_str(text.get(..at(first)?)?);
    let mut is_empty = true;
    let mut end = at(first)?;
    for (tool, keep) in list.iter().zip(keeps) {
        let start = at(tool)?;
        if *keep {
            if !is_empty {
                // What stands between it and the tool before.
                filtered.push_str(text.get(end..start)?);
            }
            filtered.push_str(tool);
            is_empty = false;
        }
        end = start + tool.len();
    }
    filtered.push_str(text.get(at(last)? + last.len()..)?);
    RawJson::parse(filtered).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_without_annotations_is_not_read() {
        for (result, expected) in [
            (r#"{"tools":[]}"#, true),
            (r#" { "_meta" : {"tools": 1}, "tools" : [{"name":"x\n"}], "tools": 1 }"#, true),
            (r#"{"tools":[{"name":"x"}],"nextCursor":"2"}"#, false),
            (r#"{"tools":[{"name":"x","inputSchema":{"x-mcp-header":"X"}}]}"#, false),
            (r#"{"tools":[{"name":"\u0078"}]}"#, false),
            (r#"{"tools":{}}"#, false),
            (r#"{"_meta":{"tools":[]}}"#, false),
            (r"[]", false),
        ] {
            assert_eq!(is_plain(result), expected, "{result}");
        }
    }

    #[test]
    fn a_listing_without_annotations_ends_what_was_listed_before() {
        let tools = ToolHeaders::new();
        let plain = RawJson::parse(r#"{"tools":[{"name":"x","inputSchema":{}}]}"#).unwrap();
        assert!(read(&tools, None, &plain).is_none());
        assert_eq!(tools.completed_listings(), 1);
        assert!(read(&tools, Some("unknown"), &plain).is_none());
        assert_eq!(tools.completed_listings(), 1);

        let annotated = r#"{"tools":[{"name":"y","inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}}]}"#;
        assert!(read(&tools, None, &RawJson::parse(annotated).unwrap()).is_none());
        assert_eq!(tools.len(), 1);
        assert!(read(&tools, None, &plain).is_none());
        assert!(tools.is_empty());
        assert_eq!(tools.completed_listings(), 3);
    }
}
