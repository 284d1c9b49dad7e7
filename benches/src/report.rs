//! The figures as text.

use std::fmt::Write as _;

use crate::{
    bench::Outcomes,
    figure::{Figure, Metric},
    measure::Outcome,
    way::Way,
};

/// Two numbers and what they come to.
struct Result {
    ours: f64,
    other: Option<f64>,
    ratio: Option<f64>,
}

impl Result {
    /// `None` when ours did not run, or could not be told.
    fn of(figure: &Figure, outcomes: &Outcomes) -> Option<Self> {
        let number = |way: &Way| {
            let numbers = outcomes.get(way)?.iter().filter_map(|outcome| figure.metric.of(outcome));
            median(numbers.collect())
        };
        let ours = number(&figure.ours)?;
        let others = figure.others.iter().filter_map(number);
        // Several others are compared by speed only: the slower one is what cannot be outrun.
        let other = others.min_by(f64::total_cmp);
        let ratio = other.filter(|other| *other > 0.0).map(|other| ours / other);
        Some(Self { ours, other, ratio })
    }
}

fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    let upper = *numbers.get(middle)?;
    Some(if numbers.len() % 2 == 1 { upper } else { f64::midpoint(numbers[middle - 1], upper) })
}

/// One line a figure, fields divided by tabs: name, ours, other, ratio, goal. What could not be told is `-`.
pub(crate) fn tsv(figures: &[&Figure], outcomes: &Outcomes) -> String {
    let mut text = String::new();
    for figure in figures {
        let plain = |number: f64| match figure.metric {
            Metric::Speed => format!("{number:.0}"),
            Metric::Memory => format!("{number:.1}"),
            _ => format!("{number:.3}"),
        };
        let result = Result::of(figure, outcomes);
        let field = |number: Option<f64>, show: &dyn Fn(f64) -> String| number.map_or("-".to_owned(), show);
        let ours = field(result.as_ref().map(|result| result.ours), &plain);
        let other = field(result.as_ref().and_then(|result| result.other), &plain);
        let ratio = field(result.as_ref().and_then(|result| result.ratio), &|ratio| format!("{ratio:.3}"));
        writeln!(text, "{}\t{ours}\t{other}\t{ratio}\t{}", figure.name, figure.goal).ok();
    }
    text
}

/// The table of figures, and below it what each way took.
pub(crate) fn text(figures: &[&Figure], outcomes: &Outcomes, strangers: &[f64]) -> String {
    let mut lines = vec![["name", "ours", "other", "ratio", "goal", "verdict"].map(str::to_owned).to_vec()];
    for figure in figures {
        lines.push(figure_line(figure, outcomes));
    }
    let mut text = table(&lines);
    let mut lines =
        vec![["way", "rows/s", "wall s", "from - to", "CPU s", "peak MiB"].map(str::to_owned).to_vec()];
    for (way, outcomes) in outcomes {
        lines.push(way_line(*way, outcomes));
    }
    text.push('\n');
    text.push_str(&table(&lines));
    if let Some(strangers) = median(strangers.to_vec()) {
        writeln!(
            text,
            "\nother work on this machine kept {strangers:.2} processors busy (median of the runs)"
        )
        .ok();
    }
    text
}

fn figure_line(figure: &Figure, outcomes: &Outcomes) -> Vec<String> {
    let unit = figure.metric.unit();
    let show = |number: f64| match figure.metric {
        Metric::Speed => format!("{} {unit}", thousands(number)),
        Metric::Memory => format!("{number:.0} {unit}"),
        _ => format!("{number:.2} {unit}"),
    };
    let Some(Result { ours, other, ratio }) = Result::of(figure, outcomes) else {
        let told = ["-", "-", "-"].map(str::to_owned);
        let name = [figure.name.to_owned()];
        return [&name[..], &told, &[figure.goal.to_string(), "not measured".to_owned()]].concat();
    };
    let verdict = match figure.goal.is_met(ours, ratio) {
        Some(true) => "met",
        Some(false) => "MISSED",
        None => "told",
    };
    vec![
        figure.name.to_owned(),
        show(ours),
        other.map_or("-".to_owned(), show),
        ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
        figure.goal.to_string(),
        verdict.to_owned(),
    ]
}

