//! What each module of a crate defines, brings in and names.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{Attribute, Item};

use super::graph::{Graph, Module};
use super::paths::{Import, imports, in_tokens, segments};
use crate::tree::{Package, attributes, defined_in, is_for_tests};

/// Re-exports of re-exports are followed so far.
const DEPTH: usize = 16;

/// A module, of a file or inside one.
#[derive(Default)]
struct Scope {
    /// The module that is the file.
    file: Module,
    /// What it defines.
    items: BTreeSet<String>,
    /// What it brings in, by its name here.
    imports: BTreeMap<String, Vec<String>>,
    /// Paths of which it brings in everything.
    globs: Vec<Vec<String>>,
    /// Those of the two that other modules see as well.
    reexports: BTreeSet<Vec<String>>,
    /// Paths that it names.
    named: BTreeSet<Vec<String>>,
}

/// All modules of a crate, by their paths.
#[derive(Default)]
pub struct Scopes(BTreeMap<Module, Scope>);

impl Scopes {
    /// Those of the production code of a package.
    pub fn of(package: &Package) -> Self {
        let production = package.sources.iter().filter(|source| !source.is_test);
        Self::read(production.map(|source| (source.module.as_slice(), &source.parsed)))
    }

    /// Those of these files, each with the module that it is.
    pub fn read<'s>(files: impl Iterator<Item = (&'s [String], &'s syn::File)>) -> Self {
        let mut reader = Reader { scopes: Self::default(), module: vec![], file: vec![] };
        for (module, file) in files {
            (reader.module, reader.file) = (module.to_vec(), module.to_vec());
            reader.scope();
            file.items.iter().for_each(|item| reader.visit_item(item));
        }
        reader.scopes
    }

    /// Who uses whom.
    pub fn graph(&self) -> Graph {
        let mut graph = Graph::default();
        for (module, scope) in &self.0 {
            let imported = scope.imports.values().chain(&scope.globs).chain(&scope.named);
            for path in imported {
                let path = self.absolute(module, path).or_else(|| self.by_glob(module, path));
                let found = path.as_ref().and_then(|path| self.file_of(path, 0));
                if let (Some(file), Some(path)) = (found, path) {
                    graph.add(&scope.file, &file, path.join("::"));
                }
            }
        }
        graph
    }

    /// The path from the root of the crate; `None` if it leads into another one.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([module, rest].concat()),
            "super" => {
                let mut above = module.to_vec();
                let supers = path.iter().take_while(|name| *name == "super").count();
                above.truncate(module.len().saturating_sub(supers));
                Some([&above, &path[supers..]].concat())
            }
            _ => {
                let own = [module, path].concat();
                let scope = &self.0[module];
                match scope.imports.get(first) {
                    // `use a::b; use b::c;`
                    Some(import) if import != path && import.first() != Some(first) => {
                        self.absolute(module, &[import, rest].concat())
                    }
                    _ if self.0.contains_key(&own[..=module.len()]) => Some(own),
                    _ if scope.items.contains(first) => Some(own),
                    _ => None,
                }
            }
        }
    }

    /// The path of what a `use ...::*` of this crate brings in under the first name of `path`.
    fn by_glob(&self, module: &[String], path: &[String]) -> Option<Vec<String>> {
        let (name, scope) = (path.first()?, &self.0[module]);
        if scope.items.contains(name) || scope.imports.contains_key(name) {
            return None;
        }
        let definition = self.find(module, name, &mut BTreeSet::new())?;
        Some([&definition, &path[1..]].concat())
    }

    /// The module of the file that defines what is at `path`.
    fn file_of(&self, path: &[String], depth: usize) -> Option<Module> {
        let modules =
            (0..=path.len()).rev().find(|length| self.0.contains_key(&path[..*length]))?;
        let (module, rest) = path.split_at(modules);
        let scope = &self.0[module];
        let here = Some(scope.file.clone());
        let Some((name, rest)) = rest.split_first() else { return here };
        if scope.items.contains(name) || depth == DEPTH {
            return here;
        }
        match self.find(module, name, &mut BTreeSet::new()) {
            Some(target) => self.file_of(&[&target, rest].concat(), depth + 1),
            None if scope.imports.contains_key(name) => None,
            None => here,
        }
    }

    /// The path under which `module` has `name`: its own, or what it brings in, also with everything of another module.
    fn find(
        &self,
        module: &[String],
        name: &str,
        seen: &mut BTreeSet<Module>,
    ) -> Option<Vec<String>> {
        let scope = self.0.get(module).filter(|_| seen.insert(module.to_vec()))?;
        if scope.items.contains(name) {
            return Some([module, &[name.to_owned()]].concat());
        }
        if let Some(import) = scope.imports.get(name) {
            return self.absolute(module, import);
        }
        scope.globs.iter().find_map(|glob| {
            let target = self.absolute(module, glob)?;
            self.shows(&target, module, name).then(|| self.find(&target, name, seen))?
        })
    }

    /// True unless `module` has `name` only by a `use` of its own, which `from` does not see.
    fn shows(&self, module: &[String], from: &[String], name: &str) -> bool {
        let Some(scope) = self.0.get(module) else { return false };
        let hidden = scope.imports.get(name).is_some_and(|path| !scope.reexports.contains(path));
        from.starts_with(module) || !hidden
    }
}

