//! `cargo xtask VERB`: sets the machine up, builds, tests and shows epguard. One file per verb.

mod arch;
mod archive;
mod bench;
mod book;
mod build;
mod clients;
mod commit;
mod dependencies;
mod files;
mod image;
mod kernel;
mod lab;
mod ladder;
mod linker;
mod lint;
mod materials;
mod mutate;
mod packages;
mod pages;
mod paths;
mod place;
mod plugin;
mod process;
mod python;
mod release;
mod setup;
mod test;
mod toolchain;
mod tools;
mod watchdog;
mod workflows;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

/// Development tasks of epguard. Every verb first checks its tools.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Verb {
    /// Install what is missing: eBPF toolchain, bpf-linker, bpftool, nftables, iproute2
    Setup,
    /// Build the eBPF object, then the agent and the lab with the object inside
    Build(build::Args),
    /// Run every check and test (as root; --no-root for the part that needs none)
    Test(test::Args),
    /// Check format, links, workflows, scripts, clippy (host and eBPF), docs, and the licences,
    /// sources and advisories of dependencies
    Lint,
    /// Check the licences and sources of dependencies alone, or their advisories
    Dependencies(dependencies::Args),
    /// Check GitHub's workflows and the shell scripts alone
    Workflows,
    /// Build the pages of docs/ as a site with search, in target/book
    Book,
    /// Show the story of kubernetes #109414: observed, denied, observed again
    Demo(lab::Args),
    /// Run scenario files
    Scenario(lab::Args),
    /// Replay recorded watch streams and judge every denial
    Replay(lab::Args),
    /// Measure costs and delays, beside what else could be used
    Bench(bench::Args),
    /// Revert each fix in a copy, and expect its test to fail
    Mutate(mutate::Args),
    /// Make the container image: the agent alone, statically linked
    Image(image::Args),
    /// Make all files of a release: image, plugin, chart, bill of materials, licences, digests
    Release(release::Args),
    /// Run packets and stories on another kernel, in a virtual machine
    Kernel(kernel::Args),
}

fn main() -> ExitCode {
    match run(Verb::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(verb: Verb) -> Result<ExitCode> {
    match verb {
        Verb::Setup => setup::run(),
        Verb::Build(args) => build::run(&args),
        Verb::Test(args) => test::run(&args),
        Verb::Lint => lint::run(),
        Verb::Dependencies(args) => dependencies::run(&args),
        Verb::Workflows => workflows::run(),
        Verb::Book => book::run(),
        Verb::Demo(args) => lab::run("demo", &args),
        Verb::Scenario(args) => lab::run("scenario", &args),
        Verb::Replay(args) => lab::run("replay", &args),
        Verb::Bench(args) => bench::run(&args),
        Verb::Mutate(args) => mutate::run(&args),
        Verb::Image(args) => image::run(&args),
        Verb::Release(args) => release::run(&args),
        Verb::Kernel(args) => kernel::run(&args),
    }
}
