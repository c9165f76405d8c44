//! Which module of a crate uses which.

use std::collections::{BTreeMap, BTreeSet};

/// The path of a module inside its crate.
pub type Module = Vec<String>;

/// The modules that each module uses, and what it says to name them.
#[derive(Default)]
pub struct Graph(BTreeMap<Module, BTreeMap<Module, BTreeSet<String>>>);

impl Graph {
    /// `from` uses `to`, as `name`. What is above or below in the tree of modules does not count.
    pub fn add(&mut self, from: &[String], to: &[String], name: String) {
        if !from.starts_with(to) && !to.starts_with(from) {
            let uses = self.0.entry(from.to_vec()).or_default();
            uses.entry(to.to_vec()).or_default().insert(name);
        }
    }

    /// What `from` uses, directly or by way of others.
    fn reached<'g>(&'g self, from: &'g Module) -> BTreeSet<&'g Module> {
        let mut reached = BTreeSet::new();
        let mut open = vec![from];
        while let Some(module) = open.pop() {
            let uses = self.0.get(module).into_iter().flat_map(BTreeMap::keys);
            open.extend(uses.filter(|module| reached.insert(*module)));
        }
        reached
    }

    /// The largest sets of modules of which each uses each other one in the end, the largest first.
    pub fn circles(&self) -> Vec<Vec<Module>> {
        let reached: BTreeMap<_, _> =
            self.0.keys().map(|from| (from, self.reached(from))).collect();
        let mut circles = BTreeSet::new();
        for (from, there) in &reached {
            let back = |to: &&&Module| reached.get(**to).is_some_and(|back| back.contains(from));
            let circle: Vec<Module> = there.iter().filter(back).map(|to| (*to).clone()).collect();
            if circle.len() > 1 {
                circles.insert(circle);
            }
        }
        let mut circles: Vec<_> = circles.into_iter().collect();
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        circles
    }

    /// The uses that make these circles, one a line.
    pub fn described(&self, circles: &[Vec<Module>]) -> String {
        let mut lines = String::new();
        for circle in circles {
            for from in circle {
                let uses = self.0[from].iter().filter(|(to, _)| circle.contains(to));
                for (to, names) in uses {
                    let names: Vec<_> = names.iter().map(String::as_str).collect();
                    lines += &format!(
                        "  {} -> {}: {}\n",
                        from.join("::"),
                        to.join("::"),
                        names.join(", ")
                    );
                }
            }
        }
        lines
    }
}
