//! What the compiler and the C library add to a binary, with the texts of their licences.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::arch::Compiler;
use crate::process::{command, read};

/// A library that is no crate.
pub(super) struct Library {
    pub(super) name: String,
    pub(super) version: String,
    /// An SPDX expression.
    pub(super) license: &'static str,
    /// Its address in the form that scanners compare.
    pub(super) purl: String,
    /// The licence, with the holders of its copyright.
    pub(super) text: String,
}

/// The libraries that this compiler links into a binary.
pub(super) fn libraries(compiler: &Compiler) -> Result<Vec<Library>> {
    let std = std(compiler)?;
    let mut libraries = Vec::new();
    if compiler.triple.ends_with("-musl") {
        libraries.extend(musl(&std.version));
    } else if compiler.triple.ends_with("-windows-gnu") {
        libraries.extend(mingw(compiler)?);
    } else {
        libraries.extend(gnu(compiler)?);
    }
    libraries.insert(0, std);
    Ok(libraries)
}

/// `core`, which the eBPF object contains, of the compiler that builds the object.
pub(super) fn core(release: &str) -> Library {
    Library {
        name: "rust-core".to_owned(),
        version: release.to_owned(),
        license: "Apache-2.0 OR MIT",
        purl: format!("pkg:generic/rust-core@{release}"),
        text: "A part of Rust's standard library, with the same licences as rust-std.".to_owned(),
    }
}

/// Rust's standard library, with the crates inside of it.
pub(super) fn std(compiler: &Compiler) -> Result<Library> {
    let release = compiler.release()?;
    Ok(Library {
        name: "rust-std".to_owned(),
        license: "Apache-2.0 OR MIT",
        purl: format!("pkg:generic/rust-std@{release}"),
        text: std_licenses(&compiler.sysroot)?,
        version: release,
    })
}

/// The licences of the standard library, as rustup or Debian installs them.
fn std_licenses(sysroot: &Path) -> Result<String> {
    let folder = sysroot.join("share/doc");
    let page = folder.join("rust/COPYRIGHT-library.html");
    if page.exists() {
        return Ok(without_tags(&text(&page)?));
    }
    let debians = ["libstd-rust-web-dev/copyright", "libstd-rust-dev/copyright"];
    let found = debians.iter().find(|file| folder.join(file).exists());
    let found = found.with_context(|| {
        format!(
            "no licences of Rust's standard library below {}",
            folder.display()
        )
    })?;
    text(&folder.join(found))
}

/// musl and LLVM's unwinder, of which each release of Rust has its own copies.
fn musl(rust: &str) -> [Library; 2] {
    let library = |name: &str, license, text: &str| Library {
        name: name.to_owned(),
        version: format!("rust-{rust}"),
        license,
        purl: format!("pkg:generic/{name}@rust-{rust}"),
        text: text.to_owned(),
    };
    [
        library("musl", "MIT", include_str!("../../release/musl.txt")),
        library(
            "llvm-libunwind",
            "Apache-2.0 WITH LLVM-exception",
            include_str!("../../release/llvm-libunwind.txt"),
        ),
    ]
}

/// glibc and GCC's runtime, from the Debian packages whose files the compiler links.
fn gnu(compiler: &Compiler) -> Result<[Library; 2]> {
    Ok([
        packaged(compiler, "glibc", "libc.a", "LGPL-2.1-or-later")?,
        packaged(
            compiler,
            "libgcc",
            "libgcc.a",
            "GPL-3.0-or-later WITH GCC-exception-3.1",
        )?,
    ])
}

/// MinGW-w64's runtime and GCC's, in a program for Windows.
fn mingw(compiler: &Compiler) -> Result<[Library; 2]> {
    Ok([
        packaged(compiler, "mingw-w64", "libmingwex.a", "ZPL-2.1")?,
        packaged(
            compiler,
            "libgcc",
            "libgcc.a",
            "GPL-3.0-or-later WITH GCC-exception-3.1",
        )?,
    ])
}

/// What to link instead, where there is a choice.
fn instead(triple: &str) -> String {
    match triple.strip_suffix("-linux-gnu") {
        Some(machine) => format!(": run `rustup target add {machine}-linux-musl`"),
        None => String::new(),
    }
}

/// A library that a package of Debian has installed.
fn packaged(compiler: &Compiler, name: &str, file: &str, license: &'static str) -> Result<Library> {
    let mut cc = command(compiler.linker());
    let file = read(cc.arg(format!("--print-file-name={file}")))?;
    let file = fs::canonicalize(file.trim()).with_context(|| format!("no static {name}"))?;
    let owner = read(command("dpkg-query").arg("--search").arg(&file)).with_context(|| {
        format!(
            "the binary would contain {}, and no package of Debian tells its version and licence{}",
            file.display(),
            instead(&compiler.triple)
        )
    })?;
    // `libc6-dev:amd64: /usr/lib/x86_64-linux-gnu/libc.a`
    let (package, _) = owner
        .split_once(": ")
        .context("dpkg-query names no package")?;
    let version = ["--show", "--showformat=${Version}", package];
    let version = read(command("dpkg-query").args(version))?;
    let (package, _) = package.split_once(':').unwrap_or((package, ""));
    let folder = Path::new("/usr/share/doc").join(package);
    Ok(Library {
        name: name.to_owned(),
        license,
        purl: format!("pkg:deb/debian/{package}@{}", version.replace('+', "%2B")),
        text: text(&folder.join("copyright"))?,
        version,
    })
}

fn text(file: &Path) -> Result<String> {
    fs::read_to_string(file)
        .with_context(|| format!("cannot read the licences in {}", file.display()))
}

/// The text of a page: lines without tags and entities.
fn without_tags(page: &str) -> String {
    let mut text = String::new();
    let mut is_tag = false;
    for c in page.chars() {
        match c {
            '<' => is_tag = true,
            '>' => is_tag = false,
            c if !is_tag => text.push(c),
            _ => {}
        }
    }
    let text = text
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#34;", "\"")
        .replace("&#39;", "'")
        .replace("&amp;", "&");
    let lines = text.lines().map(str::trim_end);
    let mut kept: Vec<&str> = lines.collect();
    kept.dedup_by(|next, last| next.is_empty() && last.is_empty());
    kept.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Arch;

    #[test]
    fn this_machines_compiler_links_a_standard_library_and_a_c_library_with_their_licences() {
        let compiler = Compiler::ensure(Arch::host().unwrap()).unwrap();
        let libraries = libraries(&compiler).unwrap();
        let names: Vec<&str> = libraries.iter().map(|library| &*library.name).collect();
        if compiler.triple.ends_with("-musl") {
            assert_eq!(names, ["rust-std", "musl", "llvm-libunwind"]);
        } else {
            assert_eq!(names, ["rust-std", "glibc", "libgcc"]);
        }
        for Library {
            name,
            version,
            text,
            ..
        } in libraries
        {
            assert!(
                version.contains('.') && text.to_lowercase().contains("copyright"),
                "{name}"
            );
        }
    }

    #[test]
    fn a_page_becomes_text() {
        let page = "<p class='x'>A &lt;b&gt; &amp; c</p>\n\n\n<pre>d</pre>";
        assert_eq!(without_tags(page), "A <b> & c\n\nd");
    }
}
