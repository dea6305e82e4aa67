//! The client that the official conformance suite judges.

fn main() {}
