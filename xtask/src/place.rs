//! Where the repository, its images, charts and files are published. `repository` in the
//! workspace's Cargo.toml decides; a test compares all other files with it.

use std::sync::LazyLock;

/// The version of this workspace.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The repository: `https://github.com/OWNER/epguard`.
pub(crate) const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// The name of the image, with its registry and without a version: `ghcr.io/OWNER/epguard`.
pub(crate) static IMAGE: LazyLock<String> =
    LazyLock::new(|| format!("ghcr.io/{}/epguard", owner(REPOSITORY)));

/// The owner of a repository, as registries want it: in lower case.
fn owner(repository: &str) -> String {
    let owner = repository.rsplit('/').nth(1).unwrap_or_default();
    owner.to_lowercase()
}

/// The folder of the files of this version's release.
pub(crate) fn downloads() -> String {
    format!("{REPOSITORY}/releases/download/v{VERSION}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_is_in_the_registry_of_the_repositorys_owner_in_lower_case() {
        assert_eq!(owner("https://github.com/Some-Org/epguard"), "some-org");
        assert!(IMAGE.starts_with("ghcr.io/") && IMAGE.ends_with("/epguard"));
    }
}
