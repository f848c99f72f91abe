//! Which columns of a table fit, and how wide they are. Pure.

/// Least width of a cut name, in characters. Names are cut before a column is left out.
const SHORTEST: usize = 12;

/// The text between columns.
const GAP: &str = " ";

/// How a column is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// To the right, whole.
    Number,
    /// To the left, whole.
    Word,
    /// To the left, and cut where there is no room.
    Name,
}

/// A column; of a table's columns the one with the highest `spare` is the first to be left out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    title: &'static str,
    form: Form,
    spare: u8,
}

pub(super) const fn column(title: &'static str, form: Form, spare: u8) -> Column {
    Column { title, form, spare }
}

/// The columns' titles, and the rows below them, in at most `width` characters (but at least one column).
pub(super) fn lines(columns: &[Column], rows: &[&[String]], width: usize) -> (String, Vec<String>) {
    let whole = |(index, column): (usize, &Column)| {
        let cells = rows.iter().filter_map(|row| row.get(index));
        let widths = cells.map(|cell| cell.chars().count());
        widths.chain([column.title.len()]).max().unwrap_or_default()
    };
    let whole: Vec<usize> = columns.iter().enumerate().map(whole).collect();
    let widths = fit(columns, &whole, width);
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let parts = cells.zip(columns).zip(&widths);
        let parts = parts.filter_map(|((cell, column), width)| Some(written(cell, column.form, (*width)?)));
        parts.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
    };
    let head = line(&mut columns.iter().map(|column| column.title));
    let rows = rows.iter().map(|row| line(&mut row.iter().map(String::as_str)));
    (head, rows.collect())
}

/// Widths of the columns; none of what is left out.
fn fit(columns: &[Column], whole: &[usize], width: usize) -> Vec<Option<usize>> {
    let least = |(column, whole): (&Column, &usize)| match column.form {
        Form::Name => Some(SHORTEST.min(*whole)),
        Form::Number | Form::Word => Some(*whole),
    };
    let mut widths: Vec<Option<usize>> = columns.iter().zip(whole).map(least).collect();
    while shown(&widths) > 1 && taken(&widths) > width {
        let there = (0..columns.len()).filter(|index| widths[*index].is_some());
        if let Some(spare) = there.max_by_key(|index| columns[*index].spare) {
            widths[spare] = None;
        }
    }
    let mut room = width.saturating_sub(taken(&widths));
    while room > 0 {
        let cut = widths.iter_mut().zip(whole);
        let cut = cut.filter_map(|(width, whole)| width.as_mut().filter(|width| **width < *whole));
        let Some(narrowest) = cut.min_by_key(|width| **width) else {
            break;
        };
        *narrowest += 1;
        room -= 1;
    }
    widths
}

fn shown(widths: &[Option<usize>]) -> usize {
    widths.iter().flatten().count()
}

fn taken(widths: &[Option<usize>]) -> usize {
    widths.iter().flatten().sum::<usize>() + GAP.len() * shown(widths).saturating_sub(1)
}

fn written(cell: &str, form: Form, width: usize) -> String {
    match form {
        Form::Number => format!("{cell:>width$}"),
        Form::Word => format!("{cell:<width$}"),
        Form::Name => format!("{:<width$}", cut(cell, width)),
    }
}

/// Cuts the middle out of a name: namespaces begin it, and its end distinguishes pods of one Deployment.
fn cut(name: &str, width: usize) -> String {
    let length = name.chars().count();
    if length <= width {
        return name.to_owned();
    }
    let kept = width.saturating_sub(1);
    let end = kept / 2;
    let (first, last) = (name.chars().take(kept - end), name.chars().skip(length - end));
    first.chain(['…']).chain(last).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        column("RATE", Form::Number, 0),
        column("SERVICE", Form::Name, 1),
        column("REASON", Form::Word, 3),
        column("MEANT", Form::Name, 2),
    ];

    fn shown(width: usize) -> [String; 2] {
        let row = ["1.5", "shop/web", "reused", "shop/web-7d9f8c6b5-x2x7k"];
        let (head, rows) = lines(&COLUMNS, &[&row.map(str::to_owned)], width);
        [head, rows.concat()]
    }

    #[test]
    fn a_wide_table_cuts_no_value() {
        assert_eq!(
            shown(1000),
            [
                "RATE SERVICE  REASON MEANT",
                " 1.5 shop/web reused shop/web-7d9f8c6b5-x2x7k"
            ]
        );
    }

    #[test]
    fn long_names_are_cut_in_the_middle_before_a_column_goes() {
        assert_eq!(
            shown(36),
            [
                "RATE SERVICE  REASON MEANT",
                " 1.5 shop/web reused shop/we…5-x2x7k"
            ]
        );
    }

    #[test]
    fn columns_go_one_by_one_and_the_last_stays() {
        assert_eq!(
            shown(30),
            ["RATE SERVICE  MEANT", " 1.5 shop/web shop/web…5-x2x7k"]
        );
        assert_eq!(shown(20), ["RATE SERVICE", " 1.5 shop/web"]);
        assert_eq!(shown(0), ["RATE", " 1.5"]);
    }
}
