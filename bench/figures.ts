import { cpus, totalmem } from 'node:os';
import { benchAcl } from './acl.ts';
import { runAsShipped } from './as-shipped.ts';
import { benchFileServer } from './fileserver.ts';
import { benchJob } from './job.ts';
import { benchPayload } from './payload.ts';
import { benchStore } from './store.ts';
import { benchZmtp } from './zmtp.ts';

/**
 * Measures and prints all figures of docs/BENCHMARKS.md. Figures must be published together with
 * the machine.
 */
export async function printFigures(print: (line: string) => void): Promise<void> {
  const [cpu] = cpus();
  const gibibytes = Math.round(totalmem() / 2 ** 30);
  print(`${cpus().length} × ${cpu?.model ?? 'unknown'}, ${gibibytes} GiB, Node ${process.version}`);

  print('\n# a job on one minion, from call to end');
  const { startMs, medianMs, p99Ms } = await benchJob();
  print(`first start, with key generation       ${startMs.toFixed(0)} ms`);
  print(`test.ping, median                     ${medianMs.toFixed(2)} ms`);
  print(`test.ping, 99 in 100                  ${p99Ms.toFixed(2)} ms`);

  print('\n# the ZeroMQ listener');
  await benchZmtp();

  print('\n# MessagePack and Crypticle');
  benchPayload();

  print('\n# one decision of the policy');
  for (const [name, value] of Object.entries(benchAcl()))
    print(`${name.padEnd(56)} ${value.toFixed(2)} µs`);

  print('\n# durable writes of 200 bytes');
  for (const { inFlight, durableWritesPerSecond } of await benchStore()) {
    print(`${String(inFlight).padStart(4)} in progress${Math.round(durableWritesPerSecond)}/s`);
  }

  print('\n# the file server; default limits');
  for (const [name, value] of Object.entries(await benchFileServer()))
    print(`${name.padEnd(24)} ${value.toFixed(2)}`);

  // Each benchmark runs in a process of its own, so that its memory does not include that of
  // earlier benchmarks.
  for (const count of [2_000, 15_000]) {
    runAsShipped('fleet', String(count));
  }
}
