//! A plan as a picture: the result of every number of brokers, beside the promise.

use plotters::coord::ranged1d::IntoSegmentedCoord;
use plotters::prelude::*;
use thiserror::Error;

use super::Plan;

/// A picture that could not be drawn.
#[derive(Debug, Error)]
#[error("drawing the plan: {0}")]
pub struct PictureError(String);

const SIZE: (u32, u32) = (720, 420);

/// The plan as SVG: latency at the worst broker by number of brokers with its confidence interval, the promise, and
/// the number that was chosen.
///
/// # Errors
/// [`PictureError`] when the drawing library refuses.
pub fn picture(plan: &Plan) -> Result<String, PictureError> {
    let mut svg = String::new();
    let drawn = draw(plan, &mut svg);
    drawn.map_err(|error| PictureError(error.to_string()))?;
    Ok(svg)
}

fn draw(plan: &Plan, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let slo_ms = plan.slo_us / 1e3;
    let values = plan
        .by_k
        .iter()
        .flat_map(|by| [by.worst.low, by.worst.high]);
    let bounds = values.map(|us| us / 1e3).filter(|ms| *ms > 0.0);
    let (least, most) = bounds.fold((slo_ms, slo_ms), |(least, most), ms| {
        (least.min(ms), most.max(ms))
    });
    let brokers = 1..plan.brokers.max(1) as i32;
    let mut chart = ChartBuilder::on(&area)
        .caption(caption(plan), ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(
            brokers.into_segmented(),
            (least / 1.5..most * 1.5).log_scale(),
        )?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_desc("brokers")
        .y_desc(format!("p{} at the worst broker, ms", plan.percentile))
        .draw()?;
    let ends = [
        SegmentValue::Exact(1),
        SegmentValue::Exact(plan.brokers as i32 + 1),
    ];
    chart.draw_series(LineSeries::new(
        ends.map(|end| (end, slo_ms)),
        RED.stroke_width(2),
    ))?;
    for by in &plan.by_k {
        let at = |us: f64| (SegmentValue::CenterOf(by.k as i32), (us / 1e3).max(least));
        let color = if by.k == plan.k { BLUE } else { BLACK };
        let interval = vec![at(by.worst.low), at(by.worst.high)];
        chart.draw_series([PathElement::new(interval, color.stroke_width(2))])?;
        let radius = if by.k == plan.k { 6 } else { 4 };
        chart.draw_series([Circle::new(at(by.worst.mean), radius, color.filled())])?;
    }
    area.present()?;
    Ok(())
}

fn caption(plan: &Plan) -> String {
    format!(
        "{} publishers, {:.0} msg/s: {} of {} brokers (blue); promise {:.2} ms (red)",
        plan.publishers,
        plan.messages_per_second,
        plan.k,
        plan.brokers,
        plan.slo_us / 1e3
    )
}
