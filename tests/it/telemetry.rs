//! A user samples the memory of this machine's processes, of its GPUs if it has any, and of folders that imitate the
//! kernel's.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use profiler::fault::{Fault, Kind};
use profiler::telemetry::host::{Cgroup, Roots, Tree};
use profiler::telemetry::{
    Activity, AmdCards, Device, Phase, Polled, Reading, Recording, Sampler, Source, Tenant, gpu_source, gpus, read_gpus,
};

use super::support::{eventually, temp};

const MIB: u64 = 1 << 20;

fn reading(used: u64) -> Reading {
    Reading {
        devices: vec![Device {
            id: "sim0".into(),
            name: "simulated".into(),
            used,
            total: 100,
        }],
        tenants: Vec::new(),
        activity: Vec::new(),
    }
}

fn write(root: &Path, file: &str, text: impl AsRef<[u8]>) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn peaks_are_told_by_phase_and_between_moments() {
    let used = Arc::new(AtomicU64::new(1));
    let source = Polled::new("sim", {
        let used = Arc::clone(&used);
        move || Ok(reading(used.load(Ordering::SeqCst)))
    });
    let sampler = Sampler::start(Box::new(source), 1000.0).unwrap();
    assert_eq!(
        sampler.latest(),
        reading(1),
        "the first look is made before the start returns"
    );
    let see = |value: u64| {
        used.store(value, Ordering::SeqCst);
        eventually("seen", || sampler.latest() == reading(value));
    };
    sampler.mark(Phase::Loading);
    see(40);
    see(30);
    let before = Instant::now();
    sampler.mark(Phase::Load);
    see(70);
    see(35);
    let after = Instant::now();
    see(90);

    assert_eq!(sampler.between(before, after).peak(), Some(70));
    let Recording { series, health, .. } = sampler.stop();
    let peak = |phase| {
        let rows = series.rows().iter().filter(|row| row.phase == phase);
        rows.map(|row| row.total).max()
    };
    let phases = [Phase::Baseline, Phase::Loading, Phase::Load];
    assert_eq!(phases.map(peak), [Some(1), Some(40), Some(90)]);
    let samples: u64 = series.rows().iter().map(|row| row.samples).sum();
    assert_eq!(samples, health.taken);
    assert_eq!(health.errors, 0);
}

#[test]
fn what_was_seen_before_stands_first() {
    let source = Polled::new("sim", || Ok(reading(7)));
    let sampler = Sampler::start_in(Phase::Loading, Some(&reading(3)), Box::new(source), 1.0).unwrap();
    let rows: Vec<_> = sampler
        .series()
        .rows()
        .iter()
        .map(|row| (row.phase, row.total))
        .collect();
    assert_eq!(rows, [(Phase::Baseline, 3), (Phase::Loading, 7)]);
    assert_eq!(
        sampler.peak_snapshot().devices[0].used,
        7,
        "the peak is since the start"
    );
}

#[test]
fn a_source_that_blocks_loses_looks_and_says_so() {
    let mut first = true;
    let source = Polled::new("sim", move || {
        if !std::mem::take(&mut first) {
            std::thread::sleep(Duration::from_millis(25));
        }
        Ok(reading(1))
    });
    let sampler = Sampler::start(Box::new(source), 200.0).unwrap();
    eventually("three slow samples", || sampler.health().taken >= 4);
    let health = sampler.stop().health;
    assert!(health.lost >= 3 * 4, "{health:?}");
    assert!(health.slowest_us >= 25_000, "{health:?}");
}

/// Memory reads are fast. A process read ends only after five more memory reads.
struct Apart {
    quick: Arc<AtomicU64>,
    slow: bool,
}

impl Source for Apart {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn read(&mut self) -> Result<Reading, Fault> {
        if self.slow {
            let before = self.quick.load(Ordering::SeqCst);
            eventually("five quick samples", || self.quick.load(Ordering::SeqCst) >= before + 5);
        }
        let tenant = Tenant {
            pid: 7,
            device: "sim0".into(),
            used: Some(60),
        };
        let activity = Activity {
            device: "sim0".into(),
            power_mw: Some(80_000),
            busy_percent: Some(5),
        };
        Ok(Reading {
            tenants: vec![tenant],
            activity: vec![activity],
            ..reading(70)
        })
    }

