//! The charts of the page.

use crate::report::many::{MOST_LANES, covered};
use crate::report::svg::{Canvas, Scale, log_ticks, ticks, time_ticks};
use crate::report::{Curve, Report, text};
use crate::sla::LineUnit;
use crate::stats::Interval;
use crate::summary::degradation::Change;
use crate::summary::timeline::Bin;
use std::collections::BTreeSet;

/// Room for the numbers of the axis.
const LEFT: f64 = 58.0;
/// Room beyond the last tick.
const RIGHT: f64 = 14.0;
const LANE: f64 = 20.0;
const PANEL_GAP: f64 = 34.0;

/// What a panel of the timeline shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Panel {
    Ttft,
    Gaps,
    Throughput,
    Good,
    Failures,
}

/// All panels, in the order of the page.
pub(crate) const PANELS: [Panel; 5] =
    [Panel::Ttft, Panel::Gaps, Panel::Throughput, Panel::Good, Panel::Failures];

impl Panel {
    const fn title(self) -> &'static str {
        match self {
            Self::Ttft => "Time to first token",
            Self::Gaps => "Gap between tokens",
            Self::Throughput => "Output tokens a second",
            Self::Good => "Share of good requests",
            Self::Failures => "Failed requests",
        }
    }

    const fn legend(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Ttft | Self::Gaps => &[("line", "median"), ("line thin", "p95")],
            Self::Throughput | Self::Good => &[],
            Self::Failures => &[("bar injected", "by fault"), ("bar organic", "by system")],
        }
    }

    fn top(self, bins: &[Bin], seconds: f64) -> f64 {
        let most = |value: &dyn Fn(&Bin) -> Option<f64>| bins.iter().filter_map(value).fold(0.0, f64::max);
        match self {
            Self::Ttft => most(&|bin| bin.ttft_p95),
            Self::Gaps => most(&|bin| bin.itl_p95),
            Self::Throughput => most(&|bin| Some(bin.tokens / seconds)),
            Self::Good => 1.0,
            Self::Failures => most(&|bin| Some(f64::from(bin.injected_errors + bin.organic_errors))),
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            Self::Ttft | Self::Gaps => text::seconds(value),
            Self::Good => text::share(value),
            Self::Throughput | Self::Failures => text::number(value),
        }
    }
}

/// The run over time: a lane with the phases, one a fault, and `panels` below on the same axis. `panel` is the height
/// of one.
pub(crate) fn timeline(report: &Report, width: f64, panel: f64, panels: &[Panel]) -> (Canvas, f64) {
    let mut canvas = Canvas::default();
    let narrow = width < 600.0;
    let end = report.duration.max(report.timeline.bin_seconds).max(1e-9);
    let x = Scale::linear((0.0, end), (LEFT, width - RIGHT));
    let lanes = lanes(&mut canvas, report, x, narrow);
    let mut y = lanes + 8.0;
    let bottom = y + panels.len() as f64 * (panel + PANEL_GAP);
    for kind in panels {
        let top = y + PANEL_GAP - 10.0;
        draw_panel(&mut canvas, report, *kind, x, (top, top + panel), width);
        y += panel + PANEL_GAP;
    }
    for tick in time_ticks(end, if narrow { 4 } else { 10 }) {
        canvas.text("tick middle", (x.at(tick), bottom + 8.0), &clock(tick));
    }
    (canvas, bottom + 16.0)
}

/// Seconds as an axis shows them.
fn clock(seconds: f64) -> String {
    if seconds < 120.0 {
        format!("{seconds:.0} s")
    } else {
        format!("{:.0}:{:02.0}", (seconds / 60.0).floor(), seconds % 60.0)
    }
}

