//! Tables with many columns: where the screen is narrower than the folded table, a card for each
//! row.

use crate::shared::output::{Column, cells, headers, table_on};
use crate::shared::screen::Screen;

/// A table as by [`table_on`]; where no folding makes it fit, a card for each row, with an empty
/// line between them.
pub fn table_or_cards(screen: Screen, header: &[&str], rows: &[Vec<String>]) -> String {
    let table = table_on(screen, header, rows.iter().cloned());
    if screen.fits(&table) {
        return table;
    }
    let cards: Vec<String> = rows.iter().map(|row| card(screen, header, row)).collect();
    cards.join("\n\n")
}

/// The same with a row for each item.
pub fn columned_or_cards<T>(screen: Screen, columns: &[Column<T>], items: &[T]) -> String {
    table_or_cards(screen, &headers(columns), &cells(columns, items))
}

/// A line for each cell, after the header of its column.
fn card(screen: Screen, header: &[&str], row: &[String]) -> String {
    let lines = header.iter().zip(row);
    table_on(
        screen,
        &[],
        lines.map(|(name, cell)| vec![(*name).to_owned(), cell.clone()]),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(width: usize) -> String {
        let row = |pod: &str| vec![pod.to_owned(), "allowed to end".to_owned()];
        let rows = [row("shop/web-frontend-5d4f8c7b9d"), row("shop/cart")];
        let width = Some(width);
        table_or_cards(Screen { width, full: false }, &["POD", "STATE"], &rows)
    }

    #[test]
    fn a_table_stands_where_it_fits_folded_or_not() {
        let whole = " POD                           STATE
 shop/web-frontend-5d4f8c7b9d  allowed to end
 shop/cart                     allowed to end";
        assert_eq!(shown(46), whole);
        assert!(shown(40).starts_with(" POD                           STATE\n"));
    }

    #[test]
    fn a_card_has_a_folded_line_for_each_cell_where_the_table_does_not_fit() {
        assert_eq!(
            shown(37),
            " POD    shop/web-frontend-5d4f8c7b9d
 STATE  allowed to end

 POD    shop/cart
 STATE  allowed to end"
        );
        assert!(shown(18).ends_with(" STATE  allowed\n        to end"));
    }
}
