import { benchOther, openApiBench } from './api.ts';
import type { RequestOutcome } from './orders.ts';

const readers = 500;
const perSecond = 1000;

/** Runs `npm run bench -- api [seconds]`. */
export async function runApi(seconds: number, print: (line: string) => void): Promise<void> {
  const bench = await openApiBench();
  try {
    await bench.requests(50, 3);
    print(`# POST / local test.ping on one embedded minion, 50 clients at once, ${seconds} s`);
    describe(await bench.requests(50, seconds), seconds, print);
    await bench.read(readers, perSecond, 5);
    print(`# ${readers} readers of /events, ${perSecond} events a second, ${seconds} s`);
    const { fired, events, leastBytes, mostBytes, open, load, memory } = await bench.read(
      readers,
      perSecond,
      seconds,
    );
    print(`fired, and read by reader 1   ${fired}, ${events}`);
    print(`streams open at the end       ${open}`);
    print(`bytes per reader              ${leastBytes} to ${mostBytes}`);
    print(`processors used by master     ${load.toFixed(2)}`);
    print(`memory                        ${memory.map((it) => it.toFixed(0)).join(', ')} MB`);
  } finally {
    await bench.close();
  }
}

/**
 * Runs `npm run bench -- api URL USER:PASSWORD:EAUTH TARGET [seconds]`: measures another HTTP API.
 */
export async function runOtherApi(
  [url = '', login = '', tgt = '*', seconds = '10']: readonly string[],
  print: (line: string) => void,
): Promise<void> {
  const figures = await benchOther(url, login.split(':'), tgt, Number(seconds));
  print(`# POST / local test.ping on ${tgt} at ${url}, 50 clients at once, ${seconds} s`);
  describe(figures, Number(seconds), print);
}

function describe(figures: RequestOutcome, seconds: number, print: (line: string) => void): void {
  const { answered, failed, medianMs, p99Ms, longestMs } = figures;
  print(`requests a second             ${(answered / seconds).toFixed(0)}`);
  print(`failed                        ${failed}`);
  const times = [medianMs, p99Ms, longestMs].map((it) => it.toFixed(0)).join(', ');
  print(`median, 99 in 100, longest    ${times} ms`);
}