/// Draws phases and fault windows; gives the height that they take.
fn lanes(canvas: &mut Canvas, report: &Report, x: Scale, narrow: bool) -> f64 {
    for (name, start, end) in report.shown_phases() {
        let (from, to) = (x.at(start), x.at(end));
        canvas.rect(&format!("phase {name}"), (from + 0.5, 2.0), (to - from - 1.0, 16.0));
        if to - from > name.len() as f64 * 6.6 {
            canvas.text("lane middle", ((from + to) / 2.0, 14.0), name);
        }
    }
    let mut y = 22.0;
    let (own, rest) = report.faults.split_at(report.faults.len().min(MOST_LANES));
    // Less than a pixel apart is one to the eye.
    let pixel = report.duration / x.at(f64::MAX).max(1.0);
    let mut all: Vec<(String, Vec<(f64, f64)>)> = own
        .iter()
        .map(|fault| {
            let windows = report.fault_windows.iter().filter(|window| window.fault == fault.fault);
            (format!("{} ({})", fault.fault, fault.kind), covered(windows, pixel))
        })
        .collect();
    if !rest.is_empty() {
        let names: BTreeSet<&str> = rest.iter().map(|fault| fault.fault.as_str()).collect();
        let windows = report.fault_windows.iter().filter(|window| names.contains(window.fault.as_str()));
        all.push((format!("{} more faults", text::count(rest.len() as u64)), covered(windows, pixel)));
    }
    for (label, windows) in all {
        // On a narrow chart the name has a row of its own above the bar.
        let bar = if narrow { y + 15.0 } else { y + 3.0 };
        for (from, until) in &windows {
            let (from, to) = (x.at(*from), x.at(*until));
            canvas.rect("window", (from, bar), (to - from, LANE - 9.0));
        }
        let length = label.len() as f64 * 6.3;
        match windows.first().map(|(from, _)| x.at(*from)) {
            None => canvas.text("lane start", (LEFT, y + 12.0), &format!("{label}: never armed")),
            Some(_) if narrow => canvas.text("lane start", (LEFT, y + 11.0), &label),
            // The name stands before the window, or after it where there is no room before.
            Some(from) if from - 8.0 - length > LEFT => {
                canvas.text("lane end", (from - 8.0, y + 13.0), &label);
            }
            Some(_) => {
                let after = windows.last().map_or(LEFT, |(_, until)| x.at(*until));
                let room = x.at(f64::MAX) - after > length;
                let (class, at) =
                    if room { ("lane start", after + 8.0) } else { ("lane end", x.at(f64::MAX)) };
                canvas.text(class, (at, y + 13.0), &label);
            }
        }
        y += if narrow { LANE + 11.0 } else { LANE };
    }
    y
}

