//! Every client on this transport against every server.

fn main() {}
