//! Integration tests of `uroce`, as one program: each is linked once.

mod analyze;
mod capture;
mod cli;
mod common;
mod dissect;
mod doctor;
mod engines;
mod failed_runs;
mod fault_proxy;
mod live;
mod man;
mod meeting;
mod perf;
mod replay;
mod res;
mod rping;
mod sandbox;
mod sentences;
mod serve;
mod sim;
mod top;
mod view;
mod wire;
