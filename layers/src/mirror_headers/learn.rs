//! What the answer to a `tools/list` says of headers.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::schema::ANNOTATION;
use super::tools::{InvalidTool, ToolHeaders};
use crate::error::Preview;
use crate::raw_json::members;
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

/// Of a tool's description, what matters here.
#[derive(Default)]
struct Description<'t> {
    name: Option<String>,
    schema: Option<&'t str>,
}

/// Returns the result without the tools that are refused; `None`: all may stay, and it is left as it is.
fn read(tools: &ToolHeaders, cursor: Option<&str>, result: &RawJson) -> Option<RawJson> {
    let text = result.as_str();
    let (mut list, mut next) = (None, None);
    members(text, |name, value| match name {
        "tools" => list = Some(value),
        "nextCursor" => next = serde_json::from_str::<Option<String>>(value).ok().flatten(),
        _ => {}
    })
    .ok()?;
    let list: Vec<&RawValue> = Vec::deserialize(&mut serde_json::Deserializer::from_str(list?)).ok()?;
    let listing = tools.begin_page(cursor);
    let keeps: Vec<bool> = list.iter().map(|tool| keep(tools, tool, listing)).collect();
    tools.end_page(listing, next);
    if keeps.iter().all(|keep| *keep) { None } else { without(text, &list, &keeps) }
}

/// Whether a tool may stay.
fn keep(tools: &ToolHeaders, tool: &RawValue, listing: Option<u64>) -> bool {
    let mut found = Description::default();
    let read = members(tool.get(), |name, value| match name {
        "name" => found.name = serde_json::from_str(value).ok(),
        "inputSchema" => found.schema = Some(value),
        _ => {}
    });
    let (Ok(()), Description { name: Some(name), schema }) = (read, found) else { return true };
    // Most tools have none. A key may be written with escapes.
    let schema = schema.filter(|schema| schema.contains(ANNOTATION) || schema.contains("\\u"));
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
fn without(text: &str, list: &[&RawValue], keeps: &[bool]) -> Option<RawJson> {
    let at = |part: &RawValue| (part.get().as_ptr() as usize).checked_sub(text.as_ptr() as usize);
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
            filtered.push_str(tool.get());
            is_empty = false;
        }
        end = start + tool.get().len();
    }
    filtered.push_str(text.get(at(last)? + last.get().len()..)?);
    RawJson::parse(filtered).ok()
}
