//! The connection to the API server.

use super::args::ClusterArgs;
use super::output::after;
use super::proxy::{self, ProxyVariables};
use anyhow::{Context, anyhow, ensure};
use hyper::header::{HeaderValue, USER_AGENT};
use kube::client::{AuthError, UpgradeConnectionError};
use kube::config::{ExecConfig, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use same_file::is_same_file;
use std::env::consts::{ARCH, OS};
use std::env::split_paths;
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::error::Elapsed;

/// Longest wait for a connection. A server that takes longer counts as unreachable; the next
/// attempt may reach another one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// An API server, as an operator's flags choose it.
#[derive(Clone)]
pub struct ApiServer {
    /// A client of it.
    pub client: Client,
    /// Its URL, and where that comes from, for errors.
    pub name: String,
}

impl ApiServer {
    /// Reads the kubeconfig, and runs its credential plugin if it has one. Nothing is sent yet.
    /// Errors name the file, the context, the server or the credential plugin, and the remedy.
    pub async fn connect(args: &ClusterArgs) -> anyhow::Result<Self> {
        ensure!(
            args.as_groups.is_empty() || args.as_user.is_some(),
            "--as-group needs a user, too: pass --as USER"
        );
        let kubeconfig = args.kubeconfig.clone().or_else(own_kubeconfig);
        let (mut config, origin) = match &kubeconfig {
            Some(paths) => from_files(paths, args.context.as_deref()).await?,
            None => (in_cluster()?, "the pod's service account".to_owned()),
        };
        if let Some(user) = &args.as_user {
            config.auth_info.impersonate = Some(user.clone());
            config.auth_info.impersonate_groups = Some(args.as_groups.clone());
        }
        let longest = args.timeout.unwrap_or(CONNECT_TIMEOUT);
        config.connect_timeout = Some(longest.min(CONNECT_TIMEOUT));
        let through = after(
            ", through proxy ",
            config.proxy_url.as_ref().map(proxy::name),
        );
        let name = format!("API server {} ({origin}{through})", config.cluster_url);
        let client = build(config).with_context(|| name.clone())?;
        Ok(Self { client, name })
    }
}

/// A client from a kubeconfig file, or from the service account if there is none.
///
/// Nothing is sent yet: an API server that can't be reached shows as a watch that is down.
pub async fn client(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    let config = match kubeconfig {
        Some(paths) => from_files(paths, None).await?.0,
        None => in_cluster()?,
    };
    build(config)
}

fn in_cluster() -> anyhow::Result<Config> {
    Config::incluster().map_err(|error| {
        anyhow!(
            "no cluster: there is no kubeconfig, and this is no pod with a service account ({error}); pass \
             --kubeconfig FILE, or set KUBECONFIG"
        )
    })
}

fn build(mut config: Config) -> anyhow::Result<Client> {
    config.headers.push((USER_AGENT, user_agent()?));
    config.connect_timeout = config.connect_timeout.or(Some(CONNECT_TIMEOUT));
    // The watches wait and retry by themselves. Retries below them would multiply the load and hide
    // the refusal.
    config.default_retry = false;
    let plugin = config.auth_info.exec.clone();
    Client::try_from(config).map_err(|error| match (error, plugin) {
        (kube::Error::Auth(error), Some(plugin)) => anyhow!(without_credentials(&plugin, &error)),
        (error, _) => anyhow!("cannot set up the API client: {}", first_line(&error)),
    })
}

/// Why the credential plugin of a kubeconfig gives none, and the remedy. Its standard output may be
/// a credential, and is left out.
fn without_credentials(plugin: &ExecConfig, error: &AuthError) -> String {
    let command = plugin.command.as_deref().unwrap_or("without a name");
    match error {
        AuthError::AuthExecStart(cause) => {
            let hint = plugin.install_hint.as_deref().map(one_line);
            format!(
                "cannot start the credential plugin {command}: {cause}; install it, or add its folder to PATH{}",
                after(": ", hint)
            )
        }
        AuthError::AuthExecRun { out, .. } => {
            let said = String::from_utf8_lossy(&out.stderr);
            let last = said.trim().lines().next_back().map(one_line);
            format!(
                "the credential plugin {command} failed ({}{}); log in again, or run it by hand",
                out.status,
                after(": ", last)
            )
        }
        other => format!(
            "the credential plugin {command} gives no credentials: {}",
            first_line(other)
        ),
    }
}

/// The file that kubectl would use if `$KUBECONFIG` is not set, which clap reads.
fn own_kubeconfig() -> Option<PathBuf> {
    let own = std::env::home_dir()?.join(".kube/config");
    own.exists().then_some(own)
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

/// Whether a user of the kubeconfig has the `own` token, under any name: its server would get the
/// agent's rights.
fn uses(file: &Kubeconfig, own: &Path) -> bool {
    let users = file
        .auth_infos
        .iter()
        .filter_map(|user| user.auth_info.as_ref());
    let mut tokens = users.filter_map(|user| user.token_file.as_deref());
    tokens.any(|token| is_same_file(token, own).unwrap_or(false))
}

/// The configuration for a context, and where it comes from, in words.
async fn from_files(paths: &Path, context: Option<&str>) -> anyhow::Result<(Config, String)> {
    let file = merged(paths)?;
    let shown = paths.display();
    ensure!(
        !uses(&file, Path::new(OWN_TOKEN)),
        "kubeconfig {shown}: it has the token of this pod's service account, which goes to no server of a kubeconfig; \
         leave --kubeconfig out"
    );
    let chosen = context.or(file.current_context.as_deref());
    let origin = format!("kubeconfig {shown}{}", after(", context ", chosen));
    let own_proxy = proxy::of_context(&file, chosen);
    let options = KubeConfigOptions {
        context: context.map(str::to_owned),
        ..KubeConfigOptions::default()
    };
    let mut config = Config::from_custom_kubeconfig(file, &options)
        .await
        .map_err(|error| match error {
            KubeconfigError::ParseNoProxy(cause) => anyhow!(
                "NO_PROXY: {cause}; write names, IPs and ranges with one comma between two of them, and none at its end"
            ),
            // Its text has the URL, which may have a password.
            KubeconfigError::ParseProxyUrl(_) => {
                anyhow!("HTTPS_PROXY, or proxy-url of the kubeconfig, is no URL of a proxy")
            }
            other => anyhow!(
                "names no usable cluster: {}; see kubectl config get-contexts",
                first_line(&other)
            ),
        })
        .with_context(|| origin.clone())?;
    config.proxy_url = proxy::choose(&config.cluster_url, own_proxy, &ProxyVariables::from_env())?;
    Ok((config, origin))
}

/// The HTTP status of a failed request, 0 without one, and the cause in one line. The text of a
/// refusal is the API server's: kube adds the whole answer as a struct.
pub fn cause(error: kube::Error) -> (u16, String) {
    let (code, cause) = match error {
        kube::Error::Api(status) => (status.code, status.message),
        kube::Error::UpgradeConnection(UpgradeConnectionError::ProtocolSwitch(code)) => {
            (code.as_u16(), format!("the API server answers {code}"))
        }
        error => (0, cause_without_answer(&error.into())),
    };
    (code, one_line(&cause))
}

/// Why there was no answer at all.
fn cause_without_answer(error: &anyhow::Error) -> String {
    let is_late = |cause: &(dyn Error + 'static)| {
        let io = cause.downcast_ref::<io::Error>();
        cause.is::<Elapsed>() || io.is_some_and(|io| io.kind() == io::ErrorKind::TimedOut)
    };
    if error.chain().any(is_late) {
        return "no connection in time".to_owned();
    }
    error.root_cause().to_string()
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
    use std::io::Read as _;
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
            let error = format!("{:#}", client(Some(&path)).await.err().unwrap());
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
        let (config, origin) = both.unwrap();
        assert_eq!(config.cluster_url, "http://127.0.0.1:1");
        assert!(origin.ends_with(", context x"), "{origin}");
        assert!(one.is_err(), "its cluster stands in the other file");
    }

    /// A kubeconfig with one user, in a folder of its own.
    fn kubeconfig(folder: &Path, server: &str, user: &str) -> ClusterArgs {
        let path = folder.join("config");
        let text = format!(
            "clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n\
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n\
             users: [{{name: u, user: {user}}}]"
        );
        std::fs::write(&path, text).unwrap();
        ClusterArgs {
            kubeconfig: Some(path),
            ..ClusterArgs::default()
        }
    }

    #[tokio::test]
    async fn a_credential_plugin_that_gives_none_is_named_with_its_server_and_the_remedy() {
        let folder = tempdir().unwrap();
        let exec = |command: &str| {
            format!(
                "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: '{command}', \
                 interactiveMode: Never, installHint: see the manual}}}}"
            )
        };
        for (command, words) in [
            (
                "no-such-plugin",
                "cannot start the credential plugin no-such-plugin: No such file or directory (os error 2); \
                 install it, or add its folder to PATH: see the manual",
            ),
            (
                "false",
                "the credential plugin false failed (exit status: 1); log in again, or run it by hand",
            ),
        ] {
            let args = kubeconfig(folder.path(), "https://api.example:6443", &exec(command));
            let error = format!("{:#}", ApiServer::connect(&args).await.err().unwrap());
            let start = "API server https://api.example:6443/ (kubeconfig ";
            assert!(error.starts_with(start), "{error}");
            assert!(error.contains("/config, context x): "), "{error}");
            assert!(error.ends_with(words), "{error}");
        }
    }

    #[tokio::test]
    async fn requests_act_as_another_user_and_its_groups() {
        let folder = tempdir().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let head = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = vec![0; 4096];
            let read = stream.read(&mut head).unwrap();
            String::from_utf8_lossy(&head[..read]).to_lowercase()
        });
        let args = ClusterArgs {
            as_user: Some("jane".into()),
            as_groups: vec!["dev".into(), "ops".into()],
            ..kubeconfig(folder.path(), &server, "{}")
        };
        let server = ApiServer::connect(&args).await.unwrap();
        // The test answers nothing.
        let _ = server.client.apiserver_version().await;
        let head = head.join().unwrap();
        for header in [
            "impersonate-user: jane\r\n",
            "impersonate-group: dev\r\n",
            "impersonate-group: ops\r\n",
        ] {
            assert!(head.contains(header), "{head}");
        }
        let alone = ClusterArgs {
            as_user: None,
            ..args
        };
        let error = ApiServer::connect(&alone).await.err().unwrap().to_string();
        assert!(error.contains("pass --as USER"), "{error}");
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
