//! The commands, one module each.

pub mod analyze;
pub mod capture;
pub mod completions;
pub mod conform;
pub mod demo;
pub mod devices;
pub mod devinfo;
pub mod dissect;
pub mod doctor;
pub mod fault;
pub mod gids;
pub mod ladder;
pub mod man;
pub mod perf;
pub mod pingpong;
pub mod replay;
pub mod res;
pub mod rping;
pub mod run;
pub mod serve;
pub mod sim;
pub mod stat;
mod survey;
pub mod top;
pub mod view;
