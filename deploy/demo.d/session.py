"""The demo proper: link, gateways, the three runs, results."""
import json
import os
import math
import shutil
import statistics
import tempfile

import charts
import dashboard
import plan
import report
import training
import wan_gateways
from wan_link import WanLink, duration_ms, rate_bits

NUMBERS = {2: "Two", 3: "Three", 4: "Four"}
RESULT_KEYS = ("name", "final_bits_per_byte", "steps", "wall_s", "wire_bytes_per_cluster", "seed_bytes",
               "bytes_per_parameter_step", "compute_use", "costs", "identical")


def run(root, build, options):
    """Returns the exit status: 0 if all clusters ended every run with the same bytes."""
    output = os.path.abspath(options.output)
    logs = os.path.join(output, "logs")
    shutil.rmtree(logs, ignore_errors=True)
    os.makedirs(logs)
    plans = plan.runs(options)
    view = dashboard.Dashboard(options, plans)
    os.environ["CAUSEWAY_WAN_EMULATOR"] = build.emulator
    with tempfile.TemporaryDirectory(prefix="causeway-demo-") as directory:
        with WanLink(options.names, rate=options.rate, rtt=options.rtt) as link:
            records = train(root, build, options, link, directory, logs, plans, view)
    details = compare(records, options)
    write(output, records, options, details)
    if not options.keep_logs:
        shutil.rmtree(logs)
    view.erase()
    print(summary(records, options, details, output))
    return 0 if all(record["identical"] for record in records) else 1


def train(root, build, options, link, directory, logs, plans, view):
    view.rate_mbit = rate_bits(options.rate) / 1e6
    view.say(f"{len(options.names)} gateways, {options.rate} and {options.rtt} between them; mutual TLS 1.3")
    running = wan_gateways.start(link, build, directory, logs, plan.entries(options))
    records = []
    for entry in plans:
        if entry.shaped:
            link.set("*", rate=options.rate, delay=f"{duration_ms(options.rtt) / 2}ms")
        else:
            link.set("*", rate="unlimited", delay="0ms")
        run_training = training.Training(entry, link, running, options, root, build, directory, logs)
        run_training.follow(view.show)
        records.append(run_training.record())
        view.over(records[-1])
    return records


def compare(records, options):
    """What the demo is to show: ratios against the synchronous run, measured and expected compute use."""
    by_name = {record["name"]: record for record in records}
    reference, ours = by_name["sync-lan"], by_name["causeway"]
    entry = plan.causeway(options)
    computing = entry.local_steps * ours["step_s"]
    round_bytes = ours["wire_bytes_per_cluster"] * entry.local_steps / ours["steps"]
    exchange = duration_ms(options.rtt) / 1e3 + round_bytes * 8 / rate_bits(options.rate)
    synchronous_s = reference["steps"] * by_name["sync-wan"]["training_s"] / by_name["sync-wan"]["steps"]
    return {
        "byte_ratio": reference["wire_bytes_per_cluster"] / ours["wire_bytes_per_cluster"],
        "time_ratio": ours["training_s"] / synchronous_s, "synchronous_s": synchronous_s,
        "seconds": ours["training_s"], "synchronous_steps": reference["steps"], "steps": ours["steps"],
        "gap": ours["final_bits_per_byte"] / reference["final_bits_per_byte"] - 1,
        "compute_use": ours["compute_use"],
        "compute_use_expected": 1.0 if entry.overlapped else computing / (computing + exchange),
        "step_s": ours["step_s"], "local_steps": entry.local_steps, "overlapped": entry.overlapped,
    }


def gaps(records):
    """By seed, the final losses of sync-lan and causeway and the gap between them; the mean and the upper end
    of its 95 % interval (Student's t), where there are several."""
    final = {(record["kind"], record["seed"]): record["final_bits_per_byte"] for record in records}
    rows = [{"seed": seed, "synchronous": final["sync-lan", seed], "causeway": bits,
             "gap": bits / final["sync-lan", seed] - 1}
            for (kind, seed), bits in final.items() if kind == "causeway"]
    values = [row["gap"] for row in rows]
    bound = None
    if len(values) > 1:
        bound = statistics.mean(values) + t_95(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return {"seeds": rows, "mean": statistics.mean(values), "bound": bound}


def t_95(degrees):
    """Student's t for an upper bound that holds in 95 % of cases."""
    table = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812)
    return table[degrees - 1] if degrees <= len(table) else 1.645 + 1.6 / degrees


def link_facts(options):
    return {"rate_bits_per_second": rate_bits(options.rate), "rtt_ms": duration_ms(options.rtt)}


def write(output, records, options, details):
    results = {"runs": [{key: record[key] for key in RESULT_KEYS} for record in records],
               "link": link_facts(options), "comparison": details}
    if options.seeds > 1:
        results["gaps"] = gaps(records)
    with open(os.path.join(output, "result.json"), "w") as file:
        json.dump(results, file, indent=1)
        file.write("\n")
    with open(os.path.join(output, "report.html"), "w") as file:
        file.write(report.render(document(records, options, details)))


