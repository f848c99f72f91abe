//! Reads a crate's modules and the modules that each of them names. Tests are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree};

use super::Module;
use crate::files::read_all;

/// The paths that a crate's modules name.
#[derive(Default)]
pub(super) struct Crate {
    /// By module: every path in it that begins at the crate or at a module above.
    named: BTreeMap<Module, BTreeSet<Vec<String>>>,
    /// By module: the names that its `use` declarations bring into it, and their paths.
    brought: BTreeMap<Module, BTreeMap<String, Vec<String>>>,
    tests: BTreeSet<Module>,
}

impl Crate {
    /// Errors: a file cannot be read, or is no Rust.
    pub(super) fn read(folder: &str) -> Result<Self> {
        let mut read = Self::default();
        for file in read_all(folder, "rs")? {
            let module = module_of(Path::new(&file.name).strip_prefix(folder)?);
            read.add(module, &file.text)
                .with_context(|| format!("cannot parse {}", file.name))?;
        }
        Ok(read)
    }

    fn add(&mut self, module: Module, text: &str) -> Result<()> {
        self.named.entry(module.clone()).or_default();
        let mut reader = Reader { module, found: self };
        reader.visit_file(&syn::parse_file(text)?);
        Ok(())
    }

    /// Each pair of a module and another one that it needs.
    pub(super) fn arrows(&self) -> BTreeSet<(Module, Module)> {
        let product = |module: &Module| !self.tests.iter().any(|test| module.starts_with(test));
        let mut arrows = BTreeSet::new();
        for (from, paths) in self.named.iter().filter(|(module, _)| product(module)) {
            let needed = paths.iter().map(|path| self.home(path, 0));
            let needed = needed.filter(|to| to != from && product(to));
            arrows.extend(needed.map(|to| (from.clone(), to)));
        }
        arrows
    }

    /// The module that a path leads to, through re-exports.
    fn home(&self, path: &[String], depth: usize) -> Module {
        let mut lengths = (0..=path.len()).rev();
        let known = lengths.find(|length| self.named.contains_key(&path[..*length]));
        let known = known.unwrap_or_default();
        let module = path[..known].to_vec();
        let brought = path
            .get(known)
            .and_then(|name| self.brought.get(&module)?.get(name));
        match brought {
            // Names can be re-exported in a cycle only by mistake.
            Some(brought) if depth < 8 && brought != path => {
                let on = [brought.as_slice(), &path[known + 1..]].concat();
                self.home(&on, depth + 1)
            }
            _ => module,
        }
    }
}

/// `a/b.rs` and `a/b/mod.rs` are the module `a::b`.
fn module_of(file: &Path) -> Module {
    let mut module: Module = file
        .with_extension("")
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    let last = module.last().map(String::as_str);
    if matches!(last, Some("mod")) || (module.len() == 1 && matches!(last, Some("lib" | "main"))) {
        module.pop();
    }
    module
}

/// Adds the paths of one module to those of its crate.
struct Reader<'c> {
    module: Module,
    found: &'c mut Crate,
}

impl Reader<'_> {
    fn name(&mut self, path: Option<Vec<String>>) {
        let named = self.found.named.entry(self.module.clone());
        named.or_default().extend(path);
    }

    /// A path from the crate's root down; `None` if it leads out of the crate or begins at a local name.
    fn absolute(&self, path: &[String]) -> Option<Vec<String>> {
        let above = path.iter().take_while(|part| *part == "super").count();
        match path.first().map(String::as_str) {
            Some("crate") => Some(path[1..].to_vec()),
            Some("self") => Some([&self.module, &path[1..]].concat()),
            Some("super") => {
                let base = self.module.len().checked_sub(above)?;
                Some([&self.module[..base], &path[above..]].concat())
            }
            _ => None,
        }
    }

    /// Finds paths that begin at the crate or above in unparsed text.
    fn tokens(&mut self, text: &str) {
        let text = text.replace(" :: ", "::");
        for word in text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')) {
            let parts: Vec<String> = word.split("::").map(str::to_owned).collect();
            if parts.len() > 1 {
                self.name(self.absolute(&parts));
            }
        }
    }

    fn bring(&mut self, before: &mut Vec<String>, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.bring(before, &path.tree);
                before.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.bring(before, tree)),
            UseTree::Name(name) => self.one(before, &name.ident.to_string(), &name.ident.to_string()),
            UseTree::Rename(name) => self.one(before, &name.ident.to_string(), &name.rename.to_string()),
            UseTree::Glob(_) => self.name(self.absolute(before)),
        }
    }

    fn one(&mut self, before: &[String], name: &str, as_name: &str) {
        let mut path = before.to_vec();
        if name != "self" {
            path.push(name.to_owned());
        }
        // `use child::Name`, as a module's door has it.
        let relative = || Some([&self.module, path.as_slice()].concat()).filter(|_| before.len() == 1);
        let absolute = self.absolute(&path);
        let brought = absolute.clone().or_else(relative);
        self.name(absolute);
        let names = self.found.brought.entry(self.module.clone()).or_default();
        names.extend(brought.map(|path| (as_name.to_owned(), path)));
    }
}

