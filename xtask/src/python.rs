//! Programs and libraries of the Python Package Index, each version by its hash, in environments
//! below `target/tools`.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::packages;
use crate::process::{command, read, run};
use crate::tools;

/// Makes the environment `name` with these requirements, unless it is there. Returns the folder of
/// its programs.
pub(crate) fn environment(name: &str, requirements: &str) -> Result<PathBuf> {
    let folder = tools::folder().join(name);
    let programs = folder.join("bin");
    let installed = folder.join("requirements.txt");
    let is_there = fs::read_to_string(&installed).is_ok_and(|text| text == requirements);
    if is_there && programs.join("python").exists() {
        return Ok(programs);
    }
    if read(command("python3").args(["-c", "import ensurepip"])).is_err() {
        packages::install(&["python3-venv"])?;
    }
    println!("setup: installing from PyPI into {}", folder.display());
    let mut environment = command("python3");
    run(environment.args(["-m", "venv", "--clear"]).arg(&folder))?;
    // An interrupted installation leaves this file alone.
    let part = folder.join("requirements.part.txt");
    fs::write(&part, requirements)?;
    let mut pip = command(programs.join("python"));
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps"]);
    pip.args(["--only-binary=:all:", "--require-hashes", "-r"]);
    run(pip.arg(&part)).with_context(|| format!("{name} cannot be installed from PyPI"))?;
    fs::rename(&part, &installed)?;
    Ok(programs)
}