/// Goes through files.
struct Reader {
    scopes: Scopes,
    module: Module,
    file: Module,
}

impl Reader {
    fn scope(&mut self) -> &mut Scope {
        let scope = self.scopes.0.entry(self.module.clone()).or_default();
        scope.file.clone_from(&self.file);
        scope
    }

    fn import(&mut self, import: Import, is_public: bool) {
        if is_public {
            self.scope().reexports.insert(import.path.clone());
        }
        match import.name {
            Some(name) => drop(self.scope().imports.insert(name, import.path)),
            None => self.scope().globs.push(import.path),
        }
    }
}

/// The name of what an item defines.
fn name(item: &Item) -> Option<&syn::Ident> {
    match item {
        Item::Const(item) => Some(&item.ident),
        Item::Enum(item) => Some(&item.ident),
        Item::Fn(item) => Some(&item.sig.ident),
        Item::Macro(item) => item.ident.as_ref(),
        Item::Static(item) => Some(&item.ident),
        Item::Struct(item) => Some(&item.ident),
        Item::Trait(item) => Some(&item.ident),
        Item::Type(item) => Some(&item.ident),
        Item::Union(item) => Some(&item.ident),
        _ => None,
    }
}

impl<'s> Visit<'s> for Reader {
    fn visit_item(&mut self, item: &'s Item) {
        if is_for_tests(attributes(item)) {
            return;
        }
        if let Some(name) = name(item) {
            self.scope().items.insert(name.to_string());
        }
        if let Item::Macro(call) = item
            && call.ident.is_none()
        {
            let names = defined_in(&call.mac.tokens).into_iter().map(|(_, name)| name);
            self.scope().items.extend(names);
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, function: &'s syn::ImplItemFn) {
        if !is_for_tests(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_item_mod(&mut self, module: &'s syn::ItemMod) {
        let Some((_, items)) = &module.content else { return };
        self.module.push(module.ident.to_string());
        self.scope();
        items.iter().for_each(|item| self.visit_item(item));
        self.module.pop();
    }

    fn visit_item_use(&mut self, import: &'s syn::ItemUse) {
        let mut found = vec![];
        imports(&import.tree, &[], &mut found);
        let is_public = !matches!(import.vis, syn::Visibility::Inherited);
        found.into_iter().for_each(|import| self.import(import, is_public));
    }

    fn visit_path(&mut self, path: &'s syn::Path) {
        self.scope().named.insert(segments(path));
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'s syn::Macro) {
        let mut found = vec![];
        in_tokens(call.tokens.clone(), &mut found);
        self.scope().named.extend(found);
        visit::visit_macro(self, call);
    }

    fn visit_attribute(&mut self, _attribute: &'s Attribute) {}
}