fn way_line(way: Way, outcomes: &[Outcome]) -> Vec<String> {
    let numbers = |of: fn(&Outcome) -> f64| outcomes.iter().map(of).collect::<Vec<_>>();
    let middle = |of: fn(&Outcome) -> f64| median(numbers(of)).unwrap_or(f64::NAN);
    let walls = numbers(|outcome| outcome.wall);
    let least = walls.iter().copied().fold(f64::INFINITY, f64::min);
    let most = walls.iter().copied().fold(0.0, f64::max);
    vec![
        way.name(),
        thousands(middle(Outcome::rows_per_second)),
        format!("{:.2}", middle(|outcome| outcome.wall)),
        format!("{least:.2} - {most:.2}"),
        format!("{:.2}", middle(|outcome| outcome.cpu)),
        format!("{:.0}", middle(|outcome| outcome.peak_mib)),
    ]
}

/// One run, for whoever waits.
pub(crate) fn line(way: Way, outcome: &Outcome) -> String {
    let mut text = format!(
        "{:<28} {:>9} rows/s {:>6.2} s {:>5.2} s CPU {:>4.0} MiB",
        way.name(),
        thousands(outcome.rows_per_second()),
        outcome.wall,
        outcome.cpu,
        outcome.peak_mib
    );
    if let Some(first) = outcome.first_row {
        write!(text, ", first row {first:.2} s").ok();
    }
    if let Some(cpu) = outcome.server_cpu {
        write!(text, ", server {cpu:.2} s CPU").ok();
    }
    text
}

/// Columns as wide as their widest cell; the first to the left, the others to the right.
fn table(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        let cells: Vec<String> = cells.collect();
        writeln!(text, "{}", cells.join("  ").trim_end()).ok();
    }
    text
}

/// A whole number with a comma after every third digit.
fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::FIGURES;

    fn outcome(wall: f64) -> Outcome {
        Outcome {
            rows: 1_000_000,
            wall,
            cpu: 0.5,
            peak_mib: 10.0,
            first_row: None,
            server_cpu: None,
            bytes: None,
        }
    }

    fn outcomes() -> Outcomes {
        let read = &FIGURES[0];
        let mut outcomes = Outcomes::new();
        outcomes.insert(read.ours, vec![outcome(1.0), outcome(9.0), outcome(2.0)]);
        outcomes.insert(read.others[0], vec![outcome(1.0)]);
        outcomes.insert(read.others[1], vec![outcome(2.5)]);
        outcomes
    }

    #[test]
    fn medians_and_the_slower_of_two_count() {
        let figures = [&FIGURES[0]];
        assert_eq!(tsv(&figures, &outcomes()), "kafka-read\t500000\t400000\t1.250\tratio >= 0.9\n");
        let text = text(&figures, &outcomes(), &[0.5]);
        assert!(text.contains("500,000 rows/s  400,000 rows/s   1.25  ratio >= 0.9      met"), "{text}");
        assert!(text.contains("1.00 - 9.00"), "{text}");
        assert!(text.contains("0.50 processors"), "{text}");
    }

    #[test]
    fn what_did_not_run_is_told() {
        let figures = [&FIGURES[0]];
        assert_eq!(tsv(&figures, &Outcomes::new()), "kafka-read\t-\t-\t-\tratio >= 0.9\n");
        assert!(text(&figures, &Outcomes::new(), &[]).contains("not measured"));
    }

    #[test]
    fn medians() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0]), Some(2.0));
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
    }

    #[test]
    fn digits_are_grouped() {
        assert_eq!(
            ["0", "999", "1,000", "1,234,567"],
            [0.0, 999.0, 1000.0, 1_234_567.0].map(thousands).each_ref().map(String::as_str)
        );
    }
}
