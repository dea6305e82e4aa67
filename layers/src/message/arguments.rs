//! The arguments of a tool call that headers mirror.

use std::collections::HashMap;

use bytestring::ByteString;

use crate::raw_json::members;

/// The texts of the values at `paths` in `arguments`, none of them copied. Of a name that occurs twice the last counts.
pub(super) fn at(arguments: &ByteString, paths: &[&[Box<str>]]) -> Vec<Option<ByteString>> {
    let mut found = vec![None; paths.len()];
    if paths.iter().any(|path| path.len() > 1) {
        collect(arguments, paths.iter().enumerate().map(|(at, path)| (*path, at)).collect(), &mut found);
        return found;
    }
    let read = members(arguments, |name, value| {
        for (path, place) in paths.iter().zip(&mut found) {
            if path.first().is_some_and(|wanted| **wanted == *name) {
                *place = Some(arguments.slice_ref(value));
            }
        }
    });
    // What is no object has no members.
    if read.is_err() { vec![None; paths.len()] } else { found }
}

/// What is left of a path, and whose it is.
type Wanted<'p> = (&'p [Box<str>], usize);

/// Finds the values of all paths in one pass over each object on their way.
fn collect(object: &ByteString, wanted: Vec<Wanted<'_>>, found: &mut [Option<ByteString>]) {
    let mut groups: HashMap<&str, (Vec<Wanted<'_>>, Option<ByteString>)> = HashMap::new();
    for (path, at) in wanted {
        if let Some((name, rest)) = path.split_first() {
            groups.entry(name).or_default().0.push((rest, at));
        }
    }
    let _ = members(object, |name, value| {
        if let Some((_, text)) = groups.get_mut(name) {
            *text = Some(object.slice_ref(value));
        }
    });
    for (paths, text) in groups.into_values() {
        let Some(text) = text else { continue };
        let (here, deeper): (Vec<_>, Vec<_>) = paths.into_iter().partition(|(path, _)| path.is_empty());
        for (_, at) in here {
            if let Some(place) = found.get_mut(at) {
                *place = Some(text.clone());
            }
        }
        if !deeper.is_empty() {
            collect(&text, deeper, found);
        }
    }
}
