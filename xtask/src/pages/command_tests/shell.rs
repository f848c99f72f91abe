//! Shell lines cut into simple commands, as far as the pages use a shell.

/// The words of each simple command, substitutions first, without comments, assignments, redirections and keywords.
pub(super) fn commands(script: &str) -> Vec<Vec<String>> {
    let mut reader = Reader::default();
    let mut chars = script.chars().peekable();
    while let Some(c) = chars.next() {
        match (reader.quote, c) {
            (Some(quote), c) if c == quote => reader.quote = None,
            (None, '\'' | '"') => {
                reader.quote = Some(c);
                reader.in_word = true;
            }
            (None, '\\') if chars.peek() == Some(&'\n') => drop(chars.next()),
            (None, '#') if !reader.in_word => while chars.next_if(|c| *c != '\n').is_some() {},
            (None | Some('"'), '$') if chars.peek() == Some(&'(') => {
                chars.next();
                let inner = substitution(&mut chars);
                reader.done.extend(commands(&inner));
                reader.push_str("$SUBSTITUTED");
            }
            (None, ' ') => reader.end_word(),
            (None, '|' | ';' | '&' | '\n') => reader.end_command(),
            (_, c) => reader.push_str(c.encode_utf8(&mut [0; 4])),
        }
    }
    reader.end_command();
    reader.done
}

/// Reads up to the closing parenthesis.
fn substitution(chars: &mut impl Iterator<Item = char>) -> String {
    let mut depth = 1;
    let inside = chars.take_while(|c| {
        depth += match c {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        depth > 0
    });
    inside.collect()
}

#[derive(Default)]
struct Reader {
    quote: Option<char>,
    in_word: bool,
    word: String,
    words: Vec<String>,
    done: Vec<Vec<String>>,
}

impl Reader {
    fn push_str(&mut self, text: &str) {
        self.in_word = true;
        self.word.push_str(text);
    }

    fn end_word(&mut self) {
        let word = std::mem::take(&mut self.word);
        if !std::mem::take(&mut self.in_word) {
            return;
        }
        let is_redirected = self.words.last().is_some_and(|last| last == ">");
        let is_first = self.words.is_empty();
        if is_redirected {
            self.words.pop();
        } else if !(is_first && (is_assignment(&word) || ["do", "done"].contains(&&*word))) {
            self.words.push(word);
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        let words = std::mem::take(&mut self.words);
        if words.first().is_some_and(|first| first != "for") {
            self.done.push(words);
        }
    }
}

fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
}

/// A synopsis with and without the parts in square brackets; once if it has none.
pub(super) fn variants(words: &[String]) -> Vec<Vec<String>> {
    let mut depth = 0_u32;
    let outside = |word: &String| {
        let mut kept = String::new();
        for c in word.chars() {
            match c {
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                c if depth == 0 => kept.push(c),
                _ => {}
            }
        }
        kept
    };
    let without: Vec<String> = words.iter().map(outside).filter(|word| !word.is_empty()).collect();
    let with: Vec<String> = words.iter().map(|word| word.replace(['[', ']'], "")).collect();
    if with == without { vec![with] } else { vec![without, with] }
}

#[test]
fn a_script_is_cut_into_its_commands() {
    let script = "N=1 # a comment; here\nfor pod in $(list -o name); do run \"$(inner 1)\" -- a 'b | c' > file; done\nlong \\\n  line | next --x=#1\n";
    let found: Vec<String> = commands(script).iter().map(|words| words.join(",")).collect();
    let expected = ["list,-o,name", "inner,1", "run,$SUBSTITUTED,--,a,b | c", "long,line", "next,--x=#1"];
    assert_eq!(found, expected);
}

#[test]
fn a_synopsis_is_read_with_and_without_its_options() {
    let of = |text: &str| {
        variants(&commands(text).remove(0)).iter().map(|words| words.join(" ")).collect::<Vec<_>>()
    };
    assert_eq!(of("a b"), ["a b"]);
    assert_eq!(of("a [-f] [--c [d/e]] IP[:PORT]"), ["a IP", "a -f --c d/e IP:PORT"]);
}
