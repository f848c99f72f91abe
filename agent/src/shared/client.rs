//! The connection to the API server.

use anyhow::{Context, anyhow, ensure};
use hyper::header::{HeaderValue, USER_AGENT};
use kube::client::UpgradeConnectionError;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use std::env::consts::{ARCH, OS};
use std::env::split_paths;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest wait for a connection. A server that takes longer counts as unreachable; the next
/// attempt may reach another one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client from a kubeconfig file, or from the service account if there is none. A context chooses
/// a cluster of the file; without one, its current context does.
///
/// Nothing is sent yet: an API server that can't be reached shows as a watch that is down.
pub async fn client(kubeconfig: Option<&Path>, context: Option<&str>) -> anyhow::Result<Client> {
    let mut config = match kubeconfig {
        Some(paths) => from_files(paths, context).await?,
        None => Config::incluster().map_err(|error| {
            anyhow!("no cluster: {error}; run as a pod with a service account, or pass --kubeconfig FILE")
        })?,
    };
    config.headers.push((USER_AGENT, user_agent()?));
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // The watches wait and retry by themselves. Retries below them would multiply the load and hide
    // the refusal.
    config.default_retry = false;
    Client::try_from(config)
        .map_err(|error| anyhow!("cannot set up the API client: {}", first_line(&error)))
}

/// The file that kubectl would use: `$KUBECONFIG` is read by clap, then `~/.kube/config`. None: the
/// service account.
pub fn kubeconfig(given: Option<PathBuf>) -> Option<PathBuf> {
    given.or_else(|| {
        let home = std::env::home_dir()?.join(".kube/config");
        home.exists().then_some(home)
    })
}

/// The user agent in the form of Kubernetes' own programs: `epguard/0.1.0 (linux/amd64)`.
fn user_agent() -> anyhow::Result<HeaderValue> {
    let arch = match ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let agent = format!("epguard/{} ({OS}/{arch})", env!("CARGO_PKG_VERSION"));
    HeaderValue::try_from(agent).context("the version makes no User-Agent")
}

/// Reads a file, or several as `$KUBECONFIG` lists them. As for kubectl, the first file that sets a
/// value counts, and files that do not exist are skipped.
fn merged(paths: &Path) -> anyhow::Result<Kubeconfig> {
    let files: Vec<PathBuf> = split_paths(paths)
        .filter(|path| !path.as_os_str().is_empty())
        .collect();
    let there = files
        .iter()
        .filter(|path| files.len() == 1 || path.exists());
    let mut file = Kubeconfig::default();
    for path in there {
        file = Kubeconfig::read_from(path)
            .and_then(|next| file.merge(next))
            .map_err(|error| match error {
                KubeconfigError::ReadConfig(error, _) => anyhow!("cannot be read: {error}"),
                KubeconfigError::Parse(error) => {
                    anyhow!("is not valid YAML: {}", first_line(&error))
                }
                other => anyhow!("{}", first_line(&other)),
            })
            .with_context(|| format!("kubeconfig {}", path.display()))?;
    }
    Ok(file)
}

/// The token of the pod's own service account.
const OWN_TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// The device and the number of a file, which are the same under each of its names.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let file = path.metadata().ok()?;
    Some((file.dev(), file.ino()))
}

/// Whether a user of the kubeconfig has the `own` token, under any name: its server would get the
/// agent's rights.
fn uses(file: &Kubeconfig, own: &Path) -> bool {
    let users = file
        .auth_infos
        .iter()
        .filter_map(|user| user.auth_info.as_ref());
    let mut tokens = users.filter_map(|user| user.token_file.as_deref());
    let own = identity(own);
    own.is_some() && tokens.any(|token| identity(Path::new(token)) == own)
}