fn draw_panel(
    canvas: &mut Canvas,
    report: &Report,
    panel: Panel,
    x: Scale,
    (top, bottom): (f64, f64),
    width: f64,
) {
    let timeline = &report.timeline;
    let (bins, seconds) = (&timeline.bins, timeline.bin_seconds.max(1e-9));
    let bounds = bounds(report, panel);
    let highest = panel.top(bins, seconds);
    // A bound far above all that was measured would flatten the picture, and says nothing new.
    let bounds: Vec<f64> = bounds.into_iter().filter(|bound| *bound <= 1.6 * highest).collect();
    let highest = bounds.iter().copied().fold(highest, f64::max);
    let ticks = match panel {
        Panel::Good => vec![0.0, 0.5, 1.0],
        Panel::Failures => ticks(highest.max(2.0), 2),
        _ => ticks(highest, 3),
    };
    let y = Scale::linear((0.0, ticks.last().copied().unwrap_or(1.0)), (bottom, top));
    for (from, until) in covered(report.fault_windows.iter(), report.duration / width) {
        let (from, to) = (x.at(from), x.at(until));
        canvas.rect("shade", (from, top), (to - from, bottom - top));
    }
    for tick in &ticks {
        canvas.line(
            if *tick == 0.0 { "zero" } else { "grid" },
            (LEFT, y.at(*tick)),
            (width - RIGHT, y.at(*tick)),
        );
        canvas.text("tick end", (LEFT - 7.0, y.at(*tick) + 4.0), &panel.show(*tick));
    }
    canvas.text("panel start", (LEFT, top - 9.0), panel.title());
    legend(canvas, panel.legend(), (width - RIGHT, top - 9.0));
    let middle = |i: usize| x.at(timeline.start(i) + seconds / 2.0);
    let line = |value: fn(&Bin) -> Option<f64>| {
        let points = bins.iter().enumerate().map(move |(i, bin)| Some((middle(i), y.at(value(bin)?))));
        points.collect::<Vec<_>>()
    };
    let band = |low: fn(&Bin) -> Option<f64>, high: fn(&Bin) -> Option<f64>| {
        let points =
            bins.iter().enumerate().map(move |(i, bin)| Some((middle(i), y.at(low(bin)?), y.at(high(bin)?))));
        points.collect::<Vec<_>>()
    };
    match panel {
        Panel::Ttft => {
            canvas.band("band", &band(|bin| bin.ttft_p50, |bin| bin.ttft_p95));
            canvas.path("line thin", line(|bin| bin.ttft_p95));
            canvas.path("line", line(|bin| bin.ttft_p50));
        }
        Panel::Gaps => {
            canvas.band("band", &band(|bin| bin.itl_p50, |bin| bin.itl_p95));
            canvas.path("line thin", line(|bin| bin.itl_p95));
            canvas.path("line", line(|bin| bin.itl_p50));
        }
        Panel::Throughput => {
            let rate: Vec<Option<(f64, f64)>> = bins
                .iter()
                .enumerate()
                .map(|(i, bin)| Some((middle(i), y.at(bin.tokens / seconds))))
                .collect();
            let area: Vec<Option<(f64, f64, f64)>> =
                rate.iter().map(|point| point.map(|(px, py)| (px, bottom, py))).collect();
            canvas.band("band", &area);
            canvas.path("line", rate);
        }
        Panel::Good => canvas.path(
            "line",
            line(|bin| (bin.scheduled > 0).then(|| f64::from(bin.good) / f64::from(bin.scheduled))),
        ),
        Panel::Failures => {
            for (i, bin) in bins.iter().enumerate() {
                let (from, to) = (x.at(timeline.start(i)), x.at(timeline.start(i) + seconds));
                let (organic, injected) = (f64::from(bin.organic_errors), f64::from(bin.injected_errors));
                let (base, mid, high) = (y.at(0.0), y.at(organic), y.at(organic + injected));
                if organic > 0.0 {
                    canvas.rect("organic", (from + 0.5, mid), (to - from - 1.0, base - mid));
                }
                if injected > 0.0 {
                    canvas.rect("injected", (from + 0.5, high), (to - from - 1.0, mid - high));
                }
            }
        }
    }
    for bound in bounds {
        canvas.line("sla", (LEFT, y.at(bound)), (width - RIGHT, y.at(bound)));
        canvas.text(
            "tick start slalabel",
            (LEFT + 4.0, y.at(bound) - 4.0),
            &format!("SLA {}", panel.show(bound)),
        );
    }
}

/// The absolute bounds that SLA lines put on what a panel shows.
fn bounds(report: &Report, panel: Panel) -> Vec<f64> {
    let prefix = match panel {
        Panel::Ttft => "ttft",
        Panel::Gaps => "itl",
        _ => return Vec::new(),
    };
    let lines =
        report.sla.iter().filter(|line| line.unit == LineUnit::Seconds && line.line.starts_with(prefix));
    lines.filter_map(|line| line.bound).collect()
}

/// Draws a legend that ends at `x`.
fn legend(canvas: &mut Canvas, items: &[(&str, &str)], (mut x, y): (f64, f64)) {
    for (class, label) in items.iter().rev() {
        canvas.text("tick end", (x, y), label);
        x -= label.len() as f64 * 6.4 + 9.0;
        match class.strip_prefix("bar ") {
            Some(class) => canvas.rect(class, (x - 14.0, y - 9.0), (14.0, 9.0)),
            None => canvas.line(class, (x - 18.0, y - 4.0), (x, y - 4.0)),
        }
        x -= 27.0;
    }
}

/// The phases that curves are drawn of, with the class of their line.
const CURVES: [(&str, &str); 4] =
    [("load", "curve base"), ("recovery", "curve rec"), ("baseline", "curve base"), ("fault", "curve flt")];

