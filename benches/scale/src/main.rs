//! How the transport scales.

fn main() {}