impl<'a> Visit<'a> for Reader<'_> {
    fn visit_item(&mut self, item: &'a Item) {
        match item {
            Item::Mod(inner) if is_test(&inner.attrs) => {
                let name = inner.ident.to_string();
                self.found
                    .tests
                    .insert([self.module.as_slice(), &[name]].concat());
            }
            Item::Use(used) if !is_test(&used.attrs) => self.bring(&mut Vec::new(), &used.tree),
            Item::Use(_) => {}
            Item::Fn(function) if is_test(&function.attrs) => {}
            Item::Impl(block) if is_test(&block.attrs) => {}
            item => visit::visit_item(self, item),
        }
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        self.name(self.absolute(&parts));
        visit::visit_path(self, path);
    }

    /// Paths in the tokens of a macro's call: `crate :: a :: b`.
    fn visit_macro(&mut self, called: &'a syn::Macro) {
        self.tokens(&called.tokens.to_string());
        visit::visit_macro(self, called);
    }

    /// Paths in an attribute, as in `#[arg(value_parser = crate::a::b)]`.
    fn visit_attribute(&mut self, attribute: &'a Attribute) {
        if let syn::Meta::List(list) = &attribute.meta {
            self.tokens(&list.tokens.to_string());
        }
    }

    /// `pub(super)` names a module without needing it.
    fn visit_visibility(&mut self, _: &'a syn::Visibility) {}
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Path>()
                .is_ok_and(|cfg| cfg.is_ident("test"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrows(files: &[(&str, &str)]) -> Vec<String> {
        let mut read = Crate::default();
        for (file, text) in files {
            read.add(module_of(Path::new(file)), text).unwrap();
        }
        let arrows = read.arrows().into_iter();
        arrows
            .map(|(from, to)| format!("{} -> {}", from.join("::"), to.join("::")))
            .collect()
    }

    #[test]
    fn a_re_exported_name_leads_to_the_module_that_defines_it() {
        let files = [
            ("lib.rs", "pub mod a; mod b;"),
            ("a/mod.rs", "mod deep; pub use deep::Thing;"),
            ("a/deep.rs", "pub struct Thing;"),
            (
                "b.rs",
                "use crate::a::Thing; fn f() { let _ = super::a::deep::Thing; }",
            ),
        ];
        assert_eq!(arrows(&files), ["b -> a::deep"]);
    }

    #[test]
    fn paths_in_macros_and_attributes_count() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "fn f() { println!(\"{}\", crate::b::x()); }"),
            ("b.rs", "#[arg(value_parser = crate::c::y)] struct S;"),
            ("c.rs", ""),
        ];
        assert_eq!(arrows(&files), ["a -> b", "b -> c"]);
    }

    #[test]
    fn dependencies_of_test_code_do_not_count() {
        let files = [
            ("lib.rs", "mod a; #[cfg(test)] mod fuzz;"),
            (
                "a.rs",
                "#[cfg(test)] mod tests { use crate::fuzz::x; } #[cfg(test)] use crate::fuzz;",
            ),
            ("fuzz.rs", "use crate::a::y;"),
        ];
        assert_eq!(arrows(&files), Vec::<String>::new());
    }
}
