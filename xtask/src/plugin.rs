//! kubectl's plugin for each platform, as it is shipped.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Result};

use crate::arch::{Arch, Compiler};
use crate::build;
use crate::image::target;
use crate::paths::renamed;
use crate::process::run;

/// An operating system and an architecture that the plugin is shipped for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Platform {
    Linux(Arch),
    Darwin(Arch),
    /// On amd64.
    Windows,
}

impl Platform {
    pub(crate) const ALL: [Self; 5] = [
        Self::Linux(Arch::Amd64),
        Self::Linux(Arch::Arm64),
        Self::Darwin(Arch::Amd64),
        Self::Darwin(Arch::Arm64),
        Self::Windows,
    ];

    /// As Go and Krew name it.
    pub(crate) fn os(self) -> &'static str {
        match self {
            Self::Linux(_) => "linux",
            Self::Darwin(_) => "darwin",
            Self::Windows => "windows",
        }
    }

    pub(crate) fn arch(self) -> Arch {
        match self {
            Self::Linux(arch) | Self::Darwin(arch) => arch,
            Self::Windows => Arch::Amd64,
        }
    }

    /// The compiler for it; none for macOS, for which only a Mac links.
    pub(crate) fn compiler(self) -> Result<Option<Compiler>> {
        match self {
            Self::Linux(arch) => Ok(Some(Compiler::ensure(arch)?)),
            Self::Windows => Ok(Some(Compiler::ensure_windows()?)),
            Self::Darwin(_) => Ok(None),
        }
    }

    /// The file name of the plugin there.
    pub(crate) fn binary(self) -> &'static str {
        match self {
            Self::Windows => "kubectl-epguard.exe",
            Self::Linux(_) | Self::Darwin(_) => "kubectl-epguard",
        }
    }
}

/// `linux-amd64`.
impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.os(), self.arch().name())
    }
}

impl FromStr for Platform {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = Self::ALL.into_iter();
        all.find(|platform| platform.to_string() == text)
            .ok_or_else(|| {
                format!(
                    "no platform; there are {}",
                    Self::ALL.map(|one| one.to_string()).join(", ")
                )
            })
    }
}

/// Builds the plugin. Errors: it is for macOS, which only a Mac links.
pub(crate) fn build(platform: Platform) -> Result<PathBuf> {
    let compiler = platform
        .compiler()?
        .with_context(|| format!("only a Mac links the plugin for {platform}"))?;
    let mut build = compiler.cargo("build", renamed(&[(&target(), "/target")]));
    build.args(["--profile", build::SHIPPED, "--package", "kubectl-epguard"]);
    run(build.arg("--target-dir").arg(target()))?;
    Ok(target()
        .join(compiler.triple)
        .join(build::SHIPPED)
        .join(platform.binary()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_platform_is_read_by_its_name_and_no_other_is() {
        for platform in Platform::ALL {
            assert_eq!(platform.to_string().parse(), Ok(platform));
        }
        assert!("windows-arm64".parse::<Platform>().is_err());
    }
}
