//! Which cells are tried, and with which datapath.

use std::collections::BTreeMap;

use uroce_rxe_guest::faults::Fault;

use super::cell::{Cell, Family, Figure, Pingpong, Program, Role, Verb};
use super::datapath::Datapath;
use super::{MatrixArgs, exclude, pairwise};

/// What a run tries.
#[derive(Debug)]
pub struct Plan {
    /// Cells by datapath, in the order of trial.
    pub parts: Vec<(Datapath, Vec<Cell>)>,
    /// How many cells of each datapath were left out for which reason.
    pub excluded: BTreeMap<&'static str, usize>,
}

impl Plan {
    /// What the command line asks for.
    pub fn new(arguments: &MatrixArgs) -> Self {
        let (cells, excluded) = choose(arguments);
        let datapaths = match arguments.datapath.as_slice() {
            [] => &[Datapath::Udp],
            named => named,
        };
        let parts = datapaths.iter().map(|datapath| (*datapath, cells.clone())).collect();
        Self { parts, excluded }
    }

    /// What CI tries: the selection with the datapath that needs no privilege, a few cells with the others,
    /// cell by cell, because it takes seconds to set another fault up.
    pub fn for_ci() -> Self {
        let mut plan = Self::new(&MatrixArgs::default());
        let with_each = |cell| OTHERS.map(|datapath| (datapath, vec![cell]));
        plan.parts.extend(smoke().into_iter().flat_map(with_each));
        plan
    }

    /// How many cells it has in all.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|(_, cells)| cells.len()).sum()
    }
}

/// The other datapaths.
const OTHERS: [Datapath; 4] =
    [Datapath::Uring, Datapath::Packet, Datapath::Xdp, Datapath::XdpNative];

/// The cells to try, those of one fault behind each other, and how many were left out for which reason.
fn choose(arguments: &MatrixArgs) -> (Vec<Cell>, BTreeMap<&'static str, usize>) {
    let mut excluded = BTreeMap::new();
    let mut cells = Cell::all();
    cells.retain(|cell| match exclude::reason(cell) {
        None => true,
        Some(reason) => {
            *excluded.entry(reason).or_default() += 1;
            false
        }
    });
    if arguments.smoke {
        cells = smoke();
    } else if !arguments.full && arguments.share.is_none() && arguments.cell.is_empty() {
        cells = pairwise::select(&cells);
    }
    if let Some(share) = arguments.share {
        cells = share.of(&cells);
    }
    cells.retain(|cell| arguments.cell.iter().all(|text| cell.to_string().contains(text)));
    cells = cells.repeat(arguments.repeat.unwrap_or(1));
    cells.sort_by_key(|cell| cell.fault);
    (cells, excluded)
}

/// Six cells that together use RC and UD, both roles, both IP versions, every fault, packets of
/// the least and the largest size, and messages of many packets both ways.
fn smoke() -> Vec<Cell> {
    use Role::{Client, Server};
    let cell =
        |program, role, size, mtu, family, fault| Cell { program, role, size, mtu, family, fault };
    let write = Program::Perf(Verb::Write, Figure::Bw);
    let read = Program::Perf(Verb::Read, Figure::Bw);
    let add = Program::Perf(Verb::FetchAdd, Figure::Lat);
    let (ud, srq) = (Program::Pingpong(Pingpong::Ud), Program::Pingpong(Pingpong::Srq));
    vec![
        cell(Program::Rping, Client, 4096, 4096, Family::V6, Fault::None),
        cell(write, Client, 1 << 20, 4096, Family::V4, Fault::None),
        cell(srq, Server, 1, 256, Family::V4, Fault::Loss),
        cell(ud, Server, 4096, 4096, Family::V6, Fault::Reorder),
        cell(read, Server, 65536, 1024, Family::V6, Fault::Duplicate),
        cell(add, Client, 8, 4096, Family::V4, Fault::Corrupt),
    ]
}

/// Every `of`-th cell, beginning with number `number`, so that `of` runs try each cell once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    number: usize,
    of: usize,
}

impl Share {
    /// Its part of `cells`.
    fn of(self, cells: &[Cell]) -> Vec<Cell> {
        cells.iter().skip(self.number - 1).step_by(self.of).copied().collect()
    }
}

impl std::str::FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(number, of)| {
            let share = Self { number: number.parse().ok()?, of: of.parse().ok()? };
            (1..=share.of).contains(&share.number).then_some(share)
        });
        numbers.ok_or_else(|| "it is such as 1/4, the first of four shares".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_smoke_cells_are_possible_and_have_every_fault_role_and_ip_version() {
        let cells = smoke();
        assert!(cells.iter().all(|cell| exclude::reason(cell).is_none()));
        assert!(cells.is_sorted_by_key(|cell| cell.fault));
        let faults: BTreeSet<Fault> = cells.iter().map(|cell| cell.fault).collect();
        assert_eq!(faults.len(), Fault::ALL.len());
        let ends: BTreeSet<_> = cells.iter().map(|cell| (cell.role, cell.family)).collect();
        assert_eq!(ends.len(), 4);
    }

    #[test]
    fn ci_tries_every_datapath() {
        let plan = Plan::for_ci();
        let (datapath, selection) = &plan.parts[0];
        assert_eq!(*datapath, Datapath::Udp);
        assert!(selection.len() > 3 * smoke().len());
        for datapath in OTHERS {
            let its = plan.parts.iter().filter(|part| part.0 == datapath);
            let cells: Vec<Cell> = its.flat_map(|(_, cells)| cells.clone()).collect();
            assert_eq!(cells, smoke());
        }
        assert_eq!(plan.len(), selection.len() + OTHERS.len() * smoke().len());
    }

    #[test]
    fn all_shares_together_are_all_cells_once() {
        let cells = Cell::all();
        let mut together: Vec<Cell> =
            (1..=4).flat_map(|number| Share { number, of: 4 }.of(&cells)).collect();
        together.sort_unstable();
        assert_eq!(together, cells);
        assert_eq!("2/4".parse(), Ok(Share { number: 2, of: 4 }));
        for bad in ["0/4", "5/4", "1/0", "4", "a/b", ""] {
            assert!(bad.parse::<Share>().is_err(), "{bad}");
        }
    }
}
