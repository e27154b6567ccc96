//! Whether this machine has room for dumps. How much room the servers have, they do not tell.

use crate::trial::preflight::scene::Scene;
use crate::trial::preflight::{Check, End};

/// Room in the folder of dumps.
pub(super) fn scratch(scene: &Scene) -> Vec<Check> {
    const CODE: &str = "disk-space";
    let (need, disk) = (scene.plan.dump_bytes, &scene.disk);
    let Some(free) = disk.free_bytes.filter(|_| scene.plan.copies) else { return Vec::new() };
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let seen = format!(
        "{:.0} MB free in {}, dumps take about {:.0} MB",
        megabytes(free),
        disk.folder.display(),
        megabytes(need)
    );
    let remedy = "make room, or use --out with a folder on a larger disk";
    vec![if free < need {
        Check::fail(CODE, End::Dmbench, seen, remedy)
    } else if free < need.saturating_mul(2) {
        Check::warn(CODE, End::Dmbench, seen, remedy)
    } else {
        Check::pass(CODE, End::Dmbench, seen)
    }]
}

/// Whether that folder can be written.
pub(super) fn writable(scene: &Scene) -> Vec<Check> {
    const CODE: &str = "scratch-folder";
    let folder = scene.disk.folder.display();
    vec![match scene.disk.is_writable {
        true => Check::pass(CODE, End::Dmbench, format!("{folder} can be written")),
        false => Check::fail(
            CODE,
            End::Dmbench,
            format!("{folder} is no folder that can be written"),
            "use --out with a folder that this user may write",
        ),
    }]
}
