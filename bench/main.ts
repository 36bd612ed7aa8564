/** `npm run bench`: every figure of docs/BENCHMARKS.md. Quote the machine with them. */
import { cpus, totalmem } from 'node:os';
import { benchCrash } from './crash/crash.ts';
import { benchFleet } from './fleet.ts';
import { benchJob } from './job.ts';
import { benchPayload } from './payload.ts';
import { benchStore } from './store.ts';
import { benchZmtp } from './zmtp.ts';

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** `npm run bench -- crash [kills [seed]]`: that alone. */
const [only, kills = '200', seed = '1'] = process.argv.slice(2);

const [cpu] = cpus();
const gibibytes = Math.round(totalmem() / 2 ** 30);
print(`${cpus().length} × ${cpu?.model ?? 'unknown'}, ${gibibytes} GiB, Node ${process.version}`);

if (only === 'crash') await crash();
else await everything();

async function crash(): Promise<void> {
  print(`\n# a master killed ${kills} times under load, seed ${seed}`);
  const figures = await benchCrash({
    kills: Number(kills),
    seed: Number(seed),
    minions: 20,
    onKill: (done) => {
      if (done % 20 === 0) print(`${done} kills`);
    },
  });
  for (const [name, value] of Object.entries(figures))
    print(`${name.padEnd(20)} ${Math.round(value)}`);
}

async function everything(): Promise<void> {
  print('\n# a job on one minion, from call to end');
  const { startMs, medianMs, p99Ms } = await benchJob();
  print(`first start, key generation included  ${startMs.toFixed(0)} ms`);
  print(`test.ping, median                     ${medianMs.toFixed(2)} ms`);
  print(`test.ping, 99 in 100                  ${p99Ms.toFixed(2)} ms`);

  print('\n# the ZeroMQ end');
  await benchZmtp();

  print('\n# MessagePack and Crypticle');
  benchPayload();

  print('\n# durable writes of 200 bytes');
  for (const { inFlight, durableWritesPerSecond } of await benchStore()) {
    print(`${String(inFlight).padStart(4)} under way  ${Math.round(durableWritesPerSecond)}/s`);
  }

  for (const count of [2_000, 15_000]) {
    print(`\n# ${count} simulated minions in another process; rate limits off`);
    const figures = await benchFleet(count);
    for (const [name, value] of Object.entries(figures))
      print(`${name.padEnd(20)} ${Math.round(value)}`);
  }
}
