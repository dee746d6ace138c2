//! The little that charts need: scales, ticks, paths. Shapes carry classes; colours come from the style sheet.

use std::fmt::Write;

/// A scale from values to pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    from: (f64, f64),
    to: (f64, f64),
    log: bool,
}

impl Scale {
    /// Linear, `from` a range of values `to` a range of pixels.
    pub(super) fn linear(from: (f64, f64), to: (f64, f64)) -> Self {
        Self { from, to, log: false }
    }

    /// Logarithmic; values must be above 0.
    pub(super) fn log(from: (f64, f64), to: (f64, f64)) -> Self {
        Self { from: (from.0.ln(), from.1.ln()), to, log: true }
    }

    /// The pixel of a value, kept within the range.
    pub(super) fn at(&self, value: f64) -> f64 {
        let value = if self.log { value.max(f64::MIN_POSITIVE).ln() } else { value };
        let width = self.from.1 - self.from.0;
        let part = if width == 0.0 { 0.0 } else { ((value - self.from.0) / width).clamp(0.0, 1.0) };
        self.to.0 + part * (self.to.1 - self.to.0)
    }
}

/// Round values from 0 to at least `high`, about `n` of them; the last is the top of the axis.
pub(super) fn ticks(high: f64, n: usize) -> Vec<f64> {
    if !(high > 0.0 && high.is_finite()) {
        return vec![0.0, 1.0];
    }
    let step = nice(high / n.max(1) as f64);
    let count = (high / step - 1e-9).ceil().max(1.0) as usize;
    (0..=count).map(|i| i as f64 * step).collect()
}

/// Round times for an axis of `high` seconds with about `n` ticks.
pub(super) fn time_ticks(high: f64, n: usize) -> Vec<f64> {
    const STEPS: [f64; 13] =
        [1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0];
    let wanted = high / n.max(1) as f64;
    let step = STEPS.into_iter().find(|step| *step >= wanted).unwrap_or_else(|| nice(wanted));
    (0..=(high / step + 1e-9).floor() as usize).map(|i| i as f64 * step).collect()
}

/// The smallest of 1, 2, 2.5, 5 times a power of ten that is at least `value`.
fn nice(value: f64) -> f64 {
    let power = 10.0_f64.powf(value.log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|m| m * power)
        .find(|step| *step >= value * (1.0 - 1e-9))
        .unwrap_or(value)
}

/// Powers of ten and their doubles and fives between two values, for a logarithmic axis; at most about seven.
pub(super) fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let factors: &[f64] = if last - first <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    (first..=last)
        .flat_map(|power| factors.iter().map(move |factor| factor * 10.0_f64.powi(power)))
        .filter(|tick| *tick >= low * 0.999 && *tick <= high * 1.001)
        .collect()
}

/// Text made fit for XML.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

/// An SVG being written.
#[derive(Default)]
pub(super) struct Canvas {
    body: String,
}

impl Canvas {
    /// Adds markup.
    pub(super) fn raw(&mut self, markup: &str) {
        self.body.push_str(markup);
    }

    fn add(&mut self, markup: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.body.write_fmt(markup);
    }

    pub(super) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.add(format_args!(
            r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#
        ));
    }

    pub(super) fn rect(&mut self, class: &str, (x, y): (f64, f64), (w, h): (f64, f64)) {
        let (w, h) = (w.max(0.0), h.max(0.0));
        self.add(format_args!(
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{w:.1}" height="{h:.1}"/>"#
        ));
    }

    pub(super) fn rounded(&mut self, class: &str, (x, y): (f64, f64), (w, h): (f64, f64), r: f64) {
        let (w, h) = (w.max(0.0), h.max(0.0));
        self.add(format_args!(
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{w:.1}" height="{h:.1}" rx="{r}"/>"#
        ));
    }

    pub(super) fn circle(&mut self, class: &str, (x, y): (f64, f64), r: f64) {
        self.add(format_args!(r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="{r}"/>"#));
    }

    /// Text; `class` says how it is anchored (`start`, `middle`, `end`) and what it looks like.
    pub(super) fn text(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        self.add(format_args!(r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{}</text>"#, escape(text)));
    }

    /// A line through points; it breaks where there is none.
    pub(super) fn path(&mut self, class: &str, points: impl IntoIterator<Item = Option<(f64, f64)>>) {
        let (mut d, mut open, mut alone) = (String::new(), false, true);
        for point in points {
            match point {
                Some((x, y)) => {
                    let _ = write!(d, "{}{x:.1},{y:.1}", if open { "L" } else { "M" });
                    (alone, open) = (!open, true);
                }
                None => {
                    // A single point is drawn as a dot, by a line of no length with round ends.
                    if open && alone {
                        d.push_str("h0");
                    }
                    open = false;
                }
            }
        }
        if open && alone {
            d.push_str("h0");
        }
        if !d.is_empty() {
            self.add(format_args!(r#"<path class="{class}" d="{d}"/>"#));
        }
    }

    /// The areas between two lines over the same `x`; they break where either has no point.
    pub(super) fn band(&mut self, class: &str, points: &[Option<(f64, f64, f64)>]) {
        let mut d = String::new();
        for run in points.split(|point| point.is_none()).filter(|run| run.len() > 1) {
            let upper = run.iter().flatten().map(|(x, _, high)| (*x, *high));
            let lower = run.iter().rev().flatten().map(|(x, low, _)| (*x, *low));
            for (i, (x, y)) in upper.chain(lower).enumerate() {
                let _ = write!(d, "{}{x:.1},{y:.1}", if i == 0 { "M" } else { "L" });
            }
            d.push('Z');
        }
        if !d.is_empty() {
            self.add(format_args!(r#"<path class="{class}" d="{d}"/>"#));
        }
    }

    /// The whole, with a title and a description for those who cannot see it. `id` is unique in the page.
    pub(super) fn finish(self, id: &str, class: &str, (w, h): (f64, f64), title: &str, desc: &str) -> String {
        format!(
            r#"<svg class="{class}" viewBox="0 0 {w:.0} {h:.0}" role="img" aria-labelledby="{id}-t {id}-d"><title id="{id}-t">{}</title><desc id="{id}-d">{}</desc>{}</svg>"#,
            escape(title),
            escape(desc),
            self.body
        )
    }

    /// The markup so far, to be put into another SVG.
    pub(super) fn into_body(self) -> String {
        self.body
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_break_where_there_is_nothing() {
        let mut canvas = Canvas::default();
        canvas.path("x", [Some((0.0, 1.0)), Some((1.0, 1.0)), None, Some((3.0, 2.0))]);
        assert_eq!(canvas.into_body(), r#"<path class="x" d="M0.0,1.0L1.0,1.0M3.0,2.0h0"/>"#);
        let mut canvas = Canvas::default();
        canvas.path("x", [None, None]);
        assert!(canvas.into_body().is_empty());
    }

    proptest! {
        #[test]
        fn ticks_reach_the_top_and_are_few(high in 1e-6..1e9_f64, n in 2_usize..8) {
            let ticks = ticks(high, n);
            prop_assert!(ticks.last().is_some_and(|top| *top >= high * (1.0 - 1e-9)) && ticks[0] == 0.0);
            prop_assert!(ticks.len() <= n + 2, "{ticks:?}");
        }

        #[test]
        fn a_scale_stays_within_its_pixels(value in -1e9..1e9_f64) {
            let pixel = Scale::linear((0.0, 10.0), (100.0, 0.0)).at(value);
            prop_assert!((0.0..=100.0).contains(&pixel));
        }
    }
}