    fn read_memory(&mut self) -> Result<Reading, Fault> {
        self.quick.fetch_add(1, Ordering::SeqCst);
        Ok(reading(70))
    }

    fn slow_source(&self) -> Option<Box<dyn Source>> {
        Some(Box::new(Self {
            quick: Arc::clone(&self.quick),
            slow: true,
        }))
    }
}

#[test]
fn processes_and_power_are_looked_at_apart_and_keep_no_look_at_memory_waiting() {
    let source = Apart {
        quick: Arc::default(),
        slow: false,
    };
    let sampler = Sampler::start(Box::new(source), 500.0).unwrap();
    assert_eq!(sampler.latest().tenants.len(), 1, "the first look sees all");
    sampler.mark(Phase::Load);
    eventually("four samples apart", || sampler.health().beside >= 4);
    assert_eq!(sampler.latest().activity[0].power_mw, Some(80_000));
    assert_eq!(sampler.peak_snapshot().processes.tenants[0].pid, 7);
    let record = sampler.stop();
    assert!(record.health.taken >= 4 * 5, "{:?}", record.health);
    assert!(record.health.beside < record.health.taken / 2, "{:?}", record.health);
    let samples: u64 = record.series.rows().iter().map(|row| row.samples).sum();
    assert_eq!(samples, record.health.taken, "samples apart are no samples at memory");
    let newest = record.slow.activity().last().unwrap();
    assert_eq!((newest.phase, newest.devices[0].power_w), (Phase::Load, Some(80.0)));
    assert_eq!(record.slow.processes().len(), 1, "it held the same all the time");
}

#[test]
fn failures_are_counted_and_the_first_is_told() {
    let mut samples = 0;
    let source = Polled::new("sim", move || {
        samples += 1;
        if samples % 2 == 0 {
            Err(Fault::new(Kind::Io, "it broke"))
        } else {
            Ok(reading(5))
        }
    });
    let sampler = Sampler::start(Box::new(source), 1000.0).unwrap();
    eventually("ten samples", || sampler.health().taken >= 10);
    let Recording { series, health, .. } = sampler.stop();
    assert_eq!(health.errors, health.taken / 2);
    assert_eq!(health.last_error.as_deref(), Some("it broke"));
    assert_eq!(
        series.rows().iter().map(|row| row.samples).sum::<u64>(),
        health.taken - health.errors
    );

    let broken = Polled::new("sim", || Err(Fault::new(Kind::Io, "no look at all")));
    assert_eq!(
        Sampler::start(Box::new(broken), 10.0).err().unwrap().message,
        "no look at all"
    );
}

#[test]
fn a_slow_sampler_stops_at_once() {
    let sampler = Sampler::start(Box::new(Polled::new("sim", || Ok(reading(1)))), 1.0).unwrap();
    let began = Instant::now();
    drop(sampler);
    assert!(began.elapsed() < Duration::from_millis(900), "{:?}", began.elapsed());
    let source = || Box::new(Polled::new("sim", || Ok(reading(1))));
    assert_eq!(Sampler::start(source(), 0.5).err().unwrap().kind, Kind::Usage);
    assert_eq!(Sampler::start(source(), 1001.0).err().unwrap().kind, Kind::Usage);
}

/// A shell with a child that holds memory.
struct Family(Child);

impl Drop for Family {
    fn drop(&mut self) {
        self.0.stdin.take();
        let _already_ended = self.0.wait();
    }
}

#[test]
fn the_memory_of_a_process_and_its_children_is_read() {
    // The inner shell holds 40 MB in a variable until its input ends. `: ` keeps the outer shell from replacing itself
    // with it.
    let script = "sh -c 'held=$(head -c 40000000 /dev/zero | tr \"\\0\" x); echo ready; read end'; :";
    let mut child = Command::new("sh")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut output, &mut line).unwrap();
    let mut family = Family(child);
    let pid = family.0.id();

    let reading = Tree::new(pid, Roots::default()).read().unwrap();
    assert_eq!(reading.devices[0].id, "host");
    assert!(reading.devices[0].used > 38 * MIB, "{reading:?}");
    assert!(reading.devices[0].total > reading.devices[0].used);
    assert!(reading.tenants.len() >= 2, "{reading:?}");
    assert!(reading.tenants.iter().any(|tenant| tenant.pid == pid));
    family.0.stdin.take();
    family.0.wait().unwrap();
    let reading = Tree::new(pid, Roots::default()).read().unwrap();
    assert_eq!(
        (reading.devices[0].used, reading.tenants.len()),
        (0, 0),
        "what has ended holds nothing"
    );
}