def setting(records, options):
    return (f"{records[0]['parameters']:,} parameters, King James text; {len(options.names)} clusters of "
            f"{plan.RANKS} ranks; link {options.rate}, {options.rtt} round trip; seed {options.seed}; "
            f"algorithm {options.algorithm}" + (f", codec {options.codec}" if options.codec else ""))


def document(records, options, details):
    identical = all(record["identical"] for record in records)
    by_name = {record["name"]: record for record in records}
    expected = ("of the time computing; the exchange hides behind it" if details["overlapped"] else
                f"of the time computing; {100 * details['compute_use_expected']:.1f} % is possible")
    return {
        "title": f"{NUMBERS[len(options.names)]} clusters, one model, a slow link",
        "setting": setting(records, options),
        "facts": [(f"{details['byte_ratio']:.1f}x", "fewer bytes than synchronous training"),
                  (f"{100 * details['gap']:+.2f} %", "validation loss against synchronous training" + more_steps(options)),
                  (f"{100 * details['compute_use']:.1f} %", expected),
                  ("identical" if identical else "different", "parameters of all clusters, bit by bit")],
        "runs": [record for record in records if record["seed"] == options.seed], "link_mbit_per_s": rate_bits(options.rate) / 1e6,
        "hashes": {record["kind"]: ", ".join(record["hashes"]) for record in records
                   if record["seed"] == options.seed},
        "notes": [
            "Wire bytes are all packets that a gateway's wide-area device transmitted, from the IP header on: "
            "TLS, framing, acknowledgements and heartbeats included; what was sent before the first step is "
            "kept apart.",
            f"Computing is 1 - (time inside Causeway's calls) / (first to last step), evaluations left out; a "
            f"step took {1e3 * details['step_s']:.1f} ms. Possible is H t / (H t + RTT + bytes / rate) with "
            f"H = {details['local_steps']}.",
            f"causeway took {time_text(details)}.",
            f"sync-lan exchanges every step's gradients in fp32 on a link without limits; sync-wan does so over "
            f"the slow link and was cut after {plan.CUT_AFTER_S} s; causeway is the algorithm "
            f"{options.algorithm}: {plan.ALGORITHMS[options.algorithm].about}; it ended as "
            f"{by_name['causeway']['encoding']}.",
        ] + seeds_note(records),
    }


def seeds_note(records):
    found = gaps(records)
    if found["bound"] is None:
        return []
    each = ", ".join(f"{100 * row['gap']:+.2f} % (seed {row['seed']})" for row in found["seeds"])
    return [f"Loss gap to synchronous training over {len(found['seeds'])} seeds: mean {100 * found['mean']:+.2f} %, "
            f"below {100 * found['bound']:+.2f} % with 95 % confidence; {each}."]


def more_steps(options):
    return f", after {options.longer:g} times the steps" if options.longer > 1 else ""


def costs_text(costs):
    return (f"the rest: {100 * costs['stall']:.1f} % waiting for results that were due, {100 * costs['overhead']:.1f} % "
            f"handing over and taking; delay {costs['delay_steps']} steps at the end")


def time_text(details):
    return (f"{details['seconds']:.1f} s, 1/{1 / details['time_ratio']:.1f} of the {details['synchronous_s']:.0f} s that "
            f"{details['synchronous_steps']} synchronous steps take over this link at the pace of sync-wan (evaluations left out)")


def summary(records, options, details, output):
    lines = [f"{'run':12}{'bits/byte':>11}{'steps':>7}{'time':>9}{'sent/cluster':>14}{'B/param/step':>14}"
             f"{'computing':>11}  identical"]
    for record in records:
        lines.append(f"{record['name']:12}{record['final_bits_per_byte']:>11.4f}{record['steps']:>7}"
                     f"{record['wall_s']:>8.1f}s{charts.bytes_text(record['wire_bytes_per_cluster']):>14}"
                     f"{record['bytes_per_parameter_step']:>14.4f}{100 * record['compute_use']:>9.1f} %  "
                     f"{'yes' if record['identical'] else 'NO'}")
    expected = "" if details["overlapped"] else (
        f"; H t / (H t + RTT + bytes / rate) = {100 * details['compute_use_expected']:.1f} %")
    lines += ["", "causeway ended as " + next(r["encoding"] for r in records if r["name"] == "causeway"),
              f"{details['byte_ratio']:.1f}x fewer bytes than synchronous training, validation loss "
              f"{100 * details['gap']:+.2f} %{more_steps(options)}",
              time_text(details),
              f"computing {100 * details['compute_use']:.1f} % of the time with {1e3 * details['step_s']:.1f} ms a "
              f"step{expected}"]
    lines += [costs_text(record["costs"]) for record in records if record["name"] == "causeway" and record["costs"]]
    lines += seeds_note(records)
    for record in records:
        for sha in record["hashes"]:
            lines.append(f"SHA-256 of all parameters after {record['name']}: {sha}")
    lines += ["", f"report: {output}/report.html", f"result: {output}/result.json"]
    return "\n".join(lines)
