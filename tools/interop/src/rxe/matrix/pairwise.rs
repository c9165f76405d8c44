//! Chooses few cells such that every pair of values of two dimensions occurs in one of them.

use std::collections::BTreeSet;

use super::cell::Cell;

/// Two dimensions by number, each with its value as text.
type Pair = (usize, String, usize, String);

/// A deterministic selection of `cells` that has every pair of values which occurs in `cells`.
///
/// Greedy: again and again the first of those cells that add the most new pairs.
pub fn select(cells: &[Cell]) -> Vec<Cell> {
    let pairs: Vec<Vec<usize>> = number_pairs(cells);
    let mut missing: BTreeSet<usize> = pairs.iter().flatten().copied().collect();
    let mut chosen = Vec::new();
    while !missing.is_empty() {
        let gain =
            |index: &usize| pairs[*index].iter().filter(|pair| missing.contains(pair)).count();
        let best = (0..cells.len()).rev().max_by_key(gain);
        let Some(best) = best else { break };
        missing.retain(|pair| !pairs[best].contains(pair));
        chosen.push(cells[best]);
    }
    chosen.sort_unstable();
    chosen
}

fn number_pairs(cells: &[Cell]) -> Vec<Vec<usize>> {
    let mut numbers = std::collections::BTreeMap::new();
    let mut number = |pair: Pair| {
        let next = numbers.len();
        *numbers.entry(pair).or_insert(next)
    };
    cells.iter().map(|cell| pairs_of(cell).into_iter().map(&mut number).collect()).collect()
}

fn pairs_of(cell: &Cell) -> Vec<Pair> {
    let text = cell.to_string();
    let values: Vec<&str> = text.split('/').collect();
    let mut pairs = Vec::new();
    for first in 0..values.len() {
        for second in first + 1..values.len() {
            pairs.push((first, values[first].to_owned(), second, values[second].to_owned()));
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::super::exclude;
    use super::*;

    #[test]
    fn every_possible_pair_is_covered_by_few_cells() {
        let cells: Vec<Cell> =
            Cell::all().into_iter().filter(|cell| exclude::reason(cell).is_none()).collect();
        let chosen = select(&cells);
        let all: BTreeSet<Pair> = cells.iter().flat_map(pairs_of).collect();
        let covered: BTreeSet<Pair> = chosen.iter().flat_map(pairs_of).collect();
        assert_eq!(all, covered);
        assert!(chosen.len() < cells.len() / 10, "{} of {}", chosen.len(), cells.len());
        assert_eq!(chosen, select(&cells), "the selection must be the same every time");
    }
}
