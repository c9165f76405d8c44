//! The best figures that baselines have shown on a machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How much of its best a baseline must reach.
const NEAR: f64 = 0.8;

/// Which of two figures is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Of rates.
    More,
    /// Of times and costs.
    Less,
}

/// The best figures, by the name that [`Series::place_key`](crate::record::Series::place_key) gives.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Best(BTreeMap<String, f64>);

impl Best {
    /// Takes over what is better than all before.
    pub fn learn(&mut self, key: String, value: f64, better: Better) {
        let known = self.0.entry(key).or_insert(value);
        *known = match better {
            Better::More => known.max(value),
            Better::Less => known.min(value),
        };
    }

    /// The best so far.
    pub fn of(&self, key: &str) -> Option<f64> {
        self.0.get(key).copied()
    }

    /// Whether a figure comes near the best; true where none is known.
    pub fn is_near(&self, key: &str, value: f64, better: Better) -> bool {
        self.of(key).is_none_or(|best| match better {
            Better::More => value >= best * NEAR,
            Better::Less => value <= best / NEAR,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn for_a_time_the_least_is_the_best_and_for_a_rate_the_most() {
        for (better, best, near) in
            [(Better::Less, 4.0, [true, true, false]), (Better::More, 5.1, [true, false, true])]
        {
            let figures = [5.0, 4.0, 5.1];
            let mut known = Best::default();
            for figure in figures {
                known.learn("key".to_owned(), figure, better);
            }
            assert_eq!((known.of("key"), known.of("other")), (Some(best), None));
            assert_eq!(figures.map(|figure| known.is_near("key", figure, better)), near);
        }
    }
}
