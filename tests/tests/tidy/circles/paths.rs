//! Paths as sources have them: in `use`, in types and expressions, and in what is given to macros.

use proc_macro2::{TokenStream, TokenTree};
use syn::UseTree;

/// What one `use` brings in.
pub struct Import {
    /// The path as it stands there.
    pub path: Vec<String>,
    /// Its name here; `None`: all that there is.
    pub name: Option<String>,
}

/// Every path of a `use`.
pub fn imports(tree: &UseTree, before: &[String], found: &mut Vec<Import>) {
    let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
    match tree {
        UseTree::Path(path) => imports(&path.tree, &with(&path.ident), found),
        UseTree::Name(name) => found.push(named(with(&name.ident), None)),
        UseTree::Rename(rename) => {
            found.push(named(with(&rename.ident), Some(rename.rename.to_string())));
        }
        UseTree::Glob(_) => found.push(Import { path: before.to_vec(), name: None }),
        UseTree::Group(group) => {
            group.items.iter().for_each(|tree| imports(tree, before, found));
        }
    }
}

/// `self` at the end of a path is the path itself.
fn named(mut path: Vec<String>, name: Option<String>) -> Import {
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    let name = name.or_else(|| path.last().cloned());
    Import { path, name }
}

/// The segments of a path in code.
pub fn segments(path: &syn::Path) -> Vec<String> {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

/// Everything in the arguments of a macro that looks like a path.
pub fn in_tokens(tokens: TokenStream, found: &mut Vec<Vec<String>>) {
    let mut path: Vec<String> = vec![];
    let mut colons = 0;
    for token in tokens {
        match token {
            TokenTree::Ident(name) if colons == 2 => path.push(name.to_string()),
            TokenTree::Ident(name) => {
                end(&mut path, found);
                path.push(name.to_string());
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => {
                colons += 1;
                continue;
            }
            TokenTree::Group(group) => {
                end(&mut path, found);
                in_tokens(group.stream(), found);
            }
            _ => end(&mut path, found),
        }
        colons = 0;
    }
    end(&mut path, found);
}

fn end(path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    if !path.is_empty() {
        found.push(std::mem::take(path));
    }
}
