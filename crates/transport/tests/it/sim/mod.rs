//! The random simulation: a plan drawn from a seed, its reference model, faults and checkers.

pub mod faults;
pub mod plan;
pub mod rng;
pub mod walk;
