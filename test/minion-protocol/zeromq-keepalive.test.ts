/** What the kernel was told about keep-alive, read where Linux shows it. */
import { existsSync, readFileSync } from 'node:fs';
import test from 'ava';
import { until } from '../helpers/deadline.ts';
import { connectRaw, startMaster } from '../helpers/zeromq-master.ts';

const connections = '/proc/net/tcp';
const onLinux = existsSync(connections) ? test : test.skip;

/** Seconds until the first probe to a peer of this port; `undefined`: there is none to come. */
function probeInSeconds(port: number): number | undefined {
  const local = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const established = '01';
  const row = readFileSync(connections, 'utf8')
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .find(([, address, , state]) => address?.endsWith(local) && state === established);
  if (row === undefined) throw new Error(`no connection to port ${port}`);
  const [kind, when = ''] = row[5]?.split(':') ?? [];
  // 02: the timer of keep-alive; in hundredths of a second.
  return kind === '02' ? Number.parseInt(when, 16) / 100 : undefined;
}

for (const [title, keepAliveIdleMs, isProbed] of [
  ['an idle peer is asked after the time that was set', 40_000, (s = 0) => s > 0 && s <= 40],
  ['an idle peer is asked after the time of the system', 0, (s = 0) => s > 40],
  ['an idle peer is never asked', null, (s?: number) => s === undefined],
] as const) {
  onLinux(title, async (t) => {
    const { requestPort } = await startMaster(t, { keepAliveIdleMs });
    const peer = await connectRaw(t, requestPort);
    // It is greeted once it has been taken, and so been set.
    await until('a greeting', () => peer.receivedBytes > 0);
    t.true(isProbed(probeInSeconds(requestPort)));
  });
}