fn roots(folder: &Path) -> Roots {
    write(folder, "proc/meminfo", "MemTotal:       1024 kB\n");
    Roots {
        proc: folder.join("proc"),
        cgroup: folder.join("cgroup"),
    }
}

#[test]
fn a_cgroup_of_version_2_is_read() {
    let folder = temp();
    let roots = roots(folder.path());
    let group = "cgroup/system.slice/docker-abc.scope";
    write(folder.path(), &format!("{group}/memory.current"), "500\n");
    write(folder.path(), &format!("{group}/memory.max"), "2000\n");
    let mut cgroup = Cgroup::at(&folder.path().join(group), &roots).unwrap();
    let device = cgroup.read().unwrap().devices.remove(0);
    assert_eq!(
        (device.id.as_str(), device.used, device.total),
        ("/system.slice/docker-abc.scope", 500, 2000)
    );

    write(folder.path(), &format!("{group}/memory.max"), "max\n");
    assert_eq!(
        cgroup.read().unwrap().devices[0].total,
        1024 * 1024,
        "no limit but the machine's"
    );
    fs::remove_dir_all(folder.path().join(group)).unwrap();
    assert!(cgroup.read().unwrap_err().message.contains("is gone"));
}

#[test]
fn a_cgroup_of_version_1_is_read() {
    let folder = temp();
    let roots = roots(folder.path());
    write(folder.path(), "cgroup/memory/docker/abc/memory.usage_in_bytes", "700\n");
    write(
        folder.path(),
        "cgroup/memory/docker/abc/memory.limit_in_bytes",
        "9223372036854771712\n",
    );
    let device = Cgroup::at(&roots.cgroup.join("memory/docker/abc"), &roots)
        .unwrap()
        .read()
        .unwrap()
        .devices
        .remove(0);
    assert_eq!((device.used, device.total), (700, 1024 * 1024));
}

#[test]
fn a_cgroup_that_cannot_be_seen_has_no_source() {
    let folder = temp();
    let roots = roots(folder.path());
    write(folder.path(), "outside/memory.current", "1\n");
    for group in ["cgroup/nowhere", "outside"] {
        assert!(Cgroup::at(&folder.path().join(group), &roots).is_none(), "{group}");
    }
}

/// Two AMD cards, one with a serial number, besides a display output and another vendor's card.
fn amd(folder: &Path) -> AmdCards {
    let card = |number: u32, file: &str, text: &str| {
        write(folder, &format!("sys/class/drm/card{number}/device/{file}"), text);
    };
    for (number, used) in [(2, 100), (10, 300)] {
        card(number, "mem_info_vram_used", &format!("{}\n", used * MIB));
        card(number, "mem_info_vram_total", &format!("{}\n", 1000 * MIB));
        card(
            number,
            "uevent",
            &format!("DRIVER=amdgpu\nPCI_SLOT_NAME=0000:{number:02}:00.0\n"),
        );
    }
    card(2, "unique_id", "a1b2c3d4e5f60718\n");
    card(2, "product_name", "AMD Instinct MI300X\n");
    card(10, "unique_id", "0000000000000000\n");
    card(2, "gpu_busy_percent", "87\n");
    card(2, "hwmon/hwmon5/power1_average", "253000000\n");
    card(10, "hwmon/hwmon6/power1_input", "31500000\n");
    card(0, "vendor", "0x8086\n");
    write(folder, "sys/class/drm/card2-DP-1/status", "connected\n");
    write(folder, "sys/module/amdgpu/version", "6.8.5\n");
    let client = |id: u32, kib: u64| {
        format!("drm-driver:\tamdgpu\ndrm-client-id:\t{id}\ndrm-pdev:\t0000:02:00.0\ndrm-memory-vram:\t{kib} KiB\n")
    };
    write(folder, "proc/50/fdinfo/3", client(1, 1024));
    write(folder, "proc/50/fdinfo/4", client(1, 1024));
    write(folder, "proc/50/fdinfo/5", client(2, 2048));
    write(folder, "proc/51/fdinfo/0", "pos:\t0\n");
    AmdCards {
        sys: folder.join("sys"),
        proc: folder.join("proc"),
    }
}