async fn from_files(paths: &Path, context: Option<&str>) -> anyhow::Result<Config> {
    let file = merged(paths)?;
    ensure!(
        !uses(&file, Path::new(OWN_TOKEN)),
        "kubeconfig {}: it has the token of this pod's service account, which goes to no server of a kubeconfig; leave \
         --kubeconfig out",
        paths.display()
    );
    let options = KubeConfigOptions {
        context: context.map(str::to_owned),
        ..KubeConfigOptions::default()
    };
    Config::from_custom_kubeconfig(file, &options)
        .await
        .map_err(|error| anyhow!("names no usable cluster: {}", first_line(&error)))
        .with_context(|| format!("kubeconfig {}", paths.display()))
}

/// The HTTP status of a failed request, 0 without one, and the cause in one line. The text of a
/// refusal is the API server's: kube adds the whole answer as a struct.
pub fn cause(error: kube::Error) -> (u16, String) {
    let (code, cause) = match error {
        kube::Error::Api(status) => (status.code, status.message),
        kube::Error::UpgradeConnection(UpgradeConnectionError::ProtocolSwitch(code)) => {
            (code.as_u16(), format!("the API server answers {code}"))
        }
        error => (0, anyhow::Error::from(error).root_cause().to_string()),
    };
    (code, one_line(&cause))
}

/// A text of another program, in one line.
pub fn one_line(text: &str) -> String {
    // rustls adds the address of its manual.
    let text = text.split(": https://").next().unwrap_or(text);
    text.trim().replace('\n', " ")
}

/// The first line of an error. YAML errors come with an excerpt of the file, which may hold
/// secrets.
fn first_line(error: &dyn std::fmt::Display) -> String {
    error
        .to_string()
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::tempdir;

    #[tokio::test]
    async fn a_kubeconfig_that_cannot_be_used_is_named_with_its_cause_in_one_line_without_its_content()
     {
        for (content, cause) in [
            (
                None,
                "/kc: cannot be read: No such file or directory (os error 2)",
            ),
            (
                Some("users:\n- name: a\n  user: {token: s3cret\n"),
                "is not valid YAML",
            ),
            (
                Some("apiVersion: v1\nkind: Config\n"),
                "names no usable cluster",
            ),
        ] {
            let folder = tempdir().unwrap();
            let path = folder.path().join("kc");
            if let Some(content) = content {
                std::fs::write(&path, content).unwrap();
            }
            let error = format!("{:#}", client(Some(&path), None).await.err().unwrap());
            assert!(
                error.starts_with("kubeconfig ") && error.contains(cause),
                "{error}"
            );
            assert!(
                !error.contains('\n') && !error.contains("s3cret"),
                "{error}"
            );
        }
    }

    #[tokio::test]
    async fn several_kubeconfigs_complete_each_other() {
        let folder = tempdir().unwrap();
        let [cluster, absent, user] =
            ["cluster", "absent", "user"].map(|name| folder.path().join(name));
        std::fs::write(
            &cluster,
            "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]",
        )
        .unwrap();
        let context = "contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x";
        std::fs::write(&user, format!("{context}\nusers: [{{name: u}}]")).unwrap();
        let list = std::env::join_paths([&cluster, &absent, &user]).unwrap();
        let (both, one) = (
            from_files(Path::new(&list), None).await,
            from_files(&user, None).await,
        );
        assert_eq!(both.unwrap().cluster_url, "http://127.0.0.1:1");
        assert!(one.is_err(), "its cluster stands in the other file");
    }

    #[test]
    fn the_service_accounts_token_is_known_under_every_name() {
        let folder = tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["own", "other"] {
            std::fs::write(path(name), "token").unwrap();
        }
        std::os::unix::fs::symlink(path("own"), path("link")).unwrap();
        let with = |name: &str| {
            let token = path(name).display().to_string();
            let text = format!(
                "users: [{{name: a, user: {{}}}}, {{name: u, user: {{tokenFile: '{token}'}}}}]"
            );
            uses(&Kubeconfig::from_yaml(&text).unwrap(), &path("own"))
        };
        assert_eq!(
            ["own", "link", "./own", "other", "none"].map(with),
            [true, true, true, false, false]
        );
        assert!(!uses(&Kubeconfig::default(), &path("own")));
    }
}
