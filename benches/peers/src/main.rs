//! This transport and its peers at the same work.

fn main() {}
