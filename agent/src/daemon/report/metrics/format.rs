//! The two text formats of Prometheus, of which a request's `Accept` chooses one.

use hyper::HeaderMap;
use hyper::header::ACCEPT;
use std::fmt::Write as _;

/// How metrics are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `text/plain; version=0.0.4`, which every reader of metrics knows.
    Plain,
    /// [`OpenMetrics` 1.0](https://prometheus.io/docs/specs/om/open_metrics_spec/), for which
    /// Prometheus asks.
    OpenMetrics,
}

impl Format {
    /// The one that the request prefers, by RFC 9110 section 12.5.1; `Plain` if it has no
    /// preference, or accepts neither.
    pub fn accepted(headers: &HeaderMap) -> Self {
        let mut plain = 0.0_f32;
        let mut open_metrics = 0.0_f32;
        for value in headers.get_all(ACCEPT) {
            for range in value.to_str().unwrap_or_default().split(',') {
                let range = MediaRange::parse(range);
                let quality = match &*range.kind {
                    "application/openmetrics-text" if range.has_version("1.0.0") => {
                        &mut open_metrics
                    }
                    "text/plain" if range.has_version("0.0.4") => &mut plain,
                    "*/*" | "text/*" => &mut plain,
                    _ => continue,
                };
                *quality = quality.max(range.quality);
            }
        }
        if open_metrics > plain {
            Self::OpenMetrics
        } else {
            Self::Plain
        }
    }

    /// The value of `Content-Type`.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Puts text of `OpenMetrics` into this format.
    pub fn write(self, open_metrics: String) -> String {
        match self {
            Self::Plain => plain(&open_metrics),
            Self::OpenMetrics => open_metrics,
        }
    }
}

/// A part of `Accept`: a media type with its parameters.
struct MediaRange {
    kind: String,
    version: Option<String>,
    /// 0 to 1; 0 if it cannot be read.
    quality: f32,
}

impl MediaRange {
    fn parse(text: &str) -> Self {
        let mut parts = text.split(';').map(|part| part.trim().to_ascii_lowercase());
        let mut range = Self {
            kind: parts.next().unwrap_or_default(),
            version: None,
            quality: 1.0,
        };
        for part in parts {
            match part.split_once('=') {
                Some(("version", version)) => {
                    range.version = Some(version.trim_matches('"').to_owned());
                }
                Some(("q", quality)) => range.quality = quality.parse().unwrap_or(0.0),
                _ => {}
            }
        }
        range
    }

    /// True if it names this version, or none.
    fn has_version(&self, version: &str) -> bool {
        self.version.as_deref().is_none_or(|named| named == version)
    }
}

/// In the plain format a counter's HELP and TYPE have the name of its samples, with `_total`, and
/// there are no units and no end.
fn plain(open_metrics: &str) -> String {
    let mut out = String::with_capacity(open_metrics.len());
    let mut help = None;
    for line in open_metrics.lines() {
        if let Some(named) = line.strip_prefix("# HELP ") {
            help = named.split_once(' ');
        } else if let Some(named) = line.strip_prefix("# TYPE ") {
            let (name, kind) = named.split_once(' ').unwrap_or((named, "untyped"));
            let suffix = if kind == "counter" { "_total" } else { "" };
            let (_, text) = help.take().unwrap_or_default();
            let _ = writeln!(out, "# HELP {name}{suffix} {text}");
            let _ = writeln!(out, "# TYPE {name}{suffix} {kind}");
        } else if !line.starts_with('#') {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn accepted(accept: &[&'static str]) -> Format {
        let mut headers = HeaderMap::new();
        for value in accept {
            headers.append(ACCEPT, HeaderValue::from_static(value));
        }
        Format::accepted(&headers)
    }

    #[test]
    fn prometheus_gets_open_metrics_and_who_does_not_ask_for_it_the_plain_text() {
        // What Prometheus 2.42 and 3 send.
        let two = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                   text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let three = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                     application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,\
                     text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        let open_metrics: [&[&str]; 5] = [
            &[two],
            &[three],
            &["application/openmetrics-text"],
            &["Application/OpenMetrics-Text; Version=\"1.0.0\"; q=0.001"],
            &["text/plain;q=0.1", "application/openmetrics-text;q=0.2"],
        ];
        for accept in open_metrics {
            assert_eq!(accepted(accept), Format::OpenMetrics, "{accept:?}");
        }
        let plain: [&[&str]; 8] = [
            &[],
            &["*/*"],
            &["text/plain;version=0.0.4;q=1,*/*;q=0.1"],
            &["text/plain, application/openmetrics-text;q=0.9"],
            &["application/openmetrics-text;version=0.0.1"],
            &["application/openmetrics-text;q=0"],
            &["application/openmetrics-text;q=x"],
            &["text/html,application/xhtml+xml"],
        ];
        for accept in plain {
            assert_eq!(accepted(accept), Format::Plain, "{accept:?}");
        }
    }

    #[test]
    fn the_plain_text_names_a_counter_as_its_samples_and_has_neither_units_nor_an_end() {
        let text = "# HELP a_seconds Time.\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\na_seconds_total 2.0\n\
                    # HELP b Things.\n# TYPE b gauge\nb{c=\"# TYPE\"} 1\n# EOF\n";
        assert_eq!(
            Format::Plain.write(text.to_owned()),
            "# HELP a_seconds_total Time.\n# TYPE a_seconds_total counter\na_seconds_total 2.0\n\
             # HELP b Things.\n# TYPE b gauge\nb{c=\"# TYPE\"} 1\n"
        );
        assert_eq!(Format::OpenMetrics.write(text.to_owned()), text);
    }
}