/// One latency over percentiles, phase by phase.
pub(crate) fn curves(curves: &[Curve], metric: &str, width: f64, height: f64) -> Option<Canvas> {
    let of = |phase: &str| curves.iter().find(|curve| curve.metric == metric && curve.phase == phase);
    let shown: Vec<(&str, &str, &Curve)> =
        CURVES.iter().filter_map(|(phase, class)| Some((*phase, *class, of(phase)?))).collect();
    let points = || shown.iter().flat_map(|(.., curve)| &curve.points);
    let far = |p: f64| -(1.0 - p).max(1e-9).log10();
    let right = points().map(|(p, _)| far(*p)).fold(0.0, f64::max);
    let high = points().map(|(_, value)| *value).fold(0.0, f64::max);
    let low = points().map(|(_, value)| *value).filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
    if shown.is_empty() || right <= 0.0 || !low.is_finite() {
        return None;
    }
    let mut canvas = Canvas::default();
    let (top, bottom) = (34.0, height - 24.0);
    let x = Scale::linear((0.0, right), (LEFT, width - RIGHT));
    let (y, ticks) = if high / low > 12.0 {
        (Scale::log((low * 0.9, high * 1.1), (bottom, top)), log_ticks(low * 0.9, high * 1.1))
    } else {
        let ticks = ticks(high, 4);
        (Scale::linear((0.0, ticks.last().copied().unwrap_or(high)), (bottom, top)), ticks)
    };
    for tick in ticks {
        canvas.line("grid", (LEFT, y.at(tick)), (width - RIGHT, y.at(tick)));
        canvas.text("tick end", (LEFT - 7.0, y.at(tick) + 4.0), &text::seconds(tick));
    }
    canvas.line("zero", (LEFT, bottom), (width - RIGHT, bottom));
    for (p, label) in
        [(0.0, "min"), (0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99")]
    {
        let crowded = p == 0.0 && x.at(far(0.5)) - x.at(0.0) < 34.0;
        if far(p) <= right + 1e-9 && !crowded {
            let at = x.at(far(p));
            canvas.line("grid", (at, top), (at, bottom));
            let class = if at > width - RIGHT - 18.0 { "tick end" } else { "tick middle" };
            canvas.text(class, (at.min(width - 2.0), bottom + 16.0), label);
        }
    }
    for (_, class, curve) in &shown {
        canvas.path(class, curve.points.iter().map(|(p, value)| Some((x.at(far(*p)), y.at(*value)))));
    }
    let mut at = LEFT - 34.0;
    for phase in ["load", "baseline", "fault", "recovery"] {
        if let Some((_, class, _)) = shown.iter().find(|(name, ..)| *name == phase) {
            canvas.line(class, (at, 12.0), (at + 22.0, 12.0));
            canvas.text("tick start", (at + 27.0, 16.0), phase);
            at += 40.0 + phase.len() as f64 * 6.4;
        }
    }
    Some(canvas)
}

/// The scale that all ratio marks of a table share.
pub(crate) struct Forest {
    scale: Scale,
    one: f64,
}

/// Size of one ratio mark.
const MARK: (f64, f64) = (150.0, 18.0);

impl Forest {
    /// A scale that holds all ratios of `changes`, as far as a factor of thirty either way.
    pub(crate) fn of(changes: &[Change]) -> Self {
        let ends = changes.iter().flat_map(|change| {
            let interval = change.ratio_interval.unwrap_or_default();
            [change.ratio, interval.low, interval.high]
        });
        let (low, high) = ends
            .flatten()
            .filter(|ratio| *ratio > 0.0)
            .fold((0.8_f64, 1.25_f64), |(low, high), ratio| (low.min(ratio), high.max(ratio)));
        let scale = Scale::log((low.max(1.0 / 30.0), high.min(30.0)), (4.0, MARK.0 - 4.0));
        Self { one: scale.at(1.0), scale }
    }

    /// A ratio with its interval, against the line of "unchanged". Decoration: the numbers stand beside it.
    pub(crate) fn mark(&self, ratio: f64, interval: Option<Interval>, class: &str) -> String {
        let mut canvas = Canvas::default();
        let middle = MARK.1 / 2.0;
        canvas.line("one", (self.one, 0.0), (self.one, MARK.1));
        if let Some((low, high)) = interval.and_then(|interval| interval.low.zip(interval.high)) {
            canvas.line(
                &format!("whisker {class}"),
                (self.scale.at(low), middle),
                (self.scale.at(high), middle),
            );
        }
        canvas.circle(&format!("dot {class}"), (self.scale.at(ratio), middle), 3.6);
        format!(
            r#"<svg class="mark" viewBox="0 0 {} {}" aria-hidden="true">{}</svg>"#,
            MARK.0,
            MARK.1,
            canvas.into_body()
        )
    }
}
