//! Tests that need more than one crate: golden captures, the table of rules, and the benchmark that
//! counts instructions. The library itself is empty; see `tests/` and `benches/` beside it.
#![forbid(unsafe_code)]