#[test]
fn amd_cards_are_listed_and_read() {
    let folder = temp();
    let cards = amd(folder.path());
    let list = cards.list().unwrap();
    let seen: Vec<_> = list
        .iter()
        .map(|gpu| (gpu.index, gpu.id.as_str(), gpu.name.as_str(), gpu.used / MIB))
        .collect();
    assert_eq!(
        seen,
        [
            (0, "GPU-a1b2c3d4e5f60718", "AMD Instinct MI300X", 100),
            (1, "PCI-0000:10:00.0", "AMD GPU", 300)
        ]
    );
    assert_eq!(list[0].driver.as_deref(), Some("6.8.5"));

    let mut source = cards
        .source(&["PCI-0000:10:00.0".into(), "GPU-a1b2c3d4e5f60718".into()])
        .unwrap();
    let reading = source.read().unwrap();
    assert_eq!(source.name(), "amd");
    assert_eq!(
        reading
            .devices
            .iter()
            .map(|device| device.used / MIB)
            .collect::<Vec<_>>(),
        [300, 100]
    );
    assert_eq!(reading.tenants.len(), 1);
    assert_eq!(
        (reading.tenants[0].pid, reading.tenants[0].used),
        (50, Some(3 * MIB)),
        "each client counts once"
    );
    let activity: Vec<_> = reading
        .activity
        .iter()
        .map(|card| (card.power_mw, card.busy_percent))
        .collect();
    assert_eq!(activity, [(Some(31_500), None), (Some(253_000), Some(87))]);
    let quick = source.read_memory().unwrap();
    assert_eq!(quick.devices, reading.devices);
    assert!(quick.tenants.is_empty() && quick.activity.is_empty(), "memory alone");
    assert_eq!(source.slow_source().unwrap().read().unwrap(), reading);

    fs::remove_file(folder.path().join("sys/class/drm/card10/device/mem_info_vram_used")).unwrap();
    assert!(source.read().unwrap_err().message.contains("PCI-0000:10:00.0"));
    assert_eq!(cards.source(&["GPU-0".into()]).err().unwrap().kind, Kind::Missing);
}

#[test]
fn a_machine_without_amd_cards_says_so() {
    let folder = temp();
    let cards = AmdCards {
        sys: folder.path().join("sys"),
        proc: folder.path().join("proc"),
    };
    assert!(cards.list().unwrap_err().message.contains("no AMD GPU"));
}

/// Reads the GPU if the machine has one. Otherwise it checks the name of the condition and its remedy.
#[test]
fn gpus_are_read_or_their_absence_has_a_name() {
    match gpus() {
        Ok(list) => {
            assert!(!list.is_empty());
            let first = &list[0];
            assert!(
                first.total > 0 && first.used <= first.total && !first.id.is_empty(),
                "{first:?}"
            );
            let mut source = gpu_source(&["0".into()]).unwrap();
            let reading = source.read().unwrap();
            assert_eq!(
                (&reading.devices[0].id, reading.devices[0].total),
                (&first.id, first.total)
            );
            assert_eq!(read_gpus().unwrap().devices.len(), list.len());
            let sampler = Sampler::start(source, 100.0).unwrap();
            eventually("ten samples", || sampler.health().taken >= 10);
            assert_eq!(sampler.stop().health.errors, 0);
        }
        Err(absent) => {
            assert!(
                absent.message.contains("NVIDIA") && absent.message.contains("AMD"),
                "{absent}"
            );
            assert!(absent.hint.is_some());
            let fault = read_gpus().unwrap_err();
            assert_eq!((fault.kind, fault.kind.exit_code()), (Kind::Missing, 3));
            assert_eq!(gpu_source(&["0".into()]).err().unwrap().kind, Kind::Missing);
        }
    }
}
